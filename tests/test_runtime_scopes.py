"""Scopes of the runtime, clusters, named parts of regions, and what `optimizations=` may hold."""

from __future__ import annotations

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from tests.everywhere import same_everywhere, traced_error

Rows = pl.Tensor[[32, 64], pl.FP32]
Square = pl.Tensor[[32, 32], pl.FP32]
X = np.random.default_rng(1).random((32, 64), np.float32)


def marks(kernel: pl.Kernel) -> list[str]:
    """The edges of the scopes of a program, orchestration first."""
    program = kernel.lower()
    bodies = [program.orchestration, *(k.jaxpr for k in program.kernels)]
    found = [e for body in bodies for e in body.walk() if e.op.name == "scope"]
    return [f"{e.params['edge']} {e.params['kind']} {e.params['name']}".rstrip() for e in found]


# Runtime scopes


@pl.jit
def owned(x: Rows, out: pl.Out[Rows]):
    scratch = pl.create_tensor([32, 64], dtype=pl.FP32)
    with pl.manual_scope():
        with pl.at(level=pl.Level.CORE_GROUP) as first:
            scratch[:] = pl.mul(x, 2.0)
        with pl.at(level=pl.Level.CORE_GROUP, deps=[first]) as second:
            out[:] = pl.adds(scratch, 1.0)


def test_a_manual_scope_changes_no_number_and_is_part_of_the_program() -> None:
    same_everywhere(owned, X, want=[X * 2 + 1])
    assert marks(owned) == ["open manual", "close manual"]
    assert "with pl.manual_scope():" in str(owned.lower())


@pl.jit(auto_scope=False)
def by_hand(x: Rows, out: pl.Out[Rows]):
    for i in pl.range(2):
        with pl.scope():
            part = pl.create_tensor([16, 64], dtype=pl.FP32)
            with pl.at(level=pl.Level.CORE_GROUP) as tid:
                part[:] = pl.mul(x[i * 16 : i * 16 + 16, :], 2.0)
            with pl.scope(mode=pl.ScopeMode.MANUAL), pl.at(level=pl.Level.CORE_GROUP, deps=[tid]) as end:
                out[i * 16 : i * 16 + 16, :] = part


def test_scopes_nest_where_the_author_places_them() -> None:
    same_everywhere(by_hand, X, want=[X * 2])
    assert marks(by_hand) == ["open auto", "open manual", "close manual", "close auto"]


@pl.jit.inline(auto_scope=False)
def scoped_part(x: pl.Tensor, out: pl.Tensor):
    with pl.scope(), pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)
    return out


@pl.jit
def calls_it(x: Rows, out: pl.Out[Rows]):
    out = scoped_part(x, out)


def test_an_inline_function_may_place_scopes_of_its_own() -> None:
    same_everywhere(calls_it, X, want=[X * 2])
    assert marks(calls_it) == ["open auto", "close auto"]


def names_leave(x: Rows, out: pl.Out[Rows]):
    with pl.manual_scope():
        scratch = pl.create_tensor([32, 64], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP) as tid:
            scratch[:] = pl.mul(x, 2.0)
    with pl.at(level=pl.Level.CORE_GROUP, deps=[tid]) as end:
        out[:] = scratch


def test_what_a_scope_makes_has_its_names_after_it() -> None:
    same_everywhere(pl.jit(names_leave), X, want=[X * 2])


def auto_without_asking(x: Rows, out: pl.Out[Rows]):
    with pl.scope():  # refused
        out[:] = x


def auto_in_manual(x: Rows, out: pl.Out[Rows]):
    with pl.manual_scope(), pl.scope():  # refused
        out[:] = x


def manual_in_manual(x: Rows, out: pl.Out[Rows]):
    with pl.manual_scope(), pl.scope(mode=pl.ScopeMode.MANUAL):  # refused
        out[:] = x


def in_a_region(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP), pl.manual_scope():  # refused
        out[:] = x


