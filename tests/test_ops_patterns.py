"""Every bit pattern: of FP16 and BF16 through every operation of one operand and every cast in every mode, of INT8 through everything.

The expected values come from the formats themselves: all values of a dtype in order, and a search for the neighbours of a number.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from pypto import dtypes, lax, numerics
from pypto.core.op import OPS, Pointwise
from pypto.dtypes import DTYPES
from tests.bits import identical

MODES = [m for m in numerics.MODES if m != "none"]
HALVES = ("FP16", "BF16")
TARGETS = ("FP32", "FP16", "BF16", "FP8E4M3FN", "FP8E5M2")
INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
HUGE = 2.0**1000
"""Stands for infinity where distances are compared."""


def storage(name):
    return DTYPES[name].storage


@functools.cache
def patterns(name):
    """Every value of a dtype of 8 or 16 bits."""
    bits = DTYPES[name].bits
    return np.arange(1 << bits).astype(f"u{bits // 8}").view(storage(name))


@functools.cache
def hard_fp32():
    """Ties and their neighbours between values of every narrower format, boundaries, subnormals, infinities, NaN payloads."""
    with np.errstate(all="ignore"):
        ends = np.concatenate([np.unique(v[np.isfinite(v)]) for v in (patterns(n).astype(np.float32) for n in TARGETS[1:])])
        middles = np.concatenate([(v[:-1] + v[1:]) / 2 for v in (np.unique(ends),)])
        some = np.concatenate([ends[::31], middles[::31], np.float32([65504, 65519.996, 65520, 448, 464, 480, 57344, 61440, 3.3961776e38])])
        around = (some.view(np.int32)[:, None] + np.arange(-1, 2, dtype=np.int32)).ravel().view(np.float32)
    payloads = np.array([0x7FFF8C22, 0x7F800001, 0xFFFFFFFF, 0xFFC00000, 0x7F800000, 0xFF800000, 1, 0x80000001, 0x007FFFFF], np.uint32)
    return np.concatenate([around, -around, payloads.view(np.float32)])


# ---- one operand ----------------------------------------------------------------------------------------------------

UNARY = [
    op
    for op in OPS.values()
    if isinstance(op.axes, Pointwise) and len(op.operands) == 1 and not op.variadic and op.accepts and op.name != "convert"
]
OPTIONS = {"integer_pow": [{"y": y} for y in (0, 1, 2, 3, -2)], "round": [{"rounding_method": m} for m in (0, 1)]}


def options_of(op):
    return OPTIONS[op.name] if op.name in OPTIONS else [{name: op.defaults[name] for name in op.options}]


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("op", [op for op in UNARY if dtypes.FP16 in op.accepts], ids=lambda op: op.name)
def test_every_16_bit_float_gives_the_fp32_result_rounded_once(op, name):
    """The FP32 results are tested against FP64 elsewhere; NumPy and ml_dtypes do the rounding here."""
    x = patterns(name)
    for params in options_of(op):
        with np.errstate(all="ignore"):
            wide = np.asarray(op.meaning(x.astype(np.float32), **params))
            want = wide.astype(storage(name)) if wide.dtype == np.float32 else wide
            assert identical(op.meaning(x, **params), want), params


def wrapped(value, name):
    low, bits = int(DTYPES[name].min_value), DTYPES[name].bits
    return (value - low) % 2**bits + low


WHOLE = {
    "neg": lambda v, bits: -v,
    "abs": lambda v, bits: abs(v),
    "not": lambda v, bits: ~v,
    "square": lambda v, bits: v * v,
    "sign": lambda v, bits: (v > 0) - (v < 0),
    "relu": lambda v, bits: max(v, 0),
    "integer_pow": lambda v, bits, y=0: v**y,
    "population_count": lambda v, bits: (v % 2**bits).bit_count(),
    "clz": lambda v, bits: bits - (v % 2**bits).bit_length(),
}


@pytest.mark.parametrize("name", ["INT8", "UINT8", "INT16", "UINT16"])
@pytest.mark.parametrize("op", [op for op in UNARY if op.accepts & {dtypes.INT8, dtypes.INT16}], ids=lambda op: op.name)
def test_every_narrow_integer_through_an_operation_of_one_operand(op, name):
    if DTYPES[name] not in op.accepts:
        with pytest.raises(Exception, match="PL305"):
            op(patterns(name))
        return
    x = patterns(name)
    for params in options_of(op):
        if params.get("y", 0) < 0:
            continue
        want = [wrapped(WHOLE[op.name](int(v), DTYPES[name].bits, **params), name) for v in x]
        assert np.asarray(op(x, **params)).tolist() == want, params


# ---- casts ----------------------------------------------------------------------------------------------------------


@functools.cache
def lattice(name):
    """The finite magnitudes of a float dtype in order, and their bit patterns' parity."""
    size = DTYPES[name].bits // 8
    count = 1 << (DTYPES[name].bits - 1)
    if size == 4:
        raise ValueError("FP32 has too many values to list")
    values = np.arange(count).astype(f"u{size}").view(storage(name)).astype(np.float64)
    values = values[np.isfinite(values)]
    assert (np.diff(values) > 0).all()
    return values


