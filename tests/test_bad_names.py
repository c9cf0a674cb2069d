"""Names without a value on some path, carries that change their type, and traced values that outlive what made them."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from tests.refusals import f32, refused, sevens, untouched

V4 = pl.Tensor[[4], pl.FP32]
X = f32(1, 2, 3, 4)

# A name that is unset on some path: passing it on is fine, using it is the error.


@pl.jit
def sets_in_one_arm(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if n > 0:
            t = x + 1.0
        out[:] = t  # refused


@pl.jit
def sets_in_a_loop_that_may_not_run(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in pl.range(n):
            t = x + 1.0
        out[:] = t + 1.0  # refused


@pl.jit
def sets_different_things(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if n > 0:
            t = x[0:2]
        else:
            t = x[0:3]
        out[0:2] = t[0:2]  # refused


@pl.jit
def sets_different_dtypes(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if n > 0:
            t = x + 1.0
        else:
            t = pl.cast(x, pl.BF16)
        out[:] = t  # refused


@pl.jit
def reads_before_it_is_set(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[:] = t + x  # refused
        t = x


@pl.jit
def reads_in_the_first_turn(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in pl.range(n):
            if i > 0:
                out[:] = t  # refused
            t = x + 1.0


@pl.jit
def uses_an_unset_index(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if n > 0:
            k = n + 1
        out[0] = pl.read(x, [k])  # refused


@pl.jit
def uses_an_unset_bound(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if n > 0:
            k = n + 1
        for i in pl.range(k):  # refused
            out[i] = 0.0


@pl.jit
def branches_on_an_unset_name(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if n > 0:
            flag = n > 1
        if flag:  # refused
            out[0] = 0.0


@pl.jit
def uses_the_value_of_a_block_after_it(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    for i in pl.spmd(4):
        t = pl.read(x, [i])
        out[i] = t
    out[0] = t  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (sets_in_one_arm, "out[:]"),
        (sets_in_a_loop_that_may_not_run, "t + 1.0"),
        (sets_different_things, "t[0:2]"),
        (sets_different_dtypes, "out[:]"),
        (reads_before_it_is_set, "t + x"),
        (reads_in_the_first_turn, "out[:]"),
        (uses_an_unset_index, "pl.read(x, [k])"),
        (uses_an_unset_bound, "pl.range(k)"),
        (branches_on_an_unset_name, "flag"),
        (uses_the_value_of_a_block_after_it, "out[0]"),
    ],
)
def test_a_name_that_is_unset_on_some_path_is_refused_where_it_is_used(kernel, at):
    error = untouched("PL111", kernel, X.copy(), 1, sevens(4), at=at)
    name = {"uses_an_unset_index": "`k`", "uses_an_unset_bound": "`k`", "branches_on_an_unset_name": "`flag`"}.get(kernel.__name__, "`t`")
    assert name in error.message


def unset_by_a_static_branch(flag):
    @pl.jit
    def sets_under_a_python_condition(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
            if flag:
                t = x + 1.0
            out[:] = t  # refused

    return sets_under_a_python_condition


def test_a_name_set_in_a_static_branch_is_set_when_that_branch_is_taken():
    assert unset_by_a_static_branch(True)(X).tolist() == [2, 3, 4, 5]
    untouched("PL111", unset_by_a_static_branch(False), X.copy(), sevens(4), at="out[:]")


@pl.jit
def never_uses_it(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if n > 0:
            t = x + 1.0
        for i in pl.range(n):
            u = x + 2.0
        out[:] = x
        t, u = x, x
        out[:] = t + u


@pl.jit
def sets_in_a_loop_that_runs(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            t = x * pl.cast(i, pl.FP32)
        out[:] = t


def test_an_unset_name_that_is_not_used_is_no_error():
    assert never_uses_it(X, 1).tolist() == [2, 4, 6, 8]


def test_a_name_set_in_a_loop_with_constant_bounds_is_set_after_it():
    assert sets_in_a_loop_that_runs(X).tolist() == [3, 6, 9, 12]


def test_a_name_that_is_nowhere_is_the_users_name_error():
    @pl.jit
    def misspells(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = xs

    with pytest.raises(NameError) as caught:
        misspells(X)
    assert caught.value.name == "xs"


# A carried name keeps its shape, dtype and kind.


@pl.jit
def carry_changes_shape(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = x[0:2]
        for i in pl.range(2):
            t = pl.reshape(t, [1, 2])  # refused
        out[0:2] = t


@pl.jit
def carry_changes_dtype(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = x + 1.0
        for i in pl.range(2):
            t = pl.cast(t + 1.0, pl.FP16)  # refused


@pl.jit
def carry_becomes_a_scalar(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = x + 1.0
        for i in pl.range(2):
            out[0] = pl.read(t, [0])
            t = pl.read(x, [i])  # refused


@pl.jit
def carry_becomes_a_tile(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = pl.read(x, [0])
        for i in pl.range(2):
            out[0] = t
            t = x * t  # refused


@pl.jit
def integer_carry_becomes_a_float(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        n = 0
        for i in pl.range(4):
            out[n] = 0.0
            n = pl.read(x, [i])  # refused


@pl.jit
def carries_through_two_loops(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = x + 1.0
        for i in pl.range(2):
            for j in pl.range(2):
                out[:] = t
                t = x[0:2]  # refused


@pytest.mark.parametrize(
    ("kernel", "at", "name"),
    [
        (carry_changes_shape, "pl.reshape(t, [1, 2])", "t"),
        (carry_changes_dtype, "pl.cast(t + 1.0, pl.FP16)", "t"),
        (carry_becomes_a_scalar, "pl.read(x, [i])", "t"),
        (carry_becomes_a_tile, "x * t", "t"),
        (integer_carry_becomes_a_float, "pl.read(x, [i])", "n"),
        (carries_through_two_loops, "x[0:2]", "t"),
    ],
)
def test_a_carry_that_changes_its_type_is_refused_where_the_new_value_is_made(kernel, at, name):
    error = untouched("PL206", kernel, X.copy(), sevens(4), at=at)
    assert f"`{name}`" in error.message


def carrying(first, then):
    @pl.jit
    def carries_a_python_value(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
            mode = first
            for i in pl.range(2):  # refused
                mode = then
                out[i] = 0.0
            assert mode is not Ellipsis

    return carries_a_python_value


@pytest.mark.parametrize(("first", "then"), [("a", "b"), (None, "b"), ("a", 1), (1, "a"), ((1, 2), (1, 2, 3)), (pl.FP32, pl.BF16)])
def test_a_python_value_that_changes_in_a_loop_is_refused(first, then):
    error = untouched("PL206", carrying(first, then), X.copy(), sevens(4), at="pl.range(2)")
    assert "`mode`" in error.message


@pytest.mark.parametrize("value", ["a", None, (1, "b"), pl.FP32])
def test_a_python_value_set_to_itself_in_a_loop_is_no_carry(value):
    assert carrying(value, value)(X).tolist() == [0, 0, 3, 4]


# Values that outlive the body that made them.

kept = []


@pl.jit
def keeps_values_in_a_list(x: V4, out: pl.Out[V4]):
    parts = []
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in pl.range(4):
            parts.append(x[i : i + 1] + 1.0)
        out[0:1] = parts[0]  # refused


@pl.jit
def keeps_a_value_of_a_branch(x: V4, out: pl.Out[V4]):
    parts = []
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if pl.read(x, [0]) > 0.0:
            parts.append(x + 1.0)
        out[:] = parts[0]  # refused


@pl.jit
def keeps_a_tile_of_a_region(x: V4, out: pl.Out[V4]):
    parts = []
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        parts.append(x + 1.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = parts[0]  # refused


@pl.jit
def keeps_values_of_unrolled_turns(x: V4, out: pl.Out[V4]):
    parts = []
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.unroll(4):
            parts.append(x[i : i + 1] + 1.0)
        for i in pl.unroll(4):
            out[i : i + 1] = parts[3 - i]


@pytest.mark.parametrize(
    ("kernel", "at"), [(keeps_values_in_a_list, "out[0:1]"), (keeps_a_value_of_a_branch, "out[:]"), (keeps_a_tile_of_a_region, "out[:]")]
)
def test_a_value_kept_in_a_list_past_its_body_is_refused(kernel, at):
    untouched("PL110", kernel, X.copy(), sevens(4), at=at)


def test_values_of_unrolled_turns_may_be_kept_in_a_list():
    assert keeps_values_of_unrolled_turns(X).tolist() == [5, 4, 3, 2]


class Box:
    held = None

    def keep(self, value):
        self.held = value


def leaking():
    """A kernel that leaks a traced value into the box, and the box."""
    box = Box()

    @pl.jit
    def leaks(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = x + 1.0
            box.keep(t)
            out[:] = t

    return leaks, box


def test_a_leaked_value_is_refused_in_another_kernel():
    leaks, box = leaking()
    leaks(X)

    @pl.jit
    def uses_a_leaked_value(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
            out[:] = box.held + x  # refused

    untouched("PL110", uses_a_leaked_value, X.copy(), sevens(4), at="box.held + x")


def test_a_leaked_value_is_refused_outside_kernels():
    leaks, box = leaking()
    leaks(X)
    refused("PL110", lambda: box.held + 1.0, at="box.held + 1.0")  # refused


def test_a_leaked_array_value_is_refused_after_its_trace():
    held = []
    pypto.make_jaxpr(lambda x: held.append(x) or x)(np.ones(2, np.float32))
    refused("PL110", lambda: held[0] * 2.0, at="held[0] * 2.0")  # refused
    refused("PL110", lambda: pypto.make_jaxpr(lambda x: x + held[0])(X), at="x + held[0]")  # refused
