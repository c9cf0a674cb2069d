"""Shadow bits of every op of the registry: they reach what depends on a tainted element, and nothing else. No op is named but by a rule."""

import itertools
import math

import numpy as np
import pytest

from pypto import Array, dtypes
from pypto.core.op import Labels, Moves, Pointwise
from pypto.dtypes import dtype_of
from tests.op_runs import (
    OPERATIONS,
    UNWRITTEN,
    as_tuple,
    compute,
    samples_by_dtype,
    value_of,
)

SAMPLED = [op for op in OPERATIONS if op.samples()]
every_sampled_op = pytest.mark.parametrize("op", SAMPLED, ids=lambda op: op.name)


def changed(a, position, value):
    result = np.array(a)
    result[position] = value
    return result


def perturbations(args, operand, position):
    """Other values for one element, far enough apart to show wherever the element matters; those it is compared with, too."""
    a = args[operand]
    kind = dtype_of(a.dtype)
    if kind is dtypes.BOOL:
        return [~a[position]]
    beside = [b[position] for b in args if b is not a and np.shape(b) == np.shape(a) and b.dtype == a.dtype]
    if kind.is_float:
        return [*beside, *(a.dtype.type(v) for v in (a[position] + 1, -60.0, 60.0, 0.25, np.inf))]
    low, high = int(kind.min_value), int(kind.max_value)
    return [*beside, *(a.dtype.type(v) for v in {low, high, 1, int(a[position]) ^ 1, int(a[position]) ^ 3})]


def influence(op, args, params, operand, position):
    """Which elements of each result change, for one of some values, when one element of one operand changes."""
    base = as_tuple(op.meaning(*args, **params))
    found = [np.zeros(np.shape(b), np.bool_) for b in base]
    for value in perturbations(args, operand, position):
        other = [changed(a, position, value) if i == operand else a for i, a in enumerate(args)]
        with np.errstate(all="ignore"):
            made = as_tuple(op.meaning(*other, **params))
        for hit, a, b in zip(found, made, base, strict=True):
            bits = np.dtype(f"u{a.dtype.itemsize}")
            hit |= np.ascontiguousarray(a).view(bits).reshape(a.shape) != np.ascontiguousarray(b).view(bits).reshape(b.shape)
    return found


def backgrounds(op, count):
    """Small samples of one dtype, with several sets of values."""
    args, params = next(iter(samples_by_dtype(op)), op.samples()[0])
    yield tuple(a[:3, :4] if isinstance(op.axes, Pointwise) and np.ndim(a) == 2 else a for a in args), params
    for args, params in itertools.islice(samples_by_dtype(op), 1, count):
        yield tuple(a[:3, :4] if isinstance(op.axes, Pointwise) and np.ndim(a) == 2 else a for a in args), params


def positions(op, a):
    """Some elements, spread over all; few for ops that are many others. Steps are prime to the columns, so that none is left out."""
    step = max(1, np.size(a) // (3 if op.decomposition else 9))
    while math.gcd(step, np.shape(a)[-1]) > 1:
        step += 1
    return list(np.ndindex(np.shape(a)))[::step]


@every_sampled_op
def test_shadow_bits_reach_every_element_that_depends_on_a_tainted_one(op):
    for args, params in backgrounds(op, 1 if op.decomposition else 3):
        for operand, a in enumerate(args):
            if operand in op.index or not np.ndim(a):
                continue
            for position in positions(op, a):
                taint = np.zeros(np.shape(a), np.bool_)
                taint[position] = True
                values = [value_of(x, None, taint if i == operand else None) for i, x in enumerate(args)]
                for result, hit in zip(compute(op, values, params), influence(op, args, params, operand, position), strict=True):
                    reached = np.zeros(result.data.shape, np.bool_) if result.taint is None else result.taint
                    assert not (hit & ~reached).any(), (operand, position, params)


def exactly(op):
    """Ops whose shadow bits are exactly what can change. `Whole` says "may need", and a part_ op's axes are those of its box."""
    args, params = op.samples()[0]
    axes = op.axes_of([Array(a).aval for a in args], params)
    return isinstance(axes, Pointwise | Moves | Labels)


@pytest.mark.parametrize("op", [op for op in SAMPLED if exactly(op) and op.samples()[0][0]], ids=lambda op: op.name)
def test_shadow_bits_reach_nothing_that_cannot_depend_on_a_tainted_element(op):
    """Over all backgrounds, some value of the element shows in every element its shadow reaches: no axis is too wide."""
    candidates = [*samples_by_dtype(op), op.samples()[0]]
    args, params = next((a, p) for a, p in candidates if p.get("y") != 0)  # x ** 0 is 1, whatever x
    rng = np.random.default_rng(5)
    for operand, a in enumerate(args):
        if operand in op.index or not np.ndim(a):
            continue
        for position in positions(op, a)[:4]:
            taint = np.zeros(np.shape(a), np.bool_)
            taint[position] = True
            made = compute(op, [value_of(x, None, taint if i == operand else None) for i, x in enumerate(args)], params)
            left = [np.zeros(r.data.shape, np.bool_) if r.taint is None else r.taint.copy() for r in made]
            for turn in range(40):
                if not any(t.any() for t in left):
                    break
                # a rule of its own may depend on the values
                shuffled = list(args) if op.taint is not None else [_shuffled(rng, x, turn) for x in args]
                left = [t & ~hit for t, hit in zip(left, influence(op, shuffled, params, operand, position), strict=True)]
            assert not any(t.any() for t in left), (operand, position, params)


def _shuffled(rng, x, turn):
    """The elements in another order; of integers, in the first turns, all bits or none, against which every bit shows."""
    if not np.ndim(x):
        return x
    if turn < 2 and x.dtype.kind in "iub":
        return np.full_like(x, turn) if x.dtype.kind == "b" else np.full_like(x, 0) if turn else ~np.full_like(x, 0)
    return rng.permutation(np.ravel(x)).reshape(np.shape(x))


@every_sampled_op
def test_without_tainted_operands_nothing_is_tainted(op):
    if op in UNWRITTEN:
        return
    for args, params in samples_by_dtype(op):
        assert all(r.taint is None for r in compute(op, [value_of(a) for a in args], params))
