"""HF8 in kernels: casts of the a5 and their refusal on the a2a3, products, everything that moves it; both executors give the same bits."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import hifloat, numerics
from pypto.dtypes import FP16, HF8, INT8
from tests.refusals import refused

CORE = pl.Level.CORE_GROUP
T = pl.Tensor[[8, 32], pl.HF8]
Wide, Square = pl.Tensor[[8, 64], pl.HF8], pl.Tensor[[32, 32], pl.HF8]
CODES = np.arange(256, dtype=np.uint8).reshape(8, 32)


def run(kernel, *arrays):
    """The results of a kernel on the a5: checked by the reference executor, which the compiled one must equal to the bit."""
    with pypto.override(platform="a5sim", check=True):
        want = kernel(*arrays)
    with pypto.override(platform="a5sim", check=False, executor="cpu"):
        got = kernel(*arrays)
        assert kernel.lower().compiled.executor == "cpu", kernel.lower().compiled.reason
    want, got = ([np.asarray(r) for r in (x if isinstance(x, tuple) else (x,))] for x in (want, got))
    assert [r.dtype for r in got] == [r.dtype for r in want]
    assert [r.tobytes() for r in got] == [r.tobytes() for r in want]
    return got


def codes_of(x):
    return numerics.hf8_bits(x).tolist()


def hf8(codes):
    return numerics.hf8_from_bits(np.ascontiguousarray(codes, np.uint8))


# ---- casts -----------------------------------------------------------------------------------------------------------


@pl.jit
def narrows(x: pl.Tensor[[64, 1024], pl.FP16], out: pl.Out[pl.Tensor[[64, 1024], pl.HF8]]):
    for i in pl.range(64):
        with pl.at(level=CORE):
            out[i : i + 1, :] = pl.cast(x[i : i + 1, :], pl.HF8)


def test_every_fp16_value_is_cast_as_the_contract_says():
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(64, 1024)
    (got,) = run(narrows, x)
    assert codes_of(got) == codes_of(numerics.convert(x, FP16, HF8, "round", "saturate"))


@pl.jit
def widens(x: T, out: pl.Out[pl.Tensor[[8, 32], pl.FP32]]):
    with pl.at(level=CORE):
        out[:] = pl.cast(x[:], pl.FP32)


def test_every_code_is_cast_to_its_number():
    (got,) = run(widens, hf8(CODES))
    assert np.array_equal(got.ravel(), hifloat.VALUES, equal_nan=True)


@pl.jit
def rounds_to_even(x: pl.Tensor[[1, 32], pl.FP32], out: pl.Out[pl.Tensor[[1, 32], pl.HF8]]):
    with pl.at(level=CORE):
        out[:] = pl.cast(x[:], pl.HF8, mode="rint")


def test_a_tie_goes_away_from_zero_whatever_the_mode():
    x = np.full((1, 32), 1.0625, np.float32)
    x[0, 1] = -1.0625
    (got,) = run(rounds_to_even, x)
    assert codes_of(got)[0][:3] == [0x09, 0x89, 0x09]


@pl.jit
def in_two_steps(x: pl.Tensor[[8, 32], pl.INT8], out: pl.Out[T], wide: pl.Out[pl.Tensor[[8, 32], pl.BF16]]):
    with pl.at(level=CORE):
        h = pl.cast(x[:], pl.HF8)
        out[:] = h
        wide[:] = pl.cast(h, pl.BF16)


def test_other_dtypes_take_two_casts_that_give_the_direct_result():
    x = CODES.view(np.int8)
    out, wide = run(in_two_steps, x)
    assert codes_of(out) == codes_of(numerics.convert(x, INT8, HF8, "round"))
    assert wide.astype(np.float32).tolist() == numerics.widened(out).tolist()
    with pypto.override(platform="a5"):
        text = str(in_two_steps.lower())
    assert [line.split(" = ")[1] for line in text.splitlines() if "pl.cast(" in line] == [
        "pl.cast(v0, pl.FP16)", "pl.cast(h, pl.HF8)", "pl.cast(h_1, pl.FP32)", "pl.cast(v1, pl.BF16)",
    ]  # fmt: skip


@pl.jit
def on_the_wrong_chip(x: pl.Tensor[[8, 32], pl.FP32], out: pl.Out[T]):
    with pl.at(level=CORE):
        out[:] = pl.cast(  # refused
            x[:], pl.HF8
        )


def test_the_a2a3_has_no_such_cast_and_says_so_at_the_line_of_the_cast():
    with pypto.override(platform="a2a3"):
        error = refused("PL406", on_the_wrong_chip, np.zeros((8, 32), np.float32), at="pl.cast(")
    assert error.fix is not None and "a5" in error.fix


@pl.jit
def back_on_the_wrong_chip(x: T, out: pl.Out[pl.Tensor[[8, 32], pl.FP32]]):
    with pl.at(level=CORE):
        t = x[:]
        out[:] = pl.cast(t, pl.FP32)  # refused


def test_nor_one_back():
    with pypto.override(platform="a2a3sim"):
        refused("PL406", back_on_the_wrong_chip, hf8(CODES), at="pl.cast(t, pl.FP32)")


@pl.jit
def to_hf4(x: pl.Tensor[[8, 32], pl.FP32], out: pl.Out[pl.Tensor[[8, 32], pl.FP32]]):
    with pl.at(level=CORE):
        t = x[:]
        out[:] = pl.cast(pl.cast(t, pl.HF4), pl.FP32)  # refused


@pl.jit
def to_scales(x: pl.Tensor[[8, 32], pl.FP32], out: pl.Out[pl.Tensor[[8, 32], pl.FP8E8M0]]):
    with pl.at(level=CORE):
        t = x[:]
        out[:] = pl.cast(t, pl.FP8E8M0)  # refused


@pytest.mark.parametrize("platform", ["a5", "cpu", "a2a3"])
def test_formats_nothing_converts_to_are_refused_at_the_line_of_the_cast(platform):
    with pypto.override(platform=platform):
        refused("PL305", to_hf4, np.zeros((8, 32), np.float32), at="pl.cast(t, pl.HF4)")
        refused("PL305", to_scales, np.zeros((8, 32), np.float32), at="pl.cast(t, pl.FP8E8M0)")


# ---- products --------------------------------------------------------------------------------------------------------


@pl.jit
def multiplies(a: pl.Tensor[[32, 64], pl.HF8], b: pl.Tensor[[64, 32], pl.HF8], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.at(level=CORE):
        acc = pl.matmul(a[:, 0:32], b[0:32, :])
        out[:] = pl.matmul_acc(acc, a[:, 32:64], b[32:64, :])


@pl.jit
def multiplies_on_the_wrong_chip(a: pl.Tensor[[32, 32], pl.HF8], b: pl.Tensor[[32, 32], pl.HF8], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.at(level=CORE):
        out[:] = pl.matmul(a, b)  # refused


def random_codes(shape, seed):
    """Any finite codes."""
    codes = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    codes[np.isin(codes, [0x80, 0x6F, 0xEF])] = 0
    return hf8(codes)


def test_a_product_is_one_fp32_chain_from_the_accumulator():
    a, b = random_codes((32, 64), 1), random_codes((64, 32), 2)
    (got,) = run(multiplies, a, b)
    total = np.zeros((32, 32), np.float64)
    wide_a, wide_b = numerics.widened(a).astype(np.float64), numerics.widened(b).astype(np.float64)
    for k in range(64):  # a product has 8 bits, and a sum that FP64 rounds is far from every tie of FP32
        total = (total + wide_a[:, k : k + 1] * wide_b[k]).astype(np.float32).astype(np.float64)
    assert got.tobytes() == total.astype(np.float32).tobytes()


def test_a_product_of_every_special_value():
    codes = np.uint8([0x00, 0x6F, 0xEF, 0x80, 0x01, 0x81, 0x6E, 0xEE] * 4)
    a = np.zeros((32, 64), np.uint8)
    a[:, 0] = codes
    b = np.zeros((64, 32), np.uint8)
    b[0] = codes
    (got,) = run(multiplies, hf8(a), hf8(b))
    x = hifloat.VALUES[codes]
    with np.errstate(invalid="ignore"):
        assert np.array_equal(got, x[:, None] * x + 0.0, equal_nan=True)


def test_the_a2a3_has_no_such_product():
    x = random_codes((32, 32), 0)
    with pypto.override(platform="a2a3"):
        refused("PL406", multiplies_on_the_wrong_chip, x, x, at="pl.matmul(a, b)")


@pl.jit
def multiplies_fp8(a: pl.Tensor[[32, 32], pl.FP8E5M2], b: pl.Tensor[[32, 32], pl.FP8E5M2], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.at(level=CORE):
        out[:] = pl.matmul(a, b)  # refused


def test_nor_one_of_fp8_whose_dtype_has_no_arithmetic_either():
    x = np.zeros((32, 32), pypto.dtypes.FP8E5M2.storage)
    with pypto.override(platform="a2a3"):
        refused("PL406", multiplies_fp8, x, x, at="pl.matmul(a, b)")


# ---- movement --------------------------------------------------------------------------------------------------------


@pl.jit
def moves(
    x: T, y: T, both: pl.Out[pl.Tensor[[8, 64], pl.HF8]], again: pl.Out[T], padded: pl.Out[T], turned: pl.Out[pl.Tensor[[32, 32], pl.HF8]]
):
    with pl.at(level=CORE):
        a = pl.load(x, [0, 0], [8, 32])
        b = pl.load(y, [0, 0], [8, 32])
        both[:] = pl.concat(a, b)
        again[:] = pl.reshape(pl.reshape(a, [4, 64]), [8, 32])
        padded[:] = pl.fillpad(pl.set_validshape(a, 5, 20), pad_value=pl.PadValue.max)
        turned[:] = pl.transpose(pl.fillpad_expand(b, [32, 32], pad_value=pl.PadValue.min), 0, 1)


def test_what_moves_it_keeps_every_code():
    reverse = np.ascontiguousarray(CODES[::-1])
    both, again, padded, turned = run(moves, hf8(CODES), hf8(reverse))
    assert codes_of(both) == np.concatenate([CODES, reverse], 1).tolist()
    assert codes_of(again) == CODES.tolist()
    want = np.full((8, 32), 0x6F, np.uint8)
    want[:5, :20] = CODES[:5, :20]
    assert codes_of(padded) == want.tolist()
    want = np.full((32, 32), 0xEF, np.uint8)
    want[:, :8] = reverse.T
    assert codes_of(turned) == want.tolist()


@pl.jit
def reads_bits(x: T, out: pl.Out[pl.Tensor[[8, 32], pl.UINT8]], back: pl.Out[T]):
    with pl.at(level=CORE):
        codes = pl.reinterpret_view(x[:], pl.UINT8)
        out[:] = codes
        back[:] = pl.reinterpret_view(codes, pl.HF8)


def test_its_bytes_are_its_codes():
    codes, back = run(reads_bits, hf8(CODES))
    assert codes.tolist() == CODES.tolist() == codes_of(back)


@pl.jit
def makes(rows: pl.Tensor[[1, 8], pl.INT32], x: T, one: pl.Out[T], kept: pl.Out[T], picked: pl.Out[T]):
    buffer = pl.create_tensor([8, 32], pl.HF8, init_value=-1.5)
    with pl.at(level=CORE):
        one[:] = pl.full([8, 32], pl.HF8, 1.0625)
        buffer[0:4, :] = x[0:4, :]
        picked[:] = pl.mgather(x, pl.load(rows, [0, 0], [1, 8]))
    with pl.at(level=CORE):
        kept[:] = buffer[:]


def test_it_is_made_from_numbers_which_are_rounded_and_gathered():
    rows = np.int32([[7, 0, 3, 3, 2, 1, 6, 5]])
    one, kept, picked = run(makes, rows, hf8(CODES))
    assert set(one.tobytes()) == {0x09}
    assert codes_of(kept) == [*CODES[:4].tolist(), *[[0x8C] * 32] * 4]
    assert codes_of(picked) == CODES[rows[0]].tolist()
    with pypto.override(platform="a5"):
        assert "init_value=-1.5" in str(makes.lower()) and "1.125" in str(makes.lower())


@pl.jit
def adds(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        t = x[:]
        out[:] = t + t  # refused


def test_there_is_no_arithmetic():
    with pypto.override(platform="a5"):
        refused("PL305", adds, hf8(CODES), at="t + t")


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [CODES, np.zeros((8, 32), np.float32), CODES.view(np.int8)], ids=["codes", "numbers", "int8"])
def test_arrays_of_another_dtype_are_not_taken_for_it(given):
    with pypto.override(platform="a5"), pytest.raises(pypto.PyptoError) as caught:
        widens(given)
    assert caught.value.code == "PL602" and caught.value.fix is not None
    assert ("hf8_from_bits" in caught.value.fix) == (given.dtype == np.uint8)


def test_arrays_of_the_library_are_taken_and_outputs_are_written_in_place():
    out = np.zeros((8, 32), np.float32)
    x = pypto.Array(hf8(CODES))
    with pypto.override(platform="a5"):
        widens(x, out)
    assert np.array_equal(out.ravel(), hifloat.VALUES, equal_nan=True)
    codes = np.full((64, 1024), 0x80, np.uint8)
    with pypto.override(platform="a5"):
        narrows(np.ones((64, 1024), np.float16), numerics.hf8_from_bits(codes))
    assert set(codes.tobytes()) == {0x08}


def test_a_run_without_tracing_shows_its_numbers():
    with pypto.override(platform="a5"):
        assert np.array_equal(np.asarray(widens.eager(hf8(CODES))).ravel(), hifloat.VALUES, equal_nan=True)