def cluster_in_cluster(x: Rows, out: pl.Out[Rows]):
    with pl.cluster(), pl.cluster():  # refused
        out[:] = x


MISPLACED = {
    auto_without_asking: pl.jit,
    auto_in_manual: pl.jit(auto_scope=False),
    manual_in_manual: pl.jit,
    in_a_region: pl.jit,
    cluster_in_cluster: pl.jit,
}


@pytest.mark.parametrize("fn", MISPLACED, ids=lambda f: f.__name__)
def test_a_scope_that_may_not_stand_there_is_refused(fn) -> None:
    traced_error("PL506", fn, MISPLACED[fn], lambda k: k.trace())


def named_scope(x: Rows, out: pl.Out[Rows]):
    with pl.manual_scope() as tid:  # refused
        out[:] = x


def hint_in_a_cluster(x: Rows, out: pl.Out[Rows]):
    with pl.cluster(), pl.at(level=pl.Level.CORE_GROUP, allow_early_resolve=True):  # refused
        out[:] = x


def predicate_in_a_cluster(gate: pl.Tensor[[1], pl.INT32], x: Rows, out: pl.Out[Rows]):
    with pl.cluster():
        for i in pl.spmd(2, predicate=(gate[0] > 0)):  # refused
            out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]


@pytest.mark.parametrize("fn", [named_scope, hint_in_a_cluster, predicate_in_a_cluster], ids=lambda f: f.__name__)
def test_a_scope_is_no_task_and_a_cluster_takes_no_hints(fn) -> None:
    traced_error("PL504", fn, pl.jit, lambda k: k.trace())


def test_a_scope_deeper_than_the_runtime_has_is_refused() -> None:
    @pl.jit.inline(auto_scope=False)
    def deeper(x: pl.Tensor, out: pl.Tensor, depth: int):
        with pl.scope():  # refused
            if depth > 0:
                deeper(x, out, depth - 1)

    @pl.jit
    def k(x: Rows, out: pl.Out[Rows]):
        for _ in pl.unroll(1):
            half(x, out)

    @pl.jit.inline(auto_scope=False)
    def half(x: pl.Tensor, out: pl.Tensor):
        nest(x, out, 33)

    @pl.jit.inline(auto_scope=False)
    def nest(x: pl.Tensor, out: pl.Tensor, depth: int):
        with pl.scope(), pl.scope():  # refused
            if depth > 1:
                nest(x, out, depth - 1)

    with pytest.raises(PyptoError) as caught:
        k.trace()
    assert caught.value.code == "PL506"


# Clusters


@pl.jit
def side_by_side(x: Rows, out: pl.Out[Rows]):
    with pl.cluster(name_hint="pair"):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="upper"):
            out[0:16, :] = pl.mul(x[0:16, :], 2.0)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="lower"):
            out[16:32, :] = pl.mul(x[16:32, :], 3.0)


def test_a_cluster_groups_dispatches_and_changes_no_number() -> None:
    same_everywhere(side_by_side, X, want=[np.concatenate([X[:16] * 2, X[16:] * 3])])
    assert marks(side_by_side) == ["open cluster pair", "close cluster pair"]


# Named parts of a region


@pl.jit
def parts(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="whole"):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="scale"):
            y = pl.mul(x, 2.0)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="shift"):
            out[:] = pl.adds(y, 1.0)


def test_a_region_in_a_region_is_a_named_part_of_it() -> None:
    same_everywhere(parts, X, want=[X * 2 + 1])
    assert [k.name for k in parts.lower().kernels] == ["whole"]
    assert marks(parts) == ["open part scale", "close part scale", "open part shift", "close part shift"]


# Levels and optimizations


@pl.jit
def mixed(x: Square, y: Square, out: pl.Out[Square]):
    chosen = [pl.split(pl.SplitMode.UP_DOWN), pl.cross_core_slot(slot_num=4)]
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="mixed", optimizations=chosen):
        out[:] = pl.exp(pl.matmul(x, y))


