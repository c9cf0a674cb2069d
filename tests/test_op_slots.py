"""Ops: how they are called, and what each of them states about itself."""

import inspect

import numpy as np
import pytest

import pypto
from pypto import dtypes, lax, numerics
from pypto.core.op import OPS, Exact, Labels, Moves, Native, No, Op, Pointwise, Structural, Ulp, Whole
from pypto.core.trace import EvalTrace, JaxprTrace
from pypto.errors import InternalError, NumericsError
from pypto.tile.source import function_text
from tests.bits import identical

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def traced(function):
    return pypto.make_jaxpr(function)(X)


# Calling conventions of ops


def test_options_come_by_position_or_by_keyword():
    want = np.asarray(lax.matmul(X, X.T, out_dtype=dtypes.BF16, a_trans=False))
    assert identical(lax.matmul(X, X.T, dtypes.BF16), want) and identical(lax.matmul(a=X, b=X.T, out_dtype="BF16"), want)


def test_lists_are_tuples_and_dtypes_are_rows_in_an_equation():
    jaxpr = traced(lambda x: lax.convert(lax.transpose(x, permutation=[1, 0]), dtype="float16"))
    assert jaxpr.eqns[0].params["permutation"] == (1, 0) and jaxpr.eqns[1].params["dtype"] is dtypes.FP16


def test_an_equation_holds_every_option_also_the_defaults():
    (eqn,) = traced(lambda x: lax.matmul(x, x.T if False else np.ones((3, 2), np.float32))).eqns
    assert set(eqn.params) == set(lax.matmul.options)


MISUSES = {
    "an unknown option": lambda: lax.exp(X, base=2),
    "a missing operand": lambda: lax.add(X),
    "too many arguments": lambda: lax.exp(X, X),
    "an option twice": lambda: lax.matmul(X, X.T, None, out_dtype=None),
    "a missing option": lambda: lax.transpose(X),
    "a missing option of many operands": lambda: OPS["concatenate"](X, X),
    "an unknown option of many operands": lambda: OPS["concatenate"](X, X, axis=0, along=1),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_a_call_that_does_not_fit_the_signature_is_refused_with_it(misuse):
    with pytest.raises(TypeError) as caught:
        MISUSES[misuse]()
    error = caught.value
    assert isinstance(error, pypto.PyptoError) and error.code == "PL601" and "(" in error.fix
    assert error.source is not None and misuse in error.source.text


# What every op states

RULES = ("jvp", "transpose", "batching", "cpu", "pto")


@pytest.mark.parametrize("op", OPS.values(), ids=repr)
def test_every_op_states_what_is_mandatory(op):
    assert callable(op.abstract) and callable(op.meaning) and callable(op.samples)
    assert callable(op.axes) or isinstance(op.axes, Pointwise | Labels | Moves | Whole | Structural)
    assert len(op.doc.splitlines()[0]) > 5 and op.doc.rstrip()[-1] in ".)]"
    assert op.module.startswith("pypto.lax.") and op.unit in ("vector", "cube", "move", "scalar", "control")
    assert OPS[op.name] is op and op.__doc__ == op.doc


@pytest.mark.parametrize("op", OPS.values(), ids=repr)
def test_every_rule_of_an_op_exists_or_says_why_not(op):
    for slot in RULES:
        value = getattr(op, slot)
        assert value is not None and (not isinstance(value, No) or len(value.reason) > 10), slot
    if isinstance(op.pto, Native):
        assert op.pto.mnemonic.split(".")[0] in ("pto", "scf")


@pytest.mark.parametrize("op", OPS.values(), ids=repr)
def test_every_op_says_how_exact_it_is(op):
    if isinstance(op.exact, Exact):
        assert op.exact.rule in numerics.CONTRACT
    else:
        assert isinstance(op.exact, Ulp) and 0 < op.exact.bound < 16


@pytest.mark.parametrize("op", OPS.values(), ids=repr)
def test_positions_of_an_op_are_positions_of_its_operands(op):
    count = 99 if op.variadic else len(op.operands)
    for slot in (op.reads, op.writes, op.refs, op.index):
        assert all(0 <= i < count for i in slot)
    assert set(op.writes) | set(op.reads) <= set(op.refs) or op.name in ("read",)


def test_a_missing_rule_is_an_error_with_its_reason():
    rule = next(slot for slot in RULES if isinstance(getattr(lax.floor_div, slot), No))
    with pytest.raises(NumericsError) as caught:
        lax.floor_div.rule(rule)
    assert caught.value.code == "PL703" and getattr(lax.floor_div, rule).reason in caught.value.message


def make(name, doc="What it is."):
    signature = inspect.signature(lambda x: x)
    return Op(name, abstract=lambda x: x, meaning=lambda x: x, axes=Pointwise(), samples=list, doc=doc, signature=signature)


def test_a_second_op_of_a_name_is_refused():
    before = OPS["exp"]
    with pytest.raises(InternalError) as caught:
        make("exp")
    assert caught.value.code == "PL901" and OPS["exp"] is before


def test_an_op_without_a_manual_page_is_refused():
    with pytest.raises(InternalError) as caught:
        make("undocumented", doc="")
    assert caught.value.code == "PL901" and "undocumented" not in OPS


def test_an_einsum_label_that_the_output_lacks_is_reduced():
    assert Labels(("bmk", "bkn"), "bmn").reduced == {"k"}
    assert Labels(("ab",), "a1").reduced == {"b"}


def test_the_evaluating_trace_promotes_and_a_strict_one_does_not():
    assert not EvalTrace().strict and not JaxprTrace().strict


@pytest.mark.parametrize("op", [lax.reduce_and, lax.reduce_or, lax.reduce_xor], ids=lambda op: op.name)
def test_a_reduction_without_an_instruction_is_not_spelled_as_one(op):
    jaxpr = pypto.make_jaxpr(lambda x: op(x, axes=(1,), keepdims=True))(X > 0)
    assert f"= lax.{op.name}(" in function_text(jaxpr) and "row_" not in function_text(jaxpr)
