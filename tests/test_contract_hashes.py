"""The frozen table of results: every op on every dtype, and every row of the contract. A changed bit is a changed contract."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax, numerics
from pypto.core.op import Exact, Op, Pointwise
from pypto.core.trace import aval_of
from pypto.dtypes import DTYPES, DType, dtype_of
from pypto.lax.families import sample_indices
from pypto.numerics import default_overflow
from pypto.platform import platform_of
from pypto.tile.passes.casts import legal_chain
from tests.hard_inputs import NUMBERS, digest, hardened, pairs, patterns, tame, wild
from tests.op_runs import OPERATIONS, as_tuple

WHY = (
    "These bits are the numerics contract. If they are meant to change: say what changed on a line that begins with "
    '"Numerics" in CHANGELOG.md, raise pypto.numerics.VERSION, and only then rewrite the table.'
)
FLOATS = ("FP32", "FP16", "BF16")
INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")


def row_of(op: Op, kinds: tuple[DType, ...]) -> str:
    """The row of the contract that an op's results on these dtypes belong to."""
    if not isinstance(op.exact, Exact):
        return "composites"
    rule, widest = op.exact.rule, max(kinds, key=lambda d: d.bits, default=dtypes.FP32)
    if rule == "fp32":
        return "integers" if widest.is_integer else "fp32" if widest is dtypes.FP32 else "narrow floats"
    return rule


def applications(op: Op) -> Iterator[tuple[tuple[DType, ...], bool, Any]]:
    """The dtypes, whether any operand is an array, and results of an op: elementwise
    ones on every pattern or pair of special values, others on their samples' shapes.
    """
    seen: set[Any] = set()
    for index, (args, params) in enumerate(op.samples()):
        kinds = tuple(dtype_of(np.asarray(a).dtype) for a in args)
        if op.normal is not None:
            params = op.normal(*(aval_of(np.asarray(a)) for a in args), **params)
        plain = isinstance(op.axes, Pointwise) and len(set(kinds)) == 1
        key = (kinds, repr(params)) if plain else index
        if key in seen:
            continue
        seen.add(key)
        for make in (None,) if plain else (wild, tame):
            if make is None:
                operands = [patterns(kinds[0])] if len(args) == 1 else pairs(kinds[0], len(args))
            else:
                operands = [a if i in op.index else hardened(a, 3 * index + i, make) for i, a in enumerate(args)]
            with np.errstate(all="ignore"):
                yield kinds, any(np.ndim(a) for a in args), op.meaning(*map(np.asarray, operands), **params)


@functools.cache
def of_ops() -> dict[tuple[str, str], Any]:
    """Hashes by row of the contract and by op with its dtypes; an op without array operands is named by the results' dtype."""
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for op in OPERATIONS:
        if op is lax.empty:  # its elements have no values
            continue
        for kinds, has_arrays, results in applications(op):
            results = as_tuple(results)
            made = dtype_of(np.asarray(results[0]).dtype)
            shown = kinds if has_arrays else (made,)
            found[row_of(op, kinds), f"{op.name} {','.join(d.name for d in shown)}"] += results
    return {key: digest(results) for key, results in found.items()}


# ---- rows that are no single op -----------------------------------------------------------------------------------


def casts() -> Iterator[tuple[str, str, Any]]:
    """Every conversion in every mode; overflow both ways where it differs from the default one."""
    for a, b in itertools.permutations([*FLOATS, *INTEGERS, "FP8E4M3FN", "FP8E5M2", "HF8"], 2):
        source, target = DTYPES[a], DTYPES[b]
        x = patterns(source)
        for mode in numerics.MODES:
            for overflow in ("saturate", "wrap"):
                with np.errstate(all="ignore"):
                    try:
                        result = numerics.convert(x, source, target, mode, overflow)
                    except pypto.PyptoError as error:  # a pair that has no such way to overflow
                        result = np.array([int(error.code[2:])])
                row = "hf8" if "HF8" in (a, b) else "cast mode" if overflow == default_overflow(source, target) else "cast overflow"
                yield row, f"convert {a}->{b}", result


