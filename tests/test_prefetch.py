"""Prefetches: hints that are kept, printed, and change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError
from tests.everywhere import same_everywhere

Rows = pl.Tensor[[32, 64], pl.FP32]
X = np.random.default_rng(0).random((32, 64), np.float32)


@pl.jit
def warmed(x: Rows, w: Rows, out: pl.Out[Rows]):
    flat = pl.reshape(w, [32 * 64])
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="warm"):
        ctx = pl.prefetch.make_context()
        event = pl.prefetch.async_prefetch(flat, ctx)
        y = pl.mul(x, 2.0)
        pl.prefetch.wait(event, pl.prefetch.session(ctx))
        out[:] = pl.add(y, w)


def test_a_prefetch_changes_no_number_and_stays_in_the_program() -> None:
    same_everywhere(warmed, X, X, want=[X * 2 + X])
    assert "pl.prefetch.async_prefetch(flat)" in str(warmed.lower())


BAD = {
    "no context": lambda x, flat: pl.prefetch.async_prefetch(flat, None),
    "several axes": lambda x, flat: pl.prefetch.async_prefetch(x, pl.prefetch.make_context()),
    "a tile": lambda x, flat: pl.prefetch.async_prefetch(pl.mul(x, 2.0), pl.prefetch.make_context()),
    "no session": lambda x, flat: pl.prefetch.wait(pl.prefetch.async_prefetch(flat, pl.prefetch.make_context()), None),
    "a session of another context": lambda x, flat: pl.prefetch.wait(
        pl.prefetch.async_prefetch(flat, pl.prefetch.make_context()), pl.prefetch.session(pl.prefetch.make_context())
    ),
    "a session of nothing": lambda x, flat: pl.prefetch.session(x),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_prefetch_is_refused(case: str) -> None:
    @pl.jit
    def k(x: Rows, out: pl.Out[Rows]):
        flat = pl.reshape(x, [32 * 64])
        with pl.at(level=pl.Level.CORE_GROUP):
            BAD[case](x, flat)
            out[:] = x

    with pytest.raises(PyptoError) as caught:
        k.trace()
    assert caught.value.code == "PL308"
