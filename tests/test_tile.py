"""The tile level: outlining, the verifier, and passes that keep every bit."""

import sys

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.core.avals import ArrayAval, RefAval, TileAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Literal, Var, check, free_vars
from pypto.errors import InternalError
from pypto.interpreters.reference import Machine
from pypto.interpreters.values import Buffer, Ref, Value
from pypto.tile import KernelBody, Program, tile_pass, verify, verify_jaxpr
from pypto.tile.passes.cells import is_update, promote_cells
from pypto.tile.passes.dce import dead_code
from pypto.tile.passes.outline import outline
from pypto.tile.pipeline import _passes
from tests.bits import identical

N = pl.dynamic("N")


# Kernels


@pl.jit
def three_regions(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    part = pl.create_tensor([16, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="step"):
        part[:] = pl.adds(x, 1.0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="step"):
        part[0:8] = pl.muls(part[0:8], 2.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = part


@pl.jit
def launched_everywhere(
    x: pl.Tensor[[N, 16], pl.FP32], n: pl.Scalar[pl.INT32], s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[N, 16], pl.FP32]]
):
    rows = pl.tensor.dim(x, 0)
    for r in pl.parallel(0, rows, 8):
        if n > 0:
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="scale"):
                out[r : r + 8] = pl.muls(x[r : r + 8], s)
        else:
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="shift"):
                out[r : r + 8] = pl.adds(x[r : r + 8], s)
    with pl.spmd(rows // 8, name_hint="round"):
        b = pl.tile.get_block_idx()
        old = out[b * 8 : b * 8 + 8]
        if pl.read(x, [b * 8, 0]) > 100.0:
            out[b * 8 : b * 8 + 8] = pl.neg(old)


@pl.jit
def straight_cells(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8, 16], dtype=pl.FP32, value=0.5)
        t[0:4] = x[0:4]
        u = pl.muls(t, 2.0)
        t[2:6, 0:8] = u[2:6, 0:8]
        pl.write(t, [7, 15], 9.0)
        out[:] = pl.add(t, u)


@pl.jit
def looped_cells(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8, 16], dtype=pl.FP32, value=0.5)
        for r in pl.range(0, 8, 2):
            if pl.read(x, [r, 0]) > 20.0:
                t[r : r + 2] = x[r : r + 2]
            else:
                pl.write(t, [r, 3], 7.0)
            if r == 4:
                t[0:1] = pl.muls(t[3:4], 3.0)
        out[:] = t


@pl.jit
def carried(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.full([1, 16], dtype=pl.FP32, value=0.0)
        last = x[0:1]
        for r in pl.range(8):
            row = x[r : r + 1]
            if r % 2 == 0:
                total = pl.add(total, row)
            else:
                total = pl.sub(total, last)
            last = row
            out[r : r + 1] = total


@pl.jit
def composed(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        unused = pl.exp(x)
        t = lax.tanh(pl.muls(x, 0.01))
        unused = pl.adds(unused, 1.0)
        out[:] = pl.div(t, pl.adds(pl.abs(t), 1.0))


@pl.jit
def partly_valid(x: pl.Tensor[[8, 16], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [8, 16], [0, 0], valid_shape=[n, 16])
        for i in pl.range(3):
            t[i : i + 1] = pl.full([1, 16], dtype=pl.FP32, value=2.0)
        filled = pl.fillpad(t, pad_value=pl.PadValue.zero)
        filled[7:8] = pl.row_expand(filled[7:8], pl.row_max(t)[0:1])
        out[:] = filled


X = (np.arange(128, dtype=np.float32).reshape(8, 16) - 30) * 1.25
BIG = np.vstack([X, X * 2, X - 90])
SQUARE = np.arange(256, dtype=np.float32).reshape(16, 16)
RUNS = {
    "three_regions": (three_regions, SQUARE),
    "launched_everywhere": (launched_everywhere, BIG, 1, 3.0),
    "launched_elsewhere": (launched_everywhere, BIG, 0, 3.0),
    "straight_cells": (straight_cells, X),
    "looped_cells": (looped_cells, X),
    "carried": (carried, X),
    "composed": (composed, X),
    "partly_valid": (partly_valid, X, 5),
}
every_run = pytest.mark.parametrize("name", RUNS)


def run_of(name):
    kernel, *args = RUNS[name]
    return kernel, args


def execute(jaxpr, kernels, args):
    """Run a program at any level on arguments; returns the output."""
    values = []
    for a, v in zip([*args, np.zeros_like(args[0])], jaxpr.invars, strict=True):
        if not isinstance(v.aval, RefAval):
            values.append(Value(np.asarray(v.aval.dtype.storage.type(a)), ()))
            continue
        out = v.aval.direction == "out"
        data = np.array(a)
        written, tainted = (np.zeros(data.shape, np.bool_), np.zeros(data.shape, np.bool_)) if out else (None, None)
        values.append(Ref.whole(Buffer(data, written, tainted, v.name, visible=out)))
    Machine(kernels).run(jaxpr, values)
    return values[-1].data


def names(jaxpr):
    return [e.op.name for e in jaxpr.walk()]


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


# Outlining


def test_kernels_have_the_names_users_gave_made_unique():
    assert [k.name for k in three_regions.lower().kernels] == ["step", "step_1", "three_regions_incore"]


@pl.jit
def named_like_a_copy(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="a_1"):
        out[0:2] = x[0:2]
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="a"):
        out[2:4] = x[2:4]
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="a"):
        out[4:6] = x[4:6]
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="a_1"):
        out[6:8] = x[6:8]


