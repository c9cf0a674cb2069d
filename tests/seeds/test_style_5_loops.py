"""Section 5 of the coding style: the four loops, and section 8: its conventions. One test per statement."""

import inspect

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError
from tests.refusals import refused

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
ROWS, COLS = 16, 64
M = pl.Tensor[[ROWS, COLS], pl.FP32]
ROW = pl.Tensor[[1, COLS], pl.FP32]
X = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)


def same(got, want):
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


def around(loop):
    """A kernel with the loop in orchestration, around a region."""

    @pl.jit
    def outside(x: M, out: pl.Out[M]):
        for r in loop:  # refused outside
            with pl.at(level=CORE):
                out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)

    return outside


def within(loop):
    """A kernel with the loop inside a region."""

    @pl.jit
    def inside(x: M, out: pl.Out[M]):
        with pl.at(level=CORE):
            for r in loop:  # refused inside
                out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)

    return inside


def test_range_stands_in_either_place():
    """5. Placement: pl.range is legal outside pl.at and inside."""
    same(around(pl.range(ROWS))(X), X + 1)
    same(within(pl.range(ROWS))(X), X + 1)


def test_parallel_stands_outside_a_region():
    """5. Placement: pl.parallel distributes iterations across cores, so it must sit in orchestration."""
    same(around(pl.parallel(ROWS))(X), X + 1)
    refused("PL105", within(pl.parallel(ROWS)).lower, at="loop", mark="# refused inside")


def test_pipeline_stands_inside_a_region():
    """5. Placement: pl.pipeline software-pipelines stages within a single InCore region, so it must sit inside pl.at."""
    same(within(pl.pipeline(ROWS, stage=2))(X), X + 1)
    refused("PL105", around(pl.pipeline(ROWS, stage=2)).lower, at="loop", mark="# refused outside")


def test_spmd_stands_outside_and_its_body_is_a_region():
    """5. Placement: pl.spmd sits outside pl.at, and its body is implicitly InCore."""

    @pl.jit
    def blocks(x: M, out: pl.Out[M]):
        for r in pl.spmd(ROWS):
            out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)

    same(blocks(X), X + 1)
    refused("PL105", within(pl.spmd(ROWS)).lower, at="loop", mark="# refused inside")


# Bounds.


@pytest.mark.parametrize("kind", ["range", "parallel", "pipeline", "unroll"])
@pytest.mark.parametrize(("bounds", "rows"), [((3,), [0, 1, 2]), ((2, 5), [2, 3, 4]), ((1, 8, 3), [1, 4, 7]), ((6, 0, -2), [6, 4, 2])])
def test_loops_take_the_bounds_of_a_range(kind, bounds, rows):
    """5. Bounds: pl.<loop>(stop), (start, stop), (start, stop, step), mirroring Python's range."""
    loop = getattr(pl, kind)
    made = within(loop(*bounds, stage=2)) if kind == "pipeline" else around(loop(*bounds))
    with pytest.warns(UserWarning, match="PL204"):
        out = np.asarray(made(X))
    assert np.flatnonzero(out.any(axis=1)).tolist() == sorted(rows)


@pl.jit
def bounded_by_scalars(x: M, start: pl.Scalar[pl.INT32], stop: pl.Scalar[pl.INT32], step: pl.Scalar[pl.INT32], out: pl.InOut[M]):
    for r in pl.range(start, stop, step):
        with pl.at(level=CORE):
            for _ in pl.pipeline(start, stop, step, stage=2):
                out[r : r + 1, :] = pl.adds(out[r : r + 1, :], 1.0)
    for r in pl.parallel(start, stop, step):
        with pl.at(level=CORE):
            out[r : r + 1, :] = pl.adds(out[r : r + 1, :], 100.0)


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 16, 1), (2, 11, 4), (9, 0, -3), (3, 3, 1)])
def test_bounds_may_be_scalars(start, stop, step):
    """5. Bounds: each argument may be either a Python int or a pl.Scalar."""
    turns = list(range(start, stop, step))
    want = np.zeros_like(X)
    want[turns] = 100 + len(turns)
    out = np.zeros_like(X)
    bounded_by_scalars(X, start, stop, step, out)
    same(out, want)


