"""Programs: classes of functions, standalone functions, and both forms together."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError, PyptoError
from tests.refusals import refused, reports
from tests.ways import every_way

M = pl.Tensor[[4, 8], pl.FP32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pl.jit.incore
def doubled(x: M, out: pl.Out[M]):
    out[:] = pl.muls(x, 2.0)
    return out


# Programs.


@pl.program
class Scaling:
    """Doubles, then adds."""

    BY = 2.0

    @pl.function(type=pl.FunctionType.InCore)
    def scale(self, x: M, out: pl.Out[M]):
        out[:] = pl.muls(x, self.BY)
        return out

    @pl.function(type=pl.FunctionType.Inline)
    def shifted(self, t, by):
        return pl.adds(t, by)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: M, out: pl.Out[M]):
        once = pl.create_tensor([4, 8], dtype=pl.FP32)
        once = self.scale(x, once)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="shift"):
            out[:] = self.shifted(once, 1.0)
        return out


@pl.program
class Opaquely:
    @pl.function(type=pl.FunctionType.Opaque)
    def layer(self, x: M, out: pl.Out[M]):
        for r in pl.parallel(0, 4, 2):
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="rows"):
                out[r : r + 2, :] = pl.adds(x[r : r + 2, :], 1.0)
        return out


@pl.program
class Spread:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: M, out: pl.Out[M]):
        r = pl.tile.get_block_idx()
        out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: M, out: pl.Out[M]):
        with pl.spmd(4):
            out = self.kernel(x, out)
        return out


def test_a_program_runs_its_entry():
    assert (np.asarray(Scaling(X)) == X * 2 + 1).all()
    assert (every_way(Scaling.main, X) == X * 2 + 1).all()
    assert (np.asarray(Scaling.eager(X)) == X * 2 + 1).all()


def test_an_opaque_method_is_an_entry_whose_regions_are_its_own():
    assert (every_way(Opaquely.layer, X) == X + 1).all()
    assert [k.name for k in Opaquely.lower().kernels] == ["rows"]


def test_a_method_called_under_spmd_runs_once_per_block():
    assert (every_way(Spread.main, X) == X + 1).all()


def test_the_functions_of_a_program_are_known_by_name():
    assert list(Scaling.functions) == ["scale", "shifted", "main"]
    assert Scaling.entry is Scaling.main and Scaling.name == "Scaling" and Scaling.__doc__ == "Doubles, then adds."
    assert (np.asarray(Scaling.scale(X)) == X * 2).all()
    assert Scaling.lower().name == "main"


def test_the_text_of_a_program_says_what_calls_what():
    assert str(Scaling).splitlines() == [
        "program Scaling",
        "  incore scale(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]])",
        "  inline shifted(t, by)",
        "  jit main(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]) calls scale, shifted",
    ]


def test_a_function_that_a_program_does_not_have_is_an_error_where_it_is_called():
    @pl.program
    class Short:
        @pl.function
        def main(self, x: M, out: pl.Out[M]):
            self.kernel(x, out)  # refused

    refused("PL112", Short.trace, at="self.kernel")
    assert not hasattr(Short, "kernel")


def test_a_program_with_two_entries_is_called_by_function():
    @pl.program
    class Two:
        @pl.function
        def first(self, out: pl.Out[M]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.full([4, 8], dtype=pl.FP32, value=1.0)

        @pl.function
        def second(self, out: pl.Out[M]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.full([4, 8], dtype=pl.FP32, value=2.0)

    with pytest.raises(CallError) as caught:
        Two()
    assert caught.value.code == "PL601" and "first" in caught.value.message
    assert (np.asarray(Two.second()) == 2).all()


def empty():
    @pl.program
    class Empty:
        N = 3


def undecorated():
    @pl.program
    class Undecorated:
        def main(self, x: M, out: pl.Out[M]):
            pass


def without_self():
    @pl.program
    class WithoutSelf:
        @pl.function
        def main(x: M, out: pl.Out[M]):
            pass


@pytest.mark.parametrize("make", [empty, undecorated, without_self])
def test_a_class_that_is_no_program_is_refused(make):
    with pytest.raises(PyptoError) as caught:
        make()
    assert caught.value.code == "PL112" and caught.value.fix


def test_a_method_of_a_class_that_is_no_program_cannot_be_called():
    class Plain:
        @pl.function
        def main(self, x: M, out: pl.Out[M]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.adds(x, 1.0)

    with pytest.raises(CallError) as caught:
        Plain.main(X)
    assert caught.value.code == "PL601"


def test_a_changed_constant_of_a_program_runs_another_program():
    class Config:
        by = 2.0

    @pl.program
    class Reading:
        config = Config()

        @pl.function(type=pl.FunctionType.InCore)
        def main(self, x: M, out: pl.Out[M]):
            out[:] = pl.muls(x, self.config.by)

    assert (np.asarray(Reading(X)) == X * 2).all()
    Reading.config.by = 3.0
    assert (np.asarray(Reading(X)) == X * 3).all()


# Standalone functions.


@pl.function
def standalone(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.adds(x, 1.0)
    return out


@pl.inline
def normalized(t: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
    return pl.mul(t, 2.0)


@pl.program
class UsesOthers:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: M, out: pl.Out[M]):
        once = pl.create_tensor([4, 8], dtype=pl.FP32)
        once = standalone(x, once)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = normalized(once)
        return out


def test_a_program_calls_functions_from_outside_by_name():
    assert (np.asarray(UsesOthers(X)) == (X + 1) * 2).all()


# Mixing the forms.


@pl.program
class Mixed:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: M, out: pl.Out[M]):
        out = doubled(x, out)
        return out


@pl.jit
def mixes(x: M, out: pl.Out[M]):
    standalone(x, out)


def test_a_method_that_calls_a_jit_kernel_is_reported():
    with reports("PL115"):
        assert (np.asarray(Mixed(X)) == X * 2).all()


def test_a_jit_kernel_that_calls_a_function_of_the_other_form_is_reported():
    with reports("PL115"):
        assert (np.asarray(mixes(X)) == X + 1).all()


@pl.jit
def uses_an_inline_of_both_forms(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = normalized(x)


def test_an_inline_function_belongs_to_both_forms():
    assert (every_way(uses_an_inline_of_both_forms, X) == X * 2).all()
