"""Whole-array operations: every name here is an op or a function over ops, and kernels use the same ones."""

from pypto.lax import branching, launches, looping, remat, scanning
from pypto.lax.activations import lrelu, prelu, relu
from pypto.lax.addressed import accumulate, mgather, mscatter, paged_gather, scatter_update
from pypto.lax.arcs import acos, asin, atan, atan2, tan
from pypto.lax.axes import broadcast_in_dim, expand_dims, select_n, squeeze
from pypto.lax.bits import bitcast_convert_type
from pypto.lax.bitwise import and_, not_, or_, shift_right_arithmetic, shift_right_logical, shl, shr, xor
from pypto.lax.collectives import axis_index, axis_size, pmax, pmean, pmin, psum
from pypto.lax.compare import compare, eq, ge, gt, le, lt, ne, select
from pypto.lax.contraction import gemv, gemv_acc, gemv_bias, matmul, matmul_acc, matmul_bias
from pypto.lax.control import call, loop, region, unset
from pypto.lax.convert import convert, convert_element_type
from pypto.lax.counting import clz, population_count
from pypto.lax.creation import broadcasted_iota, random_bits, tri
from pypto.lax.crossing import agree, aic_gather, aiv_shard
from pypto.lax.custom import stop_gradient
from pypto.lax.elementwise import (
    abs_,
    add,
    div,
    exp,
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
from pypto.lax.flow import cond, fori_loop, map_, scan, switch, while_loop
from pypto.lax.functions import erf, erfc, expm1, log1p, logaddexp, logistic, softplus, square, tanh
from pypto.lax.gathering import gather_along, gather_compare, gather_flat, gatherb
from pypto.lax.hyperbolic import acosh, asinh, atanh, cosh, sinh
from pypto.lax.indexing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    index_in_dim,
    pad,
    rev,
    slice_in_dim,
    slice_window,
    strided_slice,
)
from pypto.lax.inverse import erf_inv
from pypto.lax.lanes import gather_mask, scatter_mask
from pypto.lax.logical import logical_and, logical_not, logical_or, logical_xor
from pypto.lax.memory import alloc, bits_view, copy, dim, get, read, reshape_view, set_, transpose_view, valid_extent, valid_view, view
from pypto.lax.neighbours import nextafter, reduce_precision
from pypto.lax.numbering import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from pypto.lax.ordering import argsort, sort, sort_key_val, top_k
from pypto.lax.padding import fillpad, fillpad_expand, set_validshape
from pypto.lax.partial import part_add, part_max, part_min, part_mul
from pypto.lax.placing import extract, move, reinterpret, relayout
from pypto.lax.powers import cbrt, exp2, integer_pow, log2, pow, pow_
from pypto.lax.products import batch_matmul, dot, dot_general
from pypto.lax.reduction import reduce_and, reduce_max, reduce_min, reduce_or, reduce_prod, reduce_sum, reduce_xor
from pypto.lax.remainders import floor_div, floor_mod, fmod
from pypto.lax.rounding import RoundingMethod, ceil, clamp, floor, is_finite, round_, sign, trunc
from pypto.lax.scans import argmax, argmin, cumlogsumexp, cummax, cummin, cumprod, cumsum
from pypto.lax.scattering import scatter_along, scatter_flat, scatter_rows
from pypto.lax.shape import broadcast as broadcast_to
from pypto.lax.shape import (
    empty,
    fill,
    full,
    iota,
    ramp,
    reshape,
    slice_,
    transpose,
    update,
)
from pypto.lax.sorting import mrgsort_lists, mrgsort_runs, sort32
from pypto.lax.stacking import broadcast, broadcast_shapes, broadcast_to_rank, collapse, concatenate, full_like, split, stack, tile, unstack
from pypto.lax.subscripts import take, take_along_axis
from pypto.lax.tasks import cacheinvalid, dump_tag, prefetch, scope, syncall, task_dummy, task_invalid, task_is_valid
from pypto.lax.threefry import threefry2x32
from pypto.lax.trigonometry import cos, sin
from pypto.lax.windowed import gather, scatter, scatter_add, scatter_max, scatter_min, scatter_mul, scatter_sub