def test_a_step_of_zero_is_refused():
    """5. Bounds: a step is not zero (a literal when the loop is made, a scalar when it runs)."""
    with pytest.raises(CallError) as caught:
        pl.range(0, 4, 0)
    assert caught.value.code == "PL601"
    with pytest.raises(Exception) as raised:
        bounded_by_scalars(X, 0, 4, 0, np.zeros_like(X))
    assert raised.value.code == "PL308"


# Carries.


@pl.jit
def by_state(x: M, out: pl.Out[ROW]):
    with pl.at(level=CORE):
        zero = pl.full([1, COLS], dtype=pl.FP32, value=0.0)
        for i, (acc,) in pl.range(ROWS, init_values=(zero,)):
            acc = pl.add(acc, x[i : i + 1, :])
        out[:] = acc


@pl.jit
def by_rebinding(x: M, out: pl.Out[ROW]):
    with pl.at(level=CORE):
        acc = pl.full([1, COLS], dtype=pl.FP32, value=0.0)
        for i in pl.range(ROWS):
            acc = pl.add(acc, x[i : i + 1, :])
        out[:] = acc


@pl.jit
def by_yield(x: M, out: pl.Out[ROW]):
    with pl.at(level=CORE):
        zero = pl.full([1, COLS], dtype=pl.FP32, value=0.0)
        for i, (acc,) in pl.pipeline(ROWS, stage=2, init_values=(zero,)):
            total = pl.yield_(pl.add(acc, x[i : i + 1, :]))
        out[:] = total


def test_iterations_of_a_range_run_in_order_and_carry():
    """5. pl.range: iterations execute in strict order; loop-carried dependencies are allowed."""
    same(by_rebinding(X), X.sum(0, keepdims=True))


def test_a_state_is_unpacked_beside_the_index():  # C61
    """5. pl.range: to carry state, pass init_values= and unpack the loop variable as a (idx, (state...)) tuple; rebinding is the same."""
    same(by_state(X), np.asarray(by_rebinding(X)))


def test_a_pipeline_takes_init_values():
    """5. pl.pipeline: init_values= is supported, with the same (idx, (state...)) unpacking as pl.range; pl.yield_ feeds it."""
    same(by_yield(X), np.asarray(by_rebinding(X)))


def test_parallel_takes_init_values():
    """5. pl.parallel: iterations are independent; same arg shape and init_values support as pl.range."""

    @pl.jit
    def kernel(x: M, out: pl.Out[M]):
        for r, (o,) in pl.parallel(ROWS, init_values=(out,)):
            with pl.at(level=CORE):
                o[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)

    same(kernel(X), X + 1)


# pl.pipeline.


def test_a_pipeline_says_how_deep_it_is():
    """5. pl.pipeline: stage=N is a required keyword, a positive number."""
    with pytest.raises(TypeError):
        pl.pipeline(4)
    with pytest.raises(CallError) as caught:
        pl.pipeline(4, stage=0)
    assert caught.value.code == "PL601"


@pytest.mark.parametrize("stage", [1, 2, 3, 4, 7])
def test_a_trip_count_that_stages_do_not_divide_is_covered(stage):
    """5. pl.pipeline: the body is replicated stage times, and a tail covers the remainder: numbers do not depend on stage."""
    same(within(pl.pipeline(ROWS, stage=stage))(X), X + 1)


