"""validate_ir runs the program after each pass and names the first pass that changed a bit."""

import dataclasses

import numpy as np
import pytest

import pypto.language as pl
from pypto.core.avals import TileAval
from pypto.core.ir import Eqn, Jaxpr, Literal, Var
from pypto.core.op import OPS
from pypto.errors import CallError, NumericsError
from pypto.tile import pipeline
from pypto.tile.pipeline import Pass
from tests.kernels import runs
from tests.run_inputs import THREE, arguments, bits, normal

CACHED = "machine code"


def each_block(change):
    """A pass that rewrites the equations of every body with `change(eqns) -> eqns`."""

    def block(j: Jaxpr) -> Jaxpr:
        eqns = tuple(e.replace(params={k: block(p) if isinstance(p, Jaxpr) else p for k, p in e.params.items()}) for e in j.eqns)
        return j.replace(eqns=tuple(change(eqns)))

    return block


def scales_a_sum(eqns):
    """The planted fault of C91: the first sum of tiles is multiplied by 1.03."""
    done = False
    for e in eqns:
        if e.op.name == "add" and isinstance(e.outs[0].aval, TileAval) and not done:
            done = True
            inner = Var(e.outs[0].aval)
            factor = Literal(np.float32(1.03), e.outs[0].aval.__class__((), e.outs[0].aval.dtype))
            yield e.replace(outs=(inner,))
            yield Eqn(OPS["mul"], (inner, factor), e.outs, {}, e.source)
        else:
            yield e


def swaps_two_adds(eqns):
    """The planted fault of the other kind: (a + b) + c becomes a + (b + c), which rounds otherwise."""
    made = {e.outs[0]: e for e in eqns if e.op.name == "add"}
    uses = [a for e in eqns for a in e.ins]
    for e in eqns:
        inner = made.get(e.ins[0]) if e.op.name == "add" and isinstance(e.ins[0], Var) else None
        if inner is None or uses.count(e.ins[0]) != 1 or inner.outs[0].aval.shape != e.outs[0].aval.shape:
            yield e
            continue
        (a, b), c = inner.ins, e.ins[1]
        late = Var(e.outs[0].aval)
        yield Eqn(OPS["add"], (b, c), (late,), {}, e.source)
        yield e.replace(ins=(a, late))


FAULTS = {"scales_by_1_03": scales_a_sum, "swaps_two_adds": swaps_two_adds}


def planted(name, after):
    """The usual passes with a wrong one after the pass called `after`."""
    wrong = Pass(name, each_block(FAULTS[name]), frozenset(), frozenset())
    usual = list(pipeline._passes())
    place = [p.name for p in usual].index(after) + 1
    return [*usual[:place], wrong, *usual[place:]]


@pytest.mark.parametrize("kernel", THREE, ids=lambda k: k.__name__)
def test_every_stage_of_a_right_compiler_agrees(kernel):
    compiled = kernel.compile()
    stages = compiled.validate_ir(arguments(kernel))
    assert stages[0] == "traced" and "outline" in stages
    assert stages[: len(pipeline._passes()) + 1] == ["traced", *(p.name for p in pipeline._passes())]
    if compiled.program.compiled.executor == "cpu":
        assert stages[-1] == CACHED


@pytest.mark.parametrize("after", ["promote_cells", "expand_composites", "dead_code"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kernel", THREE, ids=lambda k: k.__name__)
def test_a_planted_wrong_pass_is_named(kernel, fault, after):  # C91
    with pytest.raises(NumericsError) as caught:
        kernel.compile().validate_ir(arguments(kernel), passes=planted(fault, after))
    assert caught.value.code == "PL705"
    assert f"first after pass {fault}; after {after} they agreed" in caught.value.message


@pytest.mark.parametrize("kernel", THREE, ids=lambda k: k.__name__)
def test_a_planted_wrong_pass_is_named_against_right_results_too(kernel):  # C91
    given = arguments(kernel)
    compiled = kernel.compile()
    results = kernel(**{k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in given.items()})
    name = kernel.signature.parameters[compiled.output_indices[-1]].name
    expected = {name: np.asarray(results[-1] if isinstance(results, tuple) else results)}
    assert compiled.validate_ir(given, expected)
    with pytest.raises(NumericsError) as caught:
        compiled.validate_ir(given, expected, passes=planted("scales_by_1_03", "dead_code"))
    assert "scales_by_1_03" in caught.value.message


def test_a_tolerance_of_the_callers_is_used():
    given = arguments(runs.scaled_sum)
    wrong = planted("swaps_two_adds", "dead_code")
    assert runs.scaled_sum.compile().validate_ir(given, passes=wrong, rtol=1e-4, atol=1e-4)
    with pytest.raises(NumericsError) as caught:
        runs.scaled_sum.compile().validate_ir(given, passes=planted("scales_by_1_03", "dead_code"), rtol=1e-4, atol=1e-4)
    assert caught.value.code == "PL705"


def test_results_that_are_wrong_before_any_pass_are_the_kernels_own():
    given = arguments(runs.softmax_rows)
    with pytest.raises(NumericsError) as caught:
        runs.softmax_rows.compile().validate_ir(given, {"out": np.zeros((16, 64), np.float32)})
    assert caught.value.code == "PL705" and "the kernel itself" in caught.value.message
    assert "def softmax_rows" in caught.value.source.text


def test_arguments_are_not_written():
    given = arguments(runs.product_and_bias)
    before = bits(tuple(given.values()))
    runs.product_and_bias.compile().validate_ir(given)
    assert bits(tuple(given.values())) == before


def test_arguments_may_be_given_in_order():
    assert runs.scaled_sum.compile().validate_ir([normal(8, 16), normal(8, 16), 2.0])


def test_unknown_outputs_and_programs_without_a_past_are_refused():
    compiled = runs.softmax_rows.compile()
    with pytest.raises(CallError) as caught:
        compiled.validate_ir(arguments(runs.softmax_rows), {"y": normal(16, 64)})
    assert caught.value.code == "PL601"
    from pypto import ir

    bare = ir.compile(dataclasses.replace(compiled.program, traced=None))
    with pytest.raises(CallError) as caught:
        bare.validate_ir(arguments(runs.softmax_rows))
    assert caught.value.code == "PL608"


@pl.jit
def exact(x: pl.Tensor[[8, 16], pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.adds(x, 1)


def test_integers_compare_exactly_whatever_their_size():
    x = np.full((8, 16), 2**30, np.int32)
    assert exact.compile().validate_ir([x], {"out": x + 1}, rtol=1.0, atol=1e9)
    with pytest.raises(NumericsError) as caught:
        exact.compile().validate_ir([x], {"out": x + 2}, rtol=1.0, atol=1e9)
    assert caught.value.code == "PL705"
