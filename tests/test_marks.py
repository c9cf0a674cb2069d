"""Marks that change no number: tensors whose content a run dumps, and caches that are to be forgotten."""

from __future__ import annotations

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError
from pypto.runtime import RunConfig
from tests.everywhere import same_everywhere
from tests.run_inputs import normal

Rows = pl.Tensor[[8, 16], pl.FP32]
X, Y = normal(8, 16), normal(8, 16, seed=1)


@pl.jit
def tags(x: Rows, y: Rows, out: pl.Out[Rows]):
    t = pl.create_tensor([8, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="first"):
        t[:] = pl.add(x, y)
    pl.dump_tag(t)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="second"):
        t[:] = pl.muls(t, 2.0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="other"):
        out[:] = x
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="third", dumps=[t]):
        out[:] = pl.adds(t, 1.0)


def test_a_tagged_tensor_is_dumped_by_every_later_task_that_takes_it(tmp_path) -> None:
    compiled = tags.compile()
    compiled.save(tmp_path / "program")
    assert np.array_equal(compiled(X, Y, config=RunConfig(enable_dump_args=1)), (X + Y) * 2 + 1)
    dumped = tmp_path / "program" / "dfx_outputs" / "args_dump"
    found = {f.relative_to(dumped).as_posix(): np.load(f) for f in dumped.rglob("*.npy")}
    want = {"00001_second/t_before": X + Y, "00001_second/t_after": (X + Y) * 2}
    want |= {"00003_third/t_before": (X + Y) * 2, "00003_third/t_after": (X + Y) * 2}
    assert found.keys() == {f"{name}.npy" for name in want}
    assert all(np.array_equal(found[f"{name}.npy"], value) for name, value in want.items())


def test_a_tag_changes_no_number_and_stays_in_the_program() -> None:
    same_everywhere(tags, X, Y, want=[(X + Y) * 2 + 1])
    assert "pl.dump_tag(t)" in str(tags.lower())


@pl.jit
def forgets(x: Rows, row: pl.Scalar[pl.INT32], out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.system.cacheinvalid()
        pl.system.cacheinvalid(x, [1, 16], [row, 0])
        out[:] = x


def test_a_forgotten_cache_changes_no_number_and_stays_in_the_program() -> None:
    same_everywhere(forgets, X, 3, want=[X])
    text = str(forgets.lower())
    assert "pl.system.cacheinvalid()" in text and text.count("pl.system.cacheinvalid(") == 2


BAD = {
    "a tag in a region": ("PL105", lambda x: pl.dump_tag(x)),
    "a cache of a tile": ("PL307", lambda x: pl.system.cacheinvalid(pl.mul(x, 2.0), [1, 16], [0, 0])),
    "no offsets": ("PL601", lambda x: pl.system.cacheinvalid(x, [1, 16])),
    "one axis": ("PL301", lambda x: pl.system.cacheinvalid(x, [16], [0])),
    "past the tensor": ("PL303", lambda x: pl.system.cacheinvalid(x, [1, 16], [8, 0])),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_marked_is_refused(name: str) -> None:
    code, act = BAD[name]

    @pl.jit
    def k(x: Rows, out: pl.Out[Rows]):
        with pl.at(level=pl.Level.CORE_GROUP):
            act(x)
            out[:] = x

    with pytest.raises(PyptoError) as caught:
        k(X)
    assert caught.value.code == code


def test_only_a_tensor_is_tagged() -> None:
    @pl.jit
    def k(x: Rows, n: pl.Scalar[pl.INT32], out: pl.Out[Rows]):
        pl.dump_tag(n)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x

    with pytest.raises(PyptoError) as caught:
        k(X, 1)
    assert caught.value.code == "PL307" and "dump_tag(n)" in caught.value.source.text
