"""Random kernels have the reference executor's bits on every CPU that code is written for; what differs would be shrunk."""

import pytest

from tests.fuzz import TARGETS, shrunk, unwrapped, verdict, without
from tests.op_kernels import op_kernel
from tests.sort_kernels import sort_kernel
from tests.tile_nests import tile_kernel

pytestmark = pytest.mark.filterwarnings("ignore::pypto.errors.PyptoWarning")

# Kernels that once crashed or had no code: marks that may be missing behind a view, handles that are carried and reshaped.
ONCE_WRONG = (20, 47, 58, 339, 528)


@pytest.mark.parametrize("seed", range(8))
def test_a_random_kernel_of_many_ops_has_the_same_bits_on_every_cpu(seed, tmp_path):
    assert verdict(op_kernel(seed), seed, list(TARGETS), tmp_path) == ""


@pytest.mark.parametrize("seed", [*range(6), *ONCE_WRONG])
def test_a_random_nest_of_tiles_and_names_has_the_bits_of_the_reference(seed, tmp_path):
    assert verdict(tile_kernel(seed), seed, ["this CPU"], tmp_path) == ""


@pytest.mark.parametrize("seed", range(24))
def test_what_a_random_kernel_reads_of_sorted_rows_is_what_the_reference_sorts(seed, tmp_path):
    assert verdict(sort_kernel(seed), seed, list(TARGETS), tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_more_random_kernels_have_the_bits_of_the_reference(seed, tmp_path):
    assert verdict(op_kernel(seed), seed, list(TARGETS), tmp_path) == ""
    assert verdict(tile_kernel(seed), seed, ["this CPU"], tmp_path) == ""
    assert verdict(sort_kernel(seed), seed, list(TARGETS), tmp_path) == ""


def test_a_kernel_is_shrunk_to_the_lines_that_matter():
    source = "def kernel(x, out):\n    a = 1\n    for i in r:\n        b = 2\n        bad = 3\n    out = a\n"
    assert shrunk(source, lambda s: "bad" in s) == "def kernel(x, out):\n    bad = 3\n"


def test_a_line_goes_with_what_is_nested_in_it_or_without():
    lines = ["def f():", "    if a:", "        b", "    c"]
    assert without(lines, 1) == ["def f():", "    c"]
    assert unwrapped(lines, 1) == ["def f():", "    b", "    c"]
