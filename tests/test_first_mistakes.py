"""What somebody meets in the first hour: mistakes are reported at their own line, and a look into a run shows numbers."""

import re
import warnings

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.core.printer import show
from pypto.errors import PyptoError, PyptoWarning

N = pl.dynamic("N")
Rows = pl.Tensor[[4, 8], pl.FP32]
Any8 = pl.Tensor[[N, 8], pl.FP32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)


def refusal(action):
    with pytest.raises(PyptoError) as caught:
        action()
    return caught.value.code, caught.value.source.text.strip()


@pl.jit
def reads_past_the_end(x: Rows, r: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    for _ in pl.range(1):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x[r : r + 2, :]


def test_an_error_of_a_run_points_at_the_innermost_line():
    assert refusal(lambda: reads_past_the_end(X, 3)) == ("PL303", "out[:] = x[r : r + 2, :]")


@pytest.mark.parametrize("changes", [{"platform": "nowhere"}, {"nothing": 1}])
def test_a_wrong_configuration_is_an_error_where_it_is_written(changes):
    code, line = refusal(lambda: pypto.override(**changes))
    assert (code, line) == ("PL606", "code, line = refusal(lambda: pypto.override(**changes))")


def test_an_error_in_a_dataclass_of_pypto_points_at_the_user():
    assert refusal(lambda: pypto.Config(platform="nowhere"))[1].startswith("assert refusal")


@pl.jit
def leaves_a_row(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:3, :] = x[0:3, :]


def test_a_warning_has_the_place_of_the_kernel():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        leaves_a_row(X)
    (warning,) = caught
    assert warning.category is PyptoWarning
    assert (warning.filename, warning.lineno) == (__file__, leaves_a_row.staged.source.line)


@pl.jit
def counts_with_shape(x: Any8, out: pl.Out[Any8]):
    for i in pl.range(x.shape[0]):
        out[i, 0] = 0.0


@pl.jit
def counts_with_len(x: Any8, out: pl.Out[Any8]):
    for i in pl.range(len(x)):
        out[i, 0] = 0.0


@pl.jit
def counts_with_the_symbol(x: Any8, out: pl.Out[Any8]):
    for i in pl.range(N // 2):
        out[i, 0] = 0.0


@pytest.mark.parametrize(
    ("kernel", "code"), [(counts_with_shape, "PL304"), (counts_with_len, "PL106"), (counts_with_the_symbol, "PL304")], ids=str
)
def test_a_run_time_extent_used_as_a_number_is_refused_at_its_line(kernel, code):
    found, line = refusal(kernel.lower)
    assert found == code
    assert line.startswith("for i in pl.range(")


@pl.jit
def chooses(x: Rows, n: pl.Scalar[pl.INT32], out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, 2.0 if n > 0 else 3.0)


def test_every_name_in_a_printed_program_is_an_identifier():
    names = re.findall(r"^ *(.+?): \S+ = ", show(chooses.trace()), re.MULTILINE)
    assert names and all(name.isidentifier() for name in names)


@pl.jit
def looks_inside(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = pl.slice(x, [1, 8], [1, 0], valid_shape=[1, 3])
        print(tile)
        out[:] = x


def test_printing_a_tile_in_an_eager_run_shows_its_numbers(capsys):
    looks_inside.eager(X)
    assert capsys.readouterr().out == "Tile([[ 8.,  9., 10.,  0.,  0.,  0.,  0.,  0.]], valid=[1, 3], dtype=FP32)\n"


@pl.jit
def copies_out(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        seen.append(np.asarray(pl.neg(x)))
        out[:] = x


seen: list[np.ndarray] = []


def test_a_tile_of_an_eager_run_is_an_array_to_numpy():
    copies_out.eager(X)
    assert seen[-1].tobytes() == (-X).tobytes()


def test_numpy_functions_read_an_array():
    y = pypto.Array(X)
    assert np.sum(y) == np.sum(X)
    assert np.exp(y).tobytes() == np.exp(X).tobytes()


def test_a_numpy_array_on_the_left_leaves_the_operation_to_an_array():
    total = X + pypto.Array(X)
    assert isinstance(total, pypto.Array)
    assert isinstance(np.float32(2) * pypto.Array(X), pypto.Array)


@pl.jit
def calls_numpy(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = np.exp(x[:])


def test_a_numpy_function_of_a_traced_tile_is_refused_at_its_line():
    assert refusal(calls_numpy.lower) == ("PL106", "out[:] = np.exp(x[:])")


@pl.jit
def adds_long_integers(x: pl.Tensor[[4, 8], pl.INT64], out: pl.Out[pl.Tensor[[4, 8], pl.INT64]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.adds(x, 3)


def test_the_cast_suggested_for_a_dtype_the_chip_lacks_is_the_widest_of_its_kind():
    with pytest.raises(PyptoError) as caught:
        adds_long_integers.lower()
    assert caught.value.code == "PL406"
    assert "pl.INT32" in caught.value.fix
