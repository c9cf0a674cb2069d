"""Reported faults about outputs (cases C01-C05): the right result, or a loud error."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError, PyptoError
from tests.refusals import f32, refused, reports, sevens, untouched

Row2 = pl.Tensor[[1, 2], pl.FP32]
Row4 = pl.Tensor[[1, 4], pl.FP32]
Vec2 = pl.Tensor[[2], pl.FP32]

A, B = f32([[1, 2, 3, 4]]), f32([[10, 20, 30, 40]])


# C01: a result named like the output is not a store.


@pl.jit
def named_like_the_output(a: Row4, b: Row4, out: pl.Out[Row4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.add(a, b)  # refused


@pl.jit
def stored_into_the_output(a: Row4, b: Row4, out: pl.Out[Row4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, b)


@pl.jit
def assembled_into_the_output(a: Row4, b: Row4, out: pl.Out[Row4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.assemble(out, pl.add(a, b), [0, 0])


@pl.jit
def named_like_the_output_by_a_load(a: Row4, b: Row4, out: pl.Out[Row4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.load(a, [0, 0], [1, 4])  # refused


@pl.jit
def named_like_the_output_by_another_tensor(a: Row4, b: Row4, out: pl.Out[Row4]):
    out = a  # refused


def test_a_result_that_only_takes_the_name_of_an_output_is_refused():  # C01
    error = untouched("PL201", named_like_the_output, A.copy(), B.copy(), sevens(1, 4), at="out = pl.add(a, b)")
    assert "`out`" in error.message
    assert "`out[:] = ...`" in error.fix and "`out[r0:r1, :] = ...`" in error.fix
    refused("PL201", named_like_the_output.trace, at="out = pl.add(a, b)")


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(named_like_the_output_by_a_load, "out = pl.load(a, [0, 0], [1, 4])"), (named_like_the_output_by_another_tensor, "out = a")],
)
def test_the_name_of_an_output_is_refused_to_every_other_value(kernel, at):  # C01
    untouched("PL201", kernel, A.copy(), B.copy(), sevens(1, 4), at=at)


@pytest.mark.parametrize("kernel", [stored_into_the_output, assembled_into_the_output])
def test_a_store_into_an_output_reaches_the_caller(kernel):  # C01
    out = sevens(1, 4)
    kernel(A, B, out)
    assert out.tolist() == [[11, 22, 33, 44]]


# C02: every output comes back, whatever the body returns.


@pl.jit
def returns_nothing(x: Row2, o1: pl.Out[Row2], o2: pl.Out[Row2]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = x
        o2[:] = pl.mul(x, 2.0)


@pl.jit
def returns_one(x: Row2, o1: pl.Out[Row2], o2: pl.Out[Row2]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = x
        o2[:] = pl.mul(x, 2.0)
    return o2


@pl.jit
def returns_both(x: Row2, o1: pl.Out[Row2], o2: pl.Out[Row2]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = x
        o2[:] = pl.mul(x, 2.0)
    return o1, o2


@pl.jit
def returns_the_other_order(x: Row2, o1: pl.Out[Row2], o2: pl.Out[Row2]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o1[:] = x
        o2[:] = pl.mul(x, 2.0)
    return o2, o1


@pytest.mark.parametrize("kernel", [returns_nothing, returns_one, returns_both, returns_the_other_order])
def test_every_output_comes_back_whatever_is_returned(kernel):  # C02
    o1, o2 = sevens(1, 2), sevens(1, 2)
    kernel(f32([[1, 2]]), o1, o2)
    assert o1.tolist() == [[1, 2]]
    assert o2.tolist() == [[2, 4]]


@pytest.mark.parametrize("kernel", [returns_nothing, returns_one, returns_both, returns_the_other_order])
def test_outputs_left_out_come_back_in_the_order_of_the_parameters(kernel):  # C02
    o1, o2 = kernel(f32([[1, 2]]))
    assert (o1.tolist(), o2.tolist()) == ([[1, 2]], [[2, 4]])


def test_of_two_outputs_one_may_be_given_and_the_other_left_out():  # C02
    o2 = sevens(1, 2)
    o1 = returns_one(f32([[1, 2]]), o2=o2)
    assert (o1.tolist(), o2.tolist()) == ([[1, 2]], [[2, 4]])


# C03: a store into an input would never be copied back.


@pl.jit
def writes_a_plain_tensor(x: pl.Tensor, y: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x  # refused


@pl.jit
def writes_a_plain_tensor_through_a_view(x: pl.Tensor, y: pl.Tensor):
    row = y[0:1, :]
    with pl.at(level=pl.Level.CORE_GROUP):
        row[:] = x[0:1, :]  # refused


@pl.jit
def copies_into_a_plain_tensor(x: pl.Tensor, y: pl.Tensor):
    y[:, :] = x  # refused


@pl.jit
def writes_an_output(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (writes_a_plain_tensor, "y[:]"),
        (writes_a_plain_tensor_through_a_view, "row[:]"),
        (copies_into_a_plain_tensor, "y[:, :]"),
    ],
)
def test_a_store_into_a_plain_tensor_is_refused_at_the_store(kernel, at):  # C03
    error = untouched("PL203", kernel, f32([[1, 2], [3, 4]]), sevens(2, 2), at=at)
    assert "`y`" in error.message
    assert "pl.Out[" in error.fix and "pl.InOut[" in error.fix


def test_the_same_store_into_a_declared_output_arrives():  # C03
    y = sevens(2, 2)
    writes_an_output(f32([[1, 2], [3, 4]]), y)
    assert y.tolist() == [[1, 2], [3, 4]]


# C04: an in/out argument cannot be left out.


@pl.jit
def accumulates(x: Vec2, s: pl.InOut[Vec2]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s[:] = pl.add(s, x)


def test_an_inout_argument_that_is_left_out_is_a_type_error_that_names_it():  # C04
    error = refused("PL603", lambda: accumulates(f32(1, 2)), at="accumulates(f32(1, 2))")  # refused
    assert isinstance(error, TypeError) and isinstance(error, CallError)
    assert "`s`" in error.message


def test_an_inout_argument_is_read_and_written():  # C04
    s = f32(5, 5)
    accumulates(f32(1, 2), s)
    assert s.tolist() == [6, 7]


# C05: an element nobody wrote is reported with its region, and never holds something else.


@pl.jit
def writes_nine_of_ten(x: pl.Tensor[[10], pl.FP32], out: pl.Out[pl.Tensor[[10], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:9] = x[0:9]


@pl.jit
def stores_every_block_at_block_0(x: pl.Tensor[[4, 2], pl.FP32], out: pl.Out[pl.Tensor[[4, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            pl.store(x[i : i + 1, :], [0, 0], out)


@pl.jit
def writes_the_middle(x: pl.Tensor[[4], pl.FP32], y: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[1:3] = x[1:3] * y[1:3]


@pl.jit
def writes_n_rows(x: pl.Tensor[[4, 2], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(n):
            out[i : i + 1, :] = x[i : i + 1, :]


@pl.jit
def writes_a_checkerboard(x: pl.Tensor[[4, 4], pl.FP32], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            out[i : i + 1, i : i + 1] = x[i : i + 1, i : i + 1]


def test_the_tail_that_was_not_written_is_reported_and_keeps_what_it_had():  # C05 (a)
    out = sevens(10)
    with reports("PL204") as found:
        writes_nine_of_ten(np.arange(10, dtype=np.float32), out)
    assert "`out[9]`" in found[0]
    assert out.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, -7]


def test_blocks_that_all_went_to_block_0_are_reported():  # C05 (b)
    out = sevens(4, 2)
    with reports("PL204") as found:
        stores_every_block_at_block_0(np.arange(8, dtype=np.float32).reshape(4, 2), out)
    assert "`out[1:4, 0:2]`" in found[0]
    assert out.tolist() == [[6, 7], [-7, -7], [-7, -7], [-7, -7]]


def test_both_ends_that_were_not_written_are_named_and_not_what_lies_between():  # C05 (c)
    out = sevens(4)
    with reports("PL204") as found:
        writes_the_middle(f32(0, 1, 2, 3), f32(1, 2, 3, 4), out)
    assert "`out[0]`, `out[3]`" in found[0]
    assert out.tolist() == [-7, 2, 6, -7]


def test_many_scattered_gaps_are_named_up_to_a_few():  # C05
    with reports("PL204") as found:
        writes_a_checkerboard(np.ones((4, 4), np.float32), sevens(4, 4))
    assert "12 of 16" in found[0] and "`out[0, 1:4]`" in found[0]


def test_an_output_left_out_reads_as_zero_where_it_was_not_written():  # C05
    with reports("PL204"):
        first = writes_nine_of_ten(np.ones(10, np.float32))
    assert first.tolist() == [1] * 9 + [0]


@pytest.mark.parametrize(("n", "region"), [(1, "out[1:4, 0:2]"), (3, "out[3, 0:2]")])
def test_a_run_time_bound_reports_what_this_call_left_out(n, region):  # C05
    with reports("PL204") as found:
        writes_n_rows(np.ones((4, 2), np.float32), n, sevens(4, 2))
    assert f"`{region}`" in found[0]


def test_an_output_of_which_nothing_was_written_is_an_error():  # C05
    x, out = np.ones((4, 2), np.float32), sevens(4, 2)
    with pytest.raises(PyptoError) as caught:
        writes_n_rows(x, 0, out)
    assert caught.value.code == "PL202" and "`out`" in caught.value.message
    assert caught.value.source is not None and caught.value.source.text.startswith("def writes_n_rows(")
    assert (out == -7).all()


def test_unchecked_runs_report_unwritten_regions_too():  # C05
    import pypto

    with pypto.override(check=False), reports("PL204"):
        writes_nine_of_ten(np.ones(10, np.float32), sevens(10))


def test_the_boxes_of_a_region_are_disjoint_and_together_exactly_the_region():  # C05
    from pypto.interpreters.values import boxes

    rng = np.random.default_rng(5)
    for shape in [(7,), (4, 5), (3, 2, 4), (1, 1), (2, 0, 3)]:
        for density in (0.0, 0.3, 0.8, 1.0):
            mask, hits = rng.random(shape) < density, np.zeros(shape, int)
            for box in boxes(mask):
                hits[eval(f"np.s_{box}")] += 1
            assert (hits == mask).all()
