"""Programs built from equations, for tests of the IR itself."""

from pypto import dtypes, lax
from pypto.core.avals import ArrayAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Literal, Var

F4 = ArrayAval((4,), dtypes.FP32)
INDEX = scalar(dtypes.INDEX)


def var(aval=F4, name=""):
    return Var(aval, name)


def number(value, dtype=dtypes.FP32):
    return Literal(dtype.storage.type(value), scalar(dtype))


def apply(op, *ins, aval=F4, name="", **params):
    """An equation with one result, and the result."""
    out = var(aval, name)
    return Eqn(op, ins, (out,), params), out


def function(build, inputs=1):
    """The jaxpr of `build(equations, *inputs) -> outputs`, in which `equations(op, *ins)` appends one."""
    eqns = []

    def add(op, *ins, **params):
        eqn, out = apply(op, *ins, **params)
        eqns.append(eqn)
        return out

    arguments = tuple(var() for _ in range(inputs))
    outs = build(add, *arguments)
    return Jaxpr(arguments, tuple(eqns), outs if isinstance(outs, tuple) else (outs,), "f")


def loop(add, start, stop, body, *inits):
    """A loop whose body is `body(add, index, *carried) -> carried`."""
    eqns = []

    def inner(op, *ins, **params):
        eqn, out = apply(op, *ins, **params)
        eqns.append(eqn)
        return out

    index, carried = var(INDEX), [var(a.aval) for a in inits]
    outs = body(inner, index, *carried)
    jaxpr = Jaxpr((index, *carried), tuple(eqns), outs if isinstance(outs, tuple) else (outs,))
    return add(lax.loop, number(start, dtypes.INDEX), number(stop, dtypes.INDEX), number(1, dtypes.INDEX), *inits,
               body=jaxpr, kind="range", stage=None)  # fmt: skip


def chain(add, x):
    return add(lax.mul, add(lax.add, x, x), x)


def nested(add, x):
    def body(inner, i, acc):
        deeper = loop(inner, 0, 2, lambda innermost, j, a: innermost(lax.neg, a), acc)
        return inner(lax.add, deeper, x)

    return add(lax.exp, loop(add, 0, 3, body, add(lax.abs_, x)))
