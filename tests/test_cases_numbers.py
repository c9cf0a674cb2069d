"""Reported faults about numbers (cases C12, C16-C20, C22, C26, C88): rounding, accumulation, padding, and the value 0."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.errors import CallError
from tests.exact import same
from tests.refusals import f32, refused, reports, sevens

BF16 = ml_dtypes.bfloat16
N = pl.dynamic("N")


def casting(source, target, mode):
    """A kernel that converts one row; `mode` None leaves the default."""

    @pl.jit
    def casts(x: pl.Tensor[[1, N], source], out: pl.Out[pl.Tensor[[1, N], target]]):
        for i in pl.range(pl.tensor.dim(x, 1)):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = x[:, i : i + 1]
                if mode is None:
                    out[:, i : i + 1] = pl.cast(t, target_type=target)
                else:
                    out[:, i : i + 1] = pl.cast(t, target_type=target, mode=mode)

    return casts


def cast(x, source, target, mode=None):
    """One row of numbers through the kernel's cast."""
    return np.asarray(casting(source, target, mode)(np.array([x], source.storage)))[0].astype(np.float64).tolist()


# C12: the default cast rounds ties away from zero, as the NPU does; `rint` ties to even, as JAX does.


@pytest.mark.parametrize(
    ("mode", "expected"), [("rint", [1.015625, 1.0]), ("round", [1.0234375, 1.0078125]), (None, [1.0234375, 1.0078125])]
)
def test_a_tie_on_the_way_to_bf16_follows_the_mode(mode, expected):  # C12
    assert cast([1.01953125, 1 + 2**-8], pl.FP32, pl.BF16, mode) == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("rint", [0, 2, 2, 0, -2, -2]),
        ("round", [1, 2, 3, -1, -2, -3]),
        (None, [1, 2, 3, -1, -2, -3]),
        ("trunc", [0, 1, 2, 0, -1, -2]),
        ("floor", [0, 1, 2, -1, -2, -3]),
        ("ceil", [1, 2, 3, 0, -1, -2]),
    ],
)
@pytest.mark.parametrize("target", [pl.INT32, pl.INT16, pl.INT64])
def test_halves_on_the_way_to_an_integer_follow_the_mode(mode, expected, target):  # C12
    assert cast([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], pl.FP32, target, mode) == expected


def test_ties_away_from_zero_is_the_default_from_integers_too():  # C12
    assert cast([2**24 + 1, 2**24 + 3], pl.INT32, pl.FP32) == [2**24 + 2, 2**24 + 4]
    assert cast([2**24 + 1, 2**24 + 3], pl.INT32, pl.FP32, "rint") == [2**24, 2**24 + 4]


def test_array_conversions_tie_to_even():  # C12
    ties = lax.convert_element_type(f32(1.01953125, 1 + 2**-8), pl.BF16)
    assert np.asarray(ties).astype(np.float64).tolist() == [1.015625, 1.0]


# C16: NaN and infinities survive narrowing.


@pytest.mark.parametrize("bits", [0x7FFF8C22, 0x7F800001, 0xFFFFFFFF, 0x7FC00000])
@pytest.mark.parametrize("mode", [None, "rint", "round", "trunc"])
@pytest.mark.parametrize("target", [pl.BF16, pl.FP16])
def test_nan_stays_nan_on_the_way_to_a_narrow_float(bits, mode, target):  # C16
    x = np.array([[bits]], np.uint32).view(np.float32)
    result = np.asarray(casting(pl.FP32, target, mode)(x)).astype(np.float32)
    assert np.isnan(result).all()


def test_infinities_stay_and_what_is_too_large_becomes_one():  # C16
    assert cast([np.inf, -np.inf, 3.4e38, -3.4e38], pl.FP32, pl.BF16) == [np.inf, -np.inf, np.inf, -np.inf]


# C17: INT32 to FP16 is one rounding, and overflows from 65520 on.

EDGES = [2048, 2049, 2051, 65504, 65505, 65519, 65520, 70000]
HALVES = [2048, 2048, 2052, 65504, 65504, 65504, np.inf, np.inf]