def to_float(x, name, mode, overflow):
    """FP64 numbers to a float dtype: the neighbours by search, the choice by mode; NaN aside."""
    values = lattice(name)
    magnitude, negative = np.abs(x), np.signbit(x)
    below = np.clip(np.searchsorted(values, magnitude, side="right") - 1, 0, len(values) - 1)
    low = values[below]
    top = below == len(values) - 1
    # past the largest value the next one would be as far away as the one before it
    high = np.where(top, 2 * values[-1] - values[-2], values[np.minimum(below + 1, len(values) - 1)])
    exact = low == magnitude
    middle = (low + high) / 2
    odd_below = below % 2 == 1
    up = {
        "rint": (magnitude > middle) | ((magnitude == middle) & odd_below),
        "round": magnitude >= middle,
        "floor": negative,
        "ceil": ~negative,
        "trunc": np.zeros(x.shape, np.bool_),
        "odd": ~odd_below,
    }[mode]
    up = up & ~exact
    beyond = top & up if mode != "odd" else np.zeros(x.shape, np.bool_)
    result = np.where(up & ~top, high, low)
    form = DTYPES[name]
    ieee = name in HALVES or overflow == "ieee"
    result = np.where(beyond, (np.inf if form.has_infinity else np.nan) if ieee else values[-1], result)
    infinite = np.inf if form.has_infinity else np.nan if ieee else values[-1]
    return np.copysign(np.where(np.isinf(magnitude), infinite, result), x)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("source", "target"), [(s, t) for s in (*HALVES, "FP32") for t in TARGETS if t not in (s, "FP32")])
def test_a_cast_to_a_narrower_or_other_float_takes_the_right_neighbour(source, target, mode):
    x = hard_fp32() if source == "FP32" else patterns(source)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        for overflow in ("saturate", "ieee") if target.startswith("FP8") else ("saturate",):
            want = np.where(np.isnan(wide), np.nan, to_float(wide, target, mode, overflow))
            got = numerics.convert(x, DTYPES[source], DTYPES[target], mode, overflow)
            assert identical(got.astype(np.float32), want.astype(np.float32)), overflow


@pytest.mark.parametrize("source", HALVES)
def test_widening_keeps_every_value(source):
    x = patterns(source)
    with np.errstate(all="ignore"):
        for mode in MODES:
            assert identical(numerics.convert(x, DTYPES[source], dtypes.FP32, mode), x.astype(np.float32))


def to_integer(x, name, mode, *, wrap):
    """FP64 numbers to an integer dtype, as Python integers."""
    magnitude = np.abs(x)
    whole = np.trunc(x)
    away = whole + np.copysign(1.0, x)
    rest = magnitude - np.abs(whole)
    odd = np.fmod(np.abs(whole), 2) == 1
    rounded = {
        "rint": np.where((rest > 0.5) | ((rest == 0.5) & odd), away, whole),
        "round": np.where(rest >= 0.5, away, whole),
        "floor": np.floor(x),
        "ceil": np.ceil(x),
        "trunc": whole,
        "odd": np.where((rest > 0) & ~odd, away, whole),
    }[mode]
    first = DTYPES["INT64" if DTYPES[name].bits == 64 else "INT32"] if wrap else DTYPES[name]
    low, high = int(first.min_value), int(first.max_value)
    found = [0 if v != v else low if v <= low else high if v >= high else int(v) for v in rounded]
    return [wrapped(v, name) for v in found] if wrap else found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("source", "target"), list(itertools.product((*HALVES, "FP32"), INTEGERS)))
def test_a_cast_to_an_integer_rounds_by_its_mode_and_saturates_or_wraps(source, target, mode):
    # all 65,536 patterns in the two modes that users write, every third of them in the others: a list of Python numbers takes time
    x = hard_fp32()[::5] if source == "FP32" else patterns(source)[:: 1 if mode in ("rint", "round") and target == "INT8" else 3]
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        for wrap in (False, True):
            got = numerics.convert(x, DTYPES[source], DTYPES[target], mode, "wrap" if wrap else "saturate")
            assert got.tolist() == to_integer(wide, target, mode, wrap=wrap), wrap


@pytest.mark.parametrize("target", [*TARGETS, *INTEGERS])
@pytest.mark.parametrize("source", ["INT8", "UINT8", "INT16"])
def test_every_narrow_integer_through_every_cast(source, target):
    if source == target:
        return
    x = patterns(source)
    for mode, overflow in itertools.product(MODES, ("saturate", "wrap")):
        got = numerics.convert(x, DTYPES[source], DTYPES[target], mode, overflow)
        if target in INTEGERS:
            low, high = int(DTYPES[target].min_value), int(DTYPES[target].max_value)
            assert got.tolist() == [min(max(int(v), low), high) if overflow == "saturate" else wrapped(int(v), target) for v in x]
        elif overflow == "saturate":
            want = x.astype(np.float64) if target == "FP32" else to_float(x.astype(np.float64) + 0.0, target, mode, overflow)
            assert identical(got.astype(np.float32), want.astype(np.float32)), mode


