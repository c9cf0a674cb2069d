"""The `@pl.jit` family, the keywords of the decorators, `strict_ssa` and captured configuration."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError, PyptoDeprecationWarning
from tests.refusals import refused, reports
from tests.ways import every_way

M = pl.Tensor[[4, 8], pl.FP32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)

# The jit family.


@pl.jit.opaque
def row_by_row(x: M, out: pl.Out[M]):
    for r in pl.parallel(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)
    return out


@pl.jit
def calls_an_opaque_function(x: M, out: pl.Out[M]):
    once = pl.create_tensor([4, 8], dtype=pl.FP32)
    row_by_row(x, once)
    out = row_by_row(once, out)
    return out


def test_an_opaque_function_holds_orchestration_loops_and_regions():
    assert (every_way(calls_an_opaque_function, X) == X + 2).all()


def test_an_opaque_function_runs_on_its_own():
    assert (np.asarray(row_by_row(X)) == X + 1).all()


@pl.jit
def chip_entry(x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.adds(x, 1.0)


@pl.jit.host
def host_entry(x: M, out: pl.Out[M]):
    for r in pl.range(4):
        chip_entry(x[r], out[r], device=r)
    return out


@pl.jit.host
def host_with_fixed_devices(x: M, out: pl.Out[M]):
    for r in pl.unroll(4):
        chip_entry(x[r], out[r], device=r % 2)


def test_a_host_entry_calls_chip_entries():
    assert (every_way(host_entry, X) == X + 1).all()


def test_the_device_of_a_chip_entry_is_kept_on_its_kernels():
    kernels = host_with_fixed_devices.lower().kernels
    assert [dict(k.options)["device"] for k in kernels] == [0, 1, 0, 1]
    assert dict(host_entry.lower().kernels[0].options) == {"device": "r"}


@pl.jit
def device_outside_a_host(x: M, out: pl.Out[M]):
    chip_entry(x[0], out[0], device=0)  # refused


def test_a_device_is_only_given_by_a_host_entry():
    refused("PL601", device_outside_a_host.trace, at="chip_entry(x[0], out[0], device=0)")


@pl.jit(auto_scope=False)
def by_hand(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.adds(x, 1.0)


@pl.jit.inline(auto_scope=False)
def inline_by_hand(x, out):
    out[:] = pl.adds(x, 1.0)


@pl.jit.host(auto_scope=False)
def host_by_hand(x: M, out: pl.Out[M]):
    by_hand(x, out)


def test_auto_scope_is_kept_on_the_kernel():
    assert [k.auto_scope for k in (by_hand, inline_by_hand, host_by_hand, chip_entry)] == [False, False, False, True]
    assert (np.asarray(host_by_hand(X)) == X + 1).all()


@pytest.mark.parametrize("decorator", [pl.jit.incore, pl.jit.opaque])
def test_auto_scope_is_refused_where_there_are_no_scopes_of_a_caller(decorator):
    with pytest.raises(TypeError):
        decorator(auto_scope=False)


@pytest.mark.parametrize(
    "decorate",
    [
        lambda: pl.jit(auto_scope=0),
        lambda: pl.jit.inline(auto_scope=None),
        lambda: pl.jit.incore(level=pl.Level.HOST),
        lambda: pl.jit.extern(language="c"),
        lambda: pl.function(type="InCore"),
        lambda: pl.function(type=pl.FunctionType.Group),
        lambda: pl.function(type=pl.FunctionType.Spmd),
        lambda: pl.function(type=pl.FunctionType.InCore, auto_scope=False),
        lambda: pl.function(role=pl.Role.Orchestrator),
        lambda: pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker),
        lambda: pl.function(level=pl.Level.GLOBAL, role=pl.Role.Orchestrator),
        lambda: pl.function(level=3),
        lambda: pl.function(strict_ssa=1),
        lambda: pl.program(strict_ssa="yes"),
    ],
)
def test_a_keyword_of_a_decorator_that_says_nothing_is_refused(decorate):
    with pytest.raises(CallError) as caught:
        decorate()
    assert caught.value.code == "PL606" and caught.value.fix


@pytest.mark.parametrize(
    ("type", "level", "role"),
    [
        (pl.FunctionType.InCore, pl.Level.HOST, None),
        (pl.FunctionType.InCore, pl.Level.CHIP, pl.Role.Orchestrator),
        (pl.FunctionType.Graph, pl.Level.HOST, pl.Role.Orchestrator),
        (pl.FunctionType.Orchestration, pl.Level.AIC, None),
        (pl.FunctionType.Orchestration, pl.Level.CHIP, pl.Role.SubWorker),
        (pl.FunctionType.Inline, pl.Level.AIV, None),
        (pl.FunctionType.Inline, pl.Level.CHIP, pl.Role.SubWorker),
        (pl.FunctionType.Inline, pl.Level.HOST, None),
        (pl.FunctionType.AIC, pl.Level.AIV, None),
        (pl.FunctionType.AIV, pl.Level.AIC, None),
    ],
)
def test_a_type_that_contradicts_the_level_or_the_role_is_refused(type, level, role):
    with pytest.raises(CallError) as caught:
        pl.function(type=type, level=level, role=role)
    assert caught.value.code == "PL606" and type.name in caught.value.message and level.name in caught.value.message


@pytest.mark.parametrize(
    ("type", "level", "role", "kind"),
    [
        (pl.FunctionType.Opaque, pl.Level.HOST, pl.Role.Orchestrator, "host"),
        (pl.FunctionType.Orchestration, pl.Level.HOST, None, "host"),
        (pl.FunctionType.Orchestration, pl.Level.CHIP, pl.Role.Orchestrator, "jit"),
        (pl.FunctionType.Graph, pl.Level.CHIP, pl.Role.Orchestrator, "jit"),
        (pl.FunctionType.Opaque, pl.Level.CHIP, pl.Role.SubWorker, "incore"),
        (pl.FunctionType.InCore, pl.Level.CORE_GROUP, None, "incore"),
        (pl.FunctionType.AIC, pl.Level.AIC, None, "incore"),
        (pl.FunctionType.Inline, pl.Level.CHIP, None, "inline"),
    ],
)
def test_a_type_may_be_said_together_with_a_level_and_role_that_agree(type, level, role, kind):
    @pl.function(type=type, level=level, role=role)
    def f(x: M, out: pl.Out[M]):
        pass

    assert f.kind == kind


@pytest.mark.parametrize("level", [pl.Level.CHIP, pl.Level.CHIP_DIE])
def test_an_in_core_function_is_no_function_of_a_chip(level):
    with pytest.raises(CallError) as caught:
        pl.jit.incore(level=level)
    assert caught.value.code == "PL606"


def test_an_incore_function_of_one_unit_says_so_on_its_kernel():
    @pl.jit.incore(level=pl.Level.AIV)
    def vector_only(x: M, out: pl.Out[M]):
        out[:] = pl.adds(x, 1.0)

    assert dict(vector_only.lower().kernels[0].options) == {"core": "AIV"}


# A kernel in C++.


@pl.jit.extern(source="gelu.cpp", core_type="aiv")
def in_cpp(x: M, out: pl.Out[M]): ...


@pl.jit
def calls_cpp(x: M, out: pl.Out[M]):
    in_cpp(x, out)  # refused


@pl.jit.extern(core_type="mixed", aic_source="a.cpp", aiv_source="b.cpp")
def with_a_meaning(x: M, out: pl.Out[M]): ...


@with_a_meaning.meaning
def its_meaning(x: M, out: pl.Out[M]):
    out[:] = pl.muls(x, 3.0)


@pl.jit
def calls_a_meaning(x: M, out: pl.Out[M]):
    with_a_meaning(x, out)


def test_a_kernel_in_another_language_is_refused():
    refused("PL112", calls_cpp.trace, at="in_cpp(x, out)")


def test_a_kernel_in_another_language_runs_by_the_meaning_it_is_given():
    assert (every_way(calls_a_meaning, X) == X * 3).all()


def test_a_meaning_takes_the_parameters_of_its_stub():
    with pytest.raises(CallError) as caught:
        with_a_meaning.meaning(lambda x: x)
    assert caught.value.code == "PL601"


# Directions on inline parameters.


@pl.jit.inline
def writes_its_parameter(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = x * 2.0


@pl.inline
def reads_and_writes(y: pl.InOut[M]):
    y[:] = y * 2.0


@pl.jit
def calls_both(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        writes_its_parameter(x, out)


@pl.jit
def calls_the_other(out: pl.InOut[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        reads_and_writes(out)


def test_a_direction_on_an_inline_parameter_is_deprecated():
    with reports("PL116"):
        assert (np.asarray(calls_both(X)) == X * 2).all()
    with pytest.warns(PyptoDeprecationWarning) as caught:
        assert (np.asarray(calls_the_other(X.copy())) == X * 2).all()
    assert [w.lineno for w in caught] == [reads_and_writes.staged.source.line]


# strict_ssa.


def test_a_second_value_of_a_name_is_refused_under_strict_ssa():
    def make():
        @pl.function(strict_ssa=True)
        def twice(x: M, out: pl.Out[M]):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = pl.adds(x, 1.0)
                t = pl.adds(t, 1.0)  # refused
                out[:] = t

    refused("PL114", make, at="t")


def test_a_subscript_store_is_a_second_value_under_strict_ssa():
    def make():
        @pl.program(strict_ssa=True)
        class Strict:
            @pl.function(type=pl.FunctionType.InCore)
            def main(self, x: M, out: pl.Out[M]):
                out[:] = x  # refused

    refused("PL114", make, at="out[:]")


def test_while_loops_and_the_else_of_loops_are_checked_under_strict_ssa():
    def in_a_while():
        @pl.function(strict_ssa=True)
        def turns(x: M, n: pl.Scalar[pl.INT32], out: pl.Out[M]):
            t = pl.adds(x, 1.0)
            while n > 0:
                t = pl.adds(x, 2.0)  # refused
            pl.store(t, [0, 0], out)

    def twice_in_a_while():
        @pl.function(strict_ssa=True)
        def turns(x: M, n: pl.Scalar[pl.INT32], out: pl.Out[M]):
            while n > 0:
                t = pl.adds(x, 2.0)
                t = pl.store(t, [0, 0], out)  # refused

    def in_an_else():
        @pl.function(strict_ssa=True)
        def turns(x: M, n: pl.Scalar[pl.INT32], out: pl.Out[M]):
            t = pl.adds(x, 1.0)
            for r in pl.range(4):
                if r > n:
                    break
            else:
                t = pl.adds(x, 2.0)  # refused
            pl.store(t, [0, 0], out)

    for make in (in_a_while, twice_in_a_while, in_an_else):
        refused("PL114", make, at="t")


@pl.function(type=pl.FunctionType.InCore, strict_ssa=True)
def in_single_assignment(x: M, out: pl.Out[M]):
    for r in pl.range(2):
        t = pl.adds(pl.load(x, [2 * r, 0], [2, 8]), 1.0)
        pl.store(t, [2 * r, 0], out)
    for r in pl.range(2):
        t = pl.adds(pl.load(x, [2 * r, 0], [2, 8]), 2.0)
        pl.store(t, [2 * r, 0], out)


def test_bodies_of_loops_have_names_of_their_own_under_strict_ssa():
    assert (np.asarray(in_single_assignment(X)) == X + 2).all()


# Captured configuration.


@dataclasses.dataclass
class Sizes:
    rows: int
    by: float


class Factors(NamedTuple):
    first: float
    second: float


SIZES = Sizes(2, 3.0)
FACTORS = Factors(2.0, 5.0)


@pl.jit
def reads_a_dataclass(x: M, out: pl.Out[M]):
    for r in pl.range(0, 4, SIZES.rows):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + SIZES.rows, :] = pl.adds(pl.muls(x[r : r + SIZES.rows, :], FACTORS.second), SIZES.by)


def test_a_changed_dataclass_never_runs_a_stale_program():
    assert (np.asarray(reads_a_dataclass(X)) == X * 5 + 3).all()
    SIZES.by = 4.0
    try:
        assert (np.asarray(reads_a_dataclass(X)) == X * 5 + 4).all()
    finally:
        SIZES.by = 3.0


def test_a_function_that_two_programs_share_belongs_to_each():
    class Shared:
        Local = M

        @pl.function(type=pl.FunctionType.InCore)
        def scaled(self, x: "Local", out: pl.Out[M]):
            out[:] = pl.muls(x, self.FACTOR)

    @pl.program
    class Two(Shared):
        FACTOR = 2.0

    @pl.program
    class Three(Shared):
        FACTOR = 3.0

    for _ in range(2):
        assert (np.asarray(Two(X)) == X * 2).all()
        assert (np.asarray(Three(X)) == X * 3).all()
    assert Two.scaled.owner is Two and Three.scaled.owner is Three
    assert Shared.__dict__["scaled"].owner is None
