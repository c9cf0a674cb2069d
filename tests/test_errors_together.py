"""Several independent errors of one body, or of one call, are reported together; consequences of an error are not."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError
from tests.refusals import f32, refused, sevens

V4 = pl.Tensor[[4], pl.FP32]
V8 = pl.Tensor[[8], pl.FP32]
CORE = pl.Level.CORE_GROUP


def found(call, *args):
    """(code, line of the body as written) of every error of a call, the first one first."""
    with pytest.raises(PyptoError) as caught:
        call(*args)
    error = caught.value
    assert all(not other.others for other in error.others)
    assert all(part.fix and part.render().splitlines()[0] in str(error) for part in (error, *error.others))
    return [(part.code, part.source.text.strip()) for part in (error, *error.others)]


@pl.jit
def three_bad_statements(x: V4, y: V8, out: pl.Out[V4], other: pl.Out[V8]):
    with pl.at(level=CORE):
        a = pl.add(x, y)
        b = x[2:9]
        other[:] = y
        out = pl.exp(x)


def test_independent_statements_are_all_reported_in_order():
    assert found(three_bad_statements.trace) == [("PL301", "a = pl.add(x, y)"), ("PL303", "b = x[2:9]"), ("PL201", "out = pl.exp(x)")]


@pl.jit
def one_cause(x: V4, y: V8, out: pl.Out[V4]):
    with pl.at(level=CORE):
        a = pl.add(x, y)
        b = pl.exp(a)
        c = pl.mul(b, x)
        out[:] = c
        out[0:5] = x


def test_what_follows_from_an_error_is_not_reported_and_what_does_not_is():
    assert found(one_cause.trace) == [("PL301", "a = pl.add(x, y)"), ("PL303", "out[0:5] = x")]


@pl.jit
def operators_on_a_broken_value(x: V4, y: V8, out: pl.Out[V4]):
    with pl.at(level=CORE):
        a = x + y
        b = 2.0 * a - x
        c = -(x / b)
        d = c[0:2]
        out[0:2] = d
        out[0:5] = x


def test_operators_on_what_was_not_made_do_not_end_the_trace():
    assert found(operators_on_a_broken_value.trace) == [("PL301", "a = x + y"), ("PL303", "out[0:5] = x")]


@pl.jit
def chosen_by_a_broken_value(x: V4, y: V8, out: pl.Out[V4]):
    with pl.at(level=CORE):
        a = x + y
        out[0:5] = x
        if a + 1.0 > 2.0:
            out[:] = x


def test_a_broken_condition_ends_the_trace_with_what_was_told():
    assert found(chosen_by_a_broken_value.trace) == [("PL301", "a = x + y"), ("PL303", "out[0:5] = x")]


@pl.jit
def broken_in_a_branch(x: V4, y: V8, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=CORE):
        t = x + 0.0
        for i in pl.range(n):
            if i > 2:
                t = pl.add(x, y)
            else:
                t = pl.neg(t)
        out[:] = t
        out[0:5] = x


def test_a_broken_value_goes_through_branches_and_loops():
    assert found(broken_in_a_branch.trace) == [("PL301", "t = pl.add(x, y)"), ("PL303", "out[0:5] = x")]


@pl.jit
def bad_stores(x: V4, y: V8, out: pl.Out[V8]):
    with pl.at(level=CORE):
        out[6:10] = x
        x[0:4] = y[0:4]
        out[:] = x
        out[0:4] = 1.5


def test_faulty_stores_do_not_hide_each_other():
    assert [code for code, _ in found(bad_stores.trace)] == ["PL303", "PL203", "PL301"]


@pl.jit.inline
def helper(x, y):
    return pl.add(x, y)


@pl.jit
def through_a_helper(x: V4, y: V8, out: pl.Out[V4]):
    with pl.at(level=CORE):
        out[:] = helper(x, y)
        out[1:7] = x


def test_an_error_in_a_helper_and_one_in_its_caller_are_both_reported():
    assert [code for code, _ in found(through_a_helper.trace)] == ["PL301", "PL303"]


def test_the_form_of_a_body_is_judged_as_a_whole():
    def decorated():
        @pl.jit
        def kernel(x: V4, out: pl.Out[V4]):
            class Inner:
                pass

            f = lambda t: t  # noqa: E731
            import os  # noqa: F401

            out[:] = x

    with pytest.raises(PyptoError) as caught:
        decorated()
    error = caught.value
    assert [e.code for e in (error, *error.others)] == ["PL101", "PL108", "PL101"]
    lines = [e.source.line for e in (error, *error.others)]
    assert lines == sorted(lines)


def test_every_wrong_argument_of_a_call_is_reported():
    @pl.jit
    def kernel(x: V4, y: V8, out: pl.Out[V4]):
        with pl.at(level=CORE):
            out[:] = x

    with pytest.raises(PyptoError) as caught:
        kernel(np.zeros(4, np.float64), "eight", sevens(4))
    error = caught.value
    assert [e.code for e in (error, *error.others)] == ["PL602", "PL602"]
    assert "`x`" in error.message and "`y`" in error.others[0].message


def test_eager_runs_stop_at_the_first_error():
    with pytest.raises(PyptoError) as caught:
        three_bad_statements.eager(f32(1, 2, 3, 4), np.zeros(8, np.float32), sevens(4), sevens(8))
    assert caught.value.code == "PL301" and caught.value.others == ()


def test_an_error_of_the_users_own_code_after_an_error_shows_the_error():
    @pl.jit
    def kernel(x: V4, y: V8, out: pl.Out[V4]):
        with pl.at(level=CORE):
            t = pl.add(x, y)  # refused
            out[:] = x
            assert isinstance(t, int)

    refused("PL301", kernel.trace, at="pl.add(x, y)")
