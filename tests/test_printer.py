"""Programs print as users read them, and work on programs grows no faster than they do."""

import sys
from pathlib import Path

import numpy as np
import pytest

import pypto
from pypto import dtypes, lax
from pypto.core.avals import ArrayAval, RefAval, ScalarAval, TileAval
from pypto.core.ir import Jaxpr, alpha_equal, check, free_vars, rename
from pypto.core.printer import show
from pypto.platform import Space
from tests.kernels import printed
from tests.kernels.printed import accumulated, moved, scaled
from tests.programs import function, loop, number, var


@pytest.mark.parametrize(
    "aval, text",
    [
        (ArrayAval((2, 3), dtypes.BF16), "bf16[2,3]"),
        (TileAval((4, 8), dtypes.FP32), "f32[4,8]"),
        (TileAval((4, 8), dtypes.FP32, "tile", Space.VEC, (3, None)), "f32[4,8] valid[3,?] @vec"),
        (RefAval((4,), dtypes.INT8, direction="inout"), "inout ref i8[4]"),
        (RefAval((4,), dtypes.INT8, Space.VEC), "ref i8[4] @vec"),
        (ScalarAval((), dtypes.INDEX), "index"),
    ],
)
def test_abstract_values_print_short(aval, text):
    assert str(aval) == text


def softmax(x):
    """A program of the array level."""
    shifted = lax.exp(x - lax.reduce_max(x, axes=(1,), keepdims=True))
    return shifted / lax.reduce_sum(shifted, axes=(1,), keepdims=True)


def test_an_array_program_prints(golden):
    golden.check(str(pypto.make_jaxpr(softmax)(np.zeros((2, 8), np.float32))))


@pytest.mark.parametrize("kernel", [scaled, accumulated, moved], ids=["scaled", "accumulated", "moved"])
def test_a_traced_kernel_prints(kernel, golden):
    golden.check(str(kernel.trace()))


@pytest.mark.parametrize("kernel", [scaled, accumulated], ids=["scaled", "accumulated"])
def test_the_jaxprs_of_a_lowered_program_print(kernel, golden):
    golden.check(kernel.lower().as_ir())


def test_source_lines_come_on_request():
    plain, lined = scaled.lower().as_ir(), scaled.lower().as_ir(lines=True)
    assert "printed.py" not in plain
    stores = [line for line in lined.splitlines() if "store out" in line]
    own = Path(printed.__file__).read_text().splitlines()
    (line,) = (i for i, text in enumerate(own, 1) if text.strip() == "out = pl.assemble(out, rows, [r, 0])")
    assert {text.split("# ")[1] for text in stores} == {f"printed.py:{line}"}


def test_names_are_the_users_and_unique():
    names = [var(name=n) for n in ("x", "x", "", "x_1", "", "v", "v0", "v0", "x")]
    text = show(Jaxpr(tuple(names), (), ()))
    found = [part.split(":")[0].strip() for part in text[text.index("(") + 1 : text.rindex(")")].split(", ")]
    assert found == ["x", "x_1", "v0", "x_1_1", "v1", "v", "v0_1", "v0_2", "x_2"]
    assert len(set(found)) == len(found)


def test_a_user_who_calls_a_value_v_finds_it_as_v():
    assert "v: f32[4]" in show(Jaxpr((var(), var(), var(name="v")), (), ()))


def test_literals_show_their_dtype_where_it_is_not_the_natural_one():
    shown = [number(1.5), number(2, dtypes.INDEX), number(True, dtypes.BOOL), number(3, dtypes.INT8), number(0.5, dtypes.BF16)]
    jaxpr = function(lambda add, x: [add(lax.add, x, n) for n in shown][-1])
    assert [line.split()[-1] for line in str(jaxpr).splitlines()[1:-1]] == ["1.5", "2", "True", "3:i8", "0.5:bf16"]


def test_a_body_without_equations_passes():
    assert show(Jaxpr((), (), (), "nothing")) == "nothing():\n  pass"


def test_an_op_can_say_how_it_is_shown(monkeypatch):
    monkeypatch.setattr(lax.exp, "show", lambda e, name: f"e ** {name(e.ins[0])}")
    assert "= e ** v0" in str(function(lambda add, x: add(lax.exp, x)))


def calls_of(work, program):
    """How many Python calls a piece of work makes: a measure of time that does not depend on the machine."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work(program)
    finally:
        sys.setprofile(None)
    return count


def long(n):
    """n equations whose results all have one name."""

    def build(add, x):
        for _ in range(n):
            x = add(lax.add, x, x, name="acc")
        return x

    return function(build)


def deep(n):
    """n nested loops."""

    def build(add, x, left):
        return loop(add, 0, 2, lambda inner, i, a: build(inner, a, left - 1), x) if left else add(lax.exp, x)

    return function(lambda add, x: build(add, x, n))


WORK = {
    "show": show,
    "check": check,
    "free_vars": free_vars,
    "alpha_equal": lambda j: alpha_equal(j, j),
    "rename": lambda j: rename(j, {}, copy=True),
}


@pytest.mark.parametrize("program", [long, deep])
@pytest.mark.parametrize("work", WORK)
def test_work_grows_no_faster_than_the_program(work, program):
    small, large = (calls_of(WORK[work], program(n)) for n in (20, 60))
    assert large < 3.3 * small
