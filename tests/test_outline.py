"""Outlined programs: closed kernels and an orchestration that launches them, and the verifier that holds them to it."""

import numpy as np
import pytest

import pypto.language as pl
from pypto import dtypes, lax
from pypto.core.avals import ArrayAval, RefAval, TileAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Literal, Var, check, free_vars
from pypto.errors import InternalError
from pypto.tile import KernelBody, Program, verify, verify_jaxpr
from tests.bits import identical
from tests.kernels.lowered import carried, launched_everywhere, looped_cells, three_regions
from tests.tile_runs import RUNS, X, every_run, names, run_of

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
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="half", optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):
            out[:] = pl.exp(pl.matmul(x, x))

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
    assert error.source.text.strip() == "t[r : r + 2] = x[r : r + 2]"


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
