"""What a chip's instruction takes where its forms differ, and small forms of moving: windows of other shapes, narrower integers."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.core.op import OPS
from pypto.errors import PyptoError
from tests.refusals import refused, sevens, untouched

# Rows and columns are two instructions, with dtypes of their own.


def reducing(op, dtype, shape):
    size, kept = list(shape), [shape[0], 1] if op.__name__.startswith("row") else [1, shape[1]]
    result = pl.INT32 if "arg" in op.__name__ else dtype

    @pl.jit
    def reduces(x: pl.Tensor[size, dtype], out: pl.Out[pl.Tensor[kept, result]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = op(x)  # refused

    return reduces


TAKEN = [
    (pl.row_prod, "a2a3", pl.FP32, True),
    (pl.col_prod, "a2a3", pl.FP32, False),
    (pl.col_prod, "a5", pl.UINT16, True),
    (pl.row_prod, "a5", pl.UINT16, False),
    (pl.row_prod, "a5", pl.BF16, False),
    (pl.row_sum, "a5", pl.INT8, False),
    (pl.col_sum, "a5", pl.INT8, True),
    (pl.col_sum, "a2a3", pl.INT8, False),
    (pl.row_max, "a5", pl.UINT16, False),
    (pl.col_max, "a5", pl.UINT16, True),
    (pl.col_min, "a2a3", pl.INT32, True),
]


@pytest.mark.parametrize(("op", "platform", "dtype", "taken"), TAKEN)
def test_each_form_of_a_reduction_has_the_dtypes_of_its_instruction(op, platform, dtype, taken):
    kernel = reducing(op, dtype, (32, 32))
    with pypto.override(platform=platform):
        if taken:
            kernel.lower()
            return
        error = refused("PL406", kernel.lower, at="op(x)")
    assert ("row form" if op.__name__.startswith("row") else "column form") in error.message


def test_a_form_a_chip_lacks_altogether_names_the_chip_that_has_it():
    with pypto.override(platform="a2a3"):
        error = refused("PL406", reducing(pl.col_prod, pl.FP32, (32, 32)).lower, at="op(x)")
    assert "at all" in error.message and '"a5"' in error.fix


def test_the_manual_lists_the_dtypes_of_both_forms():
    from pypto.tools.ops import facts

    listed = dict(facts(OPS["reduce_prod"]))
    assert listed["dtypes on a2a3, of columns"] == "none" and "FP32" in listed["dtypes on a2a3, of rows"]


# An option only one chip has.


@pl.jit
def takes_a_precise_logarithm(x: pl.Tensor[[8, 64], pl.FP32], out: pl.Out[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.log(x, high_precision=True)  # refused


def test_a_precise_logarithm_exists_on_a5_only_and_changes_no_bit():
    x = np.linspace(0.1, 9, 512, dtype=np.float32).reshape(8, 64)
    with pypto.override(platform="a2a3"):
        error = refused("PL406", takes_a_precise_logarithm.lower, at="pl.log(x, high_precision=True)")
    assert "a5" in error.fix and "high_precision" in error.message
    for platform in ("a5", "cpu"):
        with pypto.override(platform=platform):
            assert np.asarray(takes_a_precise_logarithm(x)).tobytes() == np.asarray(lax.log(x)).tobytes()


# A window of another shape than the tile's.

CUBE = pl.Tensor[[2, 4, 8], pl.FP32]


@pl.jit
def stores_a_matrix_into_a_cube(x: pl.Tensor[[4, 8], pl.FP32], out: pl.InOut[CUBE]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8])
        out = pl.store(t, [1, 0, 0], out, [1, 4, 8])


@pl.jit
def stores_part_of_a_matrix_into_a_cube(x: pl.Tensor[[3, 8], pl.FP32], out: pl.InOut[CUBE]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8], valid_shape=[3, 8])
        pl.store(t, [0, 0, 0], out, shapes=[1, 4, 8])


@pl.jit
def stores_into_a_window_of_another_size(x: pl.Tensor[[4, 8], pl.FP32], out: pl.InOut[CUBE]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0, 0], out, shapes=[1, 2, 8])  # refused


def test_a_tile_is_stored_into_a_window_of_as_many_elements():
    x, out = np.arange(32, dtype=np.float32).reshape(4, 8), sevens(2, 4, 8)
    stores_a_matrix_into_a_cube(x, out)
    assert out[1].tolist() == x.tolist() and (out[0] == -7).all()


def test_of_a_partly_valid_tile_only_the_valid_part_reaches_the_window():
    x, out = np.arange(24, dtype=np.float32).reshape(3, 8), sevens(2, 4, 8)
    stores_part_of_a_matrix_into_a_cube(x, out)
    assert out[0, :3].tolist() == x.tolist() and (out[0, 3] == -7).all() and (out[1] == -7).all()


def test_a_window_of_another_number_of_elements_is_refused():
    at = "pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0, 0], out, shapes=[1, 2, 8])"
    untouched("PL301", stores_into_a_window_of_another_size, np.zeros((4, 8), np.float32), sevens(2, 4, 8), at=at)


# Merging with a length that is known when the program runs.

PAIRS = pl.Tensor[[1, 1024], pl.FP32]


@pl.jit
def merges_runs_of_a_given_length(x: PAIRS, n: pl.Scalar[pl.INT32], out: pl.Out[PAIRS]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mrgsort(pl.load(x, [0, 0], [1, 1024]), block_len=n)  # refused


def runs(length, seed=1):
    values = np.random.default_rng(seed).standard_normal(512).astype(np.float32)
    for s in range(0, 512, length // 2):
        values[s : s + length // 2] = np.sort(values[s : s + length // 2])[::-1]
    pairs = np.stack([values.view(np.uint32), np.arange(512, dtype=np.uint32)], 1)
    return pairs.reshape(1, -1).view(np.float32)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("length", [64, 128, 256])
def test_a_length_known_at_run_time_merges_as_the_constant_does(length, check):
    x = runs(length)
    with pypto.override(check=check):
        out = merges_runs_of_a_given_length(x, length)
    assert np.asarray(out).tobytes() == np.asarray(lax.mrgsort_runs(x, block_len=length)).tobytes()


@pytest.mark.parametrize("length", [0, -64, 65, 512])
def test_a_run_time_length_that_is_none_is_refused(length):
    error = untouched("PL308", merges_runs_of_a_given_length, runs(64), length, sevens(1, 1024), at=AT)
    assert str(length) in error.message


AT = "pl.mrgsort(pl.load(x, [0, 0], [1, 1024]), block_len=n)"

# Integers that are stored into narrower ones.


@pl.jit
def writes_a_wide_scalar(n: pl.Scalar[pl.INT64], out: pl.Out[pl.Tensor[[1, 8], pl.INT16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([1, 8], dtype=pl.INT16, value=0)
        pl.write(out, [0, 1], n)  # refused


@pl.jit
def writes_a_loop_index(out: pl.Out[pl.Tensor[[1, 8], pl.INT8]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(8):
            pl.write(out, [0, i], i)


@pl.jit
def writes_a_number_that_does_not_fit(out: pl.Out[pl.Tensor[[1, 8], pl.INT8]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([1, 8], dtype=pl.INT8, value=0)
        pl.write(out, [0, 1], 128)  # refused


@pytest.mark.parametrize("n", [0, 32767, -32768, 5])
def test_a_wider_scalar_that_fits_is_stored(n):
    assert writes_a_wide_scalar(n).tolist() == [[0, n, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("n", [32768, -32769, 2**40 + 3])
@pytest.mark.checked
def test_a_wider_scalar_that_does_not_fit_is_an_error_in_checked_runs_and_keeps_its_low_bits_otherwise(n):
    error = refused("PL308", writes_a_wide_scalar, n, at="pl.write(out, [0, 1], n)")
    assert str(n) in error.message and "INT16" in error.message
    for executor in ("reference", "cpu"):
        with pypto.override(check=False, executor=executor):
            assert writes_a_wide_scalar(n)[0, 1] == (n + 2**15) % 2**16 - 2**15


def test_a_loop_index_goes_into_a_narrow_tensor():
    assert writes_a_loop_index(sevens(1, 8, dtype=np.int8)).tolist() == [list(range(8))]


def test_a_number_that_does_not_fit_is_refused_when_the_kernel_is_traced():
    with pytest.raises(PyptoError) as caught:
        writes_a_number_that_does_not_fit.lower()
    assert caught.value.code == "PL308" and "128" in caught.value.message