@pl.jit
def k_loop(a: pl.Tensor[[16, 64], pl.BF16], b: pl.Tensor[[64, 32], pl.BF16], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
    acc = pl.create_tensor([16, 32], dtype=pl.FP32)
    with pl.at(level=CORE):
        for kb in pl.pipeline(64 // 32, stage=2):
            k0 = kb * 32
            if kb == 0:
                acc = pl.matmul(a[:, k0 : k0 + 32], b[k0 : k0 + 32, :])
            else:
                acc = pl.matmul_acc(acc, a[:, k0 : k0 + 32], b[k0 : k0 + 32, :])
        out[:] = acc


def test_a_pipeline_is_the_k_loop_of_a_matmul():
    """5. pl.pipeline: use it for the inner reduction loop of a matmul, accumulating into the same output."""
    import ml_dtypes

    a, b = (np.arange(n * m).reshape(n, m) % 5 for n, m in ((16, 64), (64, 32)))
    same(k_loop(a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)), (a @ b).astype(np.float32))


# pl.spmd.


@pl.jit.incore
def one_row(x: M, out: pl.Out[M]):
    r = pl.tile.get_block_idx()
    out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)
    return out


@pl.jit
def as_a_loop(x: M, out: pl.Out[M]):
    for r in pl.spmd(ROWS, name_hint="rows"):
        out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)


@pl.jit
def as_a_scope(x: M, out: pl.Out[M]):
    with pl.spmd(ROWS):
        out = one_row(x, out)


def test_the_loop_form_binds_the_block_index():
    """5. pl.spmd: loop form: the iteration variable binds the per-block index; the body becomes an InCore function."""
    same(as_a_loop(X), X + 1)
    assert [(k.name, k.blocks) for k in as_a_loop.lower().kernels] == [("rows", True)]


def test_the_scope_form_calls_one_in_core_kernel():
    """5. pl.spmd: context-manager form: the body is a call to a pre-defined InCore kernel, which reads the block index."""
    same(as_a_scope(X), X + 1)


def test_spmd_takes_a_block_count_only():
    """5. pl.spmd: iteration starts at 0 and steps by 1; only the block count is positional."""
    with pytest.raises(TypeError):
        pl.spmd(0, 4)
    assert inspect.signature(pl.spmd).parameters["sync_start"].default is False
    assert inspect.signature(pl.spmd).parameters["name_hint"].default == ""


@pl.jit
def named_blocks(x: M, out: pl.Out[M]):
    for r in pl.spmd(ROWS, name_hint="q_proj", sync_start=True):
        out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)


def test_spmd_takes_a_name_and_a_start():
    """5. pl.spmd: keywords: sync_start (all blocks start simultaneously), name_hint (label for the outlined function)."""
    same(named_blocks(X), X + 1)
    (kernel,) = named_blocks.lower().kernels
    assert kernel.name == "q_proj" and dict(kernel.options)["sync_start"]


# Section 8.

STEP = 4


def test_block_counts_are_written_where_the_loop_is():
    """8. Naming: tile sizes are named, block counts are inlined at the loop header: pl.spmd(ROWS // STEP)."""

    @pl.jit
    def kernel(x: M, out: pl.Out[M]):
        for q in pl.spmd(ROWS // STEP, name_hint="q_proj"):
            r = q * STEP
            out[r : r + STEP, :] = pl.adds(x[r : r + STEP, :], 1.0)

    same(kernel(X), X + 1)


def test_allocations_stand_near_their_first_use():
    """8. Naming: declare allocations and views near their first use, inside the outer loop if they are its scratch."""

    @pl.jit
    def kernel(x: M, out: pl.Out[M]):
        for r in pl.range(ROWS // STEP):
            scratch = pl.create_tensor([STEP, COLS], dtype=pl.FP32)
            rows = x[r * STEP : (r + 1) * STEP]
            with pl.at(level=CORE):
                scratch[:] = pl.adds(rows, 1.0)
            with pl.at(level=CORE):
                out[r * STEP : (r + 1) * STEP, :] = scratch

    same(kernel(X), X + 1)


def test_comments_are_for_readers():
    """8. Naming: comments state what, not why; they and their places change no program."""

    @pl.jit
    def kernel(x: M, out: pl.Out[M]):
        # add one
        with pl.at(level=CORE):
            out[:] = pl.adds(x, 1.0)  # all rows

    same(kernel(X), X + 1)
