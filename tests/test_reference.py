"""The reference executor: bounds, shadow bits, windows of memory, and what nobody wrote."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.core.avals import RefAval, TileAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Literal, Var
from pypto.errors import NumericsError, PyptoError, ShapeError
from pypto.interpreters.reference import Machine, eval_jaxpr
from pypto.interpreters.values import Buffer, Ref, Value, boxes
from pypto.platform import Space
from tests.bits import identical
from tests.op_runs import compute, value_of
from tests.refusals import refused, reports

X = np.arange(32, dtype=np.float32).reshape(4, 8)


def index(i):
    return Literal(np.int64(i), scalar(dtypes.INDEX))


def number(i):
    return Value(np.asarray(i, np.int64), ())


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


class Memory:
    """Runs equations on buffers, and keeps what they made."""

    def __init__(self, check=True):
        self.machine = Machine(check=check)

    def ref(self, array, name="x", *, written=True, visible=False):
        v = Var(RefAval(array.shape, dtypes.dtype_of(array.dtype)), name)
        known = None if written else np.zeros(array.shape, np.bool_)
        self.machine.env[v] = Ref.whole(Buffer(array, known, np.zeros(array.shape, np.bool_), name, visible))
        return v

    def run(self, op, *ins, aval=None, **params):
        out = Var(aval if aval is not None else op.abstract_eval([a.aval for a in ins], params)[0])
        self.machine.execute(Eqn(op, ins, (out,), params))
        return out

    def do(self, op, *ins, **params):
        self.machine.execute(Eqn(op, ins, (), params))

    def view(self, ref, starts, sizes, drop=()):
        return self.run(lax.view, ref, *map(index, starts), sizes=tuple(sizes), drop=drop)

    def load(self, ref, starts=None, sizes=None):
        shape = self.machine.env[ref].data.shape
        ins = map(index, starts or [0] * len(shape))
        return self.machine.env[self.run(lax.get, ref, *ins, sizes=tuple(sizes or shape), drop=(), valid=None, level="tensor", space=None)]

    def data(self, v):
        return self.machine.env[v].data


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


# What nobody wrote


def test_a_new_buffer_reads_as_zero_and_is_all_shadow():
    memory = Memory()
    made = memory.run(lax.alloc, shape=(2, 3), dtype=dtypes.FP32, space=Space.DDR, init=None, name="t")
    loaded = memory.load(made)
    assert not loaded.data.any() and loaded.taint is not None and loaded.taint.all()


def test_a_new_buffer_with_a_value_is_written():
    memory = Memory()
    made = memory.run(lax.alloc, shape=(2, 3), dtype=dtypes.FP32, space=Space.DDR, init=np.float32(2), name="t")
    loaded = memory.load(made)
    assert (loaded.data == 2).all() and loaded.taint is None


def test_a_store_takes_its_shadow_along_into_memory_nobody_sees():
    memory = Memory()
    target = memory.ref(np.zeros((2, 3), np.float32), "t", written=False)
    half = Value(X[:2, :3], (2, 3), X[:2, :3] > 8)
    source = Var(TileAval((2, 3), dtypes.FP32))
    memory.machine.env[source] = half
    memory.do(lax.set_, target, source, index(0), index(0), sizes=(2, 3), drop=())
    loaded = memory.load(target)
    assert loaded.taint is not None and (loaded.taint == (X[:2, :3] > 8)).all()
    memory.do(lax.set_, target, Literal(np.float32(0), scalar(dtypes.FP32)), index(0), index(0), sizes=(2, 3), drop=())
    assert memory.load(target).taint is None


def test_a_shadow_that_reaches_visible_memory_is_reported_with_its_element():
    memory = Memory()
    target = memory.ref(np.zeros((2, 3), np.float32), "out", written=False, visible=True)
    source = Var(TileAval((2, 3), dtypes.FP32))
    memory.machine.env[source] = Value(X[:2, :3], (2, 3), np.array([[0, 0, 0], [0, 1, 0]], bool))
    with pytest.raises(ShapeError) as caught:
        memory.do(lax.set_, target, source, index(0), index(0), sizes=(2, 3), drop=())
    assert caught.value.code == "PL306" and "[1, 1]" in caught.value.message and "`out`" in caught.value.message


def test_only_the_valid_part_is_stored():
    memory = Memory()
    array = np.full((2, 3), -7, np.float32)
    target = memory.ref(array, "out", written=False, visible=True)
    source = Var(TileAval((2, 3), dtypes.FP32, valid=(1, 2)))
    memory.machine.env[source] = Value(X[:2, :3], (1, 2), np.array([[0, 0, 1], [1, 1, 1]], bool))
    memory.do(lax.set_, target, source, index(0), index(0), sizes=(2, 3), drop=())
    assert identical(array, np.float32([[0, 1, -7], [-7, -7, -7]]))


def test_without_checks_there_are_no_shadows():
    memory = Memory(check=False)
    made = memory.run(lax.alloc, shape=(2, 3), dtype=dtypes.FP32, space=Space.DDR, init=None, name="t")
    assert memory.machine.env[made].written is None and memory.load(made).taint is None


@pl.jit
def partly_written(x: pl.Tensor[[4, 8], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(n):
            out[r : r + 1, 0:6] = x[r : r + 1, 0:6]


def test_elements_of_an_output_nobody_wrote_are_named_and_keep_what_they_had():
    found = np.full((4, 8), -7, np.float32)
    with reports("PL204") as texts:
        partly_written(X, 3, found)
    assert "out[0:3, 6:8]" in texts[0] and "out[3, 0:8]" in texts[0]
    assert identical(found[:3, :6], X[:3, :6]) and (found[3] == -7).all() and (found[:, 6:] == -7).all()


def test_an_output_of_which_no_element_was_written_is_an_error():
    with pytest.raises(PyptoError) as caught:
        partly_written(X, 0, np.zeros((4, 8), np.float32))
    assert caught.value.code == "PL202"


def test_boxes_cover_exactly_the_true_elements():
    rng = np.random.default_rng(0)
    for _ in range(50):
        mask = rng.integers(0, 2, (3, 4, 5)).astype(bool)
        again = np.zeros_like(mask)
        for text in boxes(mask):
            parts = [slice(*map(int, p.split(":"))) if ":" in p else int(p) for p in text.strip("[]").split(", ")]
            assert not again[tuple(parts)].any()
            again[tuple(parts)] = True
        assert (again == mask).all()


# Shadow bits through ops: one tainted element, and where it shows


def shadow(op, *values, **params):
    """The taint of the first result; an operand `(array, element)` is tainted there."""
    operands = []
    for v in values:
        array, at = v if isinstance(v, tuple) else (v, None)
        taint = np.zeros(np.shape(array), np.bool_)
        if at is not None:
            taint[at] = True
        operands.append(value_of(array, None, taint if at is not None else None))
    result = compute(op, operands, params)[0]
    return np.zeros(result.data.shape, int) if result.taint is None else result.taint.astype(int)


Y = X[:2, :3].copy()
MASK = np.array([[True, False, True], [False, True, False]])


def test_arithmetic_marks_the_same_element():
    assert shadow(lax.add, (Y, (0, 1)), Y).tolist() == [[0, 1, 0], [0, 0, 0]]


def test_broadcasting_spreads_a_shadow():
    assert shadow(lax.mul, (Y[:, :1].copy(), (1, 0)), Y).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert shadow(lax.broadcast, (Y[:1], (0, 2)), shape=(2, 3)).tolist() == [[0, 0, 1], [0, 0, 1]]


def test_a_reduction_marks_the_row_or_column_it_reduced():
    assert shadow(lax.reduce_sum, (Y, (1, 2)), axes=(1,), keepdims=True, order="lanes64").tolist() == [[0], [1]]
    assert shadow(lax.reduce_max, (Y, (1, 2)), axes=(0,), keepdims=True).tolist() == [[0, 0, 1]]


def test_a_product_marks_a_row_or_a_column():
    options = {"a_trans": False, "b_trans": False, "out_dtype": None, "numerics": "contract"}
    square = np.ones((3, 4), np.float32)
    assert shadow(lax.matmul, (Y, (1, 0)), square, **options).tolist() == [[0] * 4, [1] * 4]
    assert shadow(lax.matmul, Y, (square, (2, 3)), **options).tolist() == [[0, 0, 0, 1]] * 2
    turned = {**options, "a_trans": True}
    assert shadow(lax.matmul, (Y.T.copy(), (0, 1)), square, **turned).tolist() == [[0] * 4, [1] * 4]


def test_an_accumulator_keeps_its_shadow():
    options = {"a_trans": False, "b_trans": False, "numerics": "contract"}
    acc, square = np.zeros((2, 4), np.float32), np.ones((3, 4), np.float32)
    assert shadow(lax.matmul_acc, (acc, (0, 2)), Y, square, **options).tolist() == [[0, 0, 1, 0], [0] * 4]


def test_a_selection_shows_the_shadow_of_the_chosen_side_and_of_the_mask():
    assert shadow(lax.select, MASK, (Y, (0, 0)), Y).tolist() == [[1, 0, 0], [0, 0, 0]]
    assert not shadow(lax.select, MASK, (Y, (0, 1)), Y).any()
    assert shadow(lax.select, MASK, Y, (Y, (0, 1))).tolist() == [[0, 1, 0], [0, 0, 0]]
    assert shadow(lax.select, (MASK, (1, 2)), Y, Y).tolist() == [[0, 0, 0], [0, 0, 1]]


def test_filling_the_padding_clears_its_shadow_and_keeps_that_of_the_valid_part():
    taint = np.array([[0, 1, 1], [1, 1, 1]], bool)
    (result,) = compute(lax.fillpad, [value_of(Y, (1, 2), taint)], {"pad": "zero", "valid": None})
    assert result.taint is not None and result.taint.astype(int).tolist() == [[0, 1, 0], [0, 0, 0]]
    (clean,) = compute(lax.fillpad, [value_of(Y, (1, 1), taint)], {"pad": "zero", "valid": None})
    assert clean.taint is None


def test_movement_moves_shadows():
    assert shadow(lax.reshape, (Y, (1, 0)), shape=(3, 2)).tolist() == [[0, 0], [0, 1], [0, 0]]
    assert shadow(lax.transpose, (Y, (1, 0)), permutation=(1, 0)).tolist() == [[0, 1], [0, 0], [0, 0]]
    assert shadow(lax.concatenate, Y, (Y, (0, 1)), axis=1).tolist() == [[0, 0, 0, 0, 1, 0], [0] * 6]


def test_a_slice_takes_the_shadow_of_its_window_only():
    start = np.asarray(0, np.int64), np.asarray(1, np.int64)
    assert shadow(lax.slice_, (Y, (1, 2)), *start, sizes=(2, 2)).tolist() == [[0, 0], [0, 1]]
    assert not shadow(lax.slice_, (Y, (1, 0)), *start, sizes=(2, 2)).any()


def test_an_update_clears_what_it_covers():
    at = np.asarray(0, np.int64), np.asarray(0, np.int64)
    assert not shadow(lax.update, (Y, (0, 0)), Y[:1, :2].copy(), *at, sizes=(1, 2)).any()
    assert shadow(lax.update, (Y, (1, 0)), (Y[:1, :2].copy(), (0, 1)), *at, sizes=(1, 2)).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_a_tainted_scalar_taints_a_whole_tile():
    operands = [value_of(Y), value_of(np.float32(2), (), np.asarray(True))]
    (result,) = compute(lax.mul, operands, {})
    assert result.taint is not None and result.taint.all()


def test_an_address_may_not_come_from_a_shadow():
    operands = [value_of(Y), value_of(np.asarray(0, np.int64), (), np.asarray(True)), value_of(np.asarray(0, np.int64))]
    with pytest.raises(ShapeError) as caught:
        compute(lax.slice_, operands, {"sizes": (1, 1)})
    assert caught.value.code == "PL306"


def test_a_clean_result_carries_no_taint_at_all():
    taint = np.zeros((2, 3), np.bool_)
    (result,) = compute(lax.add, [value_of(Y, None, taint), value_of(Y)], {})
    assert result.taint is None


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
    memory.do(lax.cond, Literal(np.bool_(taken), scalar(dtypes.BOOL)), then=arms[0], orelse=arms[1])
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
