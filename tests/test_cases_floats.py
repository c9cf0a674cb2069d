"""Reported faults about narrow floats and their comparison (cases C23, C27, C33, C39, C43, C44, C89, C90)."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.testing import TensorSpec, Tolerance, check, compare
from tests.exact import same
from tests.refusals import f32, refused

BF16 = ml_dtypes.bfloat16


# C23: a norm or a mean of FP16 numbers is computed in FP32 and narrowed once, at the end.

HUNDREDS = np.full((3, 3), 100, np.float16)
LARGE = np.full((1, 2), 60000, np.float16)


@pl.jit
def means(x: pl.Tensor[[1, 2], pl.FP16], out: pl.Out[pl.Tensor[[1, 1], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(x, pl.FP32)
        out[:] = pl.cast(pl.row_sum(wide) / 2.0, pl.FP16, mode="rint")


@pl.jit
def norms(x: pl.Tensor[[3, 3], pl.FP16], out: pl.Out[pl.Tensor[[1, 1], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        wide = pl.cast(x, pl.FP32)
        out[:] = pl.cast(pl.sqrt(pl.col_sum(pl.row_sum(wide * wide))), pl.FP16, mode="rint")


@pl.jit
def means_too_early(x: pl.Tensor[[1, 2], pl.FP16], out: pl.Out[pl.Tensor[[1, 1], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(x) / 2.0


def test_a_mean_of_large_fp16_numbers_is_representable_when_summed_in_fp32():  # C23
    assert np.asarray(means(LARGE)).tolist() == [[60000]]
    wide = lax.convert_element_type(LARGE, pl.FP32)
    assert np.asarray(lax.convert_element_type(lax.reduce_sum(wide, axes=(1,)) / 2.0, pl.FP16)).tolist() == [60000]


def test_a_norm_of_fp16_hundreds_is_300():  # C23
    assert np.asarray(norms(HUNDREDS)).tolist() == [[300]]
    wide = lax.convert_element_type(HUNDREDS, pl.FP32)
    total = lax.sqrt(lax.reduce_sum(wide * wide, axes=(0, 1)))
    assert float(lax.convert_element_type(total, pl.FP16)) == 300


def test_narrowing_the_sum_before_the_division_overflows():  # C23
    assert np.asarray(means_too_early(LARGE)).tolist() == [[np.inf]]


# C27: BF16, FP8 and INT4 are read as what they are, never as the bits they are stored in.


@pl.jit
def copies_bf16(x: pl.Tensor[[1, 4], pl.BF16], out: pl.Out[pl.Tensor[[1, 4], pl.BF16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [0, 0], [1, 4])


def test_a_bf16_load_and_sum_see_numbers():  # C27
    x = np.array([[1.5, 2, np.nan, -0.0]], BF16)
    assert np.asarray(copies_bf16(x)).tobytes() == x.tobytes()
    assert np.isnan(float(lax.reduce_sum(np.array([np.nan, 2, 3, 4], BF16), axes=(0,))))
    assert float(lax.reduce_sum(np.array([1.5, 2, 3, 4.5], BF16), axes=(0,))) == 11


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4])
def test_narrower_storage_is_read_as_its_numbers(dtype):  # C27, C33
    x = np.array([[1, 2], [3, 4]]).astype(dtype)
    assert np.asarray(lax.convert(x, dtype="FP32")).tolist() == [[1, 2], [3, 4]]
    if dtype is ml_dtypes.int4:  # no product takes it: it is widened first
        x = np.asarray(lax.convert(x, dtype="INT8"))
    assert np.asarray(lax.matmul(x, np.eye(2).astype(x.dtype))).tolist() == [[1, 2], [3, 4]]


def test_negative_int4_stay_negative_after_a_slice_at_an_odd_offset():  # C33
    codes = np.arange(-8, 8).astype(ml_dtypes.int4)
    assert np.asarray(lax.convert(lax.slice(codes, (3,), (10,)), dtype="INT8")).tolist() == list(range(-5, 2))


# C39: a cast to the dtype a value has is a mistake in a kernel, and the identity on arrays.


@pl.jit
def casts_to_its_own_dtype(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(x, pl.FP32)  # refused


@pytest.mark.parametrize("call", [casts_to_its_own_dtype, casts_to_its_own_dtype.eager], ids=["traced", "eager"])
def test_a_kernel_does_not_cast_to_the_same_dtype(call):  # C39
    error = refused("PL305", call, f32([[1, 2, 3, 4]]), at="pl.cast(x, pl.FP32)")
    assert "FP32" in error.message


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, np.int8])
def test_an_array_converted_to_its_own_dtype_keeps_its_bits(dtype):  # C39
    x = np.arange(256, dtype=np.uint8).repeat(4).view(dtype)  # NaNs with payloads among them
    assert np.asarray(lax.convert_element_type(x, dtype)).tobytes() == x.tobytes()


# C43: NaN equals NaN when narrow floats are compared, whatever NumPy thinks of the dtype.


@pytest.mark.parametrize("dtype", [BF16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_narrow_nans_compare_as_equal(dtype):  # C43
    found = compare(np.array([np.nan, 1], dtype), np.array([-np.nan, 1], dtype))
    assert found.passed and found.equal_bits


def test_a_narrow_nan_is_not_a_number():  # C43
    assert not compare(np.array([np.nan], BF16), np.array([1], BF16)).passed


def test_where_only_bits_differ_the_report_shows_them():  # C43
    found = compare(np.array([0.0], BF16), np.array([-0.0], BF16))
    assert found.passed and not found.equal_bits
    assert "0x0000" in found.report() and "0x8000" in found.report()


@pl.jit
def replaces_nan(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [1, 4])
        out[:] = pl.sel(pl.cmp(t, t, pl.CmpType.EQ), t, pl.full([1, 4], dtype=pl.FP32, value=0.0))


def test_nan_is_replaced_by_comparing_a_value_with_itself():  # C43
    x = np.array([np.nan, 1, -np.inf, np.nan], BF16)
    assert np.asarray(lax.select(lax.eq(x, x), x, lax.full((4,), 0, pl.BF16))).tolist() == [0, 1, -np.inf, 0]
    assert replaces_nan(f32([[np.nan, 1, -np.inf, np.nan]])).tolist() == [[0, 1, -np.inf, 0]]


# C44: a row that is masked everywhere has no softmax: NaN, never equal weights.


@pl.jit
def softmax(x: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        weights = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(weights, pl.row_sum(weights))


@pl.jit
def online_softmax(x: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]):
    """Column by column, as flash attention does, seeded with the lowest value."""
    with pl.at(level=pl.Level.CORE_GROUP):
        most = pl.full([2, 1], dtype=pl.FP32, value=float("-inf"))
        total = pl.full([2, 1], dtype=pl.FP32, value=0.0)
        for j in pl.range(2):
            column = x[:, j : j + 1]
            larger = pl.maximum(most, column)
            total = total * pl.exp(most - larger) + pl.exp(column - larger)
            most = larger
        out[:] = pl.row_expand_div(pl.exp(pl.row_expand_sub(x, most)), total)


@pytest.mark.parametrize("kernel", [softmax, online_softmax])
def test_a_fully_masked_row_gives_nan_and_never_equal_weights(kernel):  # C44
    out = kernel(f32([-np.inf, -np.inf], [0, -np.inf]))
    assert np.isnan(out[0]).all()
    assert out[1].tolist() == [1, 0]


def test_array_softmax_gives_nan_for_a_fully_masked_row_as_jax_does():  # C44
    x = f32([-np.inf, -np.inf], [0, -np.inf])
    weights = lax.exp(x - lax.reduce_max(x, axes=(1,), keepdims=True))
    result = np.asarray(weights / lax.reduce_sum(weights, axes=(1,), keepdims=True))
    assert np.isnan(result[0]).all()
    assert result[1].tolist() == [1, 0]


# C89: BF16 in the places that are easily forgotten: scalar parameters, a single row, a power.


@pl.jit
def scales_by_a_bf16_scalar(x: pl.Tensor[[1, 4], pl.BF16], by: pl.Scalar[pl.BF16], out: pl.Out[pl.Tensor[[1, 4], pl.BF16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, by)


def test_a_bf16_scalar_parameter_is_rounded_once_and_multiplies_exactly():  # C89
    x = np.array([[1, 2, 1.0078125, -3]], BF16)
    with pypto.override(platform="cpu"):  # no chip multiplies BF16 itself
        out = np.asarray(scales_by_a_bf16_scalar(x, 1.01953125))
    # the scalar is halfway between two numbers and goes to the even one, 1.015625
    assert out.astype(np.float64).tolist() == [[1.015625, 2.03125, 1.0234375, -3.046875]]


def test_what_a_chip_does_not_take_is_one_sentence_with_the_cast_to_write():  # C89
    with pytest.raises(pypto.PyptoError) as caught, pypto.override(platform="a2a3"):
        scales_by_a_bf16_scalar(np.ones((1, 4), BF16), 1.0)
    assert caught.value.code == "PL406"
    assert "pl.cast" in caught.value.fix and "FP32" in caught.value.fix


def test_a_bf16_power_is_one_rounding_of_the_fp32_power():  # C89
    x = np.array([[1.5, 2, -3, 0.5]], BF16)
    assert np.asarray(lax.integer_pow(x, y=3)).astype(np.float64).tolist() == [[3.375, 8, -27, 0.125]]


# C90: a tolerance belongs to a dtype, and the report says what is normal for it.


@pl.jit
def squares_a_tenth(x: pl.Tensor[[1, 1], pl.FP16], out: pl.Out[pl.Tensor[[1, 1], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, x)


def test_a_right_fp16_kernel_passes_with_the_tolerance_of_its_dtype():  # C90
    specs = [TensorSpec("x", [1, 1], pl.FP16, init=0.1), TensorSpec("out", [1, 1], pl.FP16, output=True)]
    found = check(squares_a_tenth, lambda x: np.full((1, 1), 0.01, np.float16), specs, tolerance=Tolerance.of(pl.FP16))
    assert found.passed and not found.equal_bits
    assert same(found.actual["out"], np.array([[0.0099945068]], np.float16))


def test_an_exact_comparison_in_fp16_says_what_one_unit_is():  # C90
    found = compare(np.float16([0.1]) * np.float16([0.1]), np.float16([0.01]))
    assert not found.passed
    assert "expected for FP16: 1 ulp = 2^-10 relative" in found.report()
