"""Inverse trigonometric and hyperbolic functions, erfc, cbrt: bounds against FP64, special values, kernels."""

import math

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from tests.bits import identical
from tests.exact import same
from tests.test_ops_functions import bound_of, errors, inputs

F32 = np.float32
INF, NAN = math.inf, math.nan
MEANT = {
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erfc": np.vectorize(math.erfc, otypes=[float]),
    "cbrt": np.cbrt,
}
# The others are within the usual two units; the manual pages of these say what costs them more.
WIDER = {"tan": 4, "erfc": 5}


def numbers(seed=3):
    """As `inputs`, and evenly spread numbers where these functions are defined and where they change their method."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        edges = F32([0.5, 1.0, 1.5, 2.0, 10.5, 88.0, 1e4, math.pi / 4, math.pi / 2])
        around = (edges.view(np.int32)[:, None] + np.arange(-60, 61)).ravel().astype(np.int32).view(F32)
        spread = [rng.uniform(-a, a, 60_000).astype(F32) for a in (1, 12)]
        return np.concatenate([inputs(seed), *spread, around, -around])


@pytest.mark.parametrize("name", MEANT)
def test_the_error_is_within_the_stated_bound_everywhere(name):
    op, x = getattr(lax, name), numbers()
    if name == "tan":  # its bound is stated for these arguments
        x = x[np.abs(x) <= 5e4]
    with np.errstate(all="ignore"):
        exact = MEANT[name](x.astype(np.float64))
    off = errors(np.asarray(op(x)), exact)
    assert off.max() <= bound_of(op), (x[off.argmax()], off.max())


@pytest.mark.parametrize("name", [*MEANT, "atan2"])
def test_a_bound_is_two_units_unless_the_page_says_why(name):
    assert bound_of(getattr(lax, name)) <= WIDER.get(name, 2)


def test_atan2_is_within_its_bound_in_every_quadrant():
    x = numbers(seed=4)
    rng = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        y = np.concatenate([rng.permutation(x), (x * rng.uniform(0.2, 4, x.size)).astype(F32)])
        x = np.concatenate([x, x])
        exact = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    off = errors(np.asarray(lax.atan2(y, x)), exact)
    assert off.max() <= bound_of(lax.atan2), (y[off.argmax()], x[off.argmax()], off.max())


def test_atan2_has_the_special_values_of_ieee_754():
    values = F32([0.0, -0.0, 1, -1, INF, -INF, NAN, 2.0**-149, -3e38, 3e38])
    y, x = (m.ravel() for m in np.meshgrid(values, values))
    exact = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(F32)
    assert same(np.asarray(lax.atan2(y, x)), exact)


@pytest.mark.parametrize(
    ("op", "points"),
    [
        (lax.atan, {INF: math.pi / 2, -INF: -math.pi / 2, -0.0: -0.0, NAN: NAN}),
        (lax.asin, {1: math.pi / 2, -1: -math.pi / 2, -0.0: -0.0, 1.0000001: NAN, INF: NAN, NAN: NAN}),
        (lax.acos, {1: 0.0, -1: math.pi, 0: math.pi / 2, -1.0000001: NAN, INF: NAN, NAN: NAN}),
        (lax.tan, {-0.0: -0.0, NAN: NAN}),
        (lax.sinh, {-0.0: -0.0, INF: INF, -INF: -INF, 89.5: INF, NAN: NAN}),
        (lax.cosh, {-0.0: 1.0, INF: INF, -INF: INF, -89.5: INF, NAN: NAN}),
        (lax.asinh, {-0.0: -0.0, INF: INF, -INF: -INF, NAN: NAN}),
        (lax.acosh, {1: 0.0, 0.99999994: NAN, -2: NAN, -1e30: NAN, INF: INF, NAN: NAN}),
        (lax.atanh, {-0.0: -0.0, 1: INF, -1: -INF, 1.0000001: NAN, INF: NAN, NAN: NAN}),
        (lax.erfc, {0: 1.0, -10: 2.0, -INF: 2.0, INF: 0.0, 11: 0.0, NAN: NAN}),
        (lax.cbrt, {-0.0: -0.0, 27: 3.0, -8: -2.0, INF: INF, -INF: -INF, NAN: NAN}),
    ],
)
def test_special_values(op, points):
    assert same(np.asarray(op(F32(list(points)))), F32(list(points.values())))


def test_erfc_keeps_its_digits_where_one_minus_erf_has_none():
    assert float(lax.erfc(5.0)) == pytest.approx(1.5374597944280347e-12, rel=3e-7)
    assert float(1.0 - lax.erf(5.0)) == 0.0


ROW = pl.Tensor[[8, 128], pl.FP32]


@pytest.mark.parametrize("name", MEANT)
def test_a_kernel_runs_the_same_decomposition(name):
    op = getattr(lax, name)

    @pl.jit
    def applies(x: ROW, out: pl.Out[ROW]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = op(x)

    x = numbers(seed=6)[-1024:].reshape(8, 128).copy()
    with pypto.override(verify=True):
        assert identical(applies(x), op(x)) and identical(applies.eager(x), op(x))
    with pypto.override(check=False, executor="cpu"):
        assert identical(applies(x), op(x))
