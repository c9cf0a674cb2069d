"""The IR: frozen, checked, compared up to names, renamed, walked and printed."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.core.avals import ArrayAval, RefAval, ScalarAval, TileAval, join, same_type, scalar
from pypto.core.index import Index, extreme
from pypto.core.ir import Eqn, Jaxpr, Literal, Var, alpha_equal, check, free_vars, rename
from pypto.core.printer import show
from pypto.errors import InternalError
from pypto.platform import Space
from pypto.source import Source

F4 = ArrayAval((4,), dtypes.FP32)
INDEX = scalar(dtypes.INDEX)


def var(aval=F4, name=""):
    return Var(aval, name)


def number(value, dtype=dtypes.FP32):
    return Literal(dtype.storage.type(value), scalar(dtype))


def apply(op, *ins, aval=F4, name="", **params):
    """An equation with one result, and the result."""
    out = var(aval, name)
    return Eqn(op, ins, (out,), params), out


def function(build, inputs=1):
    """The jaxpr of `build(equations, *inputs) -> outputs`, in which `equations(op, *ins)` appends one."""
    eqns = []

    def add(op, *ins, **params):
        eqn, out = apply(op, *ins, **params)
        eqns.append(eqn)
        return out

    arguments = tuple(var() for _ in range(inputs))
    outs = build(add, *arguments)
    return Jaxpr(arguments, tuple(eqns), outs if isinstance(outs, tuple) else (outs,), "f")


def loop(add, start, stop, body, *inits):
    """A loop whose body is `body(add, index, *carried) -> carried`."""
    eqns = []

    def inner(op, *ins, **params):
        eqn, out = apply(op, *ins, **params)
        eqns.append(eqn)
        return out

    index, carried = var(INDEX), [var(a.aval) for a in inits]
    outs = body(inner, index, *carried)
    jaxpr = Jaxpr((index, *carried), tuple(eqns), outs if isinstance(outs, tuple) else (outs,))
    return add(lax.loop, number(start, dtypes.INDEX), number(stop, dtypes.INDEX), number(1, dtypes.INDEX), *inits,
               body=jaxpr, kind="range", stage=None)  # fmt: skip


def chain(add, x):
    return add(lax.mul, add(lax.add, x, x), x)


# Frozen


@pytest.mark.parametrize("name, value", [("eqns", ()), ("outs", ()), ("name", "g")])
def test_a_jaxpr_cannot_be_changed(name, value):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(function(chain), name, value)


def test_equations_and_literals_cannot_be_changed():
    eqn, literal = function(chain).eqns[0], number(1)
    for node, name in ((eqn, "ins"), (literal, "value")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(node, name, None)


def test_a_variable_equals_only_itself():
    assert var() != var() and len({var(), var()}) == 2


def test_replacing_leaves_the_original_alone():
    jaxpr = function(chain)
    assert jaxpr.replace(name="g").name == "g" and jaxpr.name == "f"
    assert jaxpr.eqns[0].replace(op=lax.sub).op is lax.sub and jaxpr.eqns[0].op is lax.add


# Walking


def nested(add, x):
    def body(inner, i, acc):
        deeper = loop(inner, 0, 2, lambda innermost, j, a: innermost(lax.neg, a), acc)
        return inner(lax.add, deeper, x)

    return add(lax.exp, loop(add, 0, 3, body, add(lax.abs_, x)))


def test_walking_visits_outer_before_inner_in_program_order():
    assert [e.op.name for e in function(nested).walk()] == ["abs", "loop", "loop", "neg", "add", "exp"]
    assert function(nested).count() == 6


def test_walking_visits_every_body_of_an_equation():
    then, orelse = (function(lambda add, op=op: add(op, number(1)), inputs=0) for op in (lax.exp, lax.log))
    jaxpr = function(lambda add, c: add(lax.cond, c, then=then, orelse=orelse))
    assert [e.op.name for e in jaxpr.walk()] == ["cond", "exp", "log"]


def test_free_variables_come_in_order_of_first_use_and_those_of_inner_bodies_count():
    x, y, z = var(), var(), var()
    jaxpr = function(lambda add: loop(add, 0, 2, lambda inner, i, a: inner(lax.add, inner(lax.add, z, a), x), y), inputs=0)
    assert free_vars(jaxpr) == (y, z, x)
    assert free_vars(function(nested)) == ()


# Alpha equality


def test_renamed_programs_are_equal():
    first, second = function(nested), function(nested)
    assert alpha_equal(first, second) and alpha_equal(first, rename(first, {}, copy=True))


def test_names_and_sources_do_not_count():
    jaxpr = function(chain)
    named = rename(jaxpr, {}, copy=True)
    for i, v in enumerate(v for e in named.eqns for v in e.outs):
        v.name = f"n{i}"
    named = named.replace(name="g", eqns=tuple(e.replace(source=Source("k.py", 1)) for e in named.eqns))
    assert alpha_equal(jaxpr, named)


DIFFERENT = {
    "op": lambda add, x: add(lax.mul, add(lax.sub, x, x), x),
    "operand": lambda add, x: add(lax.mul, add(lax.add, x, number(1)), x),
    "which variable": lambda add, x: (lambda y: add(lax.mul, y, y))(add(lax.add, x, x)),
    "fewer": lambda add, x: add(lax.add, x, x),
    "more": lambda add, x: add(lax.mul, add(lax.mul, add(lax.add, x, x), x), x),
    "outputs": lambda add, x: (chain(add, x), x),
    "dtype": lambda add, x: add(lax.mul, add(lax.add, x, x, aval=ArrayAval((4,), dtypes.FP16)), x),
    "shape": lambda add, x: add(lax.mul, add(lax.add, x, x, aval=ArrayAval((5,), dtypes.FP32)), x),
    "kind": lambda add, x: add(lax.mul, add(lax.add, x, x, aval=TileAval((4,), dtypes.FP32)), x),
    "params": lambda add, x: add(lax.mul, add(lax.add, x, x, axis=0), x),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_different_program_is_different(what):
    assert not alpha_equal(function(chain), function(DIFFERENT[what]))
    assert not alpha_equal(function(DIFFERENT[what]), function(chain))
    assert alpha_equal(function(DIFFERENT[what]), function(DIFFERENT[what]))


def test_the_order_of_equations_counts():
    def ordered(first, second):
        return function(lambda add, x: (add(first, x), add(second, x)))

    assert not alpha_equal(ordered(lax.exp, lax.log), ordered(lax.log, lax.exp))
    swapped = function(lambda add, x: (lambda a, b: (b, a))(add(lax.exp, x), add(lax.exp, x)))
    assert not alpha_equal(ordered(lax.exp, lax.exp), swapped)


@pytest.mark.parametrize(
    "a, b",
    [(number(0.0), number(-0.0)), (number(1), number(1, dtypes.FP16)), (number(1, dtypes.INT32), number(1, dtypes.INDEX)),
     (number(1), number(np.nextafter(np.float32(1), np.float32(2))))],
)  # fmt: skip
def test_literals_are_compared_by_their_bits(a, b):
    first, second = (function(lambda add, x, n=n: add(lax.add, x, n)) for n in (a, b))
    assert not alpha_equal(first, second) and alpha_equal(first, first)


def test_a_nan_equals_itself():
    build = lambda add, x: add(lax.add, x, number(np.nan))  # noqa: E731
    assert alpha_equal(function(build), function(build))


def test_long_constants_are_compared_to_the_last_element():
    values = np.linspace(0, 1, 5000).astype(np.float32)
    other = values.copy()
    other[2500] += 1e-3
    first, same, second = (pypto.make_jaxpr(lambda x, c=c: x + c)(values) for c in (values, values.copy(), other))
    assert alpha_equal(first, same) and not alpha_equal(first, second)


def test_nested_bodies_are_compared():
    other = function(lambda add, x: add(lax.exp, loop(add, 0, 3, lambda inner, i, a: inner(lax.neg, a), add(lax.abs_, x))))
    assert not alpha_equal(function(nested), other)
    carries = [function(lambda add, x, k=k: loop(add, 0, 3, lambda inner, i, a: (inner(lax.neg, a), (x, a)[k])[1], x)) for k in (0, 1)]
    assert not alpha_equal(*carries)


def test_a_free_variable_equals_only_itself():
    shared = var()
    assert alpha_equal(*(function(lambda add, x: add(lax.add, x, shared)) for _ in range(2)))
    assert not alpha_equal(*(function(lambda add, x, v=v: add(lax.add, x, v)) for v in (shared, var())))


def symbolic(extents, outer=()):
    """A program whose inputs have these run-time extents."""
    inputs = tuple(Var(RefAval((*outer, e), dtypes.FP32)) for e in extents)
    return Jaxpr(inputs, (), ())


def unknowns(*names):
    return tuple(Index.fresh(n) for n in names)


def test_index_unknowns_are_equal_up_to_identity_and_name():
    for _ in range(12):  # past ten, so that the text of one unknown's number starts another's
        m, n = unknowns("M", "N")
    p, q = unknowns("P", "Q")
    assert alpha_equal(symbolic((m, n, m)), symbolic((p, q, p)))
    assert not alpha_equal(symbolic((m, n, m)), symbolic((p, q, q)))
    assert not alpha_equal(symbolic((m, n)), symbolic((p, p)))
    assert not alpha_equal(symbolic((m,)), symbolic((4,)))


def test_polynomials_in_shapes_are_compared_by_their_structure():
    (m, n), (p, q) = unknowns("M", "N"), unknowns("P", "Q")
    assert alpha_equal(symbolic((m, n, m * 2 + n)), symbolic((p, q, p * 2 + q)))
    assert not alpha_equal(symbolic((m, n, m * 2 + n)), symbolic((p, q, q * 2 + p)))
    assert alpha_equal(symbolic((m, n, m // n, extreme("min", n, m))), symbolic((p, q, p // q, extreme("min", p, q))))
    assert not alpha_equal(symbolic((m, n, m // n)), symbolic((p, q, q // p)))
    assert not alpha_equal(symbolic((m, n, m // n)), symbolic((p, q, p % q)))


def test_unknowns_that_are_met_together_are_matched_in_the_order_they_were_made():
    pairs = [unknowns("M", "N")]
    while min(pairs[-1][1].key, pairs[-1][0].key) == pairs[-1][0].key:  # until the text of the second one sorts first
        pairs.append((pairs[-1][1], *unknowns("N")))
    (m, n), (p, q) = pairs[-1], unknowns("P", "Q")
    assert alpha_equal(symbolic((m * 2 + n,)), symbolic((p * 2 + q,)))
    assert not alpha_equal(symbolic((m * 2 + n,)), symbolic((p + q * 2,)))


def test_two_traces_of_a_kernel_are_equal():
    assert alpha_equal(scaled.trace(), scaled.trace())
    assert not alpha_equal(scaled.trace(), accumulated.trace())


# Structural check


def broken(jaxpr):
    with pytest.raises(InternalError) as caught:
        check(jaxpr)
    assert caught.value.code == "PL901"
    return caught.value.message


def test_valid_programs_pass():
    for jaxpr in (function(chain), function(nested), accumulated.trace()):
        check(jaxpr)


def test_a_use_before_its_definition_is_found():
    jaxpr = function(chain)
    assert "mul" in broken(jaxpr.replace(eqns=jaxpr.eqns[::-1]))


def test_an_output_nobody_made_is_found():
    assert "outputs" in broken(function(chain).replace(outs=(var(),)))


def test_a_second_definition_is_found():
    jaxpr = function(chain)
    assert "twice" in broken(jaxpr.replace(eqns=(*jaxpr.eqns, jaxpr.eqns[0])))
    assert "twice" in broken(jaxpr.replace(invars=(*jaxpr.invars, jaxpr.eqns[0].outs[0])))


def test_a_use_outside_the_body_that_made_it_is_found():
    escaped = []
    jaxpr = function(lambda add, x: loop(add, 0, 2, lambda inner, i, a: escaped.append(inner(lax.neg, a)) or escaped[0], x))
    check(jaxpr)
    eqn, out = apply(lax.exp, escaped[0])
    assert "exp" in broken(jaxpr.replace(eqns=(*jaxpr.eqns, eqn), outs=(out,)))


def test_the_other_arm_of_a_branch_does_not_see_what_the_first_one_makes():
    then = function(lambda add: add(lax.exp, number(1)), inputs=0)
    orelse = Jaxpr((), (), then.outs)
    assert "outputs" in broken(function(lambda add, c: add(lax.cond, c, then=then, orelse=orelse)))


def test_a_carried_value_is_made_once():
    x = var()
    body = Jaxpr((var(INDEX), x), (), (x,))
    bounds = [number(n, dtypes.INDEX) for n in (0, 1, 1)]
    eqn, out = apply(lax.loop, *bounds, x, body=body, kind="range", stage=None)
    assert "twice" in broken(Jaxpr((x,), (eqn,), (out,)))


# Renaming


def test_renaming_reaches_nested_bodies_and_outputs():
    x, y = var(name="x"), var(name="y")
    jaxpr = function(lambda add: (loop(add, 0, 2, lambda inner, i, a: (inner(lax.neg, x), x)[1], x), x), inputs=0)
    renamed = rename(jaxpr, {x: y})
    assert free_vars(renamed) == (y,) and renamed.outs[1] is y
    assert free_vars(jaxpr) == (x,)


def test_a_variable_can_become_a_literal():
    jaxpr = function(chain)
    renamed = rename(jaxpr, {jaxpr.eqns[0].outs[0]: number(2)})
    assert renamed.eqns[1].ins[0] == number(2)


def test_a_copy_shares_no_variable_that_is_made_inside():
    jaxpr = function(nested)
    copied = rename(jaxpr, {}, copy=True)
    made = lambda j: {*j.invars, *(v for e in j.walk() for v in (*e.outs, *(i for b in e.bodies() for i in b.invars)))}  # noqa: E731
    assert not made(jaxpr) & made(copied)
    check(copied)
    assert alpha_equal(jaxpr, copied)


def test_a_copy_of_a_body_keeps_its_free_variables():
    x = var()
    jaxpr = function(lambda add, a: add(lax.add, a, x))
    assert free_vars(rename(jaxpr, {}, copy=True)) == (x,)


# Abstract values


def test_a_type_is_kind_shape_and_dtype():
    tile = TileAval((4,), dtypes.FP32)
    assert same_type(tile, TileAval((4,), dtypes.FP32, "tile", Space.VEC, (2,)))
    assert not same_type(tile, TileAval((4,), dtypes.FP16)) and not same_type(tile, TileAval((5,), dtypes.FP32))
    assert not same_type(tile, RefAval((4,), dtypes.FP32)) and not same_type(scalar(dtypes.FP32), ArrayAval((), dtypes.FP32))
    assert same_type(RefAval((4,), dtypes.FP32, direction="out"), RefAval((4,), dtypes.FP32))


def test_what_two_paths_share_is_what_both_know():
    a = TileAval((4, 8), dtypes.FP32, "tensor", Space.VEC, (2, 8))
    b = TileAval((4, 8), dtypes.FP32, "tile", Space.VEC, (3, 8))
    assert join(a, b) == TileAval((4, 8), dtypes.FP32, "tile", Space.VEC, (None, 8))
    assert join(a, a) == a
    assert join(a, dataclasses.replace(a, valid=None, space=None)) == dataclasses.replace(a, space=None, valid=(None, 8))
    ref = RefAval((4,), dtypes.FP32, direction="out")
    assert join(ref, ref).direction is None


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


# Printing

T = pl.dynamic("T")


def softmax(x):
    """A program of the array level."""
    shifted = lax.exp(x - lax.reduce_max(x, axes=(1,), keepdims=True))
    return shifted / lax.reduce_sum(shifted, axes=(1,), keepdims=True)


@pl.jit
def scaled(x: pl.Tensor[[T, 64], pl.FP32], s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[T, 64], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    for r in pl.parallel(0, n, 16):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="rows"):
            rows = pl.slice(x, [16, 64], [r, 0], valid_shape=[pl.min(16, n - r), 64])
            rows = pl.muls(rows, s)
            if r == 0:
                rows = pl.adds(rows, 1.0)
            out = pl.assemble(out, rows, [r, 0])


@pl.jit
def accumulated(x: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]], state: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.spmd(2, name_hint="halves"):
        block = pl.tile.get_block_idx()
        total = pl.full([8, 16], dtype=pl.FP32, value=0.0)
        seen = pl.full([1, 8], dtype=pl.INT32, value=-1)
        for k in pl.pipeline(4, stage=2):
            total = total + x[k * 16 + block * 8 : k * 16 + block * 8 + 8, :]
            if pl.read(x, [k, 0]) > 0.0:
                pl.write(seen, [0, k], k)
        old = state[block * 8 : block * 8 + 8]
        state[block * 8 : block * 8 + 8] = old + pl.cast(pl.reshape(seen, [8, 1]), pl.FP32)
        out[block * 8 : block * 8 + 8] = total


def test_an_array_program_prints(golden):
    golden.check(str(pypto.make_jaxpr(softmax)(np.zeros((2, 8), np.float32))))


@pytest.mark.parametrize("kernel", [scaled, accumulated], ids=["scaled", "accumulated"])
def test_a_traced_kernel_prints(kernel, golden):
    golden.check(str(kernel.trace()))


@pytest.mark.parametrize("kernel", [scaled, accumulated], ids=["scaled", "accumulated"])
def test_a_lowered_program_prints(kernel, golden):
    golden.check(str(kernel.lower()))


def test_source_lines_come_on_request():
    plain, lined = scaled.lower().as_text(), scaled.lower().as_text(lines=True)
    assert "test_ir.py" not in plain
    stores = [line for line in lined.splitlines() if "store out" in line]
    own = Path(__file__).read_text().splitlines()
    (line,) = (i for i, text in enumerate(own, 1) if text.strip() == "out = pl.assemble(out, rows, [r, 0])")
    assert {text.split("# ")[1] for text in stores} == {f"test_ir.py:{line}"}


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