def hops() -> Iterator[tuple[str, str, Any]]:
    """The chain of instructions for every pair, as text: pairs without one are in it too."""
    names = ["FP32", "FP16", "BF16", "INT8", "INT16", "INT32", "INT64", "UINT8"]
    for platform in ("a2a3", "a5"):
        for mode in ("rint", "round", "floor", "ceil", "trunc"):
            for a, b in itertools.permutations(names, 2):
                source, target = DTYPES[a], DTYPES[b]
                path = legal_chain(source, target, mode, default_overflow(source, target), platform_of(platform))
                text = f"{a}->{b}: " + ("none" if path is None else " ".join(d.name for d in path))
                yield "cast hops", f"{platform} {mode}", np.frombuffer(text.encode(), np.uint8)


def products() -> Iterator[tuple[str, str, Any]]:
    """Products longer than a chunk, in both orders, with every epilogue."""
    for name in ("FP32", "FP16", "BF16", "INT8"):
        d = DTYPES[name]
        for k, make in itertools.product((1, 31, 70, 130), (tame, wild)):
            a, b = make(d, (5, k), k), make(d, (k, 9), k + 1)
            bias = tame(dtypes.INT32 if d is dtypes.INT8 else dtypes.FP32, (1, 9), k + 2)
            row = {"BF16": "matmul bf16", "INT8": "matmul int8"}.get(name, "matmul fp16, fp32")
            yield row, f"matmul {name} long", lax.matmul(a, b)
            yield (
                row,
                f"matmul {name} transposed",
                lax.matmul(np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), a_trans=True, b_trans=True),
            )
            yield row, f"matmul {name} accumulating", lax.matmul_acc(lax.matmul(a, b), a, b)
            yield "matmul epilogue", f"bias {name}", lax.matmul_bias(a, b, bias)
            if d.is_float:
                yield "matmul bf16 sequential", f"matmul {name}", lax.matmul(a, b, numerics="sequential")
                for out in FLOATS:
                    yield "matmul epilogue", f"out_dtype {name}->{out}", lax.matmul(a, b, out_dtype=DTYPES[out])


def tapered() -> Iterator[tuple[str, str, Any]]:
    """The values of all codes, numbers as HF8 literals, and products of it."""
    yield "hf8", "values", numerics.widened(patterns(dtypes.HF8))
    literals = [numerics.round_literal(n, dtypes.HF8) for n in NUMBERS]
    yield "hf8", "round_literal", np.array(literals, dtypes.HF8.storage)
    for k, make in itertools.product((1, 31, 70, 130), (tame, wild)):
        a, b = make(dtypes.HF8, (5, k), k), make(dtypes.HF8, (k, 9), k + 1)
        yield "hf8", "matmul long", lax.matmul(a, b)
        yield "hf8", "matmul accumulating", lax.matmul_acc(lax.matmul(a, b), a, b)


def reductions() -> Iterator[tuple[str, str, Any]]:
    """Both orders over both axes, shorter and longer than the 64 lanes."""
    for name in (*FLOATS, *INTEGERS):
        for rows, columns in ((3, 63), (3, 200), (130, 5), (1, 1)):
            x = tame(DTYPES[name], (rows, columns), rows)
            for op, order, axis in itertools.product((lax.reduce_sum, lax.reduce_prod), ("lanes64", "ascending"), (0, 1)):
                row = "row reductions" if order == "lanes64" else "col_sum, col_prod"
                yield row, f"{op.name} {name} long", op(x, axes=(axis,), order=order)


def literals() -> Iterator[tuple[str, str, Any]]:
    """Numbers rounded once to each dtype, or refused."""
    numbers = [*NUMBERS, 1 + 2.0**-8 + 2.0**-40, 1e300, -1e300, 2**60 + 2**52 + 2**8, 255, 256, -129, 0.1, True]
    for name in (*FLOATS, *INTEGERS, "BOOL"):
        for number in numbers:
            try:
                value = np.asarray(numerics.round_literal(number, DTYPES[name])).astype(DTYPES[name].storage)
            except pypto.PyptoError as error:
                value = np.array([int(error.code[2:])])
            yield "literals", f"round_literal {name}", value


