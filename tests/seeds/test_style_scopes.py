"""The coding style, sections 1, 5 and 6: `pl.at` scopes, `pl.spmd`, mixed regions. One test per statement, named after what it states."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl
from tests.everywhere import same_everywhere, traced_error

pytestmark = pytest.mark.limits

BF16 = ml_dtypes.bfloat16
M, K, N, TILE = 32, 64, 128, 32
A = np.random.default_rng(0).integers(-3, 4, (M, K)).astype(BF16)
B = np.random.default_rng(1).integers(-3, 4, (K, N)).astype(BF16)
AB = A.astype(np.float32) @ B.astype(np.float32)  # exact: small integers
Left = pl.Tensor[[M, K], pl.BF16]
Right = pl.Tensor[[K, N], pl.BF16]
Result = pl.Tensor[[M, N], pl.FP32]
X = np.random.default_rng(2).random((M, N), np.float32)


# ---- 1. pl.at scopes ---------------------------------------------------------------------------------------------


@pl.jit
def one_region(x: Result, out: pl.Out[Result]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="scale"):
        out[:] = pl.mul(x, 2.0)


def test_core_group_is_where_regions_go() -> None:
    """1. pl.at: `level=pl.Level.CORE_GROUP` is the lowering target of a `pl.at` block."""
    same_everywhere(one_region, X, want=[X * 2])


def test_a_name_hint_is_the_stable_label_of_a_region() -> None:
    """1. pl.at: `name_hint` is a stable label that appears in the names of generated kernels."""
    assert [k.name for k in one_region.lower().kernels] == ["scale"]
    assert "self.scale" in str(one_region.lower()) and str(one_region.lower()) == str(one_region.lower())


@pl.jit
def unnamed(x: Result, out: pl.Out[Result]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)


def test_a_name_hint_is_recommended_and_not_required() -> None:
    """1. pl.at: `name_hint` is recommended, not required."""
    assert len(unnamed.lower().kernels) == 1


@pl.jit
def nested(x: Result, out: pl.Out[Result]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="outer"):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="first"):
            y = pl.adds(x, 1.0)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="second"):
            out[:] = pl.mul(y, 2.0)


def test_pl_at_blocks_may_nest_and_the_inner_ones_are_named_parts() -> None:
    """1. pl.at: `pl.at` blocks may nest: inner ones, each with its name, are named parts of the outer."""
    same_everywhere(nested, X, want=[(X + 1) * 2])
    text = str(nested.lower())
    assert [k.name for k in nested.lower().kernels] == ["outer"]
    assert "name_hint='first'" in text and "name_hint='second'" in text


def silu_kernel(*optimizations):
    @pl.jit
    def gate_up_silu(a: Left, b: Right, out: pl.Out[Result]):
        for ob in pl.spmd(N // TILE, name_hint="gate_up_silu", optimizations=list(optimizations)):
            acc = pl.matmul(a, b[:, ob * TILE : ob * TILE + TILE])
            out[:, ob * TILE : ob * TILE + TILE] = pl.mul(acc, pl.recip(pl.adds(pl.exp(pl.neg(acc)), 1.0)))

    return gate_up_silu


@pytest.mark.parametrize("mode", list(pl.SplitMode), ids=lambda m: m.name)
def test_a_split_of_a_mixed_region_changes_no_number(mode: pl.SplitMode) -> None:
    """1. optimizations: `optimizations=[pl.split(mode)]` halves a mixed region, also on a `pl.spmd` loop."""
    plain, split = silu_kernel(), silu_kernel(pl.split(mode))
    assert np.array_equal(np.asarray(plain(A, B)), np.asarray(split(A, B)))
    assert dict(split.lower().kernels[0].options) == {"optimizations": (f"split({mode.name})",)}


def pure_vector(x: Result, out: pl.Out[Result]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):  # refused
        out[:] = pl.exp(x)


def pure_cube(a: Left, b: Right, out: pl.Out[Result]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.LEFT_RIGHT)]):  # refused
        out[:] = pl.matmul(a, b)


@pytest.mark.parametrize("fn", [pure_vector, pure_cube], ids=lambda f: f.__name__)
def test_a_pure_cube_or_pure_vector_region_has_nothing_to_ping_pong(fn) -> None:
    """1. optimizations: A split applies only to a mixed region; a pure one has nothing to ping-pong: an error here."""
    traced_error("PL507", fn, pl.jit, lambda k: k.lower())


# ---- 5. pl.spmd --------------------------------------------------------------------------------------------------


@pl.jit
def indices(out: pl.Out[pl.Tensor[[8, 8], pl.INT32]]):
    for i in pl.spmd(8, name_hint="indices"):
        row = pl.full([1, 8], dtype=pl.INT32, value=i)
        pl.write(row, [0, 1], pl.tile.get_block_idx())
        pl.write(row, [0, 2], pl.tile.get_block_num())
        out[i : i + 1, :] = row


def test_iteration_starts_at_0_and_steps_by_1_and_the_variable_is_the_block_index() -> None:
    """5. pl.spmd: `pl.spmd` starts at 0 and steps by 1; its variable is `pl.tile.get_block_idx()`."""
    want = np.repeat(np.arange(8, dtype=np.int32)[:, None], 8, 1)
    want[:, 2] = 8
    same_everywhere(indices, want=[want])


def test_only_the_block_count_is_positional() -> None:
    """5. pl.spmd: Of `pl.spmd` only the block count is positional."""
    with pytest.raises(TypeError):
        pl.spmd(0, 8)  # type: ignore[call-arg]


@pl.jit
def q_proj(a: Left, b: Right, out: pl.Out[Result]):
    for ob0 in pl.spmd(2, name_hint="q_proj"):
        for ob in pl.range(ob0 * 2, (ob0 + 1) * 2):
            q0 = ob * TILE
            out[:, q0 : q0 + TILE] = pl.matmul(a, b[:, q0 : q0 + TILE])


def test_the_loop_form_is_outlined_into_an_in_core_function() -> None:
    """5. pl.spmd: The body of the loop form is outlined into an in-core function."""
    same_everywhere(q_proj, A, B, want=[AB])
    (kernel,) = q_proj.lower().kernels
    assert kernel.name == "q_proj" and kernel.blocks


def surrounded(x: Result, out: pl.Out[Result]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.spmd(2):  # refused
            out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]


def test_no_surrounding_pl_at_is_needed_or_allowed() -> None:
    """5. pl.spmd: No surrounding `pl.at` is needed or allowed around `pl.spmd`."""
    traced_error("PL105", surrounded, pl.jit, lambda k: k.trace())


@pl.program
class Dispatch:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, a: Result, b: Result, out: pl.Out[Result]):
        row = pl.tile.get_block_idx() * 8
        out[row : row + 8, :] = pl.add(a[row : row + 8, :], b[row : row + 8, :])
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: Result, b: Result, out: pl.Out[Result]):
        with pl.spmd(4):
            out = self.kernel(a, b, out)
        return out


def test_the_context_manager_form_dispatches_an_in_core_kernel() -> None:
    """5. pl.spmd: `with pl.spmd(4): out = self.kernel(a, b, out)` dispatches a predefined in-core kernel."""
    same_everywhere(Dispatch, X, X, want=[X + X])


@pl.jit
def waves(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    for i in pl.spmd(64):
        out[i : i + 1, :] = x[i : i + 1, :]


def test_sync_start_is_off_by_default_so_blocks_come_in_waves_and_name_hint_is_empty() -> None:
    """5. pl.spmd: `sync_start` is False and `name_hint` empty by default."""
    x = np.random.default_rng(3).random((64, 64), np.float32)
    same_everywhere(waves, x, want=[x])
    assert "sync_start" not in str(waves.lower())


@pl.jit
def together(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    for i in pl.spmd(32, sync_start=True):
        out[i * 2 : i * 2 + 2, :] = x[i * 2 : i * 2 + 2, :]


def too_many_together(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    for i in pl.spmd(64, sync_start=True):  # refused
        out[i : i + 1, :] = x[i : i + 1, :]


def test_with_sync_start_all_blocks_start_at_once_so_there_are_no_more_than_cores() -> None:
    """5. pl.spmd: With `sync_start=True` all blocks start execution simultaneously."""
    x = np.random.default_rng(3).random((64, 64), np.float32)
    same_everywhere(together, x, want=[x])
    assert "sync_start=True" in str(together.lower())
    traced_error("PL508", too_many_together, pl.jit, lambda k: k.lower())


@pl.jit
def by_extent(x: pl.Tensor[[pl.dynamic("T"), 64], pl.FP32], out: pl.InOut[pl.Tensor[[64, 64], pl.FP32]]):
    rows = pl.tensor.dim(x, 0)
    for i in pl.spmd(rows * 64 // 128, name_hint="halves"):
        out[i * 2 : i * 2 + 2, :] = x[i * 2 : i * 2 + 2, :]


@pytest.mark.parametrize("rows", [2, 8, 64])
def test_the_block_count_may_be_a_scalar_or_a_composite_dynamic_expression(rows: int) -> None:
    """7. Dynamic: `pl.spmd` accepts a scalar or a composite dynamic expression as the block count."""
    x, want = np.ones((rows, 64), np.float32), np.zeros((64, 64), np.float32)
    want[:rows] = 1
    same_everywhere(by_extent, x, np.zeros((64, 64), np.float32), want=[want])


# Placement of the four loops


def loop_in_orchestration(kind: str):
    loop = {"range": pl.range, "parallel": pl.parallel, "pipeline": lambda n: pl.pipeline(n, stage=2), "spmd": pl.spmd}[kind]

    def k(x: Result, out: pl.Out[Result]):
        for i in loop(4):  # refused
            with pl.at(level=pl.Level.CORE_GROUP):
                out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]

    return k


def loop_in_a_region(kind: str):
    loop = {"range": pl.range, "parallel": pl.parallel, "pipeline": lambda n: pl.pipeline(n, stage=2), "spmd": pl.spmd}[kind]

    def k(x: Result, out: pl.Out[Result]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in loop(4):  # refused
                out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]

    return k


@pytest.mark.parametrize("kind, outside, inside", [("range", 1, 1), ("parallel", 1, 0), ("pipeline", 0, 1), ("spmd", 1, 0)])
def test_each_loop_has_its_placement_relative_to_pl_at(kind: str, outside: int, inside: int) -> None:
    """5. Placement: Each of the four loops has a fixed placement relative to `pl.at`."""
    for fits, fn in ((outside, loop_in_orchestration(kind)), (inside, loop_in_a_region(kind))):
        if fits:
            same_everywhere(pl.jit(fn), X, want=[X])
        else:
            traced_error("PL105", fn, pl.jit, lambda k: k.trace())


# ---- 6. Mixed cube and vector within one pl.at -------------------------------------------------------------------


@pl.jit
def projection(normed: Left, wq: Right, q_proj: pl.Out[pl.Tensor[[M, N], pl.BF16]]):
    for q0 in pl.parallel(0, N, TILE):
        q_acc = pl.create_tensor([M, TILE], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="q_proj"):
            for kb in pl.pipeline(0, K // 32, stage=2):
                k0 = kb * 32
                tile_a = pl.slice(normed, [M, 32], [0, k0])
                tile_b = pl.slice(wq, [32, TILE], [k0, q0])
                if kb == 0:
                    q_acc = pl.matmul(tile_a, tile_b)
                else:
                    q_acc = pl.matmul_acc(q_acc, tile_a, tile_b)
            q_bf16 = pl.cast(q_acc, target_type=pl.BF16)
            q_proj = pl.assemble(q_proj, q_bf16, [0, q0])
    return q_proj


def test_one_region_holds_a_pipelined_product_and_its_vector_epilogue() -> None:
    """6. Mixed regions: One `pl.at` region may hold a pipelined matmul and its vector epilogue."""
    same_everywhere(projection, A, B, want=[AB.astype(BF16)])
    assert projection.lower().kernels[0].unit == "mixed"
