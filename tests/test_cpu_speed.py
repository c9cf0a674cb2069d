"""What makes compiled code fast is in it: no test here asserts a time, and none a bit that another file does not."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.interpreters.cpu.machine import unsupported

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
