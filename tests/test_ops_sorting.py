"""The sort unit: runs of 32, merges of runs and lists, and the top-k they make, against a stable sort."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.errors import PyptoError
from tests.refusals import f32, refused, reports, sevens
from tests.test_ops_gathering import both

STORAGE = {"FP32": np.float32, "FP16": np.float16}
BITS = {np.dtype(np.float32): np.uint32, np.dtype(np.float16): np.uint16}


def pairs_of(x):
    """Values and indices of interleaved pairs."""
    raw = np.asarray(x)
    return raw[..., 0::2], raw.view(BITS[raw.dtype])[..., 1::2]


def made_pairs(values, index):
    bits = BITS[values.dtype]
    return np.stack([values.view(bits), index.astype(bits)], -1).reshape(*values.shape[:-1], -1).view(values.dtype)


def best_first(values, index):
    """The definition: descending, NaN last, zeros equal, ties by ascending index."""
    wide = values.astype(np.float64)
    return sorted(range(len(values)), key=lambda c: (np.isnan(wide[c]), 0.0 if np.isnan(wide[c]) else -wide[c], int(index[c])))


def hard_values(name, shape, seed=0):
    x = np.random.default_rng(seed).integers(-5, 5, shape).astype(STORAGE[name])
    flat = x.reshape(-1)
    flat[::7], flat[3::11] = np.nan, -0.0
    flat[5::13], flat[6::17] = np.inf, -np.inf
    return x


# sort32.


@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("shape", [(1, 64), (3, 32), (8, 1), (1, 1), (2, 40)], ids=str)
def test_runs_of_32_are_sorted_with_their_indices(name, shape):
    x = hard_values(name, shape)
    index = np.random.default_rng(9).permutation(1000)[: x.size].reshape(shape).astype(np.uint32)
    values, indices = pairs_of(lax.sort32(x, index))
    for row in range(shape[0]):
        for start in range(0, shape[1], 32):
            run = slice(start, min(start + 32, shape[1]))
            order = best_first(x[row, run], index[row, run])
            bits = BITS[x.dtype]
            assert values[row, run].view(bits).tolist() == x[row, run][order].view(bits).tolist()
            assert indices[row, run].tolist() == index[row, run][order].tolist()


def test_an_index_beside_an_fp16_value_has_16_bits():
    @pl.jit
    def sorts_fp16(x: pl.Tensor[[1, 32], pl.FP16], i: pl.Tensor[[1, 32], pl.UINT32], out: pl.Out[pl.Tensor[[1, 64], pl.FP16]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.sort32(x, i)  # refused

    x, i = hard_values("FP16", (1, 32)), np.arange(65504, 65536, dtype=np.uint32)[None]
    out = np.zeros((1, 64), np.float16)
    sorts_fp16(x, i, out)
    assert sorted(pairs_of(out)[1][0].tolist()) == list(range(65504, 65536))
    with pypto.override(check=True):
        refused("PL303", sorts_fp16, x, i + 1, out, at="pl.sort32(x, i)")
    with pypto.override(check=False):
        sorts_fp16(x, i + 1, out)
    assert 0 in pairs_of(out)[1]  # the low bits of 65536


@pl.jit
def sorts_a_part(x: pl.Tensor[[1, 64], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1, 128], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        row = pl.set_validshape(x[0:1, :], 1, n)
        index = pl.set_validshape(pl.arange(0, [1, 64], dtype=pl.UINT32), 1, n)
        out[:] = pl.sort32(row, index)


def test_the_valid_elements_are_sorted_and_no_others():
    x, out = np.arange(64, dtype=np.float32)[None], np.full((1, 128), -7, np.float32)
    with reports("PL204"):
        sorts_a_part(x, 40, out)
    assert pairs_of(out[:, :80])[1][0].tolist() == [*range(31, -1, -1), *range(39, 31, -1)] and (out[:, 80:] == -7).all()


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_indices_have_32_bits(dtype):
    with pytest.raises(PyptoError) as caught:
        lax.sort32(np.zeros((1, 32), np.float32), np.zeros((1, 32), dtype))
    assert caught.value.code == "PL305"


# mrgsort of runs.


@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("size", [128, 512, 2048])
def test_merging_in_steps_sorts_the_row(name, size):
    x = hard_values(name, (1, size), seed=size)
    s = lax.sort32(x, np.arange(size, dtype=np.uint32)[None])
    block = 64
    while block < 2 * size:
        s = lax.mrgsort_runs(s, block_len=block)
        block *= 4
    values, index = pairs_of(s)
    order = best_first(x[0], np.arange(size))
    assert index[0].tolist() == order
    assert values.view(BITS[x.dtype])[0].tolist() == x[0][order].view(BITS[x.dtype]).tolist()


def test_each_group_of_four_runs_is_merged_on_its_own():
    x = np.random.default_rng(1).permutation(256).astype(np.float32)[None]
    s = lax.mrgsort_runs(lax.sort32(x, np.arange(256, dtype=np.uint32)[None]), block_len=64)
    values, _ = pairs_of(s)
    for half in (values[0, :128], values[0, 128:]):
        assert (np.diff(half) < 0).all()


def test_of_equal_values_that_of_the_first_run_comes_first_whatever_its_index():
    runs = [made_pairs(np.full((1, 32), v, np.float32), np.arange(o, o + 32)[None]) for v, o in ((1, 900), (2, 0), (1, 100), (1, 500))]
    _, index = pairs_of(lax.mrgsort_runs(np.concatenate(runs, 1), block_len=64))
    assert index[0].tolist() == [*range(32), *range(900, 932), *range(100, 132), *range(500, 532)]


@pl.jit
def merges(s: pl.Tensor, out: pl.Out[pl.Tensor], block: int = 64):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mrgsort(s, block_len=block)  # refused


@pytest.mark.parametrize("columns, block", [(128, 64), (512, 256), (256, 32), (256, 0), (256, 96)])
def test_an_incomplete_group_or_another_block_len_is_refused(columns, block):
    s = np.zeros((1, columns), np.float32)
    refused("PL308", merges, s, np.zeros_like(s), block, at="pl.mrgsort(s, block_len=block)")


def test_several_rows_are_refused():
    refused("PL301", merges, np.zeros((2, 256), np.float32), np.zeros((2, 256), np.float32), at="pl.mrgsort(s, block_len=block)")


@pytest.mark.checked
def test_a_run_that_is_not_sorted_is_an_error_in_checked_runs():
    s = np.asarray(lax.sort32(np.arange(512, dtype=np.float32)[None], np.arange(512, dtype=np.uint32)[None]))
    error = refused("PL308", merges, s, np.zeros_like(s), 256, at="pl.mrgsort(s, block_len=block)")
    assert "[0, 64]" in error.message


def test_without_checks_heads_are_merged_as_they_stand():
    """A small head holds back what follows it; the element after it then leaves at once if it is the largest."""
    runs = [[5, 1, 9], [6, 4, 2], [7, 3], []]
    lists = [made_pairs(np.array([r], np.float32), np.arange(len(r))[None]) for r in runs[:3]]
    merged, counts = lax.mrgsort_lists(*lists, exhausted=False)
    assert pairs_of(merged)[0][0].tolist() == [7, 6, 5, 4, 3, 2, 1, 9] and counts.tolist() == [[3, 3, 2, 0]]


# mrgsort of lists.


def sorted_list(size, seed, name="FP32"):
    x = hard_values(name, (size,), seed)
    index = np.arange(size) + 100 * seed
    order = best_first(x, index)
    return made_pairs(x[order][None], index[order][None])


@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("sizes", [(8, 8), (5, 32, 1), (64, 32, 16, 8)], ids=str)
def test_lists_are_merged_into_one(name, sizes):
    lists = [sorted_list(n, seed, name) for seed, n in enumerate(sizes)]
    merged, counts = lax.mrgsort_lists(*lists, exhausted=False)
    whole = np.concatenate(lists, 1)
    values, index = pairs_of(whole)
    order = best_first(values[0], np.arange(values.size))  # stable: the list number, then the place in the list
    assert pairs_of(merged)[1][0].tolist() == index[0][order].tolist()
    assert counts.tolist() == [[*sizes, *[0] * (4 - len(sizes))]]


@pl.jit
def stops_early(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mrgsort(a, b, exhausted=True)


def test_an_exhausted_list_ends_the_merge_and_the_valid_region():
    a = made_pairs(f32([[9, 7, 5, 3]]), np.arange(4)[None])
    b = made_pairs(f32([[8, 6, 2, 1]]), np.arange(10, 14)[None])
    out = sevens(1, 16)
    with reports("PL204"):
        stops_early(a, b, out)
    assert out[0, 0:12:2].tolist() == [9, 8, 7, 6, 5, 3] and (out[0, 12:] == -7).all()
    _, counts = lax.mrgsort_lists(a, b, exhausted=True)
    assert counts.tolist() == [[4, 2, 0, 0]]


@pl.jit
def merges_two(a: pl.Tensor[[1, 64], pl.FP32], out: pl.Out[pl.Tensor[[1, 128], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [1, 64])
        tmp = pl.create_tile([1, 128], dtype=pl.FP32)
        out[:] = pl.tile.mrgsort(t, t, tmp=tmp)


@pl.jit
def tmp_at_tensor_level(a: pl.Tensor[[1, 64], pl.FP32], out: pl.Out[pl.Tensor[[1, 128], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tensor.mrgsort(a, a, tmp=a)  # refused


@pl.jit
def both_forms(a: pl.Tensor[[1, 256], pl.FP32], out: pl.Out[pl.Tensor[[1, 256], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mrgsort(a, a, block_len=64)  # refused


def test_scratch_exists_at_tile_level_only():
    a = np.asarray(lax.sort32(np.arange(32, dtype=np.float32)[None], np.arange(32, dtype=np.uint32)[None]))
    out = both(merges_two, a, np.zeros((1, 128), np.float32))
    assert out[0, ::2].tolist() == [v for v in range(31, -1, -1) for _ in range(2)]
    refused("PL307", tmp_at_tensor_level, a, out, at="pl.tensor.mrgsort(a, a, tmp=a)")


def test_the_two_forms_exclude_each_other():
    s = np.zeros((1, 256), np.float32)
    refused("PL308", both_forms, s, np.zeros_like(s), at="pl.mrgsort(a, a, block_len=64)")


# Top-k.

N, K = 512, 8


@pl.jit
def top_k_of_rows(x: pl.Tensor, values: pl.Out[pl.Tensor], indices: pl.Out[pl.Tensor], rows: int = 4):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(rows):
            s = pl.sort32(x[r : r + 1, :], pl.arange(0, [1, N], dtype=pl.UINT32))
            s = pl.mrgsort(s, block_len=64)
            s = pl.mrgsort(s, block_len=256)
            pairs = s[:, 0 : 2 * K]
            values[r : r + 1, :] = pl.gather(pairs, mask_pattern=pl.tile.MaskPattern.P0101)
            indices[r : r + 1, :] = pl.gather(pairs, mask_pattern=pl.tile.MaskPattern.P1010, output_dtype=pl.INT32)


def test_the_recipe_of_the_language_gives_the_top_k_and_their_indices():
    x = hard_values("FP32", (4, N))
    values, indices = np.zeros((4, K), np.float32), np.zeros((4, K), np.int32)
    both(top_k_of_rows, x, values, indices)
    for row, v, i in zip(x, values, indices, strict=True):
        order = best_first(row, np.arange(N))[:K]
        assert i.tolist() == order and np.array_equal(v, row[order], equal_nan=True)


def test_ties_are_resolved_as_in_jax():  # C41
    x = np.full((4, N), 1, np.float32)
    x[:, [0, 1, 3]] = 3
    values, indices = np.zeros((4, K), np.float32), np.zeros((4, K), np.int32)
    top_k_of_rows(x, values, indices)
    assert values[0, :3].tolist() == [3, 3, 3] and indices[0].tolist() == [0, 1, 3, 2, 4, 5, 6, 7]
    found = lax.top_k(f32(3, 3, 1, 3), 2)
    assert found[0].tolist() == [3, 3] and found[1].tolist() == [0, 1]


def test_four_thousand_rows_on_the_reference():
    x = np.random.default_rng(5).normal(size=(4096, N)).astype(np.float32)
    values, indices = np.zeros((4096, K), np.float32), np.zeros((4096, K), np.int32)
    with pypto.override(check=False, executor="reference"):
        top_k_of_rows(x, values, indices, 4096)
    assert np.array_equal(indices, np.argsort(-x, axis=1, kind="stable")[:, :K])
