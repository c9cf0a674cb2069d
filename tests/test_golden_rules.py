"""When an output is right: the tolerance of a dtype, rules of one's own, and top-k with ties."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError, NumericsError
from pypto.runtime import RunConfig, ScalarSpec, TensorSpec, run
from pypto.testing import Closeness, compare, error_distribution, measure, ratio_allclose, ratio_reldiff, topk_pair_compare


@pl.jit
def scaled(x: pl.Tensor[[8, 16], pl.FP32], s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, s)


@pl.jit
def half(x: pl.Tensor[[8, 16], pl.FP16], out: pl.Out[pl.Tensor[[8, 16], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, x)


SPECS = [TensorSpec("x", [8, 16], pl.FP32), ScalarSpec("s", pl.FP32, 3.0), TensorSpec("out", [8, 16], pl.FP32, output=True)]

HALF = [TensorSpec("x", [8, 16], pl.FP16, init=0.1), TensorSpec("out", [8, 16], pl.FP16, output=True)]


def refused(code, call, *args, **kwargs):
    with pytest.raises((NumericsError, CallError)) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return caught.value


# Tolerances


def test_the_default_tolerance_is_the_dtypes():  # C90
    result = run(half, HALF, lambda x: np.full((8, 16), 0.01, np.float64))
    assert result.passed, result.error


def test_a_right_fp16_kernel_at_1e_5_fails_with_the_explanation():  # C90
    result = run(half, HALF, lambda x: np.full((8, 16), 0.01, np.float64), RunConfig(rtol=1e-5, atol=0.0))
    assert not result.passed
    assert "expected for FP16: 1 ulp = 2^-10 relative, about three decimal digits" in result.error


def test_rtol_and_atol_are_those_of_the_config():
    def golden(x, s):
        return (x * np.float64(s) * 1.001).astype(np.float32)

    assert not run(scaled, SPECS, golden).passed
    assert run(scaled, SPECS, golden, RunConfig(rtol=2e-3)).passed
    assert run(scaled, SPECS, golden, RunConfig(rtol=0.0, atol=0.1)).passed


@pytest.mark.parametrize("dtype", [pl.FP32, pl.FP16, pl.BF16, pl.FP8E4M3FN, pl.FP8E5M2], ids=repr)
def test_one_unit_in_the_last_place_is_close_and_a_tenth_is_not(dtype):
    one = np.array([1.0]).astype(dtype.storage)
    above = (one.view(f"u{one.dtype.itemsize}") + 1).astype(f"u{one.dtype.itemsize}").view(one.dtype)
    assert measure(above, one).passed
    assert not measure(np.array([4.0]).astype(dtype.storage), one).passed


def test_integers_compare_exactly():
    big = np.array([2**62], np.int64)
    assert measure(big, big).passed
    assert not measure(big + 1, big, Closeness(1.0, 1e30)).passed


def test_nan_and_infinity_are_close_to_themselves_only():
    values = np.float32([np.nan, np.inf, -np.inf])
    assert measure(values, values).passed
    for other in (np.float32([0, np.inf, -np.inf]), np.float32([np.nan, -np.inf, -np.inf]), np.float32([np.nan, 3e38, -np.inf])):
        assert not measure(other, values, Closeness(1e9, 1e30)).passed


def test_equal_bits_tell_zeros_apart():
    zero = np.float32([0.0])
    assert measure(-zero, zero).passed and not measure(-zero, zero, bits=True).passed


def test_the_error_distribution_gives_the_quantiles():
    got = np.float32([1.0] * 9 + [2.0])
    assert error_distribution(got, np.ones(10, np.float32), (0.9, 1.0)) == {0.9: 0.0, 1.0: 1.0}
    assert error_distribution(np.float32([np.nan]), np.float32([1.0]), (1.0,)) == {1.0: float("inf")}
    assert error_distribution(np.zeros(0, np.float32), np.zeros(0, np.float32)) == {0.5: 0.0, 0.9: 0.0, 0.99: 0.0, 1.0: 0.0}
    refused("PL702", error_distribution, got, got[:3])


# Rules of their own


def with_rule(rule, golden=lambda x, s: x * np.float32(s) + 1):
    return run(scaled, SPECS, golden, compare={"out": rule})


def test_a_rule_may_return_a_bool_a_text_or_a_comparison():
    assert with_rule(lambda actual, expected: np.allclose(actual + 1, expected)).passed
    assert not with_rule(lambda actual, expected: False).passed
    assert "half of it" in with_rule(lambda actual, expected: (False, "half of it")).error
    assert not with_rule(compare).passed and not with_rule(measure).passed
    assert with_rule(lambda a, b: measure(a, b, Closeness(0.0, 2.0))).passed


def test_a_rule_is_given_what_it_asks_for():
    def rule(actual, expected, *, inputs, actual_outputs, rtol):
        assert np.array_equal(inputs["x"] * 3, actual) and actual_outputs["out"] is not None and rtol is None and inputs["s"] == 3.0
        return True

    assert with_rule(rule).passed


def test_a_rule_for_what_is_no_output_is_refused():
    refused("PL702", run, scaled, SPECS, lambda x, s: x, compare={"x": measure})


def test_a_share_of_outliers_may_be_allowed():
    want = np.ones(1000, np.float32)
    got = want.copy()
    got[:4] = 2
    assert ratio_allclose(max_error_ratio=0.005)(got, want)[0]
    got[:6] = 2
    passed, text = ratio_allclose(max_error_ratio=0.005)(got, want)
    assert not passed and "6 of 1000" in text
    got = want.copy()
    got[0] = np.nan
    assert not ratio_allclose(max_error_ratio=0.5)(got, want)[0], "a NaN is no outlier"


def test_the_share_above_a_relative_error_may_be_bounded():
    want = np.full(100, 10.0, np.float32)
    got = want.copy()
    got[:5] = 11
    assert ratio_reldiff(0.01, 0.05)(got, want)[0]
    assert not ratio_reldiff(0.01, 0.04)(got, want)[0]
    assert not ratio_reldiff(0.01, 0.05, max_diff_hd=0.05)(got, want)[0]


# Top-k with ties: row of scores, k = 3

SCORES = np.float32([[5, 9, 7, 9, 7, 7, 1, 0]])


def topk(indices, **changes):
    want = np.int32([[1, 3, 2]])
    values = np.take_along_axis(SCORES, np.int32(indices), 1)
    rule = topk_pair_compare("values", scores_name="scores")
    known = {"actual_outputs": {"values": values}, "expected_outputs": {"values": np.float32([[9, 9, 7]])}, "inputs": {"scores": SCORES}}
    return rule(np.int32(indices), want, **{**known, **changes})[0]


@pytest.mark.parametrize("indices", [[[1, 3, 2]], [[3, 1, 2]], [[1, 3, 4]], [[3, 1, 5]]])
def test_equal_values_may_change_places_and_the_last_may_be_another_of_its_value(indices):
    assert topk(indices)


@pytest.mark.parametrize("indices", [[[1, 1, 2]], [[1, 2, 3]], [[1, 3, 0]], [[1, 3, 3]]])
def test_a_repeated_index_another_order_and_a_smaller_value_are_wrong(indices):
    assert not topk(indices)


def test_an_index_that_does_not_have_its_value_is_wrong():
    values = np.float32([[9, 9, 7]])
    assert not topk([[1, 3, 6]], actual_outputs={"values": values})
    rule = topk_pair_compare("values", scores_name="scores")
    known = {"actual_outputs": {"values": values}, "expected_outputs": {"values": values}, "inputs": {"scores": SCORES}}
    assert not rule(np.int32([[1, 3, 100]]), np.int32([[1, 3, 2]]), **known)[0]


def test_a_top_k_rule_names_a_missing_output():
    refused("PL702", topk_pair_compare("vals"), SCORES, SCORES, actual_outputs={"v": 1}, expected_outputs={})
