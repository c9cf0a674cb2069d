"""Arrays of scalars: `pl.array.create`. They are handles: whoever has one writes the same elements."""

from __future__ import annotations

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError
from tests.everywhere import same_everywhere


@pl.jit
def counted(dst: pl.Tensor[[8], pl.INT32], out: pl.Out[pl.Tensor[[4], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        seen = pl.array.create(4, pl.INT32)
        for i in pl.range(8):
            where = pl.read(dst, [i])
            seen[where] = seen[where] + 1
        for j in pl.range(4):
            out[j] = pl.array.get_element(seen, j)


def test_an_array_in_a_region_starts_as_zeros_and_is_written_by_element() -> None:
    dst = np.int32([0, 3, 3, 1, 0, 0, 3, 3])
    same_everywhere(counted, dst, want=[np.bincount(dst, minlength=4).astype(np.int32)])


@pl.jit
def updated(out: pl.Out[pl.Tensor[[2], pl.INT64]]):
    numbers = pl.array.create(2, pl.INT64)
    numbers = pl.array.update_element(numbers, 1, 7)
    out[0] = numbers[0]
    out[1] = numbers[1]


def test_update_element_writes_the_array_that_it_returns() -> None:
    same_everywhere(updated, want=[np.int64([0, 7])])


BAD_ARRAYS = {
    "no extent": ("PL308", lambda n: pl.array.create(0, pl.INT32)),
    "a run-time extent": ("PL304", lambda n: pl.array.create(n, pl.INT32)),
    "floats": ("PL305", lambda n: pl.array.create(2, pl.FP32)),
    "an index past the end": ("PL303", lambda n: pl.array.create(2, pl.INT32)[2]),
    "no array": ("PL308", lambda n: pl.array.get_element(pl.create_tensor([2], dtype=pl.INT32), 0)),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays_are_refused(case: str) -> None:
    code, make = BAD_ARRAYS[case]

    @pl.jit
    def k(n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1], pl.INT32]]):
        make(n)

    with pytest.raises(PyptoError) as caught:
        k.trace()
    assert caught.value.code == code
