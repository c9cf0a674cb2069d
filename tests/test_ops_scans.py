"""Running reductions: against loops over Python numbers, from either end, on partly valid and partly written tiles."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from tests.bits import identical
from tests.by_hand import FLOATS, INTEGERS, STORAGE, f, largest, modular, numbers, plain
from tests.refusals import f32, sevens


def both(kernel, x, out):
    """Traced and eager; the same bits."""
    other = np.array(out)
    with pypto.override(platform="cpu", verify=True):
        kernel(x, out)
    kernel.eager(x, other)
    assert identical(out, other)
    return out


def scanned(name, dtype, row):
    out, exact = [], plain(row, dtype)
    for j in range(len(row)):
        head = exact[: j + 1]
        if name in ("cummax", "cummin"):
            out.append(np.array([largest(head, 1 if name == "cummax" else -1)]).astype(STORAGE[dtype])[0])
            continue
        combine, start = (lambda a, b: a + b, 0) if name == "cumsum" else (lambda a, b: a * b, 1)
        if dtype in INTEGERS:
            out.append(modular(head, combine, start, STORAGE[dtype]))
            continue
        total = head[0]
        for v in head[1:]:
            total = combine(total, v)
        out.append(np.array([total], f).astype(STORAGE[dtype])[0])
    return out


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_a_scan_is_its_formula_along_either_axis_and_from_either_end(name, dtype):
    op = getattr(lax, name)
    for shape in [(1, 70), (70, 1), (1, 1), (3, 20)]:
        x = numbers(dtype, shape, seed=3)
        want = np.array([scanned(name, dtype, row) for row in x], STORAGE[dtype])
        assert identical(op(x, 1), want)
        assert identical(op(x[:, ::-1], axis=-1, reverse=True), want[:, ::-1])
        assert identical(op(x.T), want.T)


def test_a_scan_of_a_partly_valid_tile_runs_over_the_valid_part():
    @pl.jit
    def scans(x: pl.Tensor[[3, 8], pl.FP32], out: pl.Out[pl.Tensor[[3, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [3, 8], valid_shape=[2, 5])
            out[:] = pl.fillpad(lax.cumsum(t, axis=1, reverse=True))

    x = np.arange(24, dtype=f).reshape(3, 8)
    want = np.zeros((3, 8), f)
    want[:2, :5] = np.cumsum(x[:2, 4::-1], 1)[:, ::-1]
    assert identical(both(scans, x, sevens(3, 8)), want)


@pytest.mark.checked
def test_a_scan_lets_an_unwritten_element_reach_only_what_comes_after_it():
    @pl.jit
    def scans_a_half(x: pl.Tensor[[1, 8], pl.FP32], out: pl.Out[pl.Tensor[[1, 4], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.create_tile([1, 8], pl.FP32)
            t[:, 0:4] = x[:, 0:4]
            out[:] = lax.cumsum(t, axis=1)[:, 0:4]

    assert both(scans_a_half, np.ones((1, 8), f), sevens(1, 4)).tolist() == [[1, 2, 3, 4]]


def test_a_running_log_sum_of_exponentials_neither_overflows_nor_cancels():
    x = f32([[1000, 1000, -np.inf, 1001], [-np.inf, -np.inf, 0, 0], [-np.inf, np.inf, 5, np.nan], [-1000, -1000, -1001, 0]])
    with np.errstate(all="ignore"):
        want = np.array([[np.logaddexp.reduce(row[: j + 1].astype(np.float64)) for j in range(4)] for row in x])
    found = np.asarray(lax.cumlogsumexp(x, 1))
    assert np.array_equal(np.isnan(found), np.isnan(want)) and np.array_equal(np.isinf(found), np.isinf(want))
    finite = np.isfinite(want)
    # a product, a sum, an exponential and a logarithm per element, each rounded: two units of the largest term suffice here
    assert np.all(np.abs(found[finite] - want[finite]) <= 2 * np.spacing(np.abs(want[finite]).astype(f)))
