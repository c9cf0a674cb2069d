"""The passes of the tile level keep every bit and their promises."""

import sys

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.core.ir import Jaxpr
from pypto.errors import InternalError
from pypto.tile import tile_pass, verify, verify_jaxpr
from pypto.tile.passes.cells import is_update, promote_cells
from pypto.tile.passes.dce import dead_code
from pypto.tile.passes.outline import outline
from pypto.tile.pipeline import _passes
from tests.bits import identical
from tests.kernels.lowered import carried, composed, looped_cells, straight_cells
from tests.tile_runs import RUNS, every_run, execute, names, run_of

# Passes


@every_run
def test_every_pass_keeps_every_bit_and_its_promises(name):
    kernel, args = run_of(name)
    jaxpr = kernel.trace(*args)
    want = execute(jaxpr, {}, args)
    facts = frozenset()
    for p in _passes():
        verify_jaxpr(jaxpr)
        jaxpr = p(jaxpr)
        verify_jaxpr(jaxpr)
        facts |= p.provides
        assert jaxpr.facts == facts
        assert identical(execute(jaxpr, {}, args), want), p.name
    program = outline(jaxpr, "a2a3sim")
    verify(program)
    assert identical(execute(program.orchestration, program.bodies, args), want)


@every_run
def test_the_program_computes_what_the_body_computes_at_once(name):
    kernel, args = run_of(name)
    with pypto.override(platform="cpu", verify=True):
        lowered, at_once = np.zeros_like(args[0]), np.zeros_like(args[0])
        kernel(*args, lowered)
        kernel.eager(*args, at_once)
    assert identical(lowered, at_once)


@every_run
def test_passes_do_nothing_the_second_time(name):
    kernel, args = run_of(name)
    jaxpr = kernel.trace(*args)
    for p in _passes():
        jaxpr = p(jaxpr)
    again = jaxpr
    for p in _passes():
        again = p(again)
    assert names(again) == names(jaxpr)


@pytest.mark.parametrize("p", [p for p in _passes() if p.requires], ids=lambda p: p.name)
def test_a_pass_without_what_it_requires_is_refused(p):
    with pytest.raises(InternalError) as caught:
        p(carried.trace())
    assert caught.value.code == "PL901" and all(fact in caught.value.message for fact in p.requires)


def test_a_pass_is_a_function_with_a_contract():
    @tile_pass(requires={"SSA"}, provides={"NOTHING"})
    def nothing(jaxpr: Jaxpr) -> Jaxpr:
        return jaxpr

    assert nothing.name == "nothing" and nothing.requires == {"SSA"} and nothing.provides == {"NOTHING"}
    assert nothing(carried.trace().replace(facts=frozenset({"SSA"}))).facts == {"SSA", "NOTHING"}


def test_a_program_names_the_platform_it_was_lowered_for():
    assert carried.lower().platform == "a2a3sim"
    with pypto.override(platform="a5"):
        assert carried.lower().platform == "a5"


def test_the_verifier_runs_around_the_passes_when_it_is_asked_to(monkeypatch):
    seen, module = [], sys.modules["pypto.tile.verify"]  # of the name, the package has the function
    monkeypatch.setattr(module, "verify_jaxpr", lambda jaxpr: seen.append("jaxpr"))
    monkeypatch.setattr(module, "verify", lambda program: seen.append("program"))
    carried.lower()
    assert not seen
    with pypto.override(verify=True):
        carried.lower()
    assert seen.count("jaxpr") > len(_passes()) and seen[-1] == "program"


# Cells


def test_straight_updates_become_a_chain_of_values():
    jaxpr = promote_cells(straight_cells.trace())
    assert names(jaxpr).count("update") == 3 and "alloc" not in names(jaxpr)
    updates = [e for e in jaxpr.walk() if e.op.name == "update"]
    assert updates[1].ins[0] is updates[0].outs[0] and updates[2].ins[0] is updates[1].outs[0]


def test_a_value_read_between_two_updates_is_the_one_between():
    jaxpr = promote_cells(straight_cells.trace())
    updates = [e for e in jaxpr.walk() if e.op.name == "update"]
    (product,) = [e for e in jaxpr.walk() if e.op.name == "mul"]
    assert product.ins[0] is updates[0].outs[0]


def test_updates_under_loops_and_branches_go_through_an_on_chip_buffer():
    jaxpr = promote_cells(looped_cells.trace())
    (alloc,) = [e for e in jaxpr.walk() if e.op.name == "alloc"]
    assert str(alloc.outs[0].aval) == "ref f32[8,16] @vec" and alloc.outs[0].name == "t"
    assert "update" not in names(jaxpr)
    assert all(e.ins[0] is alloc.outs[0] for e in jaxpr.walk() if e.op.name == "set" and e.ins[0].name == "t")


def test_no_update_in_place_is_left():
    for name in RUNS:
        kernel, args = run_of(name)
        jaxpr = promote_cells(kernel.trace(*args))
        assert not any(is_update(e) for e in jaxpr.walk()) and "SSA" in jaxpr.facts


def test_a_program_without_cells_is_left_alone():
    jaxpr = carried.trace()
    assert promote_cells(jaxpr).eqns == jaxpr.eqns


def test_an_update_keeps_the_users_line():
    (first, *_) = [e for e in promote_cells(straight_cells.trace()).walk() if e.op.name == "update"]
    assert first.source is not None and first.source.resolve().text.strip() == "t[0:4] = x[0:4]"


# Dead code


def test_arithmetic_nobody_uses_is_dropped():
    before = [e.op.name for e in composed.trace().walk()]
    after = names(dead_code(composed.trace()))
    assert before.count("exp") == 1 and "exp" not in after
    assert {"mul", "tanh", "abs", "div"} <= set(after)


@pl.jit
def anchored(x: pl.Tensor[[8, 16], pl.FP32], order: pl.Tensor[[1, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        anchor = order[0:1]
        first = pl.read(order, [0, 3])
        unused = pl.muls(anchor, first)
        out[:] = x


def test_reads_of_memory_stay_even_when_their_values_are_dead():
    after = dead_code(anchored.trace())
    assert names(after).count("get") == 2 and names(after).count("read") == 1 and "mul" not in names(after)


@pl.jit
def dead_inside(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:]
        for i in pl.range(4):
            if i > 2:
                unused = pl.exp(t)
        out[:] = t


def test_a_loop_that_does_nothing_is_dropped():
    assert "loop" in names(dead_inside.trace()) and "loop" not in names(dead_code(dead_inside.trace()))


def test_a_loop_that_writes_or_carries_stays():
    for kernel in (carried, looped_cells):
        assert names(dead_code(kernel.trace())).count("loop") == 1


def test_dead_code_inside_of_a_live_loop_is_dropped():
    @pl.jit
    def k(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for r in pl.range(8):
                unused = pl.exp(x[r : r + 1])
                out[r : r + 1] = x[r : r + 1]

    assert "exp" not in names(dead_code(k.trace()))
