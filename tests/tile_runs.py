"""Kernels with arguments, and how to run their programs at any level."""

import numpy as np
import pytest

from pypto.core.avals import RefAval
from pypto.interpreters.reference import Machine
from pypto.interpreters.values import Buffer, Ref, Value
from tests.kernels.lowered import carried, composed, launched_everywhere, looped_cells, partly_valid, straight_cells, three_regions

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
