"""Dispatch by context only: the current trace decides what an op call becomes.

There are no levels and no inspection of the data: whoever wants another behaviour sets another trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from pypto import dtypes, numerics
from pypto.core.allocation import explain_memory
from pypto.core.array import Array, ArrayMethods, Operators, to_numpy
from pypto.core.avals import ArrayAval, Aval, ScalarAval, scalar
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.core.op import Op
from pypto.dtypes import DType, dtype_of
from pypto.errors import BodyError, InternalError
from pypto.source import Frame, Source, resolve, user_frame


class Trace:
    """What happens to an op call. `strict` traces do not promote dtypes (kernels); the others do as JAX does."""

    strict = False
    name = ""
    parent: Any = None
    """The trace below: what values of this one are made of belongs to it or to those below it."""
    axes: Sequence[tuple[str, int]] = ()
    """Named axes that functions run under it may use, with their extents, beside those of the traces below."""

    def bind(self, op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """One op call, from the arguments as they were given."""
        operands = self.operands(op, operands)
        if op.prepare is not None:
            operands = op.prepare(op, operands)
        if op.normal is not None:
            params = op.normal(*map(aval_of, operands), **params)
        return self.process(op, operands, params)

    def operands(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments as this trace's values; numbers stay numbers until `Op.prepare` knows their dtype."""
        return args

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        raise NotImplementedError


class EvalTrace(Trace):
    """No tracing: evaluate at once on NumPy and return a concrete `Array`."""

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if op.unit == "control":
            raise BodyError("PL112", f"{op.name} only exists while a kernel is traced", fix="call it inside a @pl.jit kernel")
        for a in args:
            if isinstance(a, Tracer):
                raise ended(a)
        avals = [aval_of(a) for a in args]
        expected = op.abstract_eval(avals, params)
        try:
            result = op.meaning(*(concrete(a, v) for a, v in zip(args, avals, strict=True)), **params)
        except (MemoryError, ValueError) as error:
            explain_memory(error, op.name, expected)
            raise
        results = result if isinstance(result, tuple) else (result,)
        outs = tuple(Array(np.asarray(r), aval.dtype) for r, aval in zip(results, expected, strict=True))
        for out, raw, aval in zip(outs, results, expected, strict=True):
            if out.shape != aval.shape or np.asarray(raw).dtype != aval.dtype.storage:
                found = f"{np.asarray(raw).dtype}{list(out.shape)}"
                raise InternalError("PL901", f"{op.name}: its meaning gave {found}, its abstract rule {aval}")
        return outs[0] if len(outs) == 1 else outs


EVAL = EvalTrace()
_current: ContextVar[Trace] = ContextVar("pypto_trace", default=EVAL)
T = TypeVar("T", bound=Trace)


def current_trace() -> Trace:
    """The trace in force in this context."""
    return _current.get()


@contextmanager
def tracing(trace: T) -> Iterator[T]:
    """Make `trace` the current one for the length of a `with` block."""
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


@dataclass(eq=False)
class Scope:
    """A body under construction. `open` turns False when it is finished: what it made may not be used after that."""

    kind: str
    parent: Scope | None = None
    eqns: list[Eqn] = field(default_factory=list)
    open: bool = True
    where: Frame | Source | None = None


class Tracer(Operators):
    """A value of a trace: what Python code sees while it is traced, differentiated or batched."""

    __slots__ = ("trace",)

    trace: Trace

    @property
    def aval(self) -> Aval:
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The user's name for it, where one is known."""
        return ""

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.aval.shape

    @property
    def ndim(self) -> int:
        return self.aval.rank

    @property
    def dtype(self) -> DType:
        return self.aval.dtype

    def made_at(self) -> Frame | Source | None:
        """Where it was made, as far as that is known."""
        return None

    def __repr__(self) -> str:
        return f"<traced {self.name or 'value'}: {self.aval}>"

    def __bool__(self) -> bool:
        raise self._no("no truth value", "use `if` as a statement of the kernel body, or lax.select; in array programs lax.cond")

    def __int__(self) -> int:
        raise self._no("no integer value", "keep it as a traced scalar; shapes and Python code need constants")

    def __index__(self) -> int:
        return self.__int__()

    def __float__(self) -> float:
        raise self._no("no number yet", "keep it as a traced value")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        if not isinstance(self.shape[0], int):
            raise self._no("no length that is known while it is traced", "pl.tensor.dim(x, 0) is its extent as a scalar")
        return self.shape[0]

    def __iter__(self) -> Any:
        """Along the first axis of a whole array, as JAX; in kernels that would be a loop in disguise."""
        if type(self.aval) is not ArrayAval or not self.shape:
            raise self._no("no elements to iterate over while it is traced", "index it, or loop with pl.range")
        return iter([self[i] for i in range(len(self))])

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise self._no("no data while it is traced", "use pypto.lax or pl operations on it, not NumPy's")

    def _no(self, what: str, fix: str) -> BodyError:
        name = f"`{self.name}`" if self.name else "a traced value"
        return BodyError("PL106", f"{name} ({self.aval}) has {what}", fix=fix)


class VarTracer(Tracer):
    """A value of a program under construction: stands for the variable `var` made in `scope`."""

    __slots__ = ("scope", "var")

    def __init__(self, trace: JaxprTrace, var: Var, scope: Scope) -> None:
        self.trace, self.var, self.scope = trace, var, scope

    @property
    def aval(self) -> Aval:
        return self.var.aval

    @property
    def name(self) -> str:
        return self.var.name

    def made_at(self) -> Frame | Source | None:
        return next((e.source for e in self.scope.eqns if self.var in e.outs), self.scope.where)