def promotions() -> Iterator[tuple[str, str, Any]]:
    """The dtype of every pair of operands, and of every operand next to a Python number."""
    names = [*FLOATS, *INTEGERS, "BOOL"]
    for a in names:
        for b in names:
            try:
                text = dtypes.promote(DTYPES[a], DTYPES[b]).name
            except pypto.PyptoError as error:
                text = error.code
            yield "promotion", f"promote {a}", np.frombuffer(text.encode(), np.uint8)
        for kind in (bool, int, float):
            yield "promotion", f"promote {a} weak", np.frombuffer(dtypes.promote_weak(DTYPES[a], kind).name.encode(), np.uint8)


@pl.jit
def adds_atomically(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for b in pl.spmd(6):
        pl.assemble(out, x[b : b + 1, :], [0, 0], atomic=pl.AtomicType.Add)


@pl.jit
def sums_partly_valid_rows(x: pl.Tensor[[3, 160], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[3, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(pl.set_validshape(pl.load(x, [0, 0], [3, 160]), 3, n))


def kernels() -> Iterator[tuple[str, str, Any]]:
    for name in ("FP32", "FP16", "BF16", "INT32", "INT16", "INT8"):
        d = DTYPES[name]
        for check in (True, False):
            out = tame(d, (1, 32), 9)
            with pypto.override(platform="a2a3", check=check):
                adds_atomically(tame(d, (6, 32), 5), out)
            yield "atomics, split-K", f"add {name}", out
    for n in (1, 64, 65, 130, 160):
        yield "partly valid tiles", "row_sum FP32", sums_partly_valid_rows(tame(dtypes.FP32, (3, 160)), n)


@functools.cache
def of_rows() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row, name, result in itertools.chain(casts(), hops(), products(), tapered(), reductions(), literals(), promotions(), kernels()):
        found[row, name].append(np.asarray(result))
    return {key: digest(results) for key, results in found.items()}


def table(hashes: dict[tuple[str, str], str]) -> str:
    lines = []
    for row, group in itertools.groupby(sorted(hashes), key=lambda key: key[0]):
        lines += [row, *(f"  {name}: {hashes[row, name]}" for _, name in group)]
    return "\n".join(lines)


# ---- the tests ----------------------------------------------------------------------------------------------------


def test_the_results_of_every_op_are_those_of_the_table(golden):
    golden.check(table(of_ops()), WHY)


def test_the_results_of_every_row_of_the_contract_are_those_of_the_table(golden):
    golden.check(table(of_rows()), WHY)


def test_every_row_of_the_contract_has_results_in_a_table():
    tables = [*of_ops(), *of_rows()]
    assert {row for row, _ in tables} == set(numerics.CONTRACT)


def test_every_op_has_results_in_the_table_for_every_dtype_it_takes():
    named = defaultdict(set)
    for _, name in of_ops():
        op, kinds = name.split()
        named[op] |= set(kinds.split(","))
    for op in OPERATIONS:
        if op.accepts is None or not op.samples() or op is lax.empty:
            continue
        assert {d.name for d in op.accepts - {dtypes.INDEX, dtypes.MASK}} <= named[op.name], op.name


def test_a_changed_bit_fails_with_the_line_to_write(golden, tmp_path):
    golden.path, golden.update = tmp_path / "table.txt", False
    golden.path.write_text("fp32\n  add FP32,FP32: 0\n")
    with pytest.raises(pytest.fail.Exception) as caught:
        golden.check("fp32\n  add FP32,FP32: 1", WHY)
    assert '"Numerics" in CHANGELOG.md' in str(caught.value)


def test_the_inputs_are_the_same_for_ever():
    kinds = [DTYPES[n] for n in (*FLOATS, *INTEGERS)]
    assert digest([wild(d, (100,), 3) for d in kinds]) == "046f42056434994a"
    assert digest([tame(d, (100,), 3) for d in kinds]) == "ad91a0b7c9e64bc4"
    assert digest([sample_indices((3, 40), 17, 5)]) == "0b57adb940331080"
