"""A kernel follows every Python value it reads: a changed one is never run stale, an unchanged one is not traced again."""

import functools
import types
from dataclasses import dataclass

import numpy as np
import pytest

import pypto
import pypto.language as pl
from tests.kernels import future_annotations
from tests.refusals import f32, refused, reports, sevens, untouched

V4 = pl.Tensor[[4], pl.FP32]
X = f32(1, 2, 3, 4)


@dataclass
class Config:
    N: int = 1
    names: tuple[str, ...] = ("a",)


FACTOR = 1
FACTORS = (1, 2)
LIST = [1]
TABLE = {"factor": 1}
cfg = Config()
module = types.ModuleType("settings")
module.FACTOR = 1  # type: ignore[attr-defined]
HELPED = 1
ARRAY = np.array([1, 1, 1, 1], np.float32)
chosen = pl.add


def helper():
    return float(HELPED)


@functools.cache
def remembered():
    return 5.0


@pl.jit.inline
def scaled_inline(x):
    return x * float(HELPED)


@pl.jit
def reads_a_global(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(FACTOR)


@pl.jit
def reads_a_tuple(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(FACTORS[0])


@pl.jit
def reads_a_list(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(LIST[0])


@pl.jit
def reads_a_dict(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(TABLE["factor"])


@pl.jit
def reads_an_attribute(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(cfg.N)


@pl.jit
def reads_a_module(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(module.FACTOR)


@pl.jit
def calls_a_helper(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * helper()


@pl.jit
def calls_an_inline(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = scaled_inline(x)


@pl.jit
def applies_what_is_chosen(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = chosen(x, x)


def set_global(name):
    return lambda value: globals().__setitem__(name, value)


CHANGES = {
    "an int": (reads_a_global, set_global("FACTOR"), 1, 3, [3, 6, 9, 12]),
    "a tuple": (reads_a_tuple, set_global("FACTORS"), (1, 2), (3, 2), [3, 6, 9, 12]),
    "a list in place": (reads_a_list, lambda v: LIST.__setitem__(0, v), 1, 3, [3, 6, 9, 12]),
    "a dict in place": (reads_a_dict, lambda v: TABLE.__setitem__("factor", v), 1, 3, [3, 6, 9, 12]),
    "an attribute": (reads_an_attribute, lambda v: setattr(cfg, "N", v), 1, 3, [3, 6, 9, 12]),
    "a module attribute": (reads_a_module, lambda v: setattr(module, "FACTOR", v), 1, 3, [3, 6, 9, 12]),
    "a helper's own global": (calls_a_helper, set_global("HELPED"), 1, 3, [3, 6, 9, 12]),
    "an inline's own global": (calls_an_inline, set_global("HELPED"), 1, 3, [3, 6, 9, 12]),
    "a function": (applies_what_is_chosen, set_global("chosen"), pl.add, pl.mul, [1, 4, 9, 16]),
}
SAME = {"a function": [2, 4, 6, 8]}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_value_is_seen_and_an_unchanged_one_costs_no_new_program(name):
    kernel, change, before, after, expected = CHANGES[name]
    first = SAME.get(name, [1, 2, 3, 4])
    try:
        assert kernel(X).tolist() == first
        known = len(kernel._programs)
        assert kernel(X).tolist() == first
        assert len(kernel._programs) == known
        change(after)
        assert kernel(X).tolist() == expected
        assert kernel.eager(X).tolist() == expected
        assert len(kernel._programs) == known + 1
        change(before)
        assert kernel(X).tolist() == first
        assert len(kernel._programs) == known + 1, "a program that was made before is used again"
    finally:
        change(before)


def test_values_nobody_reads_make_no_new_program():
    known = reads_an_attribute(X) is not None and len(reads_an_attribute._programs)
    cfg.names = ("b",)
    reads_an_attribute(X)
    assert len(reads_an_attribute._programs) == known


def test_a_closed_over_variable_is_followed():
    factor = 2

    @pl.jit
    def reads_a_closure(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(factor)

    assert reads_a_closure(X).tolist() == [2, 4, 6, 8]
    factor = 3
    assert reads_a_closure(X).tolist() == [3, 6, 9, 12]
    assert len(reads_a_closure._programs) == 2


def test_a_captured_array_is_frozen_so_that_it_cannot_change_unseen():
    weights = np.array([1, 2, 3, 4], np.float32)

    @pl.jit
    def reads_a_constant(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.unroll(4):
                out[i] = float(weights[i]) * pl.read(x, [i])

    assert reads_a_constant(X).tolist() == [1, 4, 9, 16]
    with pytest.raises(ValueError):
        weights[0] = 100
    weights = np.array([2, 2, 2, 2], np.float32)
    assert reads_a_constant(X).tolist() == [2, 4, 6, 8]
    weights.flags.writeable = True
    weights[0] = 100
    assert reads_a_constant(X).tolist() == [100, 4, 6, 8]


def test_a_generator_cannot_be_captured():
    values = iter([1, 2])

    @pl.jit
    def reads_a_generator(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(next(values))

    call = lambda: reads_a_generator(X)  # noqa: E731 # refused
    refused("PL113", call, at="reads_a_generator(X)")
    assert next(values) == 1


def test_another_shape_dtype_platform_or_static_value_is_another_program():
    @pl.jit
    def copies(x: pl.Tensor, out: pl.Out[pl.Tensor], factor=1):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(factor)

    for x in (X, X, X.reshape(2, 2), X.astype(np.float16)):
        copies(x, np.zeros_like(x))
    assert len(copies._programs) == 3
    copies(X, sevens(4), 2)
    assert len(copies._programs) == 4
    with pypto.override(platform="cpu"):
        copies(X, sevens(4))
    assert len(copies._programs) == 5
    copies(X, sevens(4), factor=1)
    assert len(copies._programs) == 5


def test_scalars_and_layouts_and_checks_make_no_new_program():
    @pl.jit
    def scales(x: V4, by: pl.Scalar[pl.FP32], out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * by

    for by in (1.0, 2, np.float32(3)):
        scales(X, by)
    scales(np.repeat(X, 2)[::2], 1.0, np.zeros(8, np.float32)[::2])
    with pypto.override(check=False):
        scales(X, 1.0)
    assert len(scales._programs) == 1


# Kernels in files with string annotations, in factories and in classes.


def test_string_annotations_are_read_in_the_functions_globals():
    x = f32([1, 2, 3, 4], [5, 6, 7, 8])
    assert future_annotations.doubles(x, 2.0).tolist() == (x * 2).tolist()
    total = x.copy()
    future_annotations.accumulates(x, total)
    assert total.tolist() == (x * 2).tolist()


def test_errors_in_a_file_with_string_annotations_point_into_it():
    error = untouched("PL201", future_annotations.rebinds, f32([1, 2, 3, 4], [5, 6, 7, 8]), sevens(2, 4), at="out = x + 1.0")
    assert error.source is not None and error.source.file == future_annotations.__file__


def test_string_annotations_of_a_factory_are_read_in_its_closure():
    negates = future_annotations.factory(4, pl.FP16)
    x = np.array([[1, 2, 3, 4]], np.float16)
    assert np.asarray(negates(x)).tolist() == [[-1, -2, -3, -4]]
    error = refused("PL602", lambda: negates(x[:, :2]), at="negates(x[:, :2])")  # refused
    assert "`x`" in error.message


def test_an_annotation_that_names_nothing_is_reported_at_its_parameter():
    error = refused("PL602", lambda: future_annotations.misspells(X), at=MISSPELLED, mark="out: pl.Out[Rows]):")
    assert "Tensr" in error.message


MISSPELLED = "x: pl.Tensr[[ROWS, 4], pl.FP32]"


def scaling_by(factor):
    @pl.jit
    def scales(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(factor)

    return scales


def test_kernels_of_one_factory_do_not_share_programs():
    two, three = scaling_by(2), scaling_by(3)
    assert two(X).tolist() == [2, 4, 6, 8]
    assert three(X).tolist() == [3, 6, 9, 12]
    assert two(X).tolist() == [2, 4, 6, 8]


class Layer:
    SIZE = 2

    def __init__(self, factor):
        self.factor = factor

    @pl.jit
    def scales(self, x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(self.factor)

    @staticmethod
    @pl.jit
    def doubles(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * float(Layer.SIZE)


def test_a_kernel_in_a_class_is_a_method():
    assert Layer(2).scales(X).tolist() == [2, 4, 6, 8]
    assert Layer(3).scales(X).tolist() == [3, 6, 9, 12]


def test_an_object_that_changed_is_not_run_stale():
    layer = Layer(2)
    assert layer.scales(X).tolist() == [2, 4, 6, 8]
    layer.factor = 3
    assert layer.scales(X).tolist() == [3, 6, 9, 12]


def test_a_static_kernel_of_a_class_reads_its_class():
    assert Layer.doubles(X).tolist() == [2, 4, 6, 8]
    Layer.SIZE = 3
    try:
        assert Layer.doubles(X).tolist() == [3, 6, 9, 12]
    finally:
        Layer.SIZE = 2


def test_a_kernel_with_an_unset_inout_reports_once_per_program():
    @pl.jit
    def reads_only(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x

    with reports("PL202"):
        reads_only(X.copy(), sevens(4))
    with reports():
        reads_only(X.copy(), sevens(4))
