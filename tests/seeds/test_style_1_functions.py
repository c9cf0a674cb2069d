"""Section 1 of the coding style: both forms of a kernel, directions, regions. One test per statement."""

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import refused, reports, untouched

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
ROWS, COLS = 16, 64
M = pl.Tensor[[ROWS, COLS], pl.FP32]
X = np.random.default_rng(3).standard_normal((ROWS, COLS)).astype(np.float32)


def same(got, want):
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


@pl.jit.inline
def doubles_rows(recv_x, recv_y):
    for r0 in pl.parallel(0, ROWS, 8):
        for half in pl.spmd(2, name_hint="double"):
            c0 = half * (COLS // 2)
            recv_y[r0 : r0 + 8, c0 : c0 + COLS // 2] = pl.muls(recv_x[r0 : r0 + 8, c0 : c0 + COLS // 2], 2.0)
    return recv_y


@pl.jit
def thin_entry(recv_x: M, recv_y: pl.Out[M]):
    doubles_rows(recv_x, recv_y)
    return recv_y


def test_the_compute_is_written_once_in_an_inline_and_called_from_a_thin_entry():
    """1. Form A: Write the real compute once in @pl.jit.inline, then call it from a thin @pl.jit entry."""
    same(thin_entry(X), 2 * X)


def test_an_entry_has_its_outs_as_kernel_outputs():
    """1. Form A: @pl.jit is the boundary the golden test invokes; its pl.Out params are the kernel outputs."""
    out = np.full_like(X, -7)
    assert thin_entry(X, out) is out
    same(out, 2 * X)


def test_an_inline_is_not_compiled_as_its_own_entry():
    """1. Form A: @pl.jit.inline is inlined into each caller rather than compiled as its own entry."""
    refused("PL112", lambda: doubles_rows(X, X), at="doubles_rows(X, X)")  # refused
    assert [k.name for k in thin_entry.lower().kernels] == ["double"]


@pl.jit.inline
def gives_nothing(x, out):
    with pl.at(level=CORE):
        out[:] = x


@pl.jit
def uses_the_result(x: M, out: pl.Out[M]):
    y = gives_nothing(x, out)  # refused
    with pl.at(level=CORE):
        out[:] = y


@pl.jit
def calls_it_as_a_statement(x: M, out: pl.Out[M]):
    gives_nothing(x, out)


def test_an_inline_whose_result_is_used_must_return_a_value():
    """1. Form A: An inline function must return a value: here only where its result is used."""
    refused("PL209", uses_the_result.trace, at="y = gives_nothing(x, out)")
    same(calls_it_as_a_statement(X), X)


@pl.program
class Decode:
    @pl.function(type=pl.FunctionType.InCore)
    def scale(self, x: M, out: pl.Out[M]):
        out[:] = pl.muls(x, 2.0)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def decode(self, hidden_states: M, out: pl.Out[M]):
        once = pl.create_tensor([ROWS, COLS], dtype=pl.FP32)
        once = self.scale(hidden_states, once)
        for b0 in pl.parallel(0, ROWS, 8):
            with pl.at(level=CORE, name_hint="shift"):
                out[b0 : b0 + 8, :] = pl.adds(once[b0 : b0 + 8, :], 1.0)
        return out


@pl.program
class OpaqueDecode:
    @pl.function(type=pl.FunctionType.Opaque)
    def decode(self, hidden_states: M, out: pl.Out[M]):
        for b0 in pl.parallel(0, ROWS, 8):
            with pl.at(level=CORE, name_hint="rmsnorm"):
                out[b0 : b0 + 8, :] = pl.adds(hidden_states[b0 : b0 + 8, :], 1.0)
        return out


def test_a_class_groups_kernels_as_methods():
    """1. Form B: @pl.program: a class groups related kernels as methods; Orchestration sequences, InCore is one region."""
    same(Decode(X), 2 * X + 1)
    assert [k.name for k in Decode.lower().kernels] == ["scale", "shift"]


def test_an_opaque_method_draws_its_regions_by_pl_at():
    """1. Form B: pl.FunctionType.Opaque: the frontend draws the InCore boundary from its pl.at blocks."""
    same(OpaqueDecode(X), X + 1)
    assert [k.name for k in OpaqueDecode.lower().kernels] == ["rmsnorm"]


@pl.jit.incore
def of_the_other_form(x: M, out: pl.Out[M]):
    out[:] = x
    return out


@pl.program
class Mixes:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: M, out: pl.Out[M]):
        out = of_the_other_form(x, out)
        return out


def test_mixing_the_forms_is_discouraged():
    """1. Form B: A @pl.program method calling a @pl.jit kernel (or the reverse) is discouraged: a warning."""
    with reports("PL115"):
        same(Mixes(X), X)


@pl.jit
def writes_a_plain_tensor(x: M, y: M, out: pl.Out[M]):
    with pl.at(level=CORE):
        out[:] = x
        y[:] = x  # refused


@pl.jit
def keeps_history(x: M, kv_cache: pl.InOut[M], x_out: pl.Out[M]):
    with pl.at(level=CORE):
        old = kv_cache[:, :]
        kv_cache[:] = pl.add(old, x)
        x_out[:] = old


def test_a_plain_tensor_that_the_entry_writes_is_an_error_not_zeros():
    """1. Directions: A plain pl.Tensor is In: what the style calls a silent failure (reads back zeros) is an error at the store."""
    untouched("PL203", writes_a_plain_tensor, X.copy(), np.zeros_like(X), np.zeros_like(X), at="y[:]")


def test_in_out_is_read_and_written():
    """1. Directions: is_output=True and init_value is pl.InOut: read-modify-write; is_output=True alone is pl.Out."""
    cache, out = np.ones_like(X), np.full_like(X, -7)
    keeps_history(X, cache, out)
    same(cache, X + 1)
    same(out, np.ones_like(X))


@pl.jit.inline
def with_a_direction(x, y: pl.Out[M]):
    y[:] = x


@pl.jit
def calls_with_a_direction(x: M, out: pl.Out[M]):
    with pl.at(level=CORE):
        with_a_direction(x, out)


def test_a_direction_on_an_inline_parameter_is_deprecated():
    """1. Directions: A pl.Out / pl.InOut wrapper on an inline param raises a DeprecationWarning; bare pl.Tensor is right."""
    with reports("PL116"):
        same(calls_with_a_direction(X), X)


@pl.jit
def nested(x: M, out: pl.Out[M]):
    with pl.at(level=CORE, name_hint="outer"):
        with pl.at(level=CORE, name_hint="first"):
            t = pl.muls(x, 2.0)
        with pl.at(level=CORE, name_hint="second"):
            out[:] = pl.adds(t, 1.0)


def test_regions_may_nest():
    """1. pl.at: pl.at blocks may nest: an outer one defines the InCore scope, inner ones split it into named parts."""
    same(nested(X), 2 * X + 1)


def test_a_name_hint_names_the_kernel():
    """1. pl.at: name_hint is a stable label for the region."""
    assert nested.lower().kernels[0].name == "outer"


MODES = [pl.SplitMode.NONE, pl.SplitMode.UP_DOWN, pl.SplitMode.LEFT_RIGHT]
BF = pl.Tensor[[32, 64], pl.BF16]


@pytest.mark.parametrize("mode", MODES)
def test_a_mixed_region_may_be_split(mode):
    """1. optimizations: optimizations=[pl.split(mode)], NONE, UP_DOWN or LEFT_RIGHT, on a mixed cube and vector region or spmd loop."""

    @pl.jit
    def kernel(a: BF, b: pl.Tensor[[64, 32], pl.BF16], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
        for ob in pl.spmd(1, name_hint="gate_up_silu", optimizations=[pl.split(mode)]):
            acc = pl.matmul(a, b)
            out[:] = pl.adds(acc, 1.0)

    a, b = np.ones((32, 64), ml_dtypes.bfloat16), np.ones((64, 32), ml_dtypes.bfloat16)
    same(kernel(a, b), np.full((32, 32), 65, np.float32))
