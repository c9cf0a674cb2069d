"""The reference executor: bounds, windows of memory, hazards and control."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.core.avals import RefAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Literal, Var
from pypto.errors import NumericsError, PyptoError, ShapeError
from pypto.interpreters.reference import Machine, eval_jaxpr
from pypto.lax import control
from tests.bits import identical
from tests.memory import Memory, index
from tests.op_runs import compute, value_of
from tests.refusals import refused, reports

X = np.arange(32, dtype=np.float32).reshape(4, 8)


# Bounds


@pl.jit
def row(x: pl.Tensor[[4, 8], pl.FP32], r: pl.Scalar[pl.INT32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(pl.slice(x, [4, 8], [r, 0], valid_shape=[n, 8]))  # refused


@pl.jit
def stored(x: pl.Tensor[[4, 8], pl.FP32], r: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[r : r + 2, 0:8] = x[0:2]  # refused


@pl.jit
def element(x: pl.Tensor[[4, 8], pl.FP32], r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.read(x, [r, c])  # refused
        out[:] = pl.full([4, 8], dtype=pl.FP32, value=s)


@pl.jit
def tile_window(x: pl.Tensor[[4, 8], pl.FP32], r: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = pl.muls(x, 2.0)
        out[:] = tile[r : r + 2, :]  # refused


@pl.jit
def outside_view(x: pl.Tensor[[4, 8], pl.FP32], r: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    part = x[r : r + 2, :]  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = part


PAST = [
    (row, (X, 2, 3), "pl.slice(x, [4, 8], [r, 0], valid_shape=[n, 8])", ("2:5", "extent 4", "`x`")),
    (row, (X, -1, 3), "pl.slice(x, [4, 8], [r, 0], valid_shape=[n, 8])", ("-1:2", "extent 4", "`x`")),
    (stored, (X, 3), "out[r : r + 2, 0:8]", ("3:5", "extent 4", "`out`")),
    (stored, (X, -1), "out[r : r + 2, 0:8]", ("-1:1", "extent 4", "`out`")),
    (element, (X, 4, 0), "pl.read(x, [r, c])", ("rows 4:5", "extent 4", "`x`")),
    (element, (X, 0, 8), "pl.read(x, [r, c])", ("columns 8:9", "extent 8", "`x`")),
    (tile_window, (X, 3), "tile[r : r + 2, :]", ("3:5", "extent 4", "`tile`")),
    (outside_view, (X, 3), "x[r : r + 2, :]", ("3:5", "extent 4", "`x`")),
]


@pytest.mark.parametrize("check", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("kernel, args, at, named", PAST, ids=lambda p: getattr(getattr(p, "fn", None), "__name__", ""))
def test_a_window_past_the_extent_is_refused_whatever_is_checked(kernel, args, at, named, check):
    with pypto.override(check=check):
        error = refused("PL303", kernel, *args, at=at)
    assert all(text in error.message for text in named), error.message


@pytest.mark.parametrize("n", [-1, 5])
def test_a_valid_extent_outside_the_window_is_refused(n):
    error = refused("PL303", row, X, 0, n, at="pl.slice(x, [4, 8], [r, 0], valid_shape=[n, 8])")
    assert str(n) in error.message


def test_windows_that_just_fit_are_fine():
    assert identical(row(X, 1, 3), np.vstack([X[1:4], np.zeros((1, 8), np.float32)]))
    assert identical(row(X, 4, 0), np.zeros((4, 8), np.float32))
    assert identical(tile_window(X, 2), X[2:4] * 2) and identical(outside_view(X, 2), X[2:4])
    with reports("PL204"):
        stored(X, 2)


# Windows of memory, at the level of equations


def test_a_view_shares_memory_and_a_view_of_a_view_does_too():
    memory, array = Memory(), X.copy()
    inner = memory.view(memory.view(memory.ref(array), (1, 2), (3, 5)), (1, 1), (2, 2))
    assert np.shares_memory(memory.data(inner), array) and identical(memory.data(inner), X[2:4, 3:5])


def test_a_store_through_a_view_reaches_the_buffer_and_nothing_else():
    memory, array = Memory(), X.copy()
    part = memory.view(memory.ref(array), (1, 2), (2, 3))
    memory.do(lax.set_, part, Literal(np.float32(9), scalar(dtypes.FP32)), index(0), index(1), sizes=(2, 2), drop=())
    want = X.copy()
    want[1:3, 3:5] = 9
    assert identical(array, want)


def test_a_view_drops_the_axes_an_integer_indexed():
    memory = Memory()
    assert identical(memory.data(memory.view(memory.ref(X), (2, 0), (1, 8), drop=(0,))), X[2])


def test_an_empty_window_is_a_window():
    memory = Memory()
    empty = memory.view(memory.ref(X), (4, 0), (0, 8))
    assert memory.data(empty).shape == (0, 8) and memory.load(empty).data.shape == (0, 8)


@pytest.mark.parametrize("starts, sizes", [((-1, 0), (2, 8)), ((3, 0), (2, 8)), ((0, 0), (-1, 8)), ((0, 7), (4, 2))])
def test_a_window_that_is_not_inside_is_refused(starts, sizes):
    memory = Memory()
    with pytest.raises(ShapeError) as caught:
        memory.run(lax.view, memory.ref(X), *map(index, starts), sizes=tuple(sizes), drop=(), aval=RefAval((1, 1), dtypes.FP32))
    assert caught.value.code == "PL303" and "`x`" in caught.value.message


def test_a_transposed_view_reads_and_writes_the_buffer():
    memory, array = Memory(), X.copy()
    turned = memory.run(lax.transpose_view, memory.ref(array), permutation=(1, 0))
    assert identical(memory.load(turned).data, X.T.copy())
    memory.do(lax.set_, turned, Literal(np.float32(9), scalar(dtypes.FP32)), index(5), index(1), sizes=(1, 1), drop=())
    assert array[1, 5] == 9


def test_a_window_of_a_transposed_view_is_turned_before_it_is_cut():
    memory = Memory()
    turned = memory.run(lax.transpose_view, memory.ref(X), permutation=(1, 0))
    assert identical(memory.load(turned, (6, 1), (2, 3)).data, X.T[6:8, 1:4].copy())


def test_a_reshaped_view_shares_memory_where_the_window_has_no_gaps():
    memory, array = Memory(), X.copy()
    flat = memory.run(lax.reshape_view, memory.view(memory.ref(array), (1, 0), (2, 8)), shape=(4, 4))
    assert np.shares_memory(memory.data(flat), array) and identical(memory.data(flat), X[1:3].reshape(4, 4))


@pytest.mark.parametrize("make", ["window", "transposed"])
def test_a_window_with_gaps_cannot_be_reshaped(make):
    memory = Memory()
    x = memory.ref(X)
    gapped = memory.view(x, (0, 0), (4, 4)) if make == "window" else memory.run(lax.transpose_view, x, permutation=(1, 0))
    with pytest.raises(ShapeError) as caught:
        memory.run(lax.reshape_view, gapped, shape=(memory.data(gapped).size,))
    assert caught.value.code == "PL301" and "`x`" in caught.value.message


def test_another_number_of_elements_is_no_reshape():
    memory = Memory()
    with pytest.raises(ShapeError) as caught:
        memory.run(lax.reshape_view, memory.ref(X), shape=(5, 5), aval=RefAval((5, 5), dtypes.FP32))
    assert caught.value.code == "PL301"


def test_a_copy_of_overlapping_windows_is_as_if_the_source_was_read_first():
    memory, array = Memory(), X.copy()
    x = memory.ref(array)
    memory.do(lax.copy, memory.view(x, (1, 0), (3, 8)), memory.view(x, (0, 0), (3, 8)))
    assert identical(array[1:4], X[0:3])


def test_a_loaded_tile_does_not_follow_the_buffer():
    memory, array = Memory(), X.copy()
    tile = memory.load(memory.ref(array))
    array[:] = 0
    assert identical(tile.data, X)


def test_what_is_read_is_the_extent_at_run_time():
    memory = Memory()
    x = memory.ref(X)
    assert memory.data(memory.run(lax.dim, x, axis=1)) == 8
    assert memory.data(memory.run(lax.dim, memory.view(x, (0, 0), (2, 3)), axis=1)) == 3


# Hazards


def quotient(x, y, taint=None, valid=None, check=True):
    operands = [value_of(np.int32(x), valid), value_of(np.int32(y), valid, taint)]
    return compute(lax.div, operands, {}, check=check)[0].data.tolist()


def test_an_integer_divided_by_zero_is_an_error_where_it_is_checked_and_zero_elsewhere():
    with pytest.raises(NumericsError) as caught:
        quotient([[6, 7]], [[2, 0]])
    assert caught.value.code == "PL704" and "[0, 1]" in caught.value.message
    assert quotient([[6, 7]], [[2, 0]], check=False) == [[3, 0]]


def test_a_zero_divisor_nobody_can_see_is_no_error():
    assert quotient([[6, 7]], [[2, 0]], taint=np.array([[False, True]])) == [[3, 0]]
    assert quotient([[6, 7]], [[2, 0]], valid=(1, 1)) == [[3, 0]]


def test_a_float_divided_by_zero_is_infinite():
    (result,) = compute(lax.div, [value_of(np.float32([[1, -1, 0]])), value_of(np.float32([[0, 0, 0]]))], {})
    assert result.data[0, :2].tolist() == [np.inf, -np.inf] and np.isnan(result.data[0, 2])


# Control


def loop_of(start, stop, step):
    """What a loop over these bounds adds up to, and its turns."""
    i, total = Var(scalar(dtypes.INDEX)), Var(scalar(dtypes.INDEX))
    ten, after = Var(scalar(dtypes.INDEX)), Var(scalar(dtypes.INDEX))
    body = Jaxpr((i, total), (Eqn(lax.mul, (total, index(10)), (ten,), {}), Eqn(lax.add, (ten, i), (after,), {})), (after,))
    out = Var(scalar(dtypes.INDEX))
    bounds = tuple(index(n) for n in (start, stop, step))
    jaxpr = Jaxpr((), (Eqn(lax.loop, (*bounds, index(0)), (out,), {"body": body, "kind": "range", "stage": None}),), (out,))
    return int(Machine().run(jaxpr, [])[0].data)


@pytest.mark.parametrize(
    "bounds, digits", [((1, 4, 1), 123), ((1, 9, 3), 147), ((3, 0, -1), 321), ((0, 0, 1), 0), ((5, 2, 1), 0), ((9, 0, -4), 951)]
)
def test_a_loop_takes_pythons_turns(bounds, digits):
    assert loop_of(*bounds) == digits


def test_a_loop_with_step_zero_is_refused():
    with pytest.raises(ShapeError) as caught:
        loop_of(0, 3, 0)
    assert caught.value.code == "PL308"


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_that_is_not_taken_has_no_effect(taken):
    memory, array = Memory(), np.zeros((1, 1), np.float32)
    x = memory.ref(array)
    store = {"sizes": (1, 1), "drop": ()}
    arms = [
        Jaxpr((), (Eqn(lax.set_, (x, Literal(np.float32(n), scalar(dtypes.FP32)), index(0), index(0)), (), store),), ()) for n in (1, 2)
    ]
    memory.do(control.cond, Literal(np.bool_(taken), scalar(dtypes.BOOL)), then=arms[0], orelse=arms[1])
    assert array[0, 0] == (1 if taken else 2)


@pl.jit
def swapped(x: pl.Tensor[[1, 8], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    a = pl.create_tensor([1, 8], dtype=pl.FP32)
    b = pl.create_tensor([1, 8], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = x
        b[:] = pl.muls(x, -1.0)
    for _ in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            b[:] = pl.adds(b, 1.0)
        a, b = b, a
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_carried_handles_are_passed_along_not_copied(n):
    x, a, b = X[:1], X[:1], -X[:1]
    for _ in range(n):
        a, b = b + 1, a
    assert identical(swapped(x, n), a)


def test_blocks_run_in_ascending_order():
    @pl.jit
    def k(out: pl.InOut[pl.Tensor[[1, 8], pl.FP32]]):
        for b in pl.spmd(4):
            out[:] = pl.adds(pl.muls(out[:], 10.0), pl.cast(b, pl.FP32))

    found = np.zeros((1, 8), np.float32)
    k(found)
    assert found[0, 0] == 123


def test_an_error_inside_nested_bodies_points_at_the_innermost_line():
    @pl.jit
    def k(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        for r in pl.range(4):
            with pl.at(level=pl.Level.CORE_GROUP):
                if r > 1:
                    out[r : r + 2, :] = x[0:2, :]  # refused

    error = refused("PL303", k, X, np.zeros((4, 8), np.float32), at="out[r : r + 2, :]")
    assert "3:5" in error.message


# Array programs


def test_a_jaxpr_of_arrays_runs_on_numpy_values():
    def f(x):
        return x * 2.0 + 1.0, lax.reduce_sum(x, axes=(1,))

    doubled, sums = eval_jaxpr(pypto.make_jaxpr(f)(X), X)
    assert identical(doubled, X * 2 + 1) and identical(sums, X.sum(1))


def test_the_machine_checks_results_against_the_abstract_rule(monkeypatch):
    jaxpr = pypto.make_jaxpr(lax.exp)(X)
    monkeypatch.setattr(lax.exp, "meaning", lambda x: x[:1])
    with pytest.raises(PyptoError) as caught:
        eval_jaxpr(jaxpr, X)
    assert caught.value.code == "PL901"