def test_a_name_made_unique_never_meets_a_name_that_was_given():
    kernels = named_like_a_copy.lower().kernels
    assert len({k.name for k in kernels}) == 4 and kernels[0].name == "a_1" and kernels[1].name == "a"
    found = np.zeros((8, 16), np.float32)
    named_like_a_copy(X, found)
    assert identical(found, X)


@every_run
def test_kernels_are_closed_and_the_orchestration_has_no_tiles(name):
    kernel, args = run_of(name)
    program = kernel.lower(*args)
    for k in program.kernels:
        assert not free_vars(k.jaxpr)
        check(k.jaxpr)
    assert not any(isinstance(v.aval, TileAval) for e in program.orchestration.walk() for v in e.outs)
    assert "region" not in names(program.orchestration)


def test_kernels_share_no_variable_with_the_orchestration():
    program = launched_everywhere.lower()
    outside = {*program.orchestration.invars, *(v for e in program.orchestration.walk() for v in e.outs)}
    for k in program.kernels:
        inside = {*k.jaxpr.invars, *(v for e in k.jaxpr.walk() for v in e.outs)}
        assert not inside & outside


def test_the_block_index_is_the_first_input_of_a_kernel_per_block():
    (kernel,) = [k for k in launched_everywhere.lower().kernels if k.name == "round"]
    assert kernel.blocks and kernel.jaxpr.invars[0].aval.dtype is dtypes.INDEX
    assert [k.blocks for k in launched_everywhere.lower().kernels] == [False, False, True]


def test_launches_stay_in_their_loops_and_branches():
    assert names(launched_everywhere.lower().orchestration).count("call") == 3
    (loop,) = [e for e in launched_everywhere.lower().orchestration.eqns if e.op.name == "loop"]
    assert sorted(e.params["kernel"] for e in loop.params["body"].walk() if e.op.name == "call") == ["scale", "shift"]


def test_a_kernel_keeps_what_its_scope_asked_for():
    @pl.jit
    def k(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="half", optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):
            out[:] = x

    (kernel,) = k.lower().kernels
    assert dict(kernel.options) == {"optimizations": ("split(UP_DOWN)",)}


def test_scalars_and_buffers_reach_a_kernel_as_operands():
    (call,) = [e for e in launched_everywhere.lower().orchestration.walk() if e.op.name == "call" and e.params["kernel"] == "scale"]
    assert {a.name for a in call.ins} == {"x", "r", "s", "out"}


# The verifier


def broken(program):
    with pytest.raises(InternalError) as caught:
        (verify if isinstance(program, Program) else verify_jaxpr)(program)
    assert caught.value.code == "PL901"
    return caught.value


