"""Shadow bits: what nobody wrote or is not valid, followed through memory and through every kind of op."""

import numpy as np
import pytest

import pypto.language as pl
from pypto import dtypes, lax
from pypto.core.avals import TileAval, scalar
from pypto.core.ir import Literal, Var
from pypto.core.op import OPS
from pypto.errors import PyptoError, ShapeError
from pypto.interpreters.values import Value, boxes
from pypto.platform import Space
from tests.bits import identical
from tests.memory import Memory, index
from tests.op_runs import compute, value_of
from tests.refusals import reports

X = np.arange(32, dtype=np.float32).reshape(4, 8)


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
    assert shadow(lax.broadcast_to, (Y[:1], (0, 2)), shape=(2, 3)).tolist() == [[0, 0, 1], [0, 0, 1]]


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
    assert shadow(OPS["concatenate"], Y, (Y, (0, 1)), axis=1).tolist() == [[0, 0, 0, 0, 1, 0], [0] * 6]


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
