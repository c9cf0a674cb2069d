"""Tracing: the current trace decides what an op call becomes, and what was traced can be looked at."""

import dataclasses
import threading
from typing import NamedTuple

import numpy as np
import pytest

import pypto
from pypto import Array, dtypes, lax
from pypto.api import ShapeDtypeStruct
from pypto.core.avals import ArrayAval, ScalarAval
from pypto.core.ir import alpha_equal, check
from pypto.core.trace import EVAL, JaxprTrace, Trace, aval_of, current_trace, tracing
from pypto.errors import BodyError, InternalError
from pypto.interpreters.reference import eval_jaxpr
from tests.bits import identical
from tests.refusals import refused

F32 = ShapeDtypeStruct((2, 3), "FP32")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Pair(NamedTuple):
    a: object
    b: object


@dataclasses.dataclass(frozen=True)
class Weights:
    __pypto_tree__ = True
    w: object
    b: object


def names(jaxpr):
    return [e.op.name for e in jaxpr.walk()]


# Programs of array functions


def test_a_jaxpr_is_the_ops_in_order():
    jaxpr = pypto.make_jaxpr(lambda x, y: lax.exp(x) * y + 1.0)(F32, F32)
    assert names(jaxpr) == ["exp", "mul", "add"] and len(jaxpr.invars) == 2 and len(jaxpr.outs) == 1
    check(jaxpr)


def test_a_jaxpr_computes_what_the_function_computes():
    def f(x):
        return lax.exp(x) / (1.0 + lax.abs(x)), x * 2

    jaxpr = pypto.make_jaxpr(f)(X)
    assert all(identical(a, b) for a, b in zip(eval_jaxpr(jaxpr, X), f(X), strict=True))


def test_a_jaxpr_carries_the_name_of_its_function():
    def scaled(x):
        return x * 2.0

    assert pypto.make_jaxpr(scaled)(X).name == "scaled"


def test_arguments_and_results_are_trees():
    def f(state, pair):
        return {"y": [state.w + state.b, pair.a], "n": None}, Pair(pair.b, (state.w,))

    w, b, p, q = (ShapeDtypeStruct((n,), "FP32") for n in (1, 1, 2, 3))
    jaxpr = pypto.make_jaxpr(f)(Weights(w, b), Pair(p, q))
    assert [v.aval.shape for v in jaxpr.invars] == [(1,), (1,), (2,), (3,)]
    result = pypto.eval_shape(f, Weights(w, b), Pair(p, q))
    assert result == ({"y": [w, p], "n": None}, Pair(q, (w,)))


def test_arguments_give_shape_and_dtype_only():
    first, second = (pypto.make_jaxpr(lambda x: x + x)(x) for x in (X, Array(X * 5)))
    third = pypto.make_jaxpr(lambda x: x + x)(ShapeDtypeStruct((2, 3), dtypes.FP32))
    assert alpha_equal(first, second) and alpha_equal(first, third)


def test_a_shape_is_found_without_computing(monkeypatch):
    monkeypatch.setattr(lax.exp, "meaning", None)
    assert pypto.eval_shape(lax.exp, ShapeDtypeStruct((2, 2), "BF16")) == ShapeDtypeStruct((2, 2), dtypes.BF16)


def test_shape_and_dtype_take_any_spelling_of_a_dtype():
    assert ShapeDtypeStruct((2,), "float32") == ShapeDtypeStruct((2,), np.float32) == ShapeDtypeStruct((2,), dtypes.FP32)


@pytest.mark.parametrize("constant", [X, Array(X), X[0], 2.0, np.float32(2)], ids=lambda c: type(c).__name__)
def test_what_a_function_closes_over_is_a_constant_of_its_program(constant):
    jaxpr = pypto.make_jaxpr(lambda x: x + constant)(X)
    assert len(jaxpr.invars) == 1
    assert identical(eval_jaxpr(jaxpr, X)[0], np.asarray(Array(X) + constant))


def test_a_captured_array_is_frozen_when_it_is_captured():
    captured = X.copy()
    jaxpr = pypto.make_jaxpr(lambda x: x + captured)(X)
    captured[:] = 99
    assert identical(eval_jaxpr(jaxpr, X)[0], X + X)


def test_an_argument_or_a_constant_can_be_the_result():
    jaxpr = pypto.make_jaxpr(lambda x: (x, 1.5, X))(X)
    found = eval_jaxpr(jaxpr, X + 1)
    assert not jaxpr.eqns and identical(found[0], X + 1) and float(found[1]) == 1.5 and identical(found[2], X)


def test_python_loops_unroll_in_array_functions():
    def power(x, n):
        for _ in range(n):
            x = x * x
        return x

    assert names(pypto.make_jaxpr(lambda x: power(x, 4))(X)) == ["mul"] * 4


def test_functions_traced_inside_a_trace_have_traces_of_their_own():
    inner = []

    def f(x):
        inner.append(pypto.make_jaxpr(lambda y: lax.exp(y))(X))
        return x + 1.0

    assert names(pypto.make_jaxpr(f)(X)) == ["add"] and names(inner[0]) == ["exp"]


# Values that are not there yet


def traced(function):
    return pypto.make_jaxpr(function)(X)


USES = {
    "bool": bool,
    "int": int,
    "float": float,
    "index": lambda x: [0][x],
    "array": np.asarray,
    "ufunc": lambda x: np.exp(x),
}


