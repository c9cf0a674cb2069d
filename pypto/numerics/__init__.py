"""The numerics contract, version 1: what every operation computes, to the bit, on every CPU.

Arrays are NumPy arrays in the storage types of `pypto.dtypes`. No function warns, and none returns a view of an input.
"""

from __future__ import annotations

from pypto.numerics.contraction import CHUNK, matmul
from pypto.numerics.functions import (
    abs,
    add,
    div,
    elementwise,
    exp,
    floor_div,
    floor_mod,
    fmod,
    log,
    maximum,
    minimum,
    mul,
    neg,
    recip,
    rsqrt,
    sqrt,
    sub,
)
from pypto.numerics.philox import ROUNDS, philox, random_rows
from pypto.numerics.reduction import (
    LANES,
    argmax_first,
    argmax_last,
    argmin_first,
    argmin_last,
    max_first,
    max_last,
    min_first,
    min_last,
    prod_first,
    prod_last,
    sum_first,
    sum_last,
)
from pypto.numerics.rounding import MODES, check_pair, convert, default_overflow, hf8_bits, hf8_from_bits, numbers, round_literal, widened
from pypto.numerics.scan import cumlogsumexp, cummax, cummin, cumprod, cumsum
from pypto.numerics.threefry import threefry

VERSION = 1
"""Changes whenever a rule does, because then bits do."""

CONTRACT: dict[str, str] = {
    "fp32": (
        "add, sub, mul, div, sqrt, recip, rsqrt, exp, log round correctly to nearest even; subnormals kept; no contraction, no "
        "reassociation"
    ),
    "narrow floats": "BF16, FP16 and narrower: widen to FP32, one FP32 operation, round once to nearest even",
    "composites": (
        "functions without a PTO instruction (sin, cos, tanh, erf, logistic, softplus, ...) are their decomposition, everywhere"
    ),
    "integers": (
        "two's complement wrap; div truncates, scalar // and % floor; a zero divisor is an error in checked runs and gives 0 "
        "otherwise; INT_MIN / -1 wraps"
    ),
    "remainders": (
        "fmod is exact and has the dividend's sign; rem, as Python's %, has the divisor's: where the signs differ, fmod + divisor, "
        "rounded once; a zero divisor gives NaN for floats"
    ),
    "bits": (
        "shifts keep the dtype; a right shift is logical for unsigned and arithmetic for signed dtypes; a count outside 0 .. width - 1 "
        "is an error in checked runs and shifts everything out otherwise"
    ),
    "max, min": "NaN propagates; +0 > -0; likewise relu and the reductions",
    "argmax, argmin": "the first index; NaN counts as the extremum",
    "row reductions": (
        "order lanes64: FP32, partial j mod 64 in ascending j, then halves 64 -> 32 -> ... -> 1; absent partials are the "
        "identity (-0.0 for sums); FP16 and BF16 widen first and round once; cuts at multiples of 64 carry the partials; kept "
        "under vmap and transposition"
    ),
    "scans": (
        "cumsum, cumprod: FP32, element after element (from the end with reverse); narrow floats widen and each output is rounded "
        "once from the running value; cummax, cummin as max and min; integers wrap"
    ),
    "random bits": (
        "Philox-4x32 with 10 or 7 rounds; per 256 columns lane l of 0..63 writes the words of counter + l to columns l, 64 + l, "
        "128 + l, 192 + l; then the counter grows by a quarter of the tile's width, from row to row"
    ),
    "random keys": "Threefry-2x32 with 20 rounds; element i of a result is made from the counter i",
    "movement": "elements that are moved, selected or filled keep their bits",
    "comparison": "as IEEE 754: NaN is unordered, +0 equals -0; integers by value",
    "matmul": "the order is fixed per operand dtype, see the rows below; tiling along m and n never changes a bit",
    "col_sum, col_prod": "order ascending: FP32, rows in order",
    "matmul bf16": (
        "order chunk32: per 32 k an FMA chain over even k and one over odd k from zero, then acc + (even + odd); k counted from "
        "0 in each operation, tail padded with zeros; subnormal inputs and results are flushed, here only"
    ),
    "matmul fp16, fp32": "order chain: one FMA chain per output over ascending k, starting from the accumulator; K tiling changes no bit",
    "matmul bf16 sequential": 'with numerics="sequential" the order chain, for comparison with the vendor\'s CPU simulator',
    "matmul int8": "INT32, exact, wraps",
    "matmul epilogue": "out_dtype, bias, fused cast: after the accumulation; bias in the accumulator type, then one rounding",
    "cast mode": (
        'pl.cast defaults to "round", ties away from zero, to floats too; "rint" ties to even; lax conversions are rint to '
        "floats and trunc to integers"
    ),
    "cast overflow": (
        "to FP32, FP16, BF16 as IEEE; float to integer saturates with NaN -> 0; FP32->INT16, FP16->INT16/UINT8/INT8, "
        "INT64->INT32, INT32->INT16 keep the low bits; FP8 by an explicit argument"
    ),
    "hf8": (
        "HF8 is read by the table of its 256 values, exactly; to HF8 one rounding, to nearest, ties away from zero, whatever the mode; "
        "below 2**-23 zero, which has no sign; NaN is 0x80; from 40960 on +-2**15 (saturate, as pl.cast) or infinity (ieee); infinity "
        "stays; matmul widens and is one FMA chain, as FP16"
    ),
    "cast hops": "only chains that equal the direct conversion for every value; otherwise an error names the hop to write",
    "atomics, split-K": "block order by default, so runs repeat; a shuffled schedule is a run option",
    "partly valid tiles": (
        "reductions take the valid region only, part_* the union of two; an invalid lane that reaches an output is an error in checked runs"
    ),
    "sort32, mrgsort": (
        "descending, NaN last; ties by ascending index in sort32, by list and place in it in mrgsort (the same for lists of ascending "
        "indices); pairs travel as bit patterns"
    ),
    "literals": (
        "rounded once to the tile's dtype first; a float literal on an integer tile makes the result FP32; an integer that the dtype "
        "does not hold is an error; a wider integer scalar that is stored keeps its low bits, and must fit in checked runs"
    ),
    "promotion": "kernels never promote: mixed tile dtypes are an error that names the cast; lax promotes as JAX does",
}
"""The contract, subject to rule, one line each."""

__all__ = [
    "CHUNK", "CONTRACT", "LANES", "MODES", "ROUNDS", "VERSION", "abs", "add", "argmax_first", "argmax_last", "argmin_first",
    "argmin_last", "check_pair", "convert", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "default_overflow",
    "div", "elementwise", "exp", "floor_div", "floor_mod", "fmod", "hf8_bits", "hf8_from_bits", "log", "matmul", "max_first",
    "max_last", "maximum", "min_first", "min_last", "minimum", "mul", "neg", "numbers", "philox", "prod_first", "prod_last",
    "random_rows", "recip", "round_literal", "rsqrt", "sqrt", "sub", "sum_first", "sum_last", "threefry", "widened",
]  # fmt: skip
