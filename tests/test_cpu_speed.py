"""What makes compiled code fast is in it: no test here asserts a time, and none a bit that another file does not."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from benchmarks.exhaustive import BLOCK, program
from pypto import lax, numerics
from pypto.interpreters.cpu.launch import compile_program
from pypto.interpreters.cpu.machine import enabled, host, unsupported
from pypto.interpreters.values import Buffer, Ref
from tests.fuzz import TARGETS

pytestmark = pytest.mark.skipif(bool(unsupported()), reason=unsupported())


@pl.jit
def rows_of_buffers(x: pl.Tensor[[16, 4096], pl.FP32], out: pl.Out[pl.Tensor[[16, 4096], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for c in pl.range(0, 4096, 512):
            out[:, c : c + 512] = pl.adds(x[:, c : c + 512], 1.0)


@pl.jit
def short_rows(x: pl.Tensor[[16, 512], pl.FP32], out: pl.Out[pl.Tensor[[16, 512], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for c in pl.range(0, 512, 64):
            out[:, c : c + 64] = pl.adds(x[:, c : c + 64], 1.0)


@pl.jit
def whole_numbers(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(x[:], pl.INT32, mode="rint")


def text(kernel) -> str:
    with pypto.override(check=False, executor="cpu"):
        return kernel.lower().compiled.text


def test_the_next_row_of_a_buffer_is_asked_for_while_this_one_is_worked_on():
    lines = [line for line in text(rows_of_buffers).splitlines() if "call void @llvm.prefetch" in line]
    assert [line.split("i32 ")[1][0] for line in lines] == ["0", "1"]  # one for what is read, one for what is written


def test_rows_of_a_few_cache_lines_are_left_to_the_cpu():
    assert "@llvm.prefetch" not in text(short_rows)


def test_what_is_asked_for_ahead_may_lie_behind_the_end_of_a_buffer():
    """The row after the last one is nobody's: asking for it neither faults nor changes anything."""
    x = np.arange(16 * 4096, dtype=np.float32).reshape(16, 4096)
    with pypto.override(check=False, executor="cpu"):
        assert np.array_equal(rows_of_buffers(x), x + 1)


def test_a_conversion_to_integers_takes_all_lanes_at_once():
    """LLVM has an instruction for it, and makes sixteen conversions with branches of it."""
    assert "fptosi.sat" not in text(whole_numbers)
    assert "fptosi <16 x float>" in text(whole_numbers)


def test_exp_is_computed_in_fp32_first_where_a_table_fits_registers():
    """Sixteen lanes at a time, and FP64 only for those that could round either way."""
    compiled = compile_program(*program(lax.exp))
    if "avx512f" in enabled(host()):
        assert "vpermi2var" in compiled.text and "@exp16" in compiled.text
    lesser = compile_program(*program(lax.exp), TARGETS["AVX2"])
    assert "vpermi2var" not in lesser.text and "@exp16" not in lesser.text


def test_exp_has_the_same_bits_either_way_where_it_is_hard_to_round_and_at_its_ends():
    """A block of neighbours around each number where something changes; `python -m benchmarks.exhaustive exp` takes them all."""
    both = [compile_program(*program(lax.exp), t) for t in (None, TARGETS["AVX2"])]
    chosen = np.array(
        [0.0, -0.0, 1e-30, 0.0108, -0.5, 1.0, 59.99999, -59.99999, -87.3, -103.97, -104.0, 88.7, 3e38, np.inf, np.nan], np.float32
    )
    around = np.arange(-(1 << 15), 1 << 15, dtype=np.int32)
    x = (chosen.view(np.int32)[:, None] + around).ravel().view(np.float32)
    x = np.concatenate([x, np.zeros(BLOCK - x.size, np.float32)])
    found = []
    for compiled in both:
        out = np.zeros(BLOCK, np.float32)
        compiled.run([Ref.whole(Buffer(v)) for v in (x, out)], lambda: None)
        found.append(np.where(np.isnan(out), np.float32(0), out))
    assert np.array_equal(found[0].view(np.uint32), found[1].view(np.uint32))
    assert np.array_equal(found[0].view(np.uint32), np.where(np.isnan(x), np.float32(0), numerics.exp(x)).view(np.uint32))
