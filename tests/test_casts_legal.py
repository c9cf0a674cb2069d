"""Casts a chip has no instruction for: chains that give the direct result, or an error that names the hop."""

import re

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import numerics
from pypto.dtypes import DTYPES
from pypto.numerics import default_overflow
from pypto.platform import platform_of
from pypto.tile.passes.casts import convert, hard_values, legal_chain

NARROW = ("BF16", "FP16", "INT8", "UINT8", "INT16")
NUMBERS = (*NARROW, "FP32", "INT32", "INT64")


def chain(source: str, target: str, mode: str = "rint", platform: str = "a2a3") -> tuple[str, ...] | None:
    a, b = DTYPES[source], DTYPES[target]
    found = legal_chain(a, b, mode, default_overflow(a, b), platform_of(platform))
    return None if found is None else tuple(d.name for d in found[1:])


@pytest.mark.parametrize("platform", ["a2a3", "a5"])
@pytest.mark.parametrize("mode", ["rint", "round", "floor", "ceil", "trunc"])
@pytest.mark.parametrize("source", NARROW)
def test_every_chain_from_a_narrow_dtype_equals_the_direct_cast_for_all_its_values(source: str, mode: str, platform: str) -> None:
    a = DTYPES[source]
    values = hard_values(a)
    for name in NUMBERS:
        b = DTYPES[name]
        overflow = default_overflow(a, b)
        path = legal_chain(a, b, mode, overflow, platform_of(platform)) if a is not b else None
        if path is not None:
            with np.errstate(all="ignore"):
                direct = numerics.convert(values, a, b, mode, overflow)
                hops = convert(values, path, mode, overflow)
            unsigned = np.dtype(f"u{b.itemsize}")
            same = (direct.view(unsigned) == hops.view(unsigned)) | (direct != direct) & (hops != hops)
            assert same.all(), (source, name, path)


def test_chains_from_fp32_hold_on_patterns_the_search_did_not_see() -> None:
    rng = np.random.default_rng(7)
    values = rng.integers(0, 1 << 32, 400_000, np.uint32).view(np.float32)
    small = rng.uniform(-300, 300, 400_000).astype(np.float32)
    for name in ("INT8", "UINT8", "FP16", "BF16", "INT16"):
        a, b = DTYPES["FP32"], DTYPES[name]
        overflow = default_overflow(a, b)
        path = legal_chain(a, b, "rint", overflow, platform_of("a2a3"))
        assert path is not None
        with np.errstate(all="ignore"):
            for x in (values, small):
                direct, hops = numerics.convert(x, a, b, "rint", overflow), convert(x, path, "rint", overflow)
                unsigned = np.dtype(f"u{b.itemsize}")
                assert ((direct.view(unsigned) == hops.view(unsigned)) | (direct != direct)).all(), name


def test_quantising_fp32_to_int8_goes_through_an_integer_so_that_it_rounds_once() -> None:
    assert chain("FP32", "INT8") == ("INT16", "FP16", "INT8")


def test_int32_to_fp16_is_one_instruction_on_a2a3_and_exact_in_two_on_a5() -> None:
    # C17: the FP32 between is exact up to 2**24, and past 65520 both ways give infinity
    assert chain("INT32", "FP16") == ("FP16",)
    assert chain("INT32", "FP16", platform="a5") == ("FP32", "FP16")


def test_int32_to_bf16_has_no_chain_because_fp32_would_round_twice() -> None:
    assert chain("INT32", "BF16") is None
    value = np.int32([(1 << 24) + (1 << 16) + 1])
    direct = numerics.convert(value, DTYPES["INT32"], DTYPES["BF16"], "rint", "saturate")
    twice = convert(value, (DTYPES["INT32"], DTYPES["FP32"], DTYPES["BF16"]), "rint", "saturate")
    assert direct[0] != twice[0]


def _cast_kernel(source: str, target: str):
    a, b = DTYPES[source], DTYPES[target]

    @pl.jit
    def k(x: pl.Tensor[[1, 32], a], out: pl.Out[pl.Tensor[[1, 32], b]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.cast(x, b, mode="rint")

    return k


def test_the_printed_tile_program_shows_the_hops() -> None:
    text = str(_cast_kernel("FP32", "INT8").lower())
    assert re.findall(r"pl\.cast\(\w+, pl\.(\w+)", text) == ["INT16", "FP16", "INT8"]


def test_a_cast_without_a_chain_is_an_error_that_writes_the_hops() -> None:
    with pytest.raises(pypto.PyptoError) as caught:
        _cast_kernel("INT32", "BF16").lower()
    assert caught.value.code == "PL406"
    assert "pl.cast(x, b" in caught.value.source.text
    assert "pl.cast(pl.cast(x, pl.FP32), pl.BF16)" in caught.value.fix


def test_the_cpu_platform_takes_every_cast_as_it_is() -> None:
    with pypto.override(platform="cpu"):
        out = _cast_kernel("INT32", "BF16")(np.full((1, 32), 259, np.int32))
    assert float(np.asarray(out)[0, 0]) == 260.0  # C15


def test_a_chain_gives_the_bits_of_the_direct_cast_in_a_run() -> None:
    x = np.float32([4.51, 100.6, 127.4, 300, -300, np.nan, np.inf, 2.5] * 4).reshape(1, 32)
    out = np.asarray(_cast_kernel("FP32", "INT8")(x))
    assert out[0, :8].tolist() == [5, 101, 127, 127, -128, 0, 127, 2]  # C18: direct, not by way of BF16