# ---- two operands ---------------------------------------------------------------------------------------------------


def truncated(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def bounded(count):
    return 0 <= count < 8


ON_BYTES = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": truncated,
    "floor_div": lambda a, b: a // b if b else 0,
    "floor_mod": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: a - truncated(a, b) * b if b else 0,
    "maximum": max,
    "minimum": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b if bounded(b) else 0,
    "shr": lambda a, b: a >> b if bounded(b) else (-1 if a < 0 else 0),
}


@pytest.mark.parametrize("name", ["INT8", "UINT8"])
@pytest.mark.parametrize("op", ON_BYTES)
def test_every_pair_of_8_bit_integers(op, name):
    x, y = (v.ravel() for v in np.meshgrid(patterns(name), patterns(name)))
    want = [wrapped(ON_BYTES[op](a, b), name) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    with np.errstate(all="ignore"):
        assert np.asarray(OPS[op].meaning(x, y)).tolist() == want


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_every_pair_of_8_bit_integers_and_floats_compares_by_value(name):
    compare = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[name]
    for kind in ("INT8", "UINT8"):
        x, y = np.meshgrid(patterns(kind), patterns(kind))
        assert identical(OPS[name].meaning(x, y), compare(x.astype(int), y.astype(int)))
    for kind in HALVES:
        x, y = np.meshgrid(patterns(kind)[::127], patterns(kind)[::131])
        with np.errstate(all="ignore"):
            assert identical(OPS[name].meaning(x, y), compare(x.astype(np.float64), y.astype(np.float64)))


any_fp32 = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)
FLOAT_OPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@given(arrays_of.arrays(np.float32, (2, 12), elements=any_fp32), st.sampled_from(sorted(FLOAT_OPS)), st.sampled_from(["FP32", *HALVES]))
def test_arithmetic_is_the_exact_result_rounded_once(x, name, kind):
    """FP64 arithmetic on FP32 operands rounded to FP32 is correctly rounded (Figueroa: 53 >= 2 * 24 + 2)."""
    with np.errstate(all="ignore"):
        a, b = x.astype(storage(kind))
        want = FLOAT_OPS[name](a.astype(np.float64), b.astype(np.float64)).astype(np.float32).astype(storage(kind))
        assert identical(OPS[name].meaning(a, b), want)


@given(arrays_of.arrays(np.float32, (2, 12), elements=any_fp32))
def test_extremes_commute_and_know_the_zeros(x):
    a, b = x
    for op, pick in ((lax.maximum, max), (lax.minimum, min)):
        found = np.asarray(op(a, b))
        assert identical(found, op(b, a))
        key = lambda v: (v, 1 if v != 0 or not np.signbit(v) else 0)  # noqa: E731
        want = [np.nan if p != p or q != q else pick(p, q, key=key) for p, q in zip(a, b, strict=True)]
        assert identical(found, np.array(want, np.float32))


# ---- views ----------------------------------------------------------------------------------------------------------

shapes = arrays_of.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5)


@given(arrays_of.arrays(np.int32, shapes), st.data())
def test_slices_transposes_and_reshapes_are_numpys(x, data):
    axes = data.draw(st.permutations(range(x.ndim)))
    turned = lax.transpose(x, permutation=tuple(axes))
    assert identical(turned, np.transpose(x, axes))
    starts = [data.draw(st.integers(0, d - 1)) for d in x.shape]
    limits = [data.draw(st.integers(s + 1, d)) for s, d in zip(starts, x.shape, strict=True)]
    strides = [data.draw(st.integers(1, 3)) for _ in x.shape]
    window = tuple(slice(*part) for part in zip(starts, limits, strides, strict=True))
    assert identical(lax.slice(x, starts, limits, strides), x[window])
    assert identical(lax.reshape(turned, shape=(x.size,)), np.transpose(x, axes).reshape(-1))
    flipped = tuple(data.draw(st.sets(st.sampled_from(range(x.ndim)))))
    assert identical(lax.rev(x, dimensions=flipped), np.flip(x, flipped))


@given(arrays_of.arrays(np.int16, shapes), st.data())
def test_padding_is_numpys_with_negative_and_inner_padding_by_jaxs_rule(x, data):
    low = [data.draw(st.integers(0, 3)) for _ in x.shape]
    high = [data.draw(st.integers(0, 3)) for _ in x.shape]
    padded = lax.pad(x, np.int16(-7), [(a, b, 0) for a, b in zip(low, high, strict=True)])
    assert identical(padded, np.pad(x, list(zip(low, high, strict=True)), constant_values=-7))
    back = lax.pad(padded, np.int16(0), [(-a, -b, 0) for a, b in zip(low, high, strict=True)])
    assert identical(back, x)