@pytest.mark.parametrize("use", USES)
def test_a_traced_value_is_no_python_value(use):
    with pytest.raises((BodyError, TypeError)) as caught:
        traced(USES[use])
    if isinstance(caught.value, BodyError):
        assert caught.value.code == "PL106" and caught.value.fix


def test_a_branch_on_a_traced_value_is_refused_at_its_line():
    def f(x):
        if x:  # refused
            return x
        return -x

    refused("PL106", traced, f, at="if x:")


def test_a_traced_value_shows_its_type():
    shown = []
    traced(lambda x: shown.append((repr(x), x.shape, x.ndim, x.dtype, len(x))) or x)
    assert shown == [("<traced value: f32[2,3]>", (2, 3), 2, dtypes.FP32, 2)]


def test_a_value_of_a_trace_that_ended_cannot_enter_another():
    kept = []
    traced(lambda x: kept.append(x) or x)

    def f(x):
        return x + kept[0]  # refused

    refused("PL110", traced, f, at="x + kept[0]")


def test_a_value_of_a_trace_that_ended_cannot_be_computed_with():
    kept = []
    traced(lambda x: kept.append(x) or x)

    def late():
        return lax.exp(kept[0])  # refused

    refused("PL110", late, at="lax.exp(kept[0])")


def test_a_result_of_another_trace_is_refused():
    kept = []
    traced(lambda x: kept.append(x) or x)
    with pytest.raises(BodyError) as caught:
        traced(lambda x: kept[0])
    assert caught.value.code == "PL110"


def test_a_value_of_a_body_that_ended_is_refused():
    trace = JaxprTrace()
    with tracing(trace):
        with trace.inside("loop"):
            inside = lax.add(trace.new(ArrayAval((2,), dtypes.FP32), "t"), 1.0)
        with pytest.raises(BodyError) as caught:
            lax.exp(inside)
    assert caught.value.code == "PL110" and trace.scope.kind == "body"


def test_bodies_nest_and_close_in_order_even_when_they_fail():
    trace = JaxprTrace()
    with pytest.raises(ZeroDivisionError), trace.inside("loop") as outer, trace.inside("cond") as inner:
        assert inner.parent is outer and trace.scope is inner
        raise ZeroDivisionError
    assert not inner.open and not outer.open and trace.scope.open and trace.scope.parent is None


# The current trace


def test_without_a_trace_ops_compute_at_once():
    assert current_trace() is EVAL and isinstance(lax.exp(X), Array)


class Recording(Trace):
    """Notes the calls it gets, and answers with their number."""

    def __init__(self):
        self.calls = []

    def process(self, op, args, params):
        self.calls.append((op.name, args, params))
        return len(self.calls)


def test_the_trace_in_force_decides_whatever_the_operands_are():
    trace = Recording()
    with tracing(trace) as same:
        assert same is trace
        assert lax.transpose(Array(X), permutation=(1, 0)) == 1 and lax.exp(X) == 2
    assert [c[0] for c in trace.calls] == ["transpose", "exp"] and trace.calls[0][2] == {"permutation": (1, 0)}


def test_the_trace_before_is_back_after_the_block_and_after_an_error():
    with tracing(Recording()) as outer:
        with pytest.raises(ZeroDivisionError), tracing(Recording()):
            1 / 0
        assert current_trace() is outer
    assert current_trace() is EVAL


def test_threads_do_not_see_each_others_trace():
    seen = []
    with tracing(Recording()):
        thread = threading.Thread(target=lambda: seen.append((current_trace(), lax.add(1, 2).item())))
        thread.start()
        thread.join()
    assert seen == [(EVAL, 3)]


def test_threads_trace_at_the_same_time():
    barrier, found = threading.Barrier(2), {}

    def work(name, op):
        def f(x):
            for _ in range(50):
                barrier.wait()
                x = op(x)
            return x

        found[name] = names(pypto.make_jaxpr(f)(X))

    threads = [threading.Thread(target=work, args=(op.name, op)) for op in (lax.exp, lax.neg)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {"exp": ["exp"] * 50, "neg": ["neg"] * 50}


@pytest.mark.parametrize(
    "value, aval",
    [
        (True, ScalarAval((), dtypes.BOOL, True)), (3, ScalarAval((), dtypes.INT32, True)), (2**31, ScalarAval((), dtypes.INT64, True)),
        (1.5, ScalarAval((), dtypes.FP32, True)), (np.float16(1), ArrayAval((), dtypes.FP16)), (X, ArrayAval((2, 3), dtypes.FP32)),
        (Array(X), ArrayAval((2, 3), dtypes.FP32)), ([1, 2], ArrayAval((2,), dtypes.INT32)),
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_every_operand_has_an_abstract_value_and_only_python_numbers_are_weak(value, aval):
    assert aval_of(value) == aval


def test_an_op_of_a_kernel_only_is_refused_outside():
    def call():
        lax.alloc(shape=(2,), dtype=dtypes.FP32, space=None, init=None, name="")  # refused

    refused("PL112", call, at='lax.alloc(shape=(2,), dtype=dtypes.FP32, space=None, init=None, name="")')


def test_a_meaning_that_disagrees_with_its_rule_is_our_mistake(monkeypatch):
    for wrong in (lambda x: x[:1], lambda x: x.astype(np.float16)):
        monkeypatch.setattr(lax.exp, "meaning", wrong)
        with pytest.raises(InternalError) as caught:
            lax.exp(X)
        assert caught.value.code == "PL901"
