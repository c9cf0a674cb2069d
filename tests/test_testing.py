"""pypto.testing: comparisons count in ULPs, `check` keeps golden and kernel apart."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from pypto import dtypes
from pypto.dtypes import BF16, BOOL, FP4, FP8E4M3FN, FP8E5M2, FP8E8M0, FP16, FP32, INT4, INT8, INT32, INT64, UINT8, UINT64
from pypto.errors import NumericsError
from pypto.testing import ScalarSpec, TensorSpec, Tolerance, check, compare, jax_golden, ulp_distance

X = TensorSpec("x", [4, 8], FP32)
OUT = TensorSpec("out", [4, 8], FP32, output=True)


def add_one(x, out):
    out[:] = x + 1


def refused(code, function, *args, **kwargs):
    with pytest.raises(NumericsError) as caught:
        function(*args, **kwargs)
    assert caught.value.code == code
    return caught.value


# Comparison


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16, FP8E4M3FN, FP8E5M2, FP4], ids=repr)
def test_neighbouring_bit_patterns_are_one_ulp_apart(dtype):
    count = min(1 << dtype.bits, 1 << 16)
    width = np.dtype(f"u{dtype.itemsize}")
    values = np.arange(count).astype(width).view(dtype.storage)
    after = (np.arange(1, count + 1) % count).astype(width).view(dtype.storage)
    plain = np.isfinite(values.astype(np.float32)) & np.isfinite(after.astype(np.float32))
    plain[count // 2 - 1 :: count // 2] = False  # from the last of one sign to the first of the other
    distance, infinite = ulp_distance(values, after)
    assert plain.sum() > 10
    assert set(distance[plain].tolist()) == {1}
    assert not infinite[plain].any()


def test_distances_go_through_zero():
    tiny = np.float32(1e-45)
    assert compare(np.array([tiny]), np.array([-tiny])).max_ulp == 2


def test_nan_equals_nan_whatever_its_bits():
    quiet = np.array([0x7FC00000, 0xFFC00123], np.uint32).view(np.float32)
    found = compare(quiet, np.full(2, np.nan, np.float32))
    assert found.passed and found.equal_bits and found.worst is None


@pytest.mark.parametrize("pair", [(np.nan, 1), (np.inf, -np.inf), (np.inf, 65504)])
def test_nan_and_infinity_are_infinitely_far_from_anything_else(pair):
    found = compare(np.float16([0, pair[0]]), np.float16([0, pair[1]]), tolerance=Tolerance(ulp=10**6, atol=1e9))
    assert not found.passed
    assert found.max_ulp == float("inf")
    assert found.histogram == {"0": 1, "inf": 1}
    assert found.worst == (1,)


def test_zeros_of_different_sign_pass_but_are_reported():
    found = compare(np.float32([0.0, 1]), np.float32([-0.0, 1]))
    assert found.passed and not found.equal_bits
    assert found.signed_zeros == 1
    assert (found.max_ulp, found.actual_bits, found.expected_bits) == (0, "0x00000000", "0x80000000")
    assert "other sign" in found.report()


def test_the_report_has_the_worst_element_its_bits_and_a_histogram():
    want = np.ones((2, 4), np.float32)
    got = want.copy()
    got.view(np.uint32)[...] += np.array([[0, 1, 2, 3], [5, 8, 9, 100]], np.uint32)
    found = compare(got, want, name="out")
    assert found.histogram == {"0": 1, "1": 1, "2": 1, "3-4": 1, "5-8": 2, "9-16": 1, "65-128": 1}
    assert (found.worst, found.worst_ulp, found.mismatches, found.fraction) == ((1, 3), 100, 7, 7 / 8)
    for text in ("out: FP32[2, 4]: 7 of 8", "[1, 3]", "0x3f800064", "0x3f800000", "65-128"):
        assert text in found.report()


def test_narrow_floats_have_their_unit_in_the_report():
    product, exact = np.float16([0.1]) * np.float16([0.1]), np.float16([0.01])
    found = compare(product, exact)
    assert not found.passed
    assert "expected for FP16: 1 ulp = 2^-10 relative" in found.report()
    assert compare(product, exact, tolerance=Tolerance.of(FP16)).passed
    half = compare(np.array([1], ml_dtypes.bfloat16), np.array([1.0078125], ml_dtypes.bfloat16))
    assert "expected for BF16: 1 ulp = 2^-7 relative" in half.report()


def test_a_tolerance_is_ulps_or_an_absolute_distance():
    got, want = np.float32([1e-8, 1]), np.float32([0, 1 + 2**-23])
    assert compare(got, want, tolerance=Tolerance(ulp=1)).mismatches == 1
    assert compare(got, want, tolerance=Tolerance(atol=2e-7)).passed
    assert compare(got, want, tolerance=Tolerance(ulp=1, atol=1e-8)).passed
    worst = compare(got, want, tolerance=Tolerance(atol=2e-7)).worst
    assert worst == (0,)


@pytest.mark.parametrize("dtype", [INT4, INT8, UINT8, INT32, INT64, UINT64, BOOL], ids=repr)
def test_integers_are_exact_whatever_the_tolerance(dtype):
    low, high = (np.array([value]).astype(dtype.storage) for value in (dtype.min_value, dtype.max_value))
    found = compare(low, high, tolerance=Tolerance(ulp=2**63, atol=1e30))
    assert not found.passed
    assert found.max_ulp == float(dtype.max_value - dtype.min_value)
    assert compare(high, high).equal_bits


def test_unsigned_exponents_compare():
    codes = np.array([126, 127, 255], np.uint8).view(FP8E8M0.storage)
    assert compare(codes, np.array([127, 127, 255], np.uint8).view(FP8E8M0.storage)).histogram == {"0": 2, "1": 1}


def test_empty_and_zero_dimensional_arrays_compare():
    assert compare(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32)).passed
    assert compare(np.float32(1), np.float32(2)).worst == ()


def test_strided_arrays_compare():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert compare(base.T[::2], base.T[::2].copy()).equal_bits


@pytest.mark.parametrize("other", [np.zeros(3, np.float16), np.zeros(4, np.float32)])
def test_other_shapes_and_dtypes_do_not_compare(other):
    refused("PL702", compare, np.zeros(3, np.float32), other)


# check


def test_a_right_kernel_passes():
    result = check(add_one, lambda x: x + 1, [X, OUT])
    assert result.passed and result.equal_bits
    assert "all 32 elements equal" in result.report()
    assert result.kernel_seconds >= 0 and result.seed == 0


def test_c85_a_wrong_kernel_fails_everywhere():
    def golden(x):
        return x + 2

    error = refused("PL701", check, add_one, golden, [X, OUT])
    assert "32 of 32 elements differ (100.000%)" in str(error)
    assert error.source is not None and error.source.file == __file__


def test_c85_a_result_buffer_shared_by_kernel_and_golden_is_refused():
    shared = np.zeros((4, 8), np.float32)

    def kernel(x, out):
        out[:] = np.add(x, 1, out=shared)

    def golden(x):
        return np.add(x, 2, out=shared)

    refused("PL702", check, kernel, golden, [X, OUT])


def test_a_golden_that_returns_an_argument_of_the_kernel_is_refused():
    buffer = np.zeros((4, 8), np.float32)

    class Leaky(TensorSpec):
        def make(self, seed=0):
            return buffer

    refused("PL702", check, add_one, lambda x: buffer[:], [X, Leaky("out", [4, 8], FP32, output=True)])


def test_specs_that_start_from_the_same_memory_are_refused():
    start = np.zeros((4, 8), np.float32)
    specs = [TensorSpec("x", [4, 8], FP32, init=start), TensorSpec("acc", [4, 8], FP32, init=start[:], inout=True)]
    refused("PL702", check, lambda x, acc: None, lambda x, acc: acc, specs)


def test_the_golden_sees_inputs_from_before_the_run_and_may_spoil_its_own():
    acc = TensorSpec("acc", [4, 8], FP32, inout=True)

    def kernel(x, acc):
        acc += x

    def golden(x, acc):
        result = acc + x
        x[:] = acc[:] = 0
        return result

    assert check(kernel, golden, [X, acc]).equal_bits


def test_a_kernel_that_changes_its_input_fails():
    def kernel(x, out):
        x += 1
        out[:] = x

    error = refused("PL701", check, kernel, lambda x: x + 1, [X, OUT])
    assert "x: the kernel changed this input" in str(error)


@pytest.mark.parametrize("dtype", [FP32, INT8])
def test_what_the_kernel_does_not_write_is_named(dtype):
    def kernel(x, out):
        out[:2] = x[:2]

    specs = [TensorSpec("x", [4], dtype, init="ones"), TensorSpec("out", [4], dtype, output=True)]
    result = check(kernel, lambda x: x, specs, raises=False)
    assert not result.passed
    assert "2 elements still hold the" in result.report()


def test_several_outputs_in_order_or_by_name():
    specs = [X, TensorSpec("low", [4, 8], FP32, output=True), TensorSpec("high", [4, 8], FP32, output=True)]

    def kernel(x, low, high):
        low[:], high[:] = x - 1, x + 1

    assert check(kernel, lambda x: (x - 1, x + 1), specs).passed
    assert check(kernel, lambda x: {"high": x + 1, "low": x - 1}, specs).passed
    result = check(kernel, lambda x: (x + 1, x + 1), specs, raises=False)
    assert (result.outputs["low"].passed, result.outputs["high"].passed) == (False, True)


def test_an_array_function_returns_what_a_kernel_writes():
    specs = [TensorSpec("x", [3], FP32), TensorSpec("total", [3], FP32, inout=True), TensorSpec("y", [3], FP32, output=True)]
    assert check(lambda x, total: (total + x, x * 2.0), lambda x, total: (total + x, x + x), specs, returns=True).equal_bits
    assert not check(
        lambda x, total: {"y": x * 3.0, "total": total}, lambda x, total: (total, x + x), specs, returns=True, raises=False
    ).passed
    for wrong in (lambda x, total: x, lambda x, total: (x, x[:2]), lambda x, total: (x, x.astype(np.float16))):
        with pytest.raises(NumericsError) as caught:
            check(wrong, lambda x, total: (total, x), specs, returns=True)
        assert caught.value.code == "PL702" and "function" in caught.value.message


def test_scalars_reach_kernel_and_golden_in_order():
    def kernel(x, scale, out):
        out[:] = x * np.float32(scale)

    assert check(kernel, lambda x, scale: x * np.float32(scale), [X, ScalarSpec("scale", BF16, 0.1), OUT]).passed


def test_a_wider_golden_is_rounded_and_the_report_says_so():
    specs = [TensorSpec("x", [64], BF16), TensorSpec("out", [64], BF16, output=True)]

    def kernel(x, out):
        out[:] = (x.astype(np.float32) * 3).astype(BF16.storage)

    result = check(kernel, lambda x: x.astype(np.float64) * 3, specs)
    assert result.equal_bits
    assert "golden rounded from float64 to BF16" in result.report()


@pytest.mark.parametrize(
    "golden",
    [
        lambda x: x[0],
        lambda x: x.astype(np.float16),
        lambda x: x.astype(np.int32),
        lambda x: (x, x),
        lambda x: None,
        lambda x: {"result": x},
        "jax.nn.no_such_function",
        "jax.no_such_module.f",
        "jax.nn",
        "numpy.exp",
    ],
)
def test_an_unusable_golden_is_refused_before_the_kernel_runs(golden):
    refused("PL702", check, lambda *args: pytest.fail("the kernel ran"), golden, [X, OUT])


def test_unusable_specs_are_refused():
    def same(x):
        return x

    refused("PL702", check, add_one, same, [X, X, OUT])
    refused("PL702", check, add_one, same, [X])
    refused("PL702", check, add_one, same, [X, OUT], tolerance={"y": Tolerance(ulp=1)})
    refused("PL702", check, add_one, same, [X, TensorSpec("out", [4, 8], INT32, output=True)], tolerance={"out": Tolerance(ulp=1)})


def test_tolerances_and_comparisons_by_name():
    def golden(x):
        return np.nextafter(x + 1, np.float32(np.inf))

    refused("PL701", check, add_one, golden, [X, OUT])
    assert check(add_one, golden, [X, OUT], tolerance=Tolerance(ulp=1)).passed
    assert check(add_one, golden, [X, OUT], tolerance={"out": Tolerance(ulp=1)}).passed
    assert check(add_one, golden, [X, OUT], compare={"out": lambda got, want: np.allclose(got, want)}).passed
    assert check(add_one, golden, [X, OUT], compare=lambda got, want: compare(got, got)).equal_bits


def test_jax_goldens_by_name():
    def softmax(x, out):
        e = np.exp(x - x.max(-1, keepdims=True))
        out[:] = e / e.sum(-1, keepdims=True)

    assert check(softmax, "jax.nn.softmax", [X, OUT], tolerance=Tolerance.of(FP32)).passed
    assert check(lambda x, out: np.copyto(out, x.max(0)), jax_golden("jax.numpy.max", axis=0), [X, TensorSpec("m", [8], FP32, output=True)])
    wide = [TensorSpec("x", [2], INT64, init=2**40), TensorSpec("out", [2], INT64, output=True)]
    assert check(lambda x, out: np.copyto(out, -x), "jax.lax.neg", wide).equal_bits
    narrow = [TensorSpec("x", [8], BF16), TensorSpec("out", [8], BF16, output=True)]
    assert check(lambda x, out: np.copyto(out, -x), "jax.lax.neg", narrow).equal_bits


def test_torch_results_are_accepted_by_protocol():
    class Tensor:  # as torch's: BF16 cannot be asked for as an array
        dtype = "bfloat16"

        def __array__(self, dtype=None, copy=None):
            raise TypeError("unsupported ScalarType BFloat16")

        def detach(self):
            return self

        def float(self):
            return np.ones((4, 8), np.float32)

    assert check(lambda x, out: out.fill(1), lambda x: Tensor(), [X, OUT]).passed


def test_importing_the_package_loads_neither_jax_nor_pytest():
    program = "import sys, pypto.testing; print({'jax', 'pytest', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_the_dtype_table_is_what_specs_accept():
    assert TensorSpec("x", [1], "bfloat16").dtype is BF16
    assert TensorSpec("x", [1], np.float16).dtype is dtypes.FP16
