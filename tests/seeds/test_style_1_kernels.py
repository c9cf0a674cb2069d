"""Section 1 of the coding style: defining a kernel, in both forms. One test per statement."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.core.ir import alpha_equal
from pypto.errors import CallError
from tests.refusals import refused, reports

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
ROWS, COLS, TILE = 16, 64, 8
M = pl.Tensor[[ROWS, COLS], pl.FP32]
X = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)


def same(got, want):
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


# The same kernel in both forms.


@pl.jit.inline
def scaled(x, y):
    for r in pl.parallel(0, ROWS, TILE):
        with pl.at(level=CORE, name_hint="scale"):
            y[r : r + TILE, :] = pl.muls(x[r : r + TILE, :], 2.0)
    return y


@pl.jit
def entry(x: M, y: pl.Out[M]):
    scaled(x, y)
    return y


@pl.program
class Scaling:
    @pl.function(type=pl.FunctionType.Opaque)
    def entry(self, x: M, y: pl.Out[M]):
        for r in pl.parallel(0, ROWS, TILE):
            with pl.at(level=CORE, name_hint="scale"):
                y[r : r + TILE, :] = pl.muls(x[r : r + TILE, :], 2.0)
        return y


def test_pl_is_the_language():
    """1. Forms: import pypto.language as pl; pl is the only accepted module alias (here it is an ordinary module under any name)."""
    import pypto.language as language

    assert language is pl


def test_both_forms_lower_to_the_same_program():
    """1. Forms: a kernel is written as module-level @pl.jit functions or a @pl.program class; both lower through the same pipeline."""
    first, second = entry.lower(), Scaling.lower()
    assert alpha_equal(first.orchestration, second.orchestration)
    assert [k.name for k in first.kernels] == [k.name for k in second.kernels] == ["scale"]
    same(entry(X), 2 * X)
    same(Scaling(X), 2 * X)


@pl.program
class Mixing:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: M, y: pl.Out[M]):
        entry(x, y)


def test_mixing_the_forms_is_reported():
    """1. Forms: a @pl.program method calling a @pl.jit kernel is discouraged; it works here, with a warning."""
    with reports("PL115"):
        same(Mixing(X), 2 * X)


def test_signatures_look_the_same_in_both_forms():
    """1. Forms: tensor params are pl.Tensor[[shape...], dtype], outputs are wrapped in pl.Out[...], scalars are pl.Scalar[dtype]."""

    @pl.jit
    def kernel(x: M, by: pl.Scalar[pl.FP32], y: pl.Out[M]):
        with pl.at(level=CORE):
            y[:] = pl.muls(x, by)

    @pl.program
    class Program:
        @pl.function
        def kernel(self, x: M, by: pl.Scalar[pl.FP32], y: pl.Out[M]):
            with pl.at(level=CORE):
                y[:] = pl.muls(x, by)

    shown = [[(p.name, repr(p.type)) for p in k.signature.parameters] for k in (kernel, Program.kernel)]
    assert shown[0] == shown[1]
    same(kernel(X, 3.0), 3 * X)
    same(Program(X, 3.0), 3 * X)


def test_regions_become_kernels_and_the_rest_is_orchestration():
    """1. Forms: each compute region is wrapped in pl.at and lowered to InCore; code outside any pl.at stays in orchestration."""
    program = entry.lower()
    assert [e.op.name for e in program.orchestration.walk()] == ["loop", "call"]
    assert "mul" in [e.op.name for e in program.kernels[0].jaxpr.walk()]


# Form A.


def test_an_inline_is_spliced_into_its_caller():
    """1. Form A: @pl.jit.inline marks a reusable sub-kernel that is inlined into each caller rather than compiled as its own entry."""
    assert [k.name for k in entry.lower().kernels] == ["scale"]
    with pytest.raises(Exception) as caught:
        scaled(X, X.copy())
    assert caught.value.code == "PL112"


@pl.jit.inline
def returns_nothing(x, y):
    with pl.at(level=CORE):
        y[:] = pl.muls(x, 2.0)


@pl.jit
def calls_a_statement(x: M, y: pl.Out[M]):
    returns_nothing(x, y)


@pl.jit
def uses_no_result(x: M, y: pl.Out[M]):
    z = returns_nothing(x, y)  # refused
    with pl.at(level=CORE):
        y[:] = z


def test_an_inline_returns_a_value_where_one_is_used():
    """1. Form A: an inline function must return a value; here only if the result of the call is used."""
    same(calls_a_statement(X), 2 * X)
    refused("PL209", uses_no_result.lower, at="z = returns_nothing(x, y)")


def test_the_out_params_of_the_entry_are_the_outputs():
    """1. Form A: @pl.jit decorates the top-level function; its pl.Out params are the kernel outputs."""
    out = np.zeros_like(X)
    assert entry(X, out) is out
    same(out, 2 * X)


# Form B.


@pl.program
class Sequence:
    @pl.function(type=pl.FunctionType.InCore)
    def rows(self, x: M, y: pl.Out[M]):
        for r in pl.pipeline(0, ROWS, TILE, stage=2):
            y[r : r + TILE, :] = pl.adds(x[r : r + TILE, :], 1.0)
        return y

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: M, y: pl.Out[M]):
        once = pl.create_tensor([ROWS, COLS], dtype=pl.FP32)
        once = self.rows(x, once)
        y = self.rows(once, y)
        return y


def test_an_opaque_method_draws_its_boundary_by_its_regions():
    """1. Form B: Opaque is a self-contained compute kernel; the InCore boundary is drawn from its pl.at blocks."""
    assert Scaling.entry.kind == "opaque" and [k.name for k in Scaling.lower().kernels] == ["scale"]


def test_an_orchestration_method_sequences_others():
    """1. Form B: Orchestration is the top-level entry that sequences other methods, called as self.kernel(...)."""
    assert Sequence.entry is Sequence.main
    same(Sequence(X), X + 2)


def test_an_incore_method_is_one_region():
    """1. Form B: InCore is a single InCore region authored directly: pl.pipeline and scalar loops, no surrounding pl.at."""
    assert [e.op.name for e in Sequence.rows.lower().orchestration.walk()] == ["call"]
    same(Sequence.rows(X), X + 1)


# Directions.


@pl.jit
def plain_output(x: M, y: M):
    with pl.at(level=CORE):
        y[:] = x  # refused


def test_a_tensor_that_is_written_declares_a_direction():
    """1. Directions: a plain pl.Tensor is In, and its copy-back is skipped: here a store into it is an error at the store."""
    refused("PL203", plain_output.lower, at="y[:]")


@pl.jit
def appends(x: pl.Tensor[[1, COLS], pl.FP32], row: pl.Scalar[pl.INT32], cache: pl.InOut[M], seen: pl.Out[M]):
    with pl.at(level=CORE):
        seen[:] = cache
        cache[row : row + 1, :] = x


def test_out_is_write_only_and_inout_reads_history():
    """1. Directions: pl.Out is a pure output, pl.InOut is read-modify-write, such as a cache that is read and appended to."""
    cache = X.copy()
    seen = appends(np.full((1, COLS), -1, np.float32), 3, cache)
    same(seen, X)
    assert (cache[3] == -1).all() and (cache[4:] == X[4:]).all()


@pl.jit.inline
def with_a_direction(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = pl.muls(x, 2.0)
    return y


@pl.jit
def calls_with_a_direction(x: M, y: pl.Out[M]):
    with pl.at(level=CORE):
        with_a_direction(x, y)


def test_a_direction_on_an_inline_param_is_deprecated():
    """1. Directions: annotate the entry only; pl.Out or pl.InOut on an inline param raises a DeprecationWarning."""
    with pytest.warns(DeprecationWarning):
        same(calls_with_a_direction(X), 2 * X)


@pl.jit.inline
def bumps(cache):
    with pl.at(level=CORE):
        cache[:] = pl.adds(cache[:], 1.0)
    return cache


@pl.jit
def bumped(cache: pl.InOut[M]):
    bumps(cache)


def test_an_inout_entry_with_a_bare_inline_is_right():
    """1. Directions: entry pl.InOut paired with a bare-pl.Tensor inline is the correct combination."""
    cache = X.copy()
    bumped(cache)
    same(cache, X + 1)


# pl.at.


def test_core_group_is_the_level_of_a_region():
    """1. pl.at: level= is the lowering target; CORE_GROUP is the only level used."""

    def make():
        with pytest.raises(CallError) as caught:
            pl.at(level=pl.Level.HOST)
        return caught.value.code

    assert make() == "PL601"
    same(entry(X), 2 * X)


@pl.jit
def nested_regions(x: M, y: pl.Out[M]):
    with pl.at(level=CORE, name_hint="outer"):
        with pl.at(level=CORE, name_hint="first"):
            t = pl.muls(x, 2.0)
        with pl.at(level=CORE, name_hint="second"):
            y[:] = pl.adds(t, 1.0)


def test_regions_nest():
    """1. pl.at: blocks may nest: an outer one defining the InCore scope, with inner ones splitting it into named parts."""
    assert [k.name for k in nested_regions.lower().kernels] == ["outer"]
    same(nested_regions(X), 2 * X + 1)