class ArrayTracer(ArrayMethods, VarTracer):
    """A whole array of a program under construction."""

    __slots__ = ()


class JaxprTrace(Trace):
    """Builds a jaxpr: every op call becomes an equation of the innermost open scope."""

    tracer: Callable[[JaxprTrace, Var, Scope], Any] = ArrayTracer

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.scope = Scope("body", where=user_frame())

    def close(self) -> None:
        """What this trace made may not be used any more."""
        self.scope.open = False

    def wrap(self, var: Var) -> Any:
        """The tracer for a variable of the current scope."""
        return self.tracer(self, var, self.scope)

    def new(self, aval: Aval, name: str = "") -> Any:
        """A fresh input of the current scope."""
        return self.wrap(Var(aval, name))

    @contextmanager
    def inside(self, kind: str) -> Iterator[Scope]:
        """Trace into a nested body for the length of a `with` block."""
        self.scope = scope = Scope(kind, self.scope, where=user_frame())
        try:
            yield scope
        finally:
            scope.open = False
            assert scope.parent is not None
            self.scope = scope.parent

    def atom(self, x: Any) -> Atom:
        """The operand of an equation for a value: its variable, or a literal."""
        if isinstance(x, VarTracer) and x.trace is self:
            if not x.scope.open:
                raise leaked(x)
            return x.var
        if isinstance(x, Tracer):
            return self.foreign(x)
        if isinstance(x, Literal):
            return x
        aval = aval_of(x)
        return Literal(_frozen(concrete(x, aval), x), aval)

    def foreign(self, x: Tracer) -> Atom:
        """The operand for a value of another trace: an error here, an input of the program where a trace closes over it."""
        raise ended(x)

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        outs = self.emit(op, [self.atom(a) for a in args], params)
        return tuple(map(self.wrap, outs)) if len(outs) != 1 else self.wrap(outs[0])

    def emit(self, op: Op, ins: Sequence[Atom], params: dict[str, Any], avals: Sequence[Aval] | None = None) -> tuple[Var, ...]:
        """Append an equation; its results' abstract values come from the op unless given."""
        results = op.abstract_eval([a.aval for a in ins], params) if avals is None else avals
        if not self.strict:  # outside kernels a number that was computed with is an array without axes, as it is when run at once
            results = [ArrayAval((), a.dtype) if isinstance(a, ScalarAval) else a for a in results]
        outs = tuple(Var(a) for a in results)
        self.scope.eqns.append(Eqn(op, tuple(ins), outs, params, user_frame()))
        return outs

    def finish(self, invars: Sequence[Any], outs: Sequence[Any], name: str = "") -> Jaxpr:
        """The jaxpr of everything traced so far in the current scope."""
        return Jaxpr(tuple(t.var for t in invars), tuple(self.scope.eqns), tuple(self.atom(o) for o in outs), name)


def _frozen(data: np.ndarray, origin: Any) -> Any:
    """Data as a constant of a program: a scalar, or an array that later changes of its origin do not reach."""
    if not data.ndim:
        return data[()]
    if not isinstance(origin, Array):
        data = data.copy()
        data.flags.writeable = False
    return data


def ended(x: Tracer) -> BodyError:
    """The error for a value used where its trace is not the current one: it leaked out of the function that was traced."""
    fn = f" of `{x.trace.name}`" if x.trace.name else ""
    place = resolve(x.made_at())
    line = f", made at {place}: {place.text.strip()}" if place is not None else ""
    return BodyError(
        "PL110",
        f"{x!r} belongs to a trace{fn} that has ended{line}",
        fix="return it from that function, or pass it in as an argument: a list, global or attribute cannot carry it out",
    )


_LEFT = {
    "loop": "a loop body is traced once, not run: a Python list cannot collect one value per iteration",
    "cond": "a branch ends with its arm",
    "region": "a region ends with its `with` block",
}


def leaked(x: VarTracer) -> BodyError:
    """The error for a value used after the body that made it has ended."""
    if x.scope.kind == "body":
        return ended(x)
    name = f"`{x.var.name}`" if x.var.name else f"a value ({x.aval})"
    fix = "assign it to a name, write it into a tensor, or use pl.unroll to repeat the body at compile time"
    if x.aval.dtype is dtypes.TASK_ID:
        fix = "tids = pl.array.create(n, pl.TASK_ID) before the loop, `tids[i] = tid` in it, and deps=[tids]"
    return BodyError(
        "PL110",
        f"{name} was made inside a {x.scope.kind} that has ended; {_LEFT.get(x.scope.kind, 'its trace is over')}",
        fix=fix,
    )


def aval_of(x: Any) -> Aval:
    """The abstract value of anything an op may be given."""
    if isinstance(x, Tracer | Array | Literal):
        return x.aval
    if isinstance(getattr(x, "aval", None), Aval):  # what stands for an operand where a rule is asked about it
        return x.aval
    if isinstance(x, bool | np.bool_):
        return scalar(dtypes.BOOL, weak=True)
    if isinstance(x, int):
        return scalar(dtypes.INT32 if -(2**31) <= x < 2**31 else dtypes.INT64, weak=True)
    if isinstance(x, float):
        return scalar(dtypes.FP32, weak=True)
    raw = to_numpy(x)
    return ArrayAval(raw.shape, dtype_of(raw.dtype))


def concrete(x: Any, aval: Aval) -> np.ndarray:
    """The NumPy value of a concrete operand, in the storage dtype of its abstract value."""
    if isinstance(x, Literal):
        x = x.value
    if isinstance(x, bool | int | float) and isinstance(aval, ScalarAval):
        return np.asarray(numerics.round_literal(x, aval.dtype))
    return np.asarray(to_numpy(x), dtype=aval.dtype.storage)
