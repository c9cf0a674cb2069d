"""Outputs whose write would be lost: rebinding, nothing written, undeclared writes."""

import pytest

import pypto.language as pl
from tests.refusals import f32, refused, reports, sevens, untouched

V4 = pl.Tensor[[4], pl.FP32]
X = f32(1, 2, 3, 4)

# An output's name given to another value.


@pl.jit
def rebinds(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out = x + 1.0  # refused


@pl.jit
def rebinds_to_what_reads_it(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out = out + x  # refused


@pl.jit
def rebinds_by_an_augmented_assignment(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out += 1.0  # refused


@pl.jit
def rebinds_under_an_if(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if pl.read(x, [0]) > 0.0:
            out = x + 1.0  # refused


@pl.jit
def rebinds_in_a_branch_not_taken(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if pl.read(x, [0]) > 100.0:
            out[:] = x
        else:
            out = x + 1.0  # refused


@pl.jit
def rebinds_in_a_loop(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in pl.range(3):
            out = x + 1.0  # refused


@pl.jit
def rebinds_in_a_tuple_target(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        a, out = x + 1.0, x + 2.0  # refused


@pl.jit
def rebinds_by_an_annotated_assignment(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out: V4 = x + 1.0  # refused


@pl.jit
def rebinds_to_a_created_tensor(x: V4, out: pl.Out[V4]):
    out = pl.create_tensor([4], dtype=pl.FP32)  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def rebinds_to_a_number(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    out = 3  # refused


@pl.jit
def rebinds_to_another_output(x: V4, out: pl.Out[V4], more: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        more[:] = x
    out = more  # refused


@pl.jit.inline
def doubles_by_name(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y = x * 2.0  # refused


@pl.jit
def rebinds_in_an_inline_function(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        doubles_by_name(x, out)


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (rebinds, "out = x + 1.0"),
        (rebinds_to_what_reads_it, "out = out + x"),
        (rebinds_by_an_augmented_assignment, "out += 1.0"),
        (rebinds_under_an_if, "out = x + 1.0"),
        (rebinds_in_a_branch_not_taken, "out = x + 1.0"),
        (rebinds_in_a_loop, "out = x + 1.0"),
        (rebinds_in_a_tuple_target, "out"),
        (rebinds_by_an_annotated_assignment, "out: V4 = x + 1.0"),
        (rebinds_to_a_created_tensor, "out = pl.create_tensor([4], dtype=pl.FP32)"),
        (rebinds_to_a_number, "out = 3"),
        (rebinds_in_an_inline_function, "y = x * 2.0"),
    ],
)
@pytest.mark.filterwarnings("ignore:PL116")
def test_giving_an_outputs_name_to_another_value_is_refused(kernel, at):
    error = untouched("PL201", kernel, X.copy(), sevens(4), at=at)
    name = "`y`" if kernel is rebinds_in_an_inline_function else "`out`"
    assert name in error.message
    if kernel not in (rebinds_in_a_branch_not_taken,):
        untouched("PL201", kernel.eager, X.copy(), sevens(4), at=at)


def test_giving_an_outputs_name_to_another_output_is_refused():
    untouched("PL201", rebinds_to_another_output, X.copy(), sevens(4), sevens(4), at="out = more")


@pl.jit
def names_the_same_buffer(x: V4, out: pl.Out[V4]):
    out = out[:]
    out = pl.reshape(pl.reshape(out, [2, 2]), [4])
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            out = pl.assemble(out, x[2 * i : 2 * i + 2], [2 * i])
        out, t = pl.store(x[0:1], [0], out), x
        if pl.read(x, [0]) > 0.0:
            out = pl.assemble(out, x[1:2], [1])
    return out


def test_an_outputs_name_may_stand_for_the_same_buffer_again():
    assert names_the_same_buffer(X).tolist() == [1, 2, 3, 4]


# Outputs nobody writes.


@pl.jit
def writes_one_of_two(x: V4, out: pl.Out[V4], more: pl.Out[V4]):  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def updates_a_loaded_copy(x: V4, out: pl.Out[V4]):  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0


@pl.jit.incore
def writes_nothing(x: V4, out: pl.Out[V4]):  # refused
    pass


@pytest.mark.parametrize("kernel", [updates_a_loaded_copy, writes_nothing])
def test_an_output_that_nothing_writes_is_refused_at_the_def(kernel):
    error = untouched("PL202", kernel, X.copy(), sevens(4), at=f"def {kernel.__name__}(x: V4, out: pl.Out[V4]):")
    assert "`out`" in error.message


def test_each_output_must_be_written():
    at = "def writes_one_of_two(x: V4, out: pl.Out[V4], more: pl.Out[V4]):"
    error = untouched("PL202", writes_one_of_two, X.copy(), sevens(4), sevens(4), at=at)
    assert "`more`" in error.message


# Tensors that are not outputs.


@pl.jit(undeclared_writes="device")
def appends_to_a_cache(x: V4, cache: pl.Tensor[[2, 4], pl.FP32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        cache[1:2, :] = x  # the device-side write
        out[:] = cache[1:2, :]


@pl.jit(undeclared_writes="device")
def appends_through_a_carry(x: V4, cache: pl.Tensor[[2, 4], pl.FP32], out: pl.Out[V4]):
    rows = cache
    for i in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            rows = pl.assemble(rows, pl.reshape(x[:], [1, 4]), [i, 0])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = rows[1:2, :]


@pl.jit(undeclared_writes="device")
def declares_what_it_writes(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def stores_through_a_choice(x: V4, y: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        target = out
        if pl.read(x, [0]) > 0.0:
            target = y
        target[:] = x  # refused


@pl.jit
def copies_over_an_input(x: V4, y: V4, out: pl.Out[V4]):
    out[:] = x
    pl.assemble(y, x, [0])  # refused


@pl.jit
def writes_an_element_of_an_input(x: V4, y: V4, out: pl.Out[V4]):
    out[:] = x
    pl.write(y, [0], 1.0)  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (stores_through_a_choice, "target[:]"),
        (copies_over_an_input, "pl.assemble(y, x, [0])"),
        (writes_an_element_of_an_input, "pl.write(y, [0], 1.0)"),
    ],
)
def test_a_write_that_may_reach_an_input_is_refused(kernel, at):
    error = untouched("PL203", kernel, X.copy(), f32(5, 6, 7, 8), sevens(4), at=at)
    assert "`y`" in error.message


@pytest.mark.parametrize("run", ["compiled", "eager"])
def test_a_device_side_write_runs_and_is_reported_once_and_not_copied_back(run):
    def kernel_of():
        @pl.jit(undeclared_writes="device")
        def writes_a_cache(x: V4, cache: pl.Tensor[[2, 4], pl.FP32], out: pl.Out[V4]):
            with pl.at(level=pl.Level.CORE_GROUP):
                cache[1:2, :] = x  # the device-side write
                out[:] = cache[1:2, :]

        return writes_a_cache

    kernel, cache = kernel_of(), sevens(2, 4)
    call = kernel if run == "compiled" else kernel.eager
    with reports("PL203") as found:
        assert call(X, cache).tolist() == [1, 2, 3, 4]
    assert "`cache`" in found[0] and "# the device-side write" in found[0]
    assert (cache == -7).all()
    with reports():
        assert call(X, cache).tolist() == [1, 2, 3, 4]
    assert (cache == -7).all()


def test_a_device_side_write_through_a_carry_is_reported_too():
    cache = sevens(2, 4)
    with reports("PL203"):
        assert appends_through_a_carry(X, cache).tolist() == [1, 2, 3, 4]
    assert (cache == -7).all()


def test_allowing_device_side_writes_reports_nothing_when_there_are_none():
    assert declares_what_it_writes(X).tolist() == [1, 2, 3, 4]


def test_a_device_side_write_of_a_read_only_array_runs():
    cache = sevens(2, 4)
    cache.flags.writeable = False
    with reports("PL203"):
        assert appends_to_a_cache(X, cache).tolist() == [1, 2, 3, 4]


@pl.jit(undeclared_writes="device")
def sends_an_unwritten_element_through_a_cache(x: V4, cache: pl.Tensor[[2, 4], pl.FP32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([1, 4], dtype=pl.FP32)
        t[:, 0:3] = pl.reshape(x[0:3], [1, 3])
        cache[1:2, :] = t
        out[:] = cache[1:2, :]  # refused


@pytest.mark.checked
def test_what_nobody_wrote_is_followed_through_a_device_side_write():
    with reports("PL203"):
        untouched("PL306", sends_an_unwritten_element_through_a_cache, X.copy(), sevens(2, 4), sevens(4), at="out[:]")


def test_undeclared_writes_has_one_value():
    at = 'pl.jit(declares_what_it_writes.fn, undeclared_writes="host")'
    refused("PL606", lambda: pl.jit(declares_what_it_writes.fn, undeclared_writes="host"), at=at)  # refused
