"""Rules of the contract that are about every operation, on both executors; and the tables of docs/numerics.md that name the tests."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax, numerics
from tests.refusals import f32

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "numerics.md").read_text()
ROW = pl.Tensor[[1, 8], pl.FP32]
TINY = 2.0**-149
EXECUTORS = pytest.mark.parametrize("executor", ["reference", "cpu"])


def run(kernel, *arrays, executor):
    with pypto.override(check=False, executor=executor):
        return np.asarray(kernel(*arrays))


# FP32: subnormals, contraction, reassociation


@pl.jit
def arithmetic(x: ROW, y: ROW, out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:1, :] = x + y
        out[1:2, :] = x - y
        out[2:3, :] = x * 0.5
        out[3:4, :] = x / 2.0


@EXECUTORS
def test_subnormal_operands_and_results_are_kept(executor):
    x, y = f32([[TINY, 3 * TINY, -TINY, 2.0**-126, 2.0**-126, 5 * TINY, 0, 7 * TINY]]), f32([[TINY] * 8])
    got = run(arithmetic, x, y, executor=executor)
    wide = x.astype(np.float64)
    want = np.concatenate([wide + TINY, wide - TINY, wide / 2, wide / 2]).astype(np.float32)
    assert got.tobytes() == want.tobytes()
    assert (np.abs(got[(got != 0)]) < 2.0**-126).any()


@pl.jit
def multiplies_and_adds(x: ROW, y: ROW, z: ROW, out: pl.Out[ROW]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * y + z


@EXECUTORS
def test_a_product_and_a_sum_round_twice(executor):
    """(1 + 2**-12)**2 - 1 - 2**-11 is 2**-24: a fused operation keeps it, the rounded product has lost it."""
    x = np.full((1, 8), 1 + 2.0**-12, np.float32)
    z = np.full((1, 8), -1 - 2.0**-11, np.float32)
    assert run(multiplies_and_adds, x, x, z, executor=executor).tolist() == [[0.0] * 8]


@pl.jit
def adds_and_takes_away(x: ROW, y: ROW, out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:1, :] = x + 1e8 - 1e8
        out[1:2, :] = x + y - y


@EXECUTORS
def test_sums_are_added_in_the_order_they_are_written(executor):
    """C36: (1 + 1e8) - 1e8 is 0, and 1 in every other order."""
    x, y = (np.full((1, 8), v, np.float32) for v in (1, 1e8))
    assert run(adds_and_takes_away, x, y, executor=executor).tolist() == [[0.0] * 8] * 2


# Movement

PAYLOADS = np.array([[0x7FC00001, 0xFFC12345, 0x80000000, 0x00000001, 0x7F800000, 0xFF800000, 0x7FA00001, 0x7FFFFFFF]], np.uint32)


@pl.jit
def moves(x: ROW, out: pl.Out[pl.Tensor[[5, 8], pl.FP32]], turned: pl.Out[pl.Tensor[[8, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [1, 8])
        out[0:1, :] = t
        out[1:2, :] = pl.sel(pl.cmp(t, t, pl.CmpType.EQ), t, t)
        out[2:3, :] = pl.concat(t[:, 0:4], t[:, 4:8])
        out[3:4, :] = pl.fillpad(pl.set_validshape(t, 1, 8))
        out[4:5, :] = pl.reshape(pl.reshape(t, [2, 4]), [1, 8])
        turned[:] = pl.transpose(t, 0, 1)


@EXECUTORS
def test_what_is_only_moved_keeps_its_bits_those_of_nan_too(executor):
    with pypto.override(check=False, executor=executor):
        out, turned = moves(PAYLOADS.view(np.float32))
    assert (np.asarray(out).view(np.uint32) == PAYLOADS).all()
    assert (np.asarray(turned).view(np.uint32)[:, 0] == PAYLOADS[0]).all()


def test_indexed_and_selected_elements_of_arrays_keep_their_bits():
    x, order = PAYLOADS[0].view(np.float32), np.int32([3, 0, 1, 7])
    assert np.asarray(lax.take(x, order, axis=0)).view(np.uint32).tolist() == PAYLOADS[0][order].tolist()
    chosen = lax.select(np.array([True, False] * 4), x, np.zeros(8, np.float32))
    assert np.asarray(chosen).view(np.uint32).tolist() == np.where([True, False] * 4, PAYLOADS[0], 0).tolist()


# Epilogues


@pl.jit
def adds_a_bias(
    a: pl.Tensor[[16, 16], pl.BF16],
    b: pl.Tensor[[16, 16], pl.BF16],
    bias: pl.Tensor[[1, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[16, 16], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul_bias(a, b, bias)


def test_a_bias_is_added_in_fp32_before_the_one_rounding():
    one = np.eye(16, dtype=ml_dtypes.bfloat16)
    a, b = np.zeros((16, 16), ml_dtypes.bfloat16), np.ones((16, 16), ml_dtypes.bfloat16)
    a[:, 0], a[:, 1] = 1, 2.0**-8  # their sum is a tie, and rounds to 1 when it is rounded first
    bias = np.full((1, 16), 2.0**-9, np.float32)
    assert float(lax.matmul_bias(a, b, bias, out_dtype=pl.FP32)[0, 0]) == 1 + 2.0**-8 + 2.0**-9
    assert float(lax.matmul_bias(a, b, bias, out_dtype=pl.BF16)[0, 0]) == 1 + 2.0**-7
    assert adds_a_bias(one, one, bias)[0, :2].tolist() == [1 + 2.0**-9, 2.0**-9]


# The tables of the page


def rows_under(title):
    """The cells of the table under a heading of the page, without its head."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def named(cell):
    """(file, test) for each test a cell names as `file::test`."""
    return re.findall(r"`(test_\w+)::(test_\w+)`", cell)


def test_every_test_the_page_names_exists():
    found = named(PAGE)
    assert len(found) > 60
    for file, test in found:
        assert f"def {test}(" in (ROOT / "tests" / f"{file}.py").read_text(), (file, test)


def test_every_rule_of_the_contract_names_a_test():
    rows = rows_under("The test of each rule")
    assert all(named(cells[-1]) for cells in rows), rows
    assert {cells[0] for cells in rows} == set(numerics.CONTRACT)


def test_every_question_the_sources_leave_open_is_answered_with_a_test_or_a_reason():
    rows = rows_under("Where the sources disagree")
    assert len(rows) == 25
    for cells in rows:
        assert len(cells) == 4 and all(cells[:3]), cells
        assert named(cells[3]) or cells[3].startswith("not offered"), cells
