"""Directives: what runs while a body is traced and leaves nothing in the program."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError
from tests.refusals import refused
from tests.ways import every_way

M = pl.Tensor[[4, 8], pl.FP32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)
ROWS = 4


@pl.jit
def shows(x: M, n: pl.Scalar[pl.INT32], out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])
        pl.static_print("x =", x, "t =", t, "rows", x.shape[0])
        pl.static_print(2 * n + 1)
        out[:] = t


def test_static_print_shows_types_while_tracing_and_nothing_later(capsys):
    shows(X, 3)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("x = x: ") and "t = t: f32[4,8]" in first and first.endswith("rows 4")
    assert second.endswith("1 + 2*n")
    shows(X, 4)
    assert capsys.readouterr().out == ""


@pl.jit
def asserts(x: M, out: pl.Out[M]):
    pl.static_assert(x.shape[1] == 8, "eight columns")
    assert x.shape[0] % ROWS == 0, f"rows of {ROWS}"
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def asserts_wrongly(x: M, out: pl.Out[M]):
    pl.static_assert(x.shape[1] == 16, "sixteen columns")  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def asserts_in_python(x: M, out: pl.Out[M]):
    assert x.shape[1] == 16, f"{x.shape[1]} columns"  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def asserts_at_run_time(x: M, n: pl.Scalar[pl.INT32], out: pl.Out[M]):
    pl.static_assert(n > 0, "positive")  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def asserts_at_run_time_in_python(x: M, n: pl.Scalar[pl.INT32], out: pl.Out[M]):
    assert n > 0  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


def test_assertions_that_hold_leave_nothing():
    assert (every_way(asserts, X) == X).all()
    assert [e.op.name for e in asserts.trace().walk()] == ["region", "get", "set"]


def test_a_static_assertion_that_fails_is_an_error_with_its_message():
    error = refused("PL117", asserts_wrongly.trace, at='pl.static_assert(x.shape[1] == 16, "sixteen columns")')
    assert "sixteen columns" in error.message
    error = refused("PL117", asserts_in_python.trace, at='assert x.shape[1] == 16, f"{x.shape[1]} columns"')
    assert "8 columns" in error.message


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(asserts_at_run_time, 'pl.static_assert(n > 0, "positive")'), (asserts_at_run_time_in_python, "assert n > 0")],
)
def test_an_assertion_on_a_run_time_value_is_refused(kernel, at):
    refused("PL106", kernel.trace, at=at)


# Typed constants.


@pl.jit
def typed_constants(out: pl.Out[pl.Tensor[[1, 8], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        step = pl.const(3, pl.INT32)
        out[:] = pl.full([1, 8], dtype=pl.INT32, value=1) * step


def test_a_typed_constant_keeps_its_dtype():
    assert every_way(typed_constants).tolist() == [[3] * 8]


# Attributes of functions.


@pl.program
class Attributed:
    @pl.function(type=pl.FunctionType.InCore)
    def main(self, x: M, w: M, out: pl.Out[M]):
        pl.func_attr({"stationary": w, "split": pl.SplitMode.UP_DOWN})
        pl.func_attr({"windowize": True})
        out[:] = pl.add(x, w)


def test_attributes_are_kept_on_the_function_and_its_kernel():
    assert (np.asarray(Attributed(X, X)) == X * 2).all()
    want = {"stationary": "w", "split": "UP_DOWN", "windowize": True}
    assert Attributed.main.attributes == want
    assert dict(Attributed.lower().kernels[0].options) == want


def late():
    @pl.jit
    def declares_late(x: M, out: pl.Out[M]):
        rows = 4
        pl.func_attr({"windowize": True})  # refused


@pl.jit
def declares_twice(x: M, out: pl.Out[M]):
    """With a docstring before."""
    pl.func_attr({"windowize": True})
    pl.func_attr({"windowize": False})  # refused


@pl.jit
def declares_an_object(x: M, out: pl.Out[M]):
    pl.func_attr({"windowize": [1]})  # refused


def test_an_attribute_after_other_statements_is_refused():
    refused("PL102", late, at='pl.func_attr({"windowize": True})')


@pytest.mark.parametrize(
    ("kernel", "at"), [(declares_twice, 'pl.func_attr({"windowize": False})'), (declares_an_object, 'pl.func_attr({"windowize": [1]})')]
)
def test_an_attribute_that_says_two_things_or_nothing_is_refused(kernel, at):
    refused("PL102", kernel.trace, at=at)


@pytest.mark.parametrize("call", [lambda: pl.static_print(1), lambda: pl.static_assert(True), lambda: pl.func_attr({})])
def test_a_directive_stands_in_a_kernel(call):
    with pytest.raises(PyptoError) as caught:
        call()
    assert caught.value.code == "PL112"