def with_kernel(program, **changes):
    first, *rest = program.kernels
    return Program(program.name, program.orchestration, (KernelBody(**{**vars(first), **changes}), *rest), program.platform)


def with_call(program, change):
    eqns = tuple(change(e) if e.op.name == "call" else e for e in program.orchestration.eqns)
    return Program(program.name, program.orchestration.replace(eqns=eqns), program.kernels, program.platform)


def test_lowered_programs_are_valid():
    for name in RUNS:
        kernel, args = run_of(name)
        verify(kernel.lower(*args))


def test_a_kernel_that_uses_a_variable_of_the_orchestration_is_found():
    program = carried.lower()
    (kernel,) = program.kernels
    first, *rest = kernel.jaxpr.invars
    error = broken(with_kernel(program, jaxpr=kernel.jaxpr.replace(invars=tuple(rest))))
    assert first.name in error.message


def test_a_tile_in_the_orchestration_is_found():
    program = carried.lower()
    tile, zero = Var(TileAval((8, 16), dtypes.FP32)), Literal(np.float32(0), scalar(dtypes.FP32))
    fill = Eqn(lax.fill, (zero,), (tile,), {"shape": (8, 16), "dtype": dtypes.FP32, "level": "tensor"})
    eqns = (*program.orchestration.eqns, fill)
    assert "tile" in broken(Program("p", program.orchestration.replace(eqns=eqns), program.kernels, "cpu")).message


def test_a_region_that_was_not_outlined_is_found():
    traced = carried.trace()
    assert "region" in broken(Program("p", traced, (), "cpu")).message


def test_a_call_of_no_kernel_is_found():
    assert "other" in broken(with_call(carried.lower(), lambda e: e.replace(params={**e.params, "kernel": "other"}))).message


def test_a_call_with_too_few_operands_is_found():
    broken(with_call(carried.lower(), lambda e: e.replace(ins=e.ins[1:])))


def test_a_call_with_operands_of_another_type_is_found():
    def swapped(e):
        return e.replace(ins=(e.ins[1], e.ins[0], *e.ins[2:])) if e.params["kernel"] == "round" else e

    assert "round" in broken(with_call(launched_everywhere.lower(), swapped)).message


def test_a_call_that_is_wrong_about_blocks_is_found():
    assert "blocks" in broken(with_call(carried.lower(), lambda e: e.replace(params={**e.params, "blocks": True}))).message


def test_two_kernels_of_one_name_are_found():
    program = three_regions.lower()
    first, second, third = program.kernels
    renamed = KernelBody(**{**vars(second), "name": first.name})
    broken(Program(program.name, program.orchestration, (first, renamed, third), program.platform))


def test_an_update_in_place_after_cells_were_promoted_is_found_at_its_line():
    error = broken(looped_cells.trace().replace(facts=frozenset({"SSA"})))
    assert (error.source is not None and "t[" in error.source.text) or "pl.write(t" in error.source.text


@pytest.mark.parametrize(
    "aval", [ArrayAval((4,), dtypes.FP16), ArrayAval((5,), dtypes.FP32), scalar(dtypes.FP32), RefAval((4,), dtypes.FP32)], ids=str
)
def test_a_result_that_is_not_what_its_rule_says_is_found(aval):
    x, y = Var(ArrayAval((4,), dtypes.FP32)), Var(aval)
    assert "exp" in broken(Jaxpr((x,), (Eqn(lax.exp, (x,), (y,), {}),), (y,))).message


def test_too_many_results_are_found():
    x = Var(ArrayAval((4,), dtypes.FP32))
    broken(Jaxpr((x,), (Eqn(lax.exp, (x,), (Var(x.aval), Var(x.aval)), {}),), ()))


def test_operands_that_do_not_fit_are_our_mistake_not_the_users():
    x, y = Var(ArrayAval((4,), dtypes.FP32)), Var(ArrayAval((5,), dtypes.FP32))
    assert "add" in broken(Jaxpr((x, y), (Eqn(lax.add, (x, y), (Var(x.aval),), {}),), ())).message