_ROOMS = (branching, launches, looping, remat, scanning)  # their ops have other spellings for users

abs = abs_
map = map_
max = maximum
min = minimum
slice = slice_window
round = round_
# JAX's names for what the language calls otherwise: its `rem` is the floor remainder, JAX's is C's
rem = fmod
reciprocal = recip
bitwise_and, bitwise_or, bitwise_xor, bitwise_not, shift_left = and_, or_, xor, not_, shl

__all__ = [
    "agree",
    "aic_gather",
    "aiv_shard",
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "pmax",
    "pmean",
    "pmin",
    "psum",
    "RoundingMethod",
    "ScatterDimensionNumbers",
    "abs",
    "abs_",
    "accumulate",
    "acos",
    "acosh",
    "add",
    "alloc",
    "and_",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "axis_index",
    "axis_size",
    "batch_matmul",
    "bitcast_convert_type",
    "bits_view",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast",
    "broadcast_in_dim",
    "broadcast_shapes",
    "broadcast_to",
    "broadcast_to_rank",
    "broadcasted_iota",
    "call",
    "cbrt",
    "ceil",
    "clamp",
    "clz",
    "collapse",
    "compare",
    "concatenate",
    "cond",
    "convert",
    "convert_element_type",
    "copy",
    "cos",
    "cosh",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dim",
    "div",
    "dot",
    "dot_general",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "empty",
    "eq",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "extract",
    "fill",
    "fillpad",
    "fillpad_expand",
    "floor",
    "floor_div",
    "floor_mod",
    "fmod",
    "fori_loop",
    "full",
    "full_like",
    "gather",
    "gather_along",
    "gather_compare",
    "gather_flat",
    "gather_mask",
    "gatherb",
    "ge",
    "gemv",
    "gemv_acc",
    "gemv_bias",
    "get",
    "gt",
    "index_in_dim",
    "integer_pow",
    "iota",
    "is_finite",
    "le",
    "log",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logistic",
    "loop",
    "lrelu",
    "lt",
    "map",
    "map_",
    "matmul",
    "matmul_acc",
    "matmul_bias",
    "max",
    "maximum",
    "mgather",
    "min",
    "minimum",
    "move",
    "mrgsort_lists",
    "mrgsort_runs",
    "mscatter",
    "mul",
    "ne",
    "neg",
    "nextafter",
    "not_",
    "or_",
    "pad",
    "paged_gather",
    "part_add",
    "part_max",
    "part_min",
    "part_mul",
    "population_count",
    "pow",
    "pow_",
    "prelu",
    "ramp",
    "prefetch",
    "dump_tag",
    "cacheinvalid",
    "random_bits",
    "read",
    "recip",
    "reciprocal",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_precision",
    "reduce_prod",
    "reduce_sum",
    "reduce_xor",
    "region",
    "reinterpret",
    "relayout",
    "relu",
    "rem",
    "reshape",
    "reshape_view",
    "rev",
    "round",
    "round_",
    "rsqrt",
    "scan",
    "scatter",
    "scatter_add",
    "scatter_along",
    "scatter_flat",
    "scatter_mask",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_rows",
    "scatter_sub",
    "scatter_update",
    "scope",
    "select",
    "select_n",
    "set_",
    "set_validshape",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "shl",
    "shr",
    "sign",
    "sin",
    "sinh",
    "slice",
    "slice_",
    "slice_in_dim",
    "softplus",
    "sort",
    "sort32",
    "sort_key_val",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stop_gradient",
    "stack",
    "strided_slice",
    "sub",
    "switch",
    "syncall",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "task_dummy",
    "task_invalid",
    "task_is_valid",
    "threefry2x32",
    "tile",
    "top_k",
    "transpose",
    "transpose_view",
    "tri",
    "trunc",
    "unset",
    "unstack",
    "update",
    "valid_extent",
    "valid_view",
    "view",
    "while_loop",
    "xor",
]