@pl.jit
def int32_by_way_of_fp32(x: pl.Tensor[[1, 8], pl.INT32], out: pl.Out[pl.Tensor[[1, 8], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.cast(x, pl.FP32, mode="rint"), pl.FP16, mode="rint")


def test_int32_to_fp16_rounds_once_and_overflows_at_65520():  # C17
    assert cast(EDGES, pl.INT32, pl.FP16, "rint") == HALVES


def test_int32_to_fp16_by_way_of_fp32_gives_the_same():  # C17
    assert np.asarray(int32_by_way_of_fp32(np.array([EDGES], np.int32))).astype(np.float64).tolist() == [HALVES]


# C18: two hops round twice; the direct conversion rounds once.


@pl.jit
def int8_by_way_of_bf16(x: pl.Tensor[[1, 3], pl.FP32], out: pl.Out[pl.Tensor[[1, 3], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.cast(x, pl.BF16, mode="rint"), pl.INT32, mode="rint")


def test_a_direct_conversion_rounds_once():  # C18
    assert np.asarray(lax.convert(f32(4.51, 100.6, 127.4), dtype="INT8")).tolist() == [5, 101, 127]
    assert cast([4.51, 100.6, 127.4], pl.FP32, pl.INT32, "rint") == [5, 101, 127]


def test_two_conversions_written_by_the_user_round_twice():  # C18
    assert np.asarray(int8_by_way_of_bf16(f32([[4.51, 100.6, 127.4]]))).tolist() == [[4, 100, 128]]


# C19: division is division.


@pl.jit
def quantises_by_division(x: pl.Tensor[[1, 2], pl.FP32], s: pl.Tensor[[1, 2], pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.div(x, s), pl.INT32, mode="rint")


@pl.jit
def quantises_by_reciprocal(x: pl.Tensor[[1, 2], pl.FP32], s: pl.Tensor[[1, 2], pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.mul(x, pl.recip(s)), pl.INT32, mode="rint")


@pl.jit
def divides_by_a_number(x: pl.Tensor[[1, 2], pl.FP32], s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 0:1] = pl.divs(x[:, 0:1], s)
        out[:, 1:2] = x[:, 1:2] / s


def test_div_is_a_true_division():  # C19
    assert quantises_by_division(f32([[45.5, -45.5]]), f32([[7, 7]])).tolist() == [[6, -6]]


def test_multiplying_by_the_reciprocal_is_another_computation():  # C19
    assert quantises_by_reciprocal(f32([[45.5, -45.5]]), f32([[7, 7]])).tolist() == [[7, -7]]


def test_dividing_by_a_scalar_is_a_true_division():  # C19
    assert divides_by_a_number(f32([[45.5, 45.5]]), 7.0).tolist() == [[6.5, 6.5]]


# C20: INT8 products are summed in INT32, exactly, however k is cut.


def product_in_steps(step):
    @pl.jit
    def multiplies(a: pl.Tensor[[1, 1041], pl.INT8], b: pl.Tensor[[1041, 1], pl.INT8], out: pl.Out[pl.Tensor[[1, 1], pl.INT32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.matmul(a[:, 0:step], b[0:step, :])
            for k in pl.unroll(step, 1041, step):
                end = min(k + step, 1041)
                acc = pl.matmul_acc(acc, a[:, k:end], b[k:end, :])
            out[:] = acc

    return multiplies


@pytest.mark.parametrize("step", [1041, 520, 347, 64])
def test_an_int8_product_is_exact_for_every_cut_of_k(step):  # C20
    a, b = np.full((1, 1041), 127, np.int8), np.full((1041, 1), 127, np.int8)
    assert product_in_steps(step)(a, b).tolist() == [[16790289]]


def test_an_int8_product_of_arrays_is_int32():  # C20
    result = lax.matmul(np.full((1, 1041), 127, np.int8), np.full((1041, 1), 127, np.int8))
    assert result.dtype is pl.INT32
    assert result.tolist() == [[16790289]]


# C22: BF16 sums are kept in FP32 and rounded once.


@pl.jit
def sums_a_bf16_row(x: pl.Tensor[[1, 1000], pl.BF16], out: pl.Out[pl.Tensor[[1, 1], pl.BF16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(x)


@pl.jit
def sums_a_bf16_column(x: pl.Tensor[[1000, 1], pl.BF16], out: pl.Out[pl.Tensor[[1, 1], pl.BF16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_sum(x)


@pl.jit
def dots_in_bf16(a: pl.Tensor[[1, 512], pl.BF16], b: pl.Tensor[[512, 1], pl.BF16], out: pl.Out[pl.Tensor[[1, 1], pl.BF16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, b, out_dtype=pl.BF16)


def test_a_sum_of_a_thousand_bf16_ones_does_not_stick_at_256():  # C22
    ones = np.ones(1000, BF16)
    with pypto.override(platform="cpu"):  # no chip reduces BF16 itself
        assert float(np.asarray(sums_a_bf16_row(ones.reshape(1, 1000)))[0, 0]) == 1000
        assert float(np.asarray(sums_a_bf16_column(ones.reshape(1000, 1)))[0, 0]) == 1000
    assert float(lax.reduce_sum(ones, axes=(0,), keepdims=False)) == 1000


def test_a_dot_of_bf16_ones_does_not_stick_at_256():  # C22
    assert float(np.asarray(dots_in_bf16(np.ones((1, 512), BF16), np.ones((512, 1), BF16)))[0, 0]) == 512


# C26: padding takes no part in a reduction.


def reducing(op):
    @pl.jit
    def reduces(x: pl.Tensor[[1, 3], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [1, 4], valid_shape=[1, 3])
            out[:] = op(t)

    return reduces


@pl.jit
def maximum_of_a_filled_row(x: pl.Tensor[[1, 3], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [1, 4], valid_shape=[1, 3])
        out[:] = pl.row_max(pl.fillpad(t, pad_value=pl.PadValue.min))


@pl.jit
def maximum_of_a_run_time_width(x: pl.Tensor[[1, 4], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_max(pl.set_validshape(pl.load(x, [0, 0], [1, 4]), 1, n))


@pl.jit
def column_maximum(x: pl.Tensor[[3, 1], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_max(pl.load(x, [0, 0], [4, 1], valid_shape=[3, 1]))


@pytest.mark.parametrize(("op", "expected"), [(pl.row_max, -2), (pl.row_sum, -16), (pl.row_min, -9)])
def test_a_reduction_sees_the_valid_part_only(op, expected):  # C26
    assert reducing(op)(f32([[-5, -2, -9]])).tolist() == [[expected]]


def test_a_row_filled_with_the_minimum_has_the_same_maximum():  # C26
    assert maximum_of_a_filled_row(f32([[-5, -2, -9]])).tolist() == [[-2]]


@pytest.mark.parametrize(("n", "expected"), [(1, -5), (2, -2), (4, 7)])
def test_a_width_known_only_at_run_time_is_respected(n, expected):  # C26
    assert maximum_of_a_run_time_width(f32([[-5, -2, -9, 7]]), n).tolist() == [[expected]]


def test_a_column_reduction_sees_the_valid_rows_only():  # C26
    assert column_maximum(f32([-5], [-2], [-9])).tolist() == [[-2]]


# C88: 0, 0.0, -0.0 and False are values.


def filled_with(value, dtype):
    @pl.jit
    def fills(out: pl.Out[pl.Tensor[[1, 4], dtype]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.full([1, 4], dtype=dtype, value=value)

    return fills


def created_with(value, dtype):
    @pl.jit
    def creates(out: pl.Out[pl.Tensor[[1, 4], dtype]]):
        buffer = pl.create_tensor([1, 4], dtype=dtype, init_value=value)
        with pl.at(level=pl.Level.CORE_GROUP):
            inside = pl.create_tensor([1, 4], dtype=dtype, init_value=value)
            out[:, 0:2] = buffer[:, 0:2]
            out[:, 2:4] = inside[:, 2:4]

    return creates


def padded_with(pad):
    @pl.jit
    def pads(x: pl.Tensor[[1, 16], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [1, 256], valid_shape=[1, 16])
            out[:] = pl.row_sum(pl.fillpad(t, pad_value=pad))

    return pads


@pytest.mark.parametrize("make", [filled_with, created_with])
@pytest.mark.parametrize(("value", "dtype"), [(0, pl.FP32), (0.0, pl.FP32), (-0.0, pl.FP32), (0, pl.INT32), (0, pl.INT8), (False, pl.BOOL)])
def test_a_zero_is_a_value_to_fill_with(make, value, dtype):  # C88
    assert same(make(value, dtype)(), np.full((1, 4), value, dtype.storage))


@pytest.mark.parametrize("pad", [0, 0.0, -0.0, pl.PadValue.zero])
def test_padding_with_zero_adds_nothing(pad):  # C88
    assert padded_with(pad)(np.ones((1, 16), np.float32)).tolist() == [[16]]


@pl.jit
def loads_nothing(x: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = pl.load(x, [2, 0], [2, 2], valid_shape=[0, 2])
        out[:] = pl.set_validshape(t, 0, 0)
        out[0:1, :] = pl.slice(x, [1, 2], [0, 0], valid_shape=[0, 2])


def test_a_valid_shape_of_zero_is_an_empty_region():  # C88
    assert loads_nothing(f32([1, 2], [3, 4])).tolist() == [[1, 2], [3, 4]]


@pl.jit
def adds_a_scalar(x: pl.Tensor[[1, 2], pl.FP32], by: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.adds(x, by)


@pytest.mark.parametrize("zero", [0, 0.0, False, np.float32(0), np.int64(0)])
def test_a_scalar_argument_of_zero_is_given(zero):  # C88
    assert adds_a_scalar(f32([[1, 2]]), zero).tolist() == [[1, 2]]


def test_a_negative_zero_scalar_keeps_its_sign():  # C88
    assert same(adds_a_scalar(f32([[-0.0, 1]]), -0.0), f32([[-0.0, 1]]))


def with_default(width=0, bias=0.0):
    @pl.jit
    def has_defaults(x: pl.Tensor[[1, 2], pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.FP32]], column=width, by: pl.Scalar[pl.FP32] = bias):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
            out[:, column : column + 1] = pl.adds(x[:, column : column + 1], by)

    return has_defaults


def test_a_default_of_zero_is_a_default():  # C88
    assert with_default()(f32([[1, 2]])).tolist() == [[1, 2]]
    assert with_default(bias=10.0)(f32([[1, 2]]), by=0).tolist() == [[1, 2]]
    assert with_default(width=1, bias=10.0)(f32([[1, 2]]), column=0).tolist() == [[11, 2]]


def test_a_loop_over_zero_turns_does_not_run():  # C88
    @pl.jit
    def loops_zero_times(x: pl.Tensor[[1, 2], pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.adds(x, 0)
            for i in pl.range(0):
                t = pl.adds(t, 1)
            for i in pl.range(0, 0):
                t = pl.adds(t, 1)
            out[:] = t

    assert loops_zero_times(f32([[1, 2]])).tolist() == [[1, 2]]


@pytest.mark.parametrize("stage", [0, False, -1])
def test_a_pipeline_of_zero_stages_is_an_error_and_not_the_default(stage):  # C88
    error = refused("PL601", lambda: pl.pipeline(4, stage=stage), at="pl.pipeline(4, stage=stage)")  # refused
    assert isinstance(error, CallError)


def test_a_partly_valid_value_stored_over_a_whole_output_leaves_the_rest():  # C88
    @pl.jit
    def stores_nothing(x: pl.Tensor[[2, 2], pl.FP32], out: pl.InOut[pl.Tensor[[2, 2], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.load(x, [0, 0], [2, 2], valid_shape=[0, 0])

    out = sevens(2, 2)
    with reports():
        stores_nothing(f32([1, 2], [3, 4]), out)
    assert (out == -7).all()
