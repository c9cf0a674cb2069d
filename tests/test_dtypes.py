"""The dtype table, and the promotion rules against JAX."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import ml_dtypes
import numpy as np
import pytest

from pypto.dtypes import (
    BF16,
    BOOL,
    DTYPES,
    FP16,
    FP32,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    MASK,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
    Kind,
    dtype_of,
    promote,
    promote_weak,
)
from pypto.errors import ShapeError

ROWS = list(DTYPES.values())
JAX_ROWS = [BOOL, UINT8, UINT16, UINT32, INT8, INT16, INT32, BF16, FP16, FP32]


def refused(code: str, function: object, *args: object) -> ShapeError:
    with pytest.raises(ShapeError) as caught:
        function(*args)  # type: ignore[operator]
    assert caught.value.code == code
    assert caught.value.fix
    return caught.value


def test_the_table_has_every_type_of_the_language_once():
    assert set(DTYPES) == {
        "BOOL", "INT4", "UINT4", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "INDEX", "FP16", "BF16",
        "FP32", "FP8E4M3FN", "FP8E5M2", "FP8E8M0", "FP4", "HF8", "HF4", "TASK_ID", "MASK",
    }  # fmt: skip
    assert len({row.short for row in ROWS}) == len(ROWS)
    assert len({row.code for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_a_row_refers_only_to_rows(row: DType):
    shorts = {other.short for other in ROWS}
    assert row.computes_in in shorts
    assert row.accumulates_in is None or row.accumulates_in in shorts
    assert row.itemsize == -(-row.bits // 8)
    assert row.storage.itemsize >= row.itemsize


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_a_row_keeps_its_identity_through_pickle_and_copy(row: DType):
    assert pickle.loads(pickle.dumps(row)) is row
    assert copy.deepcopy({"d": row})["d"] is row


def test_a_row_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        FP32.bits = 16  # type: ignore[misc]


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_both_names_of_a_row_find_it(row: DType):
    assert dtype_of(row) is row
    assert dtype_of(row.name) is row
    assert dtype_of(row.short) is row
    assert (repr(row), str(row)) == (row.name, row.short)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float32, FP32), (np.dtype("float16"), FP16), (ml_dtypes.bfloat16, BF16),
        (np.dtype(ml_dtypes.bfloat16), BF16), ("bfloat16", BF16),
        ("float32", FP32), (np.int64, INT64), (bool, BOOL), (np.zeros(3, np.uint8), UINT8), (np.int8(3), INT8),
        (ml_dtypes.float8_e4m3fn, DTYPES["FP8E4M3FN"]), (ml_dtypes.float4_e2m1fn, DTYPES["FP4"]), (ml_dtypes.int4, DTYPES["INT4"]),
    ],
)  # fmt: skip
def test_dtype_of_understands_numpy(given: object, expected: DType):
    assert dtype_of(given) is expected


def test_dtype_of_understands_jax_and_torch_by_protocol():
    jnp = pytest.importorskip("jax.numpy")
    assert dtype_of(jnp.bfloat16) is BF16
    assert dtype_of(jnp.zeros(2, jnp.float16)) is FP16

    class TorchDtype:
        def __str__(self) -> str:
            return "torch.bfloat16"

    class Tensor:
        dtype = TorchDtype()

    assert dtype_of(TorchDtype()) is BF16
    assert dtype_of(Tensor()) is BF16


@pytest.mark.parametrize(
    "given", [np.float64, float, complex, np.dtype("complex64"), np.zeros(2), "float64", "double", "FP64", object(), str, None]
)
def test_what_is_not_in_the_table_is_refused_with_a_fix(given: object):
    error = refused("PL305", dtype_of, given)
    assert "float32" in error.fix or "FP32" in error.fix


def test_limits_are_exact_numbers():
    assert (INT64.min_value, UINT64.max_value, INDEX.max_value) == (-(2**63), 2**64 - 1, 2**63 - 1)
    assert (BF16.max_value, FP16.max_value, FP32.max_value) == (255 * 2.0**120, 65504.0, (2 - 2**-23) * 2.0**127)
    assert [DTYPES[n].max_value for n in ("FP8E4M3FN", "FP8E5M2", "FP4")] == [448.0, 57344.0, 6.0]
    assert (FP32.mantissa, FP16.mantissa, BF16.mantissa, FP32.min_exponent, FP16.min_exponent) == (23, 10, 7, -126, -14)
    refused("PL305", lambda: INT8.mantissa)
    refused("PL305", lambda: MASK.max_value)


def test_pads_are_infinities_for_floats_and_limits_for_integers():
    assert [d.pad("max") for d in (FP32, BF16, INT8, UINT8)] == [np.inf, np.inf, 127, 255]
    assert [d.pad("min") for d in (FP32, FP16, INT8, UINT16)] == [-np.inf, -np.inf, -128, 0]
    assert [d.pad("zero") for d in (FP32, INT8)] == [0, 0]
    refused("PL308", FP32.pad, "nan")


def test_predicates_and_task_ids_are_no_numbers():
    assert MASK.kind is Kind.MASK
    assert not MASK.arithmetic
    assert dtype_of(np.bool_) is BOOL
    assert [row.name for row in ROWS if not row.arithmetic] == ["FP4", "FP8E4M3FN", "FP8E5M2", "FP8E8M0", "HF4", "HF8", "TASK_ID", "MASK"]


@pytest.mark.parametrize("a", JAX_ROWS, ids=repr)
@pytest.mark.parametrize("b", JAX_ROWS, ids=repr)
def test_promotion_is_jax_s(a: DType, b: DType):
    jnp = pytest.importorskip("jax.numpy")
    if UINT32 in (a, b) and Kind.INT in (a.kind, b.kind):
        # C34: JAX's INT32 cannot hold a UINT32; ours is the type that can.
        assert promote(a, b) is INT64
    else:
        assert promote(a, b) is dtype_of(jnp.promote_types(a.storage, b.storage))


@pytest.mark.parametrize("row", JAX_ROWS, ids=repr)
@pytest.mark.parametrize("number", [True, 1, 1.0])
def test_python_numbers_promote_weakly_as_in_jax(row: DType, number: bool | int | float):
    jnp = pytest.importorskip("jax.numpy")
    expected = dtype_of(jnp.result_type(jnp.zeros(1, row.storage), number))
    assert promote_weak(row, type(number)) is expected


def test_fp16_with_bf16_is_fp32():
    assert promote(FP16, BF16) is FP32  # C31
    assert promote(BF16, FP16) is FP32


def test_index_absorbs_integers():
    assert promote(INDEX, INT32) is INDEX
    assert promote(INT64, INDEX) is INDEX


def test_types_without_a_common_type_are_an_error():
    refused("PL302", promote, UINT64, INT8)
    refused("PL302", promote, MASK, FP32)
    refused("PL302", promote, DTYPES["FP8E5M2"], FP32)
    refused("PL302", promote_weak, MASK, int)
    refused("PL308", promote_weak, FP32, complex)


def test_promotion_is_symmetric_and_associative():
    rows = [row for row in ROWS if row.arithmetic and row is not UINT64]
    for a in rows:
        for b in rows:
            assert promote(a, b) is promote(b, a)
            for c in rows:
                assert promote(promote(a, b), c) is promote(a, promote(b, c))


def test_the_bytes_of_an_element_by_the_languages_own_name():
    assert {name: DTYPES[name].get_byte() for name in ("FP32", "BF16", "INT8", "FP4")} == {"FP32": 4, "BF16": 2, "INT8": 1, "FP4": 1}