def test_optimizations_are_kept_on_the_kernel() -> None:
    (kernel,) = mixed.lower().kernels
    assert dict(kernel.options) == {"optimizations": ("split(UP_DOWN)", "cross_core_slot(4)")}
    assert kernel.unit == "mixed" and "split(UP_DOWN)" in str(mixed.lower())


def split_of_vector_work(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.LEFT_RIGHT)]):  # refused
        out[:] = pl.exp(x)


def split_of_cube_work(x: Square, out: pl.Out[Square]):
    for i in pl.spmd(1, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):  # refused
        out[:] = pl.matmul(x, x)


def vector_work_on_the_cube(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.AIC):  # refused
        out[:] = pl.exp(x)


def cube_work_on_a_vector_core(x: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.AIV):  # refused
        out[:] = pl.exp(pl.matmul(x, x))


@pytest.mark.parametrize(
    "fn", [split_of_vector_work, split_of_cube_work, vector_work_on_the_cube, cube_work_on_a_vector_core], ids=lambda f: f.__name__
)
def test_a_kernel_must_do_what_its_split_or_level_says(fn) -> None:
    traced_error("PL507", fn, pl.jit, lambda k: k.lower())


def test_a_split_of_none_and_the_right_level_are_fine() -> None:
    @pl.jit
    def k(x: Rows, out: pl.Out[Rows]):
        with pl.at(level=pl.Level.AIV, optimizations=[pl.split(pl.SplitMode.NONE, slot_num=2)]):
            out[:] = pl.exp(x)

    assert dict(k.lower().kernels[0].options) == {"level": "AIV", "optimizations": ("split(NONE, slot_num=2)",)}


def test_the_cpu_platform_has_no_units() -> None:
    with pypto.override(platform="cpu"):
        assert pl.jit(split_of_vector_work).lower().kernels[0].unit == "vector"


ARGUMENTS = {
    "a level that holds no tiles": lambda: pl.at(level=pl.Level.HOST),
    "a level that is none": lambda: pl.at(level=2),
    "a hint that is no string": lambda: pl.at(level=pl.Level.CORE_GROUP, name_hint=3),
    "an optimization that is none": lambda: pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.SplitMode.UP_DOWN]),
    "optimizations that are no list": lambda: pl.at(level=pl.Level.CORE_GROUP, optimizations=pl.auto_chunk),
    "two splits": lambda: pl.spmd(4, optimizations=[pl.split(pl.SplitMode.UP_DOWN), pl.split(pl.SplitMode.NONE)]),
    "a mode that is none": lambda: pl.split("UP_DOWN"),
    "no slots": lambda: pl.cross_core_slot(slot_num=0),
    "a scope mode that is none": lambda: pl.scope(mode="manual"),
    "no turns": lambda: pl.parallel(4, chunk=0),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_bad_arguments_of_scopes_are_refused(case: str) -> None:
    with pytest.raises(PyptoError) as caught:
        ARGUMENTS[case]()
    assert caught.value.code == "PL601"


# Loops cut into tasks


@pl.jit
def chunked(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.auto_chunk]):
        for i in pl.parallel(4, chunk=2):
            out[i * 8 : i * 8 + 8, :] = pl.mul(x[i * 8 : i * 8 + 8, :], 2.0)


def test_a_parallel_loop_may_stand_in_a_region_that_is_cut_into_chunks() -> None:
    same_everywhere(chunked, X, want=[X * 2])
    (kernel,) = chunked.lower().kernels
    (loop,) = [e for e in kernel.jaxpr.walk() if e.op.name == "loop"]
    assert loop.params["kind"] == "parallel" and loop.params["chunk"] == 2 and "chunk=2" in str(chunked.lower())


def chunk_without_asking(x: Rows, out: pl.Out[Rows]):
    for i in pl.parallel(4, chunk=2):  # refused
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]


def test_a_chunk_without_auto_chunk_around_it_is_refused() -> None:
    traced_error("PL504", chunk_without_asking, pl.jit, lambda k: k.trace())
