"""`pypto.explain_cache`: every program of a kernel has a reason, and what needs no program leaves none."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import CallError
from tests.refusals import f32

FACTOR = 2.0
B = pl.dynamic("B")


def made():
    @pl.jit
    def scaled(x: pl.Tensor, n: pl.Scalar[pl.INT32], times, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = x[:]
            for _ in pl.unroll(times):
                t = pl.muls(t, FACTOR)
            out[:] = pl.add(t, pl.cast(n, pl.FP32))

    return scaled


def call(kernel, rows, n=1, times=1):
    x = np.ones((rows, 8), np.float32)
    kernel(x, n, times, x.copy())


def test_a_kernel_without_calls_has_no_programs():
    report = pypto.explain_cache(made())
    assert report.programs == () and str(report) == "scaled: 0 programs"


def test_each_retrace_says_what_caused_it(monkeypatch):
    kernel = made()
    call(kernel, 4)
    call(kernel, 6)
    call(kernel, 6, times=2)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    call(kernel, 6, times=2)
    with pypto.override(platform="a5sim"):
        call(kernel, 6, times=2)
    reasons = [entry.reasons for entry in pypto.explain_cache(kernel).programs]
    assert reasons[0] == ()
    assert len(reasons[1]) == 2 and reasons[1][0].startswith("`x` is f32[6,8], was f32[4,8] (a pl.dynamic symbol for axis 0")
    assert reasons[2] == ("`times` is 2, was 1",)
    assert reasons[3] == ("`FACTOR` changed from 2.0 to 3.0",)
    assert len(reasons[4]) == 1 and "a5sim" in reasons[4][0]


def test_a_retrace_is_compared_with_the_program_that_is_most_like_it():
    kernel = made()
    for rows, times in ((4, 1), (6, 2), (4, 2)):
        call(kernel, rows, times=times)
    assert pypto.explain_cache(kernel).programs[2].reasons == ("`times` is 2, was 1",)


def test_contents_scalars_and_extents_of_symbols_cause_no_retrace():
    @pl.jit
    def dynamic(x: pl.Tensor[[B, 8], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[B, 8], pl.FP32]]):
        for r in pl.range(pl.tensor.dim(x, 0)):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[r : r + 1, :] = pl.add(x[r : r + 1, :], pl.cast(n, pl.FP32))

    for rows in (2, 3, 5):
        dynamic(np.full((rows, 8), rows, np.float32), rows)
    assert str(pypto.explain_cache(dynamic)) == "dynamic: 1 program\n  1. the first call"


def test_a_dtype_causes_a_retrace():
    kernel = made()
    call(kernel, 4)
    x = np.ones((4, 8), np.int32)
    kernel(x, 1, 1, np.ones((4, 8), np.float32))
    (reason,) = pypto.explain_cache(kernel).programs[1].reasons
    assert reason == "`x` is i32[4,8], was f32[4,8]"


def test_a_program_class_says_which_constant_changed():
    class Sizes:
        def __init__(self):
            self.by = 2.0

    @pl.program
    class Reading:
        sizes = Sizes()

        @pl.function(type=pl.FunctionType.InCore)
        def main(self, x: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
            out[:] = pl.muls(x, self.sizes.by)

    Reading(f32([1, 2, 3, 4]))
    Reading.sizes.by = 3.0
    Reading(f32([1, 2, 3, 4]))
    (reason,) = pypto.explain_cache(Reading).programs[1].reasons
    assert reason == "`self.sizes.by` changed from 2.0 to 3.0"


def test_only_kernels_have_programs():
    with pytest.raises(CallError) as caught:
        pypto.explain_cache(len)
    assert caught.value.code == "PL601"
