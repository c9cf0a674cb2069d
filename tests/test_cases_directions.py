"""Reported faults about directions, helpers and write-back (cases C06, C09, C74, C78, C85): right, or a loud error."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import NumericsError
from pypto.testing import TensorSpec, check
from tests.refusals import f32, reports, sevens, untouched

Vec2 = pl.Tensor[[2], pl.FP32]

# C06: in/out arrays that nobody writes keep their content.


@pl.jit
def does_nothing(a: pl.InOut[Vec2], b: pl.InOut[Vec2]):
    pass


def test_inout_arrays_of_an_empty_kernel_keep_their_content():  # C06
    a, b = f32(1, 1), f32(2, 2)
    with reports("PL202", "PL202") as found:
        does_nothing(a, b)
    assert "`a`" in found[0] and "`b`" in found[1]
    assert (a.tolist(), b.tolist()) == ([1, 1], [2, 2])


# C09: one calling convention for every kind of helper.


@pl.jit.inline
def two_inline(x):
    return x + 1.0, x * 2.0


@pl.jit.inline
def two_inline_returned(x):
    return two_inline(x)


@pl.jit.incore
def two_incore(x):
    return x + 1.0, x * 2.0


@pl.jit.inline
def two_incore_returned(x):
    return two_incore(x)


@pl.jit
def two_entry(x):
    return x + 1.0, x * 2.0


def two_plain(x):
    return x + 1.0, x * 2.0


One = pl.Tensor[[1], pl.FP32]


def calling(helper):
    @pl.jit
    def takes_two_results(x: One, o1: pl.Out[One], o2: pl.Out[One]):
        with pl.at(level=pl.Level.CORE_GROUP):
            p, q = helper(x)
            o1[:] = p
            o2[:] = q

    return takes_two_results


def calling_outside(helper):
    @pl.jit
    def takes_two_tensors(x: One, o1: pl.Out[One], o2: pl.Out[One]):
        p, q = helper(x)
        with pl.at(level=pl.Level.CORE_GROUP):
            o1[:] = p
            o2[:] = q

    return takes_two_tensors


HELPERS = [two_inline, two_inline_returned, two_incore, two_incore_returned, two_entry, two_plain]


@pytest.mark.parametrize("helper", HELPERS, ids=lambda h: h.__name__)
def test_two_results_come_out_of_every_kind_of_helper_inside_a_region(helper):  # C09
    o1, o2 = calling(helper)(f32([3]))
    assert (o1.tolist(), o2.tolist()) == ([4], [6])


@pytest.mark.parametrize("helper", [two_incore, two_incore_returned], ids=lambda h: h.__name__)
def test_two_results_come_out_of_an_incore_helper_outside_a_region(helper):  # C09
    o1, o2 = calling_outside(helper)(f32([3]))
    assert (o1.tolist(), o2.tolist()) == ([4], [6])


@pl.jit.inline
def doubles_into(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = x * 2.0


@pl.jit
def passes_an_output_to_an_inline(x: One, out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        doubles_into(x, out)


@pl.jit
def passes_an_input_to_an_inline_output(x: One, y: One, out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        doubles_into(x, y)  # refused
        out[:] = x


@pl.jit
def leaves_out_an_inline_output(x: One, out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        doubles_into(x)  # refused
        out[:] = x


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoDeprecationWarning")
def test_a_direction_on_an_inline_parameter_is_honoured():  # C09
    assert passes_an_output_to_an_inline(f32([3])).tolist() == [6]


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoDeprecationWarning")
def test_an_input_may_not_be_given_for_the_output_of_an_inline():  # C09
    error = untouched("PL203", passes_an_input_to_an_inline_output, f32([3]), f32([0]), sevens(1), at="doubles_into(x, y)")
    assert "`y`" in error.message


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoDeprecationWarning")
def test_an_output_of_an_inline_may_not_be_left_out():  # C09
    error = untouched("PL601", leaves_out_an_inline_output, f32([3]), sevens(1), at="doubles_into(x)")
    assert "`y`" in error.message


# C74: reading an in/out parameter is not writing through it.


@pl.jit
def rebinds_what_it_reads(out: pl.InOut[Vec2], b: Vec2):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.add(out, b)  # refused


@pl.jit
def changes_a_copy(out: pl.InOut[Vec2], b: Vec2):
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = out
        tmp = pl.mul(tmp, 2.0)


@pl.jit
def stores_what_it_reads(out: pl.InOut[Vec2], b: Vec2):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(out, b)


@pl.jit
def names_the_result_of_a_store(out: pl.InOut[Vec2], b: Vec2):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.add(out, b)
        out = pl.store(t, [0], out)


@pl.jit
def carries_the_parameter_itself(out: pl.InOut[Vec2], b: Vec2):
    for i, (acc,) in pl.range(2, init_values=(out,)):
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.assemble(acc, pl.add(acc, b), [0])


@pl.jit
def carries_the_parameter_by_its_name(out: pl.InOut[Vec2], b: Vec2):
    for i in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.assemble(out, pl.add(out, b), [0])


def test_an_inout_that_is_read_by_what_takes_its_name_is_refused():  # C74
    untouched("PL201", rebinds_what_it_reads, f32(1, 2), f32(10, 20), at="out = pl.add(out, b)")


def test_an_inout_that_is_only_copied_from_is_reported_as_never_written():  # C74
    out = f32(1, 2)
    with reports("PL202") as found:
        changes_a_copy(out, f32(10, 20))
    assert "`out`" in found[0]
    assert out.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (stores_what_it_reads, [11, 22]),
        (names_the_result_of_a_store, [11, 22]),
        (carries_the_parameter_itself, [21, 42]),
        (carries_the_parameter_by_its_name, [21, 42]),
    ],
)
def test_an_inout_that_is_written_through_changes_without_a_warning(kernel, expected):  # C74
    out = f32(1, 2)
    kernel(out, f32(10, 20))
    assert out.tolist() == expected


# C78: a load touches nothing but what it loads.


@pl.jit
def loads_rows_through_views(x: pl.InOut[pl.Tensor[[2, 2], pl.FP32]], out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]):
    first, second = x[0:1, :], x[1:2, :]
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(first, [0, 0], [1, 2])
        b = pl.load(second, [0, 0], [1, 2])
        out[0:1, :] = a
        out[1:2, :] = b
        x[0:1, :] = a


@pl.jit
def loads_a_padded_row(x: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:1, :] = x[0:1, :]
        padded = pl.load(x, [1, 0], [2, 2], valid_shape=[1, 2])
        out[1:3, :] = padded


def test_loading_one_row_leaves_the_rows_seen_through_other_views():  # C78
    x, out = f32([1, 2], [3, 4]), sevens(2, 2)
    loads_rows_through_views(x, out)
    assert out.tolist() == [[1, 2], [3, 4]]
    assert x.tolist() == [[1, 2], [3, 4]]


def test_a_padded_load_and_store_touch_the_valid_rows_only():  # C78
    out = sevens(2, 2)
    loads_a_padded_row(f32([1, 2], [3, 4]), out)
    assert out.tolist() == [[1, 2], [3, 4]]


# C85: a golden that shares memory with the run cannot make a test pass.


@pl.jit
def adds_one(x: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + 1.0


SPECS = [TensorSpec("x", [4], pl.FP32), TensorSpec("out", [4], pl.FP32, output=True)]


def test_a_wrong_golden_fails_on_every_element():  # C85
    with pytest.raises(NumericsError) as caught:
        check(adds_one, lambda x: x + 2, SPECS)
    assert caught.value.code == "PL701"
    assert check(adds_one, lambda x: x + 2, SPECS, raises=False).outputs["out"].fraction == 1.0


def test_a_golden_computed_in_the_memory_of_the_run_still_fails():  # C85
    shared = np.zeros(4, np.float32)

    def golden(x):
        shared[:] = x + 2
        return shared

    def kernel(x, out):
        adds_one(x, shared)
        out[:] = shared

    with pytest.raises(NumericsError) as caught:
        check(kernel, golden, SPECS)
    assert caught.value.code == "PL702"


def test_a_golden_that_changes_its_input_does_not_change_the_kernels():  # C85
    def golden(x):
        x += 1
        return x

    assert check(adds_one, golden, SPECS).equal_bits
