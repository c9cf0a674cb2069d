"""Batching: a trace whose values hold one value per example along axis 0. Ops say in their slot `batching` how they run on all examples
at once; what an example gets has the bits it has alone.

A rule is `(op, size, operands, batched, params) -> (results, batched)`: which operands hold examples, and which results do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto.core.array import ArrayMethods
from pypto.core.avals import ArrayAval, Aval
from pypto.core.ir import Jaxpr
from pypto.core.op import OPS, Op
from pypto.core.trace import Trace, Tracer, aval_of, current_trace, tracing
from pypto.interpreters.partial_eval import ClosedTrace, replay, under
from pypto.interpreters.tangents import apply, operand
from pypto.source import Frame, Source, user_frame


class Examples(int):
    """How many examples there are, and the name of their axis, if it has one: what rules are given as `size`."""

    name: str | None = None

    @classmethod
    def along(cls, size: int, name: str | None) -> Examples:
        """So many examples along an axis of this name."""
        made = cls(size)
        made.name = name
        return made


Batched = tuple[Sequence[Any], Sequence[bool]]


class BatchTracer(ArrayMethods, Tracer):
    """One example of a batch, as far as the function that is mapped can see."""

    __slots__ = ("value", "where")

    def __init__(self, trace: BatchTrace, value: Any) -> None:
        self.trace, self.value = trace, value
        self.where = user_frame()

    @property
    def aval(self) -> Aval:
        whole = aval_of(self.value)
        return ArrayAval(whole.shape[1:], whole.dtype)

    def made_at(self) -> Frame | Source | None:
        return self.where


class BatchTrace(Trace):
    """Runs every op on all examples at once, under the trace below."""

    def __init__(self, parent: Trace, size: int, name: str = "") -> None:
        self.parent: Trace = parent
        self.size = size
        self.name = name
        self.axis = size.name if isinstance(size, Examples) else None

    def split(self, x: Any) -> tuple[Any, bool]:
        """The value behind an operand, and whether it holds examples."""
        if isinstance(x, BatchTracer) and x.trace is self:
            return x.value, True
        return x, False

    def wrap(self, value: Any, batched: bool) -> Any:
        return BatchTracer(self, value) if batched else value

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, batched = zip(*map(self.split, args)) if args else ((), ())
        if not any(batched) and (self.axis is None or not mentions(self.axis, params)):
            return self.parent.process(op, values, params)
        operands = [operand(v) for v in values]
        made, which = under(self.parent, op.rule("batching"))(op, self.size, operands, batched, params)
        wrapped = [self.wrap(v, b) for v, b in zip(made, which, strict=True)]
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)


def mentions(axis: str, params: dict[str, Any]) -> bool:
    """Whether an application with these options, or a body among them, works along a named axis."""
    if params.get("axis_name") == axis:
        return True
    bodies = [b for v in params.values() for b in (v if isinstance(v, tuple) else (v,)) if isinstance(b, Jaxpr)]
    return any(mentions(axis, e.params) for b in bodies for e in b.eqns)


def named_axes(trace: Trace) -> dict[str, int]:
    """The named axes that a function run under a trace may use, and their extents."""
    found: dict[str, int] = {}
    around: Trace | None = trace
    while around is not None:
        if isinstance(around, BatchTrace) and around.axis is not None:
            found.setdefault(around.axis, int(around.size))
        for name, size in around.axes:
            found.setdefault(name, size)
        around = around.parent
    return found


def batch(fn: Callable[..., Sequence[Any]], size: int, values: Sequence[Any], batched: Sequence[bool], name: str = "") -> Batched:
    """A flat function on all examples; examples lie along axis 0 of the operands that have them, and of the results."""
    trace = BatchTrace(current_trace(), size, name)
    with tracing(trace):
        outs = fn(*(trace.wrap(v, b) for v, b in zip(values, batched, strict=True)))
    pairs = [trace.split(o) for o in outs]
    return [v for v, _ in pairs], [b for _, b in pairs]


def batch_jaxpr(jaxpr: Jaxpr, size: int, batched: Sequence[bool], forced: Sequence[bool] | bool = False) -> tuple[Jaxpr, list[bool]]:
    """The program on all examples, and which of its results hold examples; those in `forced` always do."""
    trace = ClosedTrace(current_trace(), jaxpr.name)
    with tracing(trace):
        inputs = [
            trace.new(ArrayAval((size, *v.aval.static_shape), v.aval.dtype) if b else v.aval, v.name)
            for v, b in zip(jaxpr.invars, batched, strict=True)
        ]
        outs, which = batch(lambda *xs: replay(jaxpr, xs), size, inputs, batched, jaxpr.name)
        wanted = [forced] * len(which) if isinstance(forced, bool) else list(forced)
        outs = [repeated(o, size) if f and not b else o for o, b, f in zip(outs, which, wanted, strict=True)]
        program = trace.closed(inputs, outs, jaxpr.name)
    return program, [b or f for b, f in zip(which, wanted, strict=True)]


# ---- moving and repeating examples -------------------------------------------------------------------------------


def repeated(x: Any, size: int) -> Any:
    """The same value for every example."""
    shape = aval_of(x).static_shape
    return apply(OPS["broadcast"], [x], {"shape": (size, *shape)})[0]


def moved_axis(x: Any, source: int, target: int) -> Any:
    """An array with one axis somewhere else."""
    if source == target:
        return x
    order = [i for i in range(aval_of(x).rank) if i != source]
    order.insert(target, source)
    return apply(OPS["transpose"], [x], {"permutation": tuple(order)})[0]


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if aval_of(x).shape == shape else apply(OPS["reshape"], [x], {"shape": shape})[0]


def chosen(mask: Any, x: Any, y: Any) -> Any:
    """x for the examples where the mask is true, y for the others."""
    rank = aval_of(x).rank
    return OPS["select"](reshaped(mask, (*aval_of(mask).static_shape, *(1 for _ in range(rank - 1)))), x, y)


def example_shape(x: Any, batched: bool) -> tuple[int, ...]:
    shape = aval_of(x).static_shape
    return shape[1:] if batched else shape


# ---- forms that most rules have ----------------------------------------------------------------------------------


def pointwise(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    """The rule of ops of one element each: operands get the same number of axes after the examples, and broadcast as they do alone."""
    rank = max(len(example_shape(x, b)) for x, b in zip(operands, batched, strict=True))
    lined = []
    for x, b in zip(operands, batched, strict=True):
        shape = example_shape(x, b)
        lined.append(reshaped(x, (size, *(1,) * (rank - len(shape)), *shape)) if b else x)
    outs = apply(op, lined, params)
    return outs, [True] * len(outs)


def with_params(change: Callable[..., dict[str, Any]], *moving: int) -> Callable[..., Batched]:
    """The rule of an op that runs on all examples once its options count axes from one further: `change(rank, **options)`.

    Args:
      moving: operands that always get examples; by default all of them. The others may not have any: then examples run one by one.
    """

    def rule(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
        with_examples = moving or tuple(range(len(operands)))
        if any(b and i not in with_examples for i, b in enumerate(batched)):
            return per_example(op, size, operands, batched, params)
        given = [repeated(x, size) if i in with_examples and not b else x for i, (x, b) in enumerate(zip(operands, batched, strict=True))]
        rank = aval_of(given[with_examples[0]]).rank - 1
        outs = apply(op, given, {**params, **change(rank, size=size, **params)})
        return outs, [True] * len(outs)

    return rule


def axis_option(name: str, *moving: int) -> Callable[..., Batched]:
    """The rule of an op with one option that is an axis or several, counted from 0."""

    def change(rank: int, **params: Any) -> dict[str, Any]:
        value = params[name]
        return {name: tuple(a + 1 for a in value) if isinstance(value, tuple) else value + 1}

    return with_params(change, *moving)


def per_example(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    """The rule of every op that has no better one: a loop over the examples, in one `scan`."""
    avals = [ArrayAval(example_shape(x, b), aval_of(x).dtype) for x, b in zip(operands, batched, strict=True)]
    trace = ClosedTrace(current_trace(), op.name)
    with tracing(trace):
        inputs = [trace.new(a) for a in avals]
        shared = [i for i, b in zip(inputs, batched, strict=True) if not b]
        own = [i for i, b in zip(inputs, batched, strict=True) if b]
        body = trace.closed([*shared, *own], apply(op, inputs, params), op.name)
    args = [x for x, b in zip(operands, batched, strict=True) if not b] + [x for x, b in zip(operands, batched, strict=True) if b]
    outs = apply(OPS["scan"], args, {"body": body, "length": size, "reverse": False, "consts": len(shared), "carries": 0})
    return outs, [True] * len(outs)
