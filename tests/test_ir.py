"""The IR: frozen, checked, compared up to names, renamed and walked."""

import dataclasses

import numpy as np
import pytest

import pypto
from pypto import dtypes, lax
from pypto.core.avals import ArrayAval, RefAval, TileAval, join, same_type, scalar
from pypto.core.index import Index, extreme
from pypto.core.ir import Jaxpr, Var, alpha_equal, check, free_vars, rename
from pypto.errors import InternalError
from pypto.lax import control
from pypto.platform import Space
from pypto.source import Source
from tests.kernels.printed import accumulated, scaled
from tests.programs import INDEX, apply, chain, function, loop, nested, number, var

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


def test_walking_visits_outer_before_inner_in_program_order():
    assert [e.op.name for e in function(nested).walk()] == ["abs", "loop", "loop", "neg", "add", "exp"]
    assert function(nested).count() == 6


def test_walking_visits_every_body_of_an_equation():
    then, orelse = (function(lambda add, op=op: add(op, number(1)), inputs=0) for op in (lax.exp, lax.log))
    jaxpr = function(lambda add, c: add(control.cond, c, then=then, orelse=orelse))
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
    (m, n), (p, q) = unknowns("M", "N"), unknowns("P", "Q")
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
    assert "outputs" in broken(function(lambda add, c: add(control.cond, c, then=then, orelse=orelse)))


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
