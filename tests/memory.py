"""Equations on buffers, one at a time."""

import numpy as np

from pypto import dtypes, lax
from pypto.core.avals import RefAval, scalar
from pypto.core.ir import Eqn, Literal, Var
from pypto.interpreters.reference import Machine
from pypto.interpreters.values import Buffer, Ref


def index(i):
    return Literal(np.int64(i), scalar(dtypes.INDEX))


class Memory:
    """Runs equations on buffers, and keeps what they made."""

    def __init__(self, check=True):
        self.machine = Machine(check=check)

    def ref(self, array, name="x", *, written=True, visible=False):
        v = Var(RefAval(array.shape, dtypes.dtype_of(array.dtype)), name)
        known = None if written else np.zeros(array.shape, np.bool_)
        self.machine.env[v] = Ref.whole(Buffer(array, known, np.zeros(array.shape, np.bool_), name, visible))
        return v

    def run(self, op, *ins, aval=None, **params):
        out = Var(aval if aval is not None else op.abstract_eval([a.aval for a in ins], params)[0])
        self.machine.execute(Eqn(op, ins, (out,), params))
        return out

    def do(self, op, *ins, **params):
        self.machine.execute(Eqn(op, ins, (), params))

    def view(self, ref, starts, sizes, drop=()):
        return self.run(lax.view, ref, *map(index, starts), sizes=tuple(sizes), drop=drop)

    def load(self, ref, starts=None, sizes=None):
        shape = self.machine.env[ref].data.shape
        ins = map(index, starts or [0] * len(shape))
        return self.machine.env[self.run(lax.get, ref, *ins, sizes=tuple(sizes or shape), drop=(), valid=None, level="tensor", space=None)]

    def data(self, v):
        return self.machine.env[v].data
