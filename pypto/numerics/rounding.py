"""Conversions between dtypes: one rounding, in a named mode, with a named answer to overflow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pypto import hifloat
from pypto.dtypes import BF16, BOOL, FP16, FP32, HF8, INT32, INT64, UINT64, DType, Kind
from pypto.errors import ShapeError

Array = np.ndarray[Any, np.dtype[Any]]

MODES: dict[str, str] = {
    "none": "the native default: rint to a float, trunc to an integer",
    "rint": "to nearest, ties to even",
    "round": "to nearest, ties away from zero",
    "floor": "toward minus infinity",
    "ceil": "toward plus infinity",
    "trunc": "toward zero",
    "odd": "von Neumann: what is inexact gets an odd last bit",
}
"""Every rounding mode and its rule."""

_KEEPS_LOW_BITS = {
    ("FP32", "INT16"), ("FP16", "INT16"), ("FP16", "UINT8"), ("FP16", "INT8"), ("INT64", "INT32"), ("INT32", "INT16"),
}  # fmt: skip


def default_overflow(src: DType, dst: DType) -> str:
    """What `pl.cast` does with values that do not fit: "wrap" for six pairs of dtypes, "saturate" for the others."""
    return "wrap" if (src.name, dst.name) in _KEEPS_LOW_BITS else "saturate"


def convert(x: Array, src: DType, dst: DType, mode: str, overflow: str = "saturate") -> Array:
    """Convert every element to another dtype.

    Args:
      x: any shape, in the storage type of `src`.
      src: BOOL, an integer type, or a float type but HF4.
      dst: likewise, without FP8E8M0, which only holds scales.
      mode: a key of `MODES`.
      overflow: for integers, "saturate", or "wrap" to keep the low bits; for FP8 and HF8, "saturate" to the largest finite
        value, or "ieee". FP32, FP16 and BF16 always overflow as IEEE says; FP4 always saturates.
    Returns:
      A new array of the same shape in the storage type of `dst`.
    Numerics:
      To a float: rounded once by `mode`, subnormals included, 64-bit integers too. Overflow by IEEE is infinity if the mode rounds
      away from the largest value and that value otherwise (NaN for infinity in FP8E4M3FN). NaN stays NaN (6 in FP4); infinity stays
      where the format has it, and otherwise overflows. HF8 has one rounding, to nearest with ties away from zero, whatever the mode
      is, and one zero; with "ieee" it overflows from 40960 on, half way between 2**15 and what would come next.
      Float to integer: rounded to an integer by `mode`, then saturated with NaN -> 0; "wrap" saturates to INT32 first (INT64 for
      64-bit results) and then drops the high bits.
      To BOOL: whether the element is not zero. From BOOL: 0 or 1.
    Errors:
      PL305 for dtypes that do not convert; PL308 for an unknown mode or overflow.

    >>> convert(np.float32([0.5, 1.5, 2.5]), FP32, INT32, "round")
    array([1, 2, 3], dtype=int32)
    """
    if mode not in MODES:
        raise ShapeError("PL308", f"rounding mode {mode!r} does not exist", fix=f"use one of {', '.join(MODES)}")
    if overflow not in ("saturate", "wrap", "ieee"):
        raise ShapeError("PL308", f"overflow {overflow!r} does not exist", fix="use 'saturate', 'wrap' or 'ieee'")
    check_pair(src, dst)
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if src.storage == dst.storage:
            return np.array(x, dst.storage)
        if src is HF8:
            x, src = hifloat.decode(x), FP32
        if dst is HF8:
            return hifloat.encode(_sticky_f64(x) if src.bits == 64 else x.astype(np.float64), overflow)
        if src is dst:
            return x
        if src is BOOL:
            return x.astype(np.int8).astype(dst.storage)
        if dst is BOOL:
            return np.asarray(x != np.zeros((), x.dtype), np.bool_)
        if dst.is_float:
            return _to_float(x, src, dst, "rint" if mode == "none" else mode, overflow)
        if src.is_float:
            return _float_to_int(x, dst, "trunc" if mode == "none" else mode, overflow)
        return _int_to_int(x, dst, overflow)


def check_pair(src: DType, dst: DType) -> None:
    """PL305 for dtypes that do not convert: predicate masks, task ids, HF4 either way, and numbers to FP8E8M0."""
    for role, dtype in (("from", src), ("to", dst)):
        if dtype.kind is Kind.MASK:
            raise ShapeError("PL305", "a predicate mask does not convert", fix="use sel(mask, 1, 0)")
        if dtype.kind is Kind.TASK or dtype.name == "HF4" or (role == "to" and dtype.name == "FP8E8M0"):
            fix = {"HF4": "use FP8E4M3FN or HF8: HF4 can only be moved", "FP8E8M0": "FP8E8M0 holds scales that are made as bits"}
            raise ShapeError("PL305", f"no conversion {role} {dtype.name}", fix=fix.get(dtype.name, "convert numbers only"))


def _round_magnitude(magnitude: Array, negative: Array, mode: str) -> Array:
    """Round non-negative FP64 numbers to integers; the mode sees the sign. Exact: the remainder of floor always is."""
    if mode == "rint":
        return np.rint(magnitude)
    whole = np.floor(magnitude)
    if mode == "trunc":
        return whole
    rest = magnitude - whole
    if mode == "round":
        up = rest >= 0.5
    elif mode == "odd":
        up = (rest > 0.0) & (np.fmod(whole, 2.0) == 0.0)
    else:
        up = (rest > 0.0) & (negative if mode == "floor" else ~negative)
    return whole + up


def _to_float(x: Array, src: DType, dst: DType, mode: str, overflow: str) -> Array:
    exact_in_f32 = src.is_float or src.bits <= 16
    if dst is FP32 and exact_in_f32:
        return x.astype(np.float32)
    if exact_in_f32 and mode == "rint" and dst in (BF16, FP16):
        return x.astype(np.float32).astype(dst.storage)
    if exact_in_f32 and dst in (BF16, FP16):
        return _f32_to_16_bits(x.astype(np.float32), dst, mode)
    return _round_f64(_sticky_f64(x) if src.bits == 64 else x.astype(np.float64), dst, mode, overflow)


def _f32_to_16_bits(x: Array, dst: DType, mode: str) -> Array:
    """FP32 to BF16 or FP16: a format that keeps fewer fraction bits is rounded by adding to the bits and cutting off the low ones.

    A carry moves on to the next value, or to infinity, as it should. FP16 has the smaller exponent, too: what is subnormal or too
    large there goes the general way.
    """
    cut = FP32.mantissa - dst.mantissa
    below = np.uint32((1 << cut) - 1)
    bits = x.view(np.uint32)
    if mode == "odd":
        bits = bits | ((bits & below != 0).astype(np.uint32) << np.uint32(cut))
    elif mode == "round":
        bits = bits + np.uint32(1 << (cut - 1))
    elif mode != "trunc":
        away = np.signbit(x) if mode == "floor" else ~np.signbit(x)
        bits = bits + away.astype(np.uint32) * below
    # The payload of a NaN may lie below the cut, and a carry may run into its sign: NaNs are put back.
    result = np.where(np.isnan(x), x, (bits & ~below).view(np.float32)).astype(dst.storage)
    if dst is FP16:
        magnitude = np.abs(x)
        special = (magnitude < np.float32(2.0**-14)) | (magnitude >= np.float32(65504.0))
        result[special] = _round_f64(x[special].astype(np.float64), dst, mode, "ieee")
    return result


def _sticky_f64(x: Array) -> Array:
    """64-bit integers as FP64 numbers that round to any float of at most 40 bits as the integers do.

    FP64 holds 53 bits. Longer integers lose their last 11, and a 1 stands for them if any was set: that keeps every tie, and
    every difference from one, at least 17 bits below the last bit of FP32.
    """
    negative = x < 0
    magnitude = np.where(negative, np.negative(x), x).astype(np.uint64)
    kept = (magnitude >> np.uint64(11)) | (magnitude & np.uint64(0x7FF) != 0)
    long = kept.astype(np.float64) * 2048.0
    result = np.where(magnitude < np.uint64(1 << 53), magnitude.astype(np.float64), long)
    return np.where(negative, -result, result)


def _round_f64(x: Array, dst: DType, mode: str, overflow: str) -> Array:
    """FP64 numbers, taken as exact, to a float dtype."""
    negative = np.signbit(x)
    magnitude = np.abs(x)
    # The unit in the last place of the result: fixed below the smallest normal.
    unit = np.maximum(np.frexp(magnitude)[1] - 1, dst.min_exponent) - dst.mantissa
    rounded = np.ldexp(_round_magnitude(np.ldexp(magnitude, -unit), negative, mode), unit)
    largest = float(dst.max_value)
    infinite = np.isinf(magnitude)
    rounded = np.where(infinite, magnitude, rounded)
    over = rounded > largest
    ieee = dst in (FP32, FP16, BF16) or (overflow == "ieee" and dst.name != "FP4")
    if ieee:
        grows = {"rint": True, "round": True, "floor": negative, "ceil": ~negative}.get(mode, False)
        beyond = np.where(infinite | grows, np.inf if dst.has_infinity else np.nan, largest)
    else:
        beyond = np.where(infinite & dst.has_infinity, np.inf, largest)
    rounded = np.where(over, beyond, rounded)
    if dst.name == "FP4":
        rounded = np.where(np.isnan(x), largest, rounded)
        negative = negative & ~np.isnan(x)
    # Every value is now one of the format's, so that these steps round nothing.
    return np.copysign(rounded, np.where(negative, -1.0, 1.0)).astype(np.float32).astype(dst.storage)


def _float_to_int(x: Array, dst: DType, mode: str, overflow: str) -> Array:
    wide = x.astype(np.float64)
    magnitude = _round_magnitude(np.abs(wide), np.signbit(wide), mode)
    whole = np.where(np.isnan(wide), 0.0, np.copysign(magnitude, wide))
    if overflow != "wrap":
        return _saturate(whole, dst)
    return _low_bits(_saturate(whole, INT64 if dst.bits == 64 else INT32), dst)


def _saturate(whole: Array, dst: DType) -> Array:
    """Integers held in FP64, clamped into an integer dtype."""
    low, high = int(dst.min_value), int(dst.max_value)
    # The upper limit of 64 bits is no FP64 number: compare with the power of two above it.
    above = whole >= float(high + 1)
    below = whole <= float(low)
    result = np.where(above | below, 0.0, whole).astype(UINT64.storage if dst is UINT64 else np.int64)
    result = np.asarray(result)
    result[above], result[below] = high, low
    return result.astype(dst.storage)


def _low_bits(x: Array, dst: DType) -> Array:
    wide = x.astype(np.int64 if dst.is_signed or dst.bits < 64 else np.uint64)
    if dst.bits < 8:
        wide = wide & ((1 << dst.bits) - 1)
        if dst.is_signed:
            wide = wide - ((wide >> (dst.bits - 1)) << dst.bits)
    return wide.astype(dst.storage)


def _int_to_int(x: Array, dst: DType, overflow: str) -> Array:
    if x.dtype.itemsize == 1:
        x = x.astype(np.int16)  # the 4-bit types of ml_dtypes do not compare with NumPy's
    if overflow != "wrap":
        limits = np.iinfo(x.dtype)
        low, high = max(int(dst.min_value), int(limits.min)), min(int(dst.max_value), int(limits.max))
        x = np.clip(x, np.asarray(low, x.dtype), np.asarray(high, x.dtype))
    return _low_bits(x, dst)


def widened(x: Any) -> Array:
    """The numbers of an array of floats in FP32, which holds all of those of narrower formats; FP64 is rounded."""
    return numbers(x).astype(np.float32)


def numbers(x: Any) -> Array:
    """An array, or an element of one, in a dtype NumPy computes with: the FP32 numbers of HF8, everything else as it is."""
    x = np.asarray(x)
    return hifloat.decode(x) if x.dtype == HF8.storage else x


def hf8_bits(x: Any) -> Array:
    """The codes of an HF8 array as UINT8, in the same memory.

    Errors:
      PL305 for another dtype.

    >>> hf8_bits(convert(np.float32([1.0, -1.5, np.nan]), FP32, HF8, "round"))
    array([  8, 140, 128], dtype=uint8)
    """
    x = np.asarray(x)
    if x.dtype != HF8.storage:
        raise ShapeError("PL305", f"hf8_bits of {x.dtype}", fix="pass an array of HF8")
    return x.view(np.uint8)


def hf8_from_bits(codes: Any) -> Array:
    """UINT8 codes as an HF8 array, in the same memory: the way in for bytes that are HF8 already.

    Errors:
      PL305 for another dtype: numbers are converted, by `convert`, `lax.convert_element_type` or `pypto.Array(x, "HF8")`.

    >>> widened(hf8_from_bits(np.uint8([0x08, 0x8C, 0x6F, 0x01])))
    array([ 1.0000000e+00, -1.5000000e+00,            inf,  2.3841858e-07],
          dtype=float32)
    """
    codes = np.asarray(codes)
    if codes.dtype != np.uint8:
        raise ShapeError("PL305", f"hf8_from_bits of {codes.dtype}", fix="UINT8 codes; numbers become HF8 by pypto.Array(x, 'HF8')")
    return codes.view(HF8.storage)


def round_literal(value: bool | int | float, dst: DType) -> Any:
    """A Python number as a NumPy scalar of a dtype: rounded once, exactly, to nearest even.

    Floats are rounded from their exact FP64 value, integers from their exact value however long.

    Returns:
      A scalar of `dst.storage`; a float too large is infinite (the largest finite value in FP8, HF8 and FP4).
    Errors:
      PL308 for a number that an integer dtype does not hold; PL305 for dtypes that are no numbers.

    >>> float(round_literal(1 + 2**-8 + 2**-40, BF16))
    1.0078125
    """
    check_pair(BOOL, dst)
    if dst is BOOL:
        return np.bool_(value)
    if dst is HF8:
        return hifloat.encode(np.asarray(_literal_f64(value)), "saturate")[()]
    if dst.is_float:
        with np.errstate(all="ignore"):
            return _round_f64(np.asarray([_literal_f64(value)]), dst, "rint", "saturate")[0]
    if not math.isfinite(value) or value != int(value) or not dst.min_value <= value <= dst.max_value:
        limits = f"{int(dst.min_value)} .. {int(dst.max_value)}"
        raise ShapeError("PL308", f"{value} is no {dst.name} value", fix=f"use an integer in {limits}, or another dtype")
    return np.asarray([int(value)]).astype(dst.storage)[0]


def _literal_f64(value: bool | int | float) -> float:
    if not isinstance(value, int | np.integer | np.bool_):
        return float(value)
    magnitude, sign = abs(int(value)), -1.0 if value < 0 else 1.0
    shift = max(magnitude.bit_length() - 53, 0)
    if shift > 512:
        return sign * math.inf
    # As in `_sticky_f64`: a 1 stands for the bits that were cut off.
    kept = (magnitude >> shift) | (magnitude & ((1 << shift) - 1) != 0)
    return sign * math.ldexp(kept, shift)
