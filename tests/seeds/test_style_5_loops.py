"""Section 5 of the coding style: the loops, their arguments and where they may stand. One test per statement."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
ROWS, COLS = 8, 16
M = pl.Tensor[[ROWS, COLS], pl.FP32]
ROW = pl.Tensor[[1, COLS], pl.FP32]
X = np.random.default_rng(5).integers(-9, 10, (ROWS, COLS)).astype(np.float32)


def same(got, want):
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


def outside(loop):
    @pl.jit
    def kernel(x: M, out: pl.Out[M]):
        for r in loop():
            with pl.at(level=CORE):
                out[r : r + 1, :] = pl.muls(x[r : r + 1, :], 2.0)

    return kernel


def inside(loop):
    @pl.jit
    def kernel(x: M, out: pl.Out[M]):
        with pl.at(level=CORE):
            for r in loop():
                out[r : r + 1, :] = pl.muls(x[r : r + 1, :], 2.0)

    return kernel


@pl.jit
def blocks(x: M, out: pl.Out[M]):
    for r in pl.spmd(ROWS):
        out[r : r + 1, :] = pl.muls(x[r : r + 1, :], 2.0)


@pl.jit
def blocks_in_a_region(x: M, out: pl.Out[M]):
    with pl.at(level=CORE):
        for r in pl.spmd(ROWS):
            out[r : r + 1, :] = pl.muls(x[r : r + 1, :], 2.0)


LOOPS = {"range": lambda: pl.range(ROWS), "parallel": lambda: pl.parallel(ROWS), "pipeline": lambda: pl.pipeline(ROWS, stage=2)}
PLACES = [
    (outside(LOOPS["range"]), True),
    (inside(LOOPS["range"]), True),
    (outside(LOOPS["parallel"]), True),
    (inside(LOOPS["parallel"]), False),
    (outside(LOOPS["pipeline"]), False),
    (inside(LOOPS["pipeline"]), True),
    (blocks, True),
    (blocks_in_a_region, False),
]


@pytest.mark.parametrize(
    ("kernel", "legal"),
    PLACES,
    ids=["range-out", "range-in", "parallel-out", "parallel-in", "pipeline-out", "pipeline-in", "spmd-out", "spmd-in"],
)
def test_each_loop_has_its_place(kernel, legal):
    """5. Placement: pl.range both; pl.parallel outside pl.at only; pl.pipeline inside only; pl.spmd outside, its body implicitly InCore."""
    if legal:
        same(kernel(X), 2 * X)
    else:
        with pytest.raises(PyptoError) as caught:
            kernel.lower()
        assert caught.value.code == "PL105"


ARGUMENTS = [(ROWS,), (0, ROWS), (0, ROWS, 1), (2, ROWS), (1, ROWS, 3)]


@pytest.mark.parametrize("kind", ["range", "parallel", "pipeline"])
@pytest.mark.parametrize("args", ARGUMENTS, ids=str)
@pytest.mark.filterwarnings("ignore:PL204")
def test_loops_take_the_arguments_of_range(kind, args):
    """5. Arguments: pl.range, pl.parallel, pl.pipeline take (stop), (start, stop) or (start, stop, step), as Python's range."""
    extra = {"stage": 2} if kind == "pipeline" else {}
    kernel = (inside if kind == "pipeline" else outside)(lambda: getattr(pl, kind)(*args, **extra))
    out = np.zeros_like(X)
    kernel(X, out)
    want = np.zeros_like(X)
    for r in range(*args):
        want[r] = 2 * X[r]
    same(out, want)


@pl.jit
def bounds_are_scalars(x: M, n: pl.Scalar[pl.INT32], step: pl.Scalar[pl.INT32], out: pl.InOut[M]):
    with pl.at(level=CORE):
        for r in pl.range(1, n, step):
            out[r : r + 1, :] = pl.muls(x[r : r + 1, :], 2.0)


def test_a_bound_may_be_a_scalar():
    """5. Arguments: Each argument may be either a Python int or a pl.Scalar."""
    out = np.zeros_like(X)
    bounds_are_scalars(X, 7, 2, out)
    want = np.zeros_like(X)
    want[1:7:2] = 2 * X[1:7:2]
    same(out, want)


@pl.jit
def carries_by_name(x: M, out: pl.Out[ROW]):
    with pl.at(level=CORE):
        acc = pl.full([1, COLS], dtype=pl.FP32, value=0.0)
        for r in pl.range(ROWS):
            acc = pl.add(acc, x[r : r + 1, :])
        out[:] = acc


@pl.jit
def carries_by_init_values(x: M, out: pl.Out[ROW]):
    with pl.at(level=CORE):
        zero = pl.full([1, COLS], dtype=pl.FP32, value=0.0)
        for i, (acc,) in pl.range(ROWS, init_values=(zero,)):
            acc = pl.add(acc, x[i : i + 1, :])
        out[:] = acc


@pl.jit
def carries_in_a_pipeline(x: M, out: pl.Out[ROW]):
    with pl.at(level=CORE):
        zero = pl.full([1, COLS], dtype=pl.FP32, value=0.0)
        for i, (acc,) in pl.pipeline(ROWS, stage=4, init_values=(zero,)):
            acc = pl.add(acc, x[i : i + 1, :])
        out[:] = acc


@pytest.mark.parametrize("kernel", [carries_by_name, carries_by_init_values, carries_in_a_pipeline])
def test_state_is_carried_in_order(kernel):
    """5. pl.range: Iterations execute in strict order; state is carried by name, or by init_values= and (idx, (state...))."""
    same(kernel(X), X.sum(axis=0, keepdims=True))


def test_a_pipeline_needs_its_stage():
    """5. pl.pipeline: stage=N is a required keyword."""
    with pytest.raises(TypeError):
        pl.pipeline(ROWS)


@pytest.mark.parametrize("stage", [1, 2, 3, 4, 16])
def test_the_tail_of_a_pipeline_runs(stage):
    """5. pl.pipeline: A tail covers the remainder when the trip count is not divisible by stage; numbers do not depend on it."""
    same(inside(lambda: pl.pipeline(ROWS, stage=stage))(X), 2 * X)


def test_the_index_of_a_block_is_the_loop_variable():
    """5. pl.spmd: Loop form: the iteration variable binds the per-block index; iteration starts at 0 and steps by 1."""
    same(blocks(X), 2 * X)
    (kernel,) = blocks.lower().kernels
    assert kernel.blocks


@pl.jit.incore
def one_block(x: M, out: pl.Out[M]):
    r = pl.tile.get_block_idx()
    out[r : r + 1, :] = pl.muls(x[r : r + 1, :], 2.0)
    return out


@pl.jit
def dispatches(x: M, out: pl.Out[M]):
    with pl.spmd(ROWS):
        out = one_block(x, out)


def test_the_with_form_dispatches_an_incore_kernel():
    """5. pl.spmd: Context-manager form: a call to a pre-defined InCore kernel, once per block."""
    same(dispatches(X), 2 * X)


@pl.jit
def named_blocks(x: M, out: pl.Out[M]):
    for r in pl.spmd(ROWS, name_hint="q_proj", sync_start=True):
        out[r : r + 1, :] = pl.muls(x[r : r + 1, :], 2.0)


def test_spmd_takes_a_name_and_a_start():
    """5. pl.spmd: Keywords: sync_start (all blocks start simultaneously), name_hint (label for the outlined function)."""
    same(named_blocks(X), 2 * X)
    (kernel,) = named_blocks.lower().kernels
    assert kernel.name == "q_proj" and dict(kernel.options)["sync_start"]
