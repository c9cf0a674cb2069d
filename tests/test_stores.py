"""What a store writes, where the value is not quite the window."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError


@pl.jit
def three_axes(x: pl.Tensor[[1, 16, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]]):
    out = pl.assemble(out, pl.reshape(x, [16, 16]), [16, 0])
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.assemble(out, pl.mul(x, 2.0), [0, 0])


def test_assemble_drops_leading_axes_of_one_element():
    x = np.random.default_rng(0).random((1, 16, 16), np.float32)
    assert np.array_equal(three_axes(x), np.concatenate([x[0] * 2, x[0]]))


@pl.jit
def leading_part(x: pl.Tensor[[16, 16], pl.FP32], out: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = pl.mul(x, 2.0)
        out = pl.store(tile, [4, 0], out, shapes=[2, 16])
        narrow = pl.set_validshape(tile, 1, 8)
        out = pl.store(narrow, [8, 0], out, shapes=[1, 8])
        out[0:1, 0:4] = pl.set_validshape(tile, 1, 4)


def test_a_store_writes_the_leading_part_it_is_given_and_a_window_may_be_the_valid_part():
    x = np.random.default_rng(1).random((16, 16), np.float32)
    want = np.zeros((16, 16), np.float32)
    want[4:6], want[8, :8], want[0, :4] = x[:2] * 2, x[0, :8] * 2, x[0, :4] * 2
    assert np.array_equal(leading_part(x, np.zeros((16, 16), np.float32)), want)


@pytest.mark.parametrize("shapes", [[32, 16], [16]])
def test_the_part_a_store_writes_is_not_larger_than_the_tile(shapes):
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.mul(x, 2.0), [0, 0], out, shapes=shapes)

    with pytest.raises(PyptoError) as caught:
        k.trace()
    assert caught.value.code == "PL301"
