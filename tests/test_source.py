"""Programs as text that reads like the language: it parses as Python, names what a person would, and depends on the program only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pypto.language as pl
from pypto.tile.source import function_text
from tests.kernels.printed import accumulated, moved, scaled

Rows = pl.Tensor[[32, 64], pl.FP32]


@pl.jit(auto_scope=False)
def tasks(x: Rows, gate: pl.Tensor[[1], pl.INT32], out: pl.Out[Rows]):
    mine = pl.create_tensor([32, 64], dtype=pl.FP32, manual_dep=True)
    tids = pl.array.create(2, pl.TASK_ID)
    with pl.scope():
        for i in pl.parallel(2):
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="half", no_dep_args=[mine], allow_early_resolve=True) as tid:
                with pl.at(level=pl.Level.CORE_GROUP, name_hint="scale"):
                    rows = pl.mul(x[i * 16 : i * 16 + 16, :], 2.0)
                mine[i * 16 : i * 16 + 16, :] = rows
            tids[i] = tid
    ready = pl.system.task_dummy(deps=[tids])
    with pl.manual_scope(), pl.spmd(4, name_hint="rest", deps=[ready, tids[0]], predicate=(gate[0] > 0), sync_start=True) as last:
        block = pl.tile.get_block_idx()
        row = block * 8
        out[row : row + 8, :] = mine[row : row + 8, :]
        pl.system.syncall(core_type="aiv_only", mode=pl.SyncAllMode.SOFT)


@pl.jit
def lanes(a: pl.Tensor[[32, 32], pl.BF16], b: pl.Tensor[[32, 32], pl.BF16], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="lanes", optimizations=[pl.cross_core_slot(slot_num=2)]):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            out[lane * 16 : lane * 16 + 16, :] = pl.row_expand_mul(pl.aiv_shard(product), pl.row_max(pl.aiv_shard(product)))


@pl.jit
def control(x: Rows, n: pl.Scalar[pl.INT32], out: pl.Out[Rows], count: pl.Out[pl.Tensor[[1], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="control"):
        total = pl.full([8, 64], dtype=pl.FP32, value=0.0)
        seen = pl.array.create(4, pl.INT32)
        turns = 0
        for k in pl.pipeline(0, 32, 8, stage=2):
            rows = x[k : k + 8, :]
            if k < n * 8 and n > 0:
                total = pl.add(total, pl.exp(rows))
                turns = turns + 1
                seen[k // 8] = turns
            elif n == -1:
                total = pl.cast(pl.cast(rows, pl.BF16), pl.FP32)
            else:
                total = pl.maximum(total, -1.5)
        for k in pl.range(24, -1, -8):
            out[k : k + 8, :] = pl.sel(pl.tile.cmp(total, 0.0, pl.CmpType.GE), total, 0.1)
        pl.write(count, [0], pl.max(turns, seen[0]))


KERNELS = {k.__name__: k for k in (scaled, accumulated, moved, tasks, lanes, control)}


@pytest.mark.parametrize("name", KERNELS)
def test_a_traced_kernel_reads_like_the_language(name: str, golden) -> None:
    golden.check(function_text(KERNELS[name].trace()))


@pytest.mark.parametrize("name", [n for n in KERNELS if n != "moved"])
def test_a_lowered_program_reads_like_the_language(name: str, golden) -> None:
    golden.check(str(KERNELS[name].lower()))


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_parses_as_python(name: str) -> None:
    ast.parse(function_text(KERNELS[name].trace()))
    ast.parse(str(KERNELS[name].lower()))


def test_the_text_is_the_same_however_often_and_whenever_it_is_made() -> None:
    first = str(tasks.lower())
    control.lower()
    assert str(tasks.lower()) == first and str(tasks.lower()) == first


def test_places_come_on_request() -> None:
    plain, lined = scaled.lower().as_text(), scaled.lower().as_text(lines=True)
    assert "printed.py" not in plain
    own = (Path(__file__).parent / "kernels" / "printed.py").read_text().splitlines()
    (line,) = (i for i, text in enumerate(own, 1) if text.strip() == "out = pl.assemble(out, rows, [r, 0])")
    stores = [text for text in lined.splitlines() if "pl.store(" in text]
    assert [text.split("  # ")[1] for text in stores] == [f"printed.py:{line}"]
    assert [text.split("  # ")[0] for text in lined.splitlines()] == [text.split("  # ")[0] for text in plain.splitlines()]


def test_a_kernel_s_parameters_say_what_it_does_to_them() -> None:
    text = str(tasks.lower())
    half = text.split("def half(")[1].split("):")[0]
    assert "x: pl.Tensor[" in half and "mine: pl.Out[pl.Tensor[" in half
