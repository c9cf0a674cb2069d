"""Matrix products against scalar loops of exact FMAs."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from pypto.errors import ShapeError
from pypto.numerics import matmul
from tests.exact import flushed_fma, fma, same

bf16, f16, f32 = ml_dtypes.bfloat16, np.float16, np.float32


def flushed(x: float) -> float:
    return x * 0.0 if abs(x) < 2.0**-126 else x


def add32(a: float, b: float) -> float:
    return float(f32(a) + f32(b))


def chain(a: list[float], b: list[float], acc: float) -> float:
    for x, y in zip(a, b, strict=True):
        acc = fma(x, y, acc)
    return acc


def chunk32(a: list[float], b: list[float], acc: float) -> float:
    a, b = [[flushed(v) for v in [*side, *[0.0] * (-len(side) % 32)]] for side in (a, b)]
    acc = flushed(acc)
    for start in range(0, len(a), 32):
        even = odd = 0.0
        for k in range(start, start + 32, 2):
            even = flushed_fma(a[k], b[k], even)
            odd = flushed_fma(a[k + 1], b[k + 1], odd)
        acc = flushed(add32(acc, flushed(add32(even, odd))))
    return acc


def scalar_matmul(a: np.ndarray, b: np.ndarray, acc: np.ndarray, rule: Callable[[list[float], list[float], float], float]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(
            [
                [rule([float(v) for v in row], [float(v) for v in col], float(acc[i, j])) for j, col in enumerate(b.T)]
                for i, row in enumerate(a)
            ]
        ).astype(f32)


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int, dtype: type) -> np.ndarray:
    """Values with a random sign and fraction, and an exponent field in low..high."""
    fraction, bits = {bf16: (7, 16), f16: (10, 16), f32: (23, 32)}[dtype]
    word = (
        rng.integers(0, 2**fraction, shape) | (rng.integers(low, high + 1, shape) << fraction) | (rng.integers(0, 2, shape) << (bits - 1))
    )
    return word.astype(np.uint16 if bits == 16 else np.uint32).view(dtype)


# Exponent fields: usual numbers, wide spreads that cancel, results around and below the smallest normal, subnormal inputs.
BF16_FIELDS = {
    "near one": (120, 130, 120, 130),
    "wide": (90, 140, 90, 140),
    "tiny": (50, 75, 46, 70),
    "subnormal": (0, 2, 110, 140),
    "huge": (180, 200, 180, 192),
}


@pytest.mark.parametrize("order", ["chunk32", "chain"])
@pytest.mark.parametrize("fields", BF16_FIELDS.values(), ids=BF16_FIELDS.keys())
@pytest.mark.parametrize("inner", [1, 31, 32, 70])
def test_bf16_follows_its_order_to_the_bit(order: str, fields: tuple[int, int, int, int], inner: int):
    rng = np.random.default_rng(inner)
    a = random_bits(rng, (5, inner), fields[0], fields[1], bf16)
    b = random_bits(rng, (inner, 6), fields[2], fields[3], bf16)
    acc = random_bits(rng, (5, 6), 0, 3 if fields[0] < 80 else 127, f32)
    rule = chunk32 if order == "chunk32" else chain
    assert same(matmul(a, b, acc, order=order), scalar_matmul(a, b, acc, rule))
    assert same(matmul(a, b, order=order), scalar_matmul(a, b, np.zeros((5, 6)), rule))


@pytest.mark.parametrize("fields", [(10, 18, 10, 18), (0, 3, 0, 3), (0, 30, 0, 30)])
def test_fp16_is_one_chain_from_the_accumulator(fields: tuple[int, int, int, int]):
    rng = np.random.default_rng(1)
    a, b = random_bits(rng, (6, 50), fields[0], fields[1], f16), random_bits(rng, (50, 6), fields[2], fields[3], f16)
    acc = random_bits(rng, (6, 6), 0, 130, f32)
    assert same(matmul(a, b, acc), scalar_matmul(a, b, acc, chain))


@pytest.mark.parametrize("fields", [(120, 130, 120, 130), (90, 160, 90, 160), (50, 70, 46, 70), (0, 2, 110, 140), (180, 195, 180, 195)])
def test_fp32_is_one_chain_of_fused_operations(fields: tuple[int, int, int, int]):
    rng = np.random.default_rng(2)
    a, b = random_bits(rng, (6, 60), fields[0], fields[1], f32), random_bits(rng, (60, 6), fields[2], fields[3], f32)
    acc = random_bits(rng, (6, 6), 0, 3 if fields[0] < 80 else 127, f32)
    assert same(matmul(a, b, acc), scalar_matmul(a, b, acc, chain))


@pytest.mark.parametrize("tiny", [0.0, 2.0**-149], ids=["normal results", "subnormal results possible"])
def test_fp32_ties_with_a_tail_below_fp64_go_to_the_side_of_the_tail(tiny: float):
    # (1 + 2**-23) * (1 - 2**-23) = 1 - 2**-46, and 2**24 + 1 is a tie: without repair the sum rounds to it, and then to even.
    # The second column decides which of two paths the block takes.
    up, down = f32(1 + 2**-23), f32(1 - 2**-23)
    missed = 0
    for a, b in [(up, down), (-up, down), (up, up), (-up, up), (down, down), (-down, down)]:
        for start in (2.0**24, 2.0**24 + 2, 2.0**24 + 4, -(2.0**24), -(2.0**24) - 2, 2.0**25 - 2):
            got = matmul(np.full((1, 1), a), np.array([[b, 0.0]], f32), np.array([[start, tiny]], f32))
            assert float(got[0, 0]) == fma(float(a), float(b), start)
            assert float(got[0, 1]) == tiny
            missed += float(got[0, 0]) != float(f32(float(a) * float(b) + start))
    assert missed > 5  # the plain FP64 sum really is wrong here


def bf16_dot(pairs: dict[int, tuple[float, float]], acc: float = 0.0) -> float:
    """One chunk32 product with the given (a, b) at some k, zeros elsewhere."""
    a, b = np.zeros((1, 32), bf16), np.zeros((32, 1), bf16)
    for k, (x, y) in pairs.items():
        a[0, k], b[k, 0] = x, y
    return float(matmul(a, b, np.full((1, 1), acc, f32))[0, 0])


def test_bf16_is_tiny_only_after_rounding_to_24_bits():
    least = (2.0**-63, 2.0**-63)
    assert bf16_dot({0: least, 2: (-(2.0**-76), 2.0**-76)}) == 2.0**-126  # 2**-126 - 2**-152 rounds up
    assert bf16_dot({0: least, 2: (-(2.0**-76), 2.0**-75)}) == 2.0**-126  # a tie, and 2**-126 is even
    assert bf16_dot({0: least, 2: (-(2.0**-76) * (1 + 2**-7), 2.0**-75)}) == 0.0  # just below the tie: tiny
    assert bf16_dot({0: least, 2: (-(2.0**-75), 2.0**-75)}) == 0.0


def test_bf16_flushes_each_sum_of_a_chunk_on_its_own():
    more, less = (1.5 * 2.0**-63, 2.0**-63), (-(2.0**-63), 2.0**-63)
    assert bf16_dot({0: more, 2: less}, 2.0**-126) == 2.0**-126  # inside a chain
    assert bf16_dot({0: more, 1: less}, 2.0**-126) == 2.0**-126  # even + odd
    assert bf16_dot({0: more}, -(2.0**-126)) == 0.0  # acc + (even + odd)
    assert bf16_dot({0: more}, 2.0**-127) == 1.5 * 2.0**-126  # the accumulator itself


def test_bf16_flushes_what_is_tiny_after_rounding_and_keeps_the_sign():
    # (1 - 2**-8) * 2**-126 is tiny; sums of two halves of the smallest normal are not, as they come from flushed terms.
    small = np.full((1, 1), 2.0**-63, bf16)
    almost = np.full((1, 1), (1 - 2.0**-8) * 2.0**-63, bf16)
    assert same(matmul(small, almost), [[0.0]])
    assert same(matmul(np.negative(small), almost, np.full((1, 1), -0.0, f32)), [[-0.0 + 0.0]])
    assert same(matmul(small, small), [[2.0**-126]])
    assert same(matmul(small, almost, order="chain"), [[(1 - 2.0**-8) * 2.0**-126]])
    assert same(matmul(np.full((1, 1), 2.0**-130, bf16), np.full((1, 1), 2.0**100, bf16)), [[0.0]])
    assert same(matmul(small, small, np.full((1, 1), 2.0**-127, f32)), [[2.0**-126]])


def test_infinities_and_nan_travel_through_a_product():
    for dtype in (bf16, f16, f32):
        a = np.array([[np.inf, 1, 0], [np.inf, -np.inf, 0], [np.nan, 0, 0], [np.inf, 0, 0]], dtype)
        b = np.array([[1, 0], [1, 1], [1, 1]], dtype)
        assert same(matmul(a, b), [[np.inf, np.nan], [np.nan, np.nan], [np.nan, np.nan], [np.inf, np.nan]])
    assert same(matmul(np.array([[1e30]], f32), np.array([[1e30]], f32)), [[np.inf]])


@pytest.mark.parametrize("dtype", [f16, f32])
def test_k_tiling_of_a_chain_changes_no_bit(dtype: type):
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((9, 100)).astype(dtype), rng.standard_normal((100, 7)).astype(dtype)
    tiled = None
    for start in range(0, 100, 17):
        tiled = matmul(a[:, start : start + 17], b[start : start + 17], tiled)
    assert same(tiled, matmul(a, b))


def test_k_tiles_of_bf16_that_are_multiples_of_32_change_no_bit():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((9, 128)).astype(bf16), rng.standard_normal((128, 7)).astype(bf16)
    for cut in (32, 64, 96):
        assert same(matmul(a[:, cut:], b[cut:], matmul(a[:, :cut], b[:cut])), matmul(a, b))
    assert not same(matmul(a[:, 16:], b[16:], matmul(a[:, :16], b[:16])), matmul(a, b))  # another, defined result


def test_a_bf16_dot_of_512_ones_is_512():  # C22
    assert matmul(np.ones((1, 512), bf16), np.ones((512, 1), bf16)).tolist() == [[512.0]]


def test_int8_sums_are_exact_where_fp32_sums_are_not():  # C20
    a, b = np.full((1, 1041), 127, np.int8), np.full((1041, 1), 127, np.int8)
    assert matmul(a, b).tolist() == [[16790289]]
    assert matmul(a[:, 500:], b[500:], matmul(a[:, :500], b[:500])).tolist() == [[16790289]]


def test_integer_accumulators_wrap():
    one = np.ones((1, 1), np.int8)
    assert matmul(one, one, np.full((1, 1), 2**31 - 1, np.int32)).tolist() == [[-(2**31)]]
    assert matmul(np.full((1, 1), 255, np.uint8), np.full((1, 1), 255, np.uint8)).tolist() == [[65025]]
    wide = np.full((1, 2), 2**30, np.int32)
    assert matmul(wide, wide.T.copy()).tolist() == [[0]]


def test_identity_products_return_the_operand():  # C27
    x = np.array([[1, 2], [3, 4]], bf16)
    assert matmul(x, np.eye(2, dtype=bf16)).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("dtype", [bf16, f16, f32, np.int8])
def test_blocks_and_batches_give_the_bits_of_single_products(dtype: type):
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal((2, 1, 70, 40)) * 9).astype(dtype), (rng.standard_normal((3, 40, 600)) * 9).astype(dtype)
    whole = matmul(a, b)
    assert whole.shape == (2, 3, 70, 600)
    for i, j, r, c in [(0, 0, 0, 0), (1, 2, 69, 599), (0, 1, 31, 512), (1, 0, 32, 511)]:
        assert same(whole[i, j, r, c], matmul(a[i, 0, r : r + 1], b[j, :, c : c + 1])[0, 0])


@pytest.mark.parametrize("dtype", [bf16, f16, f32, np.int8])
@pytest.mark.parametrize("shared", [True, False])
def test_small_matrices_that_are_multiplied_together_have_the_bits_they_have_alone(dtype: type, shared: bool):
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((40, 9, 35)) * 9).astype(dtype), (rng.standard_normal((1 if shared else 40, 35, 70)) * 9).astype(dtype)
    a[3], b[-1, 5] = a[3] * np.asarray(1e-30).astype(dtype), np.asarray(1e-10).astype(dtype)  # one of them nearly subnormal
    acc = rng.standard_normal((40, 9, 70)).astype(np.int32 if dtype is np.int8 else f32)
    found = matmul(a, b, acc)
    for i in range(40):
        assert same(found[i], matmul(a[i], b[0 if shared else i], acc[i]))
    assert matmul(a[:0], b[:1]).shape == (0, 9, 70) and same(matmul(a[:, :, :0], b[:1, :0], acc), acc)


def test_empty_products_leave_the_accumulator():
    acc = np.ones((2, 3), f32)
    got = matmul(np.zeros((2, 0), bf16), np.zeros((0, 3), bf16), acc)
    assert same(got, acc)
    assert not np.shares_memory(got, acc)
    assert matmul(np.zeros((0, 4), f32), np.zeros((4, 3), f32)).shape == (0, 3)


def test_operands_that_do_not_fit_are_refused():
    x, y = np.ones((2, 3), bf16), np.ones((3, 2), f32)
    cases = [
        ("PL301", (x, np.ones((2, 3), bf16)), {}), ("PL302", (x, y), {}), ("PL305", (y.T.astype(np.int64), y.astype(np.int64)), {}),
        ("PL308", (y.T, y), {"order": "chunk32"}), ("PL302", (y.T, y, np.ones((2, 2), np.int32)), {}),
        ("PL301", (y.T, y, np.ones((2, 3), f32)), {}),
        ("PL301", (np.ones((2, 2, 3), f32), np.ones((3, 3, 2), f32)), {}),
    ]  # fmt: skip
    for code, arguments, options in cases:
        with pytest.raises(ShapeError) as caught:
            matmul(*arguments, **options)
        assert caught.value.code == code
