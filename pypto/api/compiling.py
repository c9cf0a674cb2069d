"""`jit`: a function traced once per shapes, dtypes and static values, and run as one program."""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from pypto import config, tree
from pypto.api.flat import NUMBERS, Flattened, called, name_of, signature_of, static_positions
from pypto.api.inspecting import ShapeDtypeStruct
from pypto.core.array import Array, to_numpy
from pypto.core.avals import ArrayAval, Aval, ScalarAval
from pypto.core.ir import Jaxpr
from pypto.core.reports import CacheReport, Retrace
from pypto.core.trace import EVAL, Tracer, aval_of, current_trace, ended, tracing
from pypto.errors import CallError
from pypto.interpreters.batching import named_axes
from pypto.interpreters.partial_eval import ClosedTrace, pruned, replay
from pypto.platform import Platform, platform_of
from pypto.stages import Lowered, Traced, results

MOST = 256
"""How many programs one function keeps; the one not used for longest goes first."""


@dataclass(frozen=True)
class _Program:
    jaxpr: Jaxpr
    outputs: tree.Structure
    captured: tuple[Tracer, ...]


@dataclass(frozen=True)
class _Key:
    """What a program depends on: the tree of arguments, the type of each leaf, and what else the function can see.

    That is static values, the defaults of parameters, what it reads outside, the platform, whose figures a kernel's body may ask for,
    and the named axes around it.
    """

    inputs: tree.Structure
    leaves: tuple[Hashable, ...]
    static: tuple[tuple[str, Hashable], ...]
    defaults: tuple[tuple[str, Hashable], ...]
    outside: Hashable
    platform: Platform
    axes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class _Call:
    flat: Flattened
    key: _Key
    avals: list[Aval | None]  # None for a number that is part of the program
    donated: list[bool]


class Jitted:
    """A function that runs as a program. It is called like the function and gives the same bits."""

    def __init__(self, fun: Callable[..., Any], static: frozenset[int | str], donated: frozenset[int | str]) -> None:
        self.fun = fun
        self.static, self.donated = _both_ways(fun, static), _both_ways(fun, donated)
        for c in self.static & self.donated:
            what = called(fun, c) if isinstance(c, int) else f"`{c}`"
            raise CallError("PL601", f"{what} of `{name_of(fun)}` is static and given away", fix="one or the other")
        from pypto import captures  # what it needs to know of Python's files takes a while to find out

        self._captures: Any = captures
        self._guard = captures.Guard(fun) if isinstance(fun, FunctionType) else None
        self._arrays: dict[int, tuple[Any, int]] = {}
        self._programs: OrderedDict[_Key, _Program] = OrderedDict()
        self._history: list[tuple[str, ...]] = []
        functools.update_wrapper(self, fun, updated=())

    def __repr__(self) -> str:
        return f"<pypto.jit {name_of(self.fun)}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._prepare(args, kwargs)
        program = self._program(call)
        leaves = [x for x, a in zip(call.flat.leaves, call.avals, strict=True) if a is not None]
        if current_trace() is not EVAL:  # part of a larger program, which holds its equations
            return tree.unflatten(program.outputs, replay(program.jaxpr, [*program.captured, *leaves]))
        for x in leaves:
            if isinstance(x, Tracer):
                raise ended(x)
        inputs = program.jaxpr.invars
        arrays = [np.asarray(to_numpy(x), v.aval.dtype.storage) for x, v in zip(leaves, inputs, strict=True)]
        for x, given in zip(call.flat.leaves, call.donated, strict=True):
            if given and isinstance(x, Array):
                x.delete()
        call.flat.leaves.clear()
        del leaves, args, kwargs
        return tree.unflatten(program.outputs, results(program.jaxpr, arrays))

    # ---- programs ----

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        static = [self._is(self.static, i, len(args)) for i in range(len(args))]
        named = {k: v for k, v in kwargs.items() if k in self.static}
        fixed = [(called(self.fun, i), a) for i, (a, s) in enumerate(zip(args, static, strict=True)) if s]
        fixed += [(f"`{k}`", v) for k, v in sorted(named.items())]
        freezer = self._captures.Freezer(self._arrays, self._captures.function_reads)
        keys = tuple((what, self._static_key(what, value, freezer)) for what, value in fixed)
        fun = functools.partial(self.fun, **named) if named else self.fun
        moving = {k: v for k, v in kwargs.items() if k not in named}
        flat = Flattened(fun, args, moving, lambda i: static[i])
        avals = [_type_of(x) for x in flat.leaves]
        leaves = tuple(_leaf_key(x, a) for x, a in zip(flat.leaves, avals, strict=True))
        outside = self._guard.snapshot() if self._guard is not None else freezer.key(self.fun)
        donated = self._given_away(args, static, moving) if self.donated else [False] * len(flat.leaves)
        defaults = tuple((name, freezer.key(value)) for name, value in _defaults(self.fun))
        axes = () if current_trace() is EVAL else tuple(named_axes(current_trace()).items())
        key = _Key(flat.inputs, leaves, keys, defaults, outside, platform_of(config.current().platform), axes)
        return _Call(flat, key, avals, donated)

    def _given_away(self, args: Sequence[Any], static: Sequence[bool], moving: dict[str, Any]) -> list[bool]:
        """Of each leaf, whether its array is given away."""
        owned = [self._is(self.donated, i, len(args)) for i in range(len(args)) if not static[i]]
        dynamic = [a for a, s in zip(args, static, strict=True) if not s]
        donated = [d for d, a in zip(owned, dynamic, strict=True) for _ in tree.flatten(a)[0]]
        return donated + [k in self.donated for k in sorted(moving) for _ in tree.flatten(moving[k])[0]]

    @staticmethod
    def _is(chosen: frozenset[int | str], i: int, count: int) -> bool:
        return i in chosen or i - count in chosen

    def _static_key(self, what: str, value: Any, freezer: Any) -> Hashable:
        """A static value by what it holds: an object that changed is another one.

        Errors:
          PL620 for one that cannot be hashed, or holds values of a trace.
        """
        if isinstance(value, Tracer):
            raise CallError("PL620", f"{what} of `{name_of(self.fun)}` is static and {value!r} is traced", fix="do not make it static")
        try:
            hash(value)
        except TypeError:
            raise CallError(
                "PL620",
                f"{what} of `{name_of(self.fun)}` is static and a {type(value).__name__}, which changes and cannot be hashed: {value!r}",
                fix="a tuple or a frozen dataclass; or do not make it static",
            ) from None
        return freezer.key(value)

    def _program(self, call: _Call) -> _Program:
        known = self._programs.get(call.key)
        if known is not None:
            self._programs.move_to_end(call.key)
            return known
        self._history.append(self._why(call))
        program = self._trace(call)
        if not program.captured:  # values of traces around it belong to this call only
            self._programs[call.key] = program
            if len(self._programs) > MOST:
                self._programs.popitem(last=False)
        return program

    def _trace(self, call: _Call) -> _Program:
        name = name_of(self.fun)
        trace = ClosedTrace(current_trace(), name)
        with tracing(trace):
            inputs = [None if a is None else trace.new(a) for a in call.avals]
            outs = call.flat(*(x if i is None else i for x, i in zip(call.flat.leaves, inputs, strict=True)))
            jaxpr = trace.open_program([i for i in inputs if i is not None], outs, name)
        return _Program(pruned(jaxpr), call.flat.structure, tuple(trace.captured))

    # ---- looking at it ----

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The program for arguments of these types; `ShapeDtypeStruct` stands for an array."""
        call = self._prepare(args, kwargs)
        program = self._program(call)
        if any(a is None for a in call.avals):
            raise CallError("PL602", f"`{name_of(self.fun)}` is traced on a number that FP32 does not hold", fix="give an array")
        return Traced(program.jaxpr, call.flat.inputs, program.outputs, lambda a: ShapeDtypeStruct(a.static_shape, a.dtype))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """`trace(...).lower()`."""
        return self.trace(*args, **kwargs).lower()

    def clear_cache(self) -> None:
        """Forget all programs."""
        self._programs.clear()
        self._history.clear()

    def cache_size(self) -> int:
        """How many programs are kept."""
        return len(self._programs)

    def cache_report(self) -> CacheReport:
        """What `pypto.explain_cache` gives."""
        return CacheReport(name_of(self.fun), tuple(map(Retrace, self._history)))

    def explain(self) -> str:
        """Why each program was traced: the first time, or what was different from the one before that is most like it."""
        first = f"`{name_of(self.fun)}` is called for the first time"
        return "\n".join(f"{i}. {'; '.join(why) or first}" for i, why in enumerate(self._history, 1))

    def _why(self, call: _Call) -> tuple[str, ...]:
        """What is new about a call: against the program that is most like it; nothing if it is the first."""
        return min((tuple(self._differences(old, call)) for old in self._programs), key=len, default=())

    def _differences(self, old: _Key, call: _Call) -> list[str]:
        new = call.key
        if old.inputs != new.inputs:
            return [f"the arguments are {new.inputs}, they were {old.inputs}"]
        found = [
            f"leaf {i} of the arguments is {_show(b)}, it was {_show(a)}"
            for i, (a, b) in enumerate(zip(old.leaves, new.leaves, strict=True))
            if a != b
        ]
        if [k for k, _ in old.static] != [k for k, _ in new.static]:
            found.append("other arguments are static")
        else:
            found += [
                self._captures.difference(k.strip("`"), a, b) for (k, a), (_, b) in zip(old.static, new.static, strict=True) if a != b
            ]
        if [k for k, _ in old.defaults] != [k for k, _ in new.defaults]:
            found.append("other parameters have defaults")
        else:
            found += [self._captures.difference(k, a, b) for (k, a), (_, b) in zip(old.defaults, new.defaults, strict=True) if a != b]
        if old.platform is not new.platform:
            found.append(f"the platform is {new.platform.name}, was {old.platform.name}")
        if old.axes != new.axes:
            found.append(f"the named axes are {dict(new.axes)}, were {dict(old.axes)}")
        if old.outside != new.outside:
            found.append(self._read_outside(old.outside, new.outside))
        return found

    def _read_outside(self, old: Any, new: Any) -> str:
        if self._guard is not None:
            return self._guard.explain(old, new) or "what it reads from outside changed"
        return self._captures.difference(name_of(self.fun), old, new)


def _both_ways(fun: Any, chosen: frozenset[int | str]) -> frozenset[int | str]:
    """Positions and names that mean the same parameters: each may be passed either way."""
    signature = signature_of(fun)
    if signature is None:
        return chosen
    kinds = signature.parameters.values()
    named = [p.name for p in kinds if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found = set(chosen)
    for i, name in enumerate(named):
        if name in chosen or i in chosen or i - len(named) in chosen:
            found |= {i, name}
    for c in chosen:
        if isinstance(c, int) and not -len(named) <= c < len(named) and not any(p.kind is p.VAR_POSITIONAL for p in kinds):
            raise CallError("PL601", f"`{name_of(fun)}` has no positional parameter {c}", fix=f"it has {len(named)} of them")
        if isinstance(c, str) and c not in signature.parameters and not any(p.kind is p.VAR_KEYWORD for p in kinds):
            raise CallError("PL601", f"`{name_of(fun)}` has no parameter `{c}`", fix=f"one of {', '.join(signature.parameters)}")
    return frozenset(c for c in found if not (isinstance(c, int) and c < 0 and c + len(named) in found))


def _defaults(fun: Any) -> list[tuple[str, Any]]:
    """The defaults a function has now, by parameter. What other callables are made of is in the key of the callable."""
    if not isinstance(fun, FunctionType):
        return []
    given = fun.__defaults__ or ()
    code = fun.__code__
    named = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    return [*zip(named, given, strict=True), *(fun.__kwdefaults__ or {}).items()]


def _type_of(x: Any) -> Aval | None:
    """The type of an argument; None for a number that FP32 does not hold, which is part of the program as it is.

    Rounded to FP32 first, it would have other bits in BF16 than the number itself has.
    """
    if isinstance(x, ShapeDtypeStruct):
        return ArrayAval(x.shape, x.dtype)
    aval = aval_of(x)
    if isinstance(x, float) and math.isfinite(x) and not _held(x):
        return None
    return aval if isinstance(aval, ScalarAval) and isinstance(x, NUMBERS) else ArrayAval(aval.shape, aval.dtype)


def _held(x: float) -> bool:
    """Whether FP32 holds a number as it is."""
    with np.errstate(over="ignore"):
        return float(np.float32(x)) == x


def _leaf_key(x: Any, aval: Aval | None) -> Hashable:
    return ("number", float(x).hex()) if aval is None else aval


def _show(key: Any) -> str:
    return f"the number {float.fromhex(key[1])!r}" if isinstance(key, tuple) else str(key)


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
) -> Any:
    """Trace a function once and run it as a program from then on, as `jax.jit`. The results have the bits they have without it.

    Args:
      static_argnums, static_argnames: arguments that are Python values of the program: another value is another program. They are told
        apart by what they hold.
      donate_argnums, donate_argnames: arguments that are given away: their arrays cannot be used after the call, and their memory is
        free as soon as the program has used it for the last time.
    Returns:
      A `Jitted`: call it, look at `.trace(...)`, `.lower(...)`, and ask `.explain()` why it was traced.
    Notes:
      Python values that the function reads from outside are part of the key, so that changing one traces again. A Python number is
      an FP32 or INT32 value of the program that still takes the dtype of what it meets; one that FP32 does not hold is a constant.
    Errors:
      PL620 for a static argument that cannot be hashed, PL601 for an argument that is no array, PL621 for a use of a donated array.

    >>> from pypto import lax
    >>> f = jit(lambda x, n: x * n, static_argnums=1)
    >>> f(3.0, 2)
    Array(6., dtype=FP32)
    """
    if fun is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
        )
    if not callable(fun):
        raise CallError("PL601", f"jit of a {type(fun).__name__}", fix="give a function")
    return Jitted(fun, _chosen(static_argnums, static_argnames), _chosen(donate_argnums, donate_argnames))


def _chosen(positions: int | Sequence[int] | None, names: str | Sequence[str] | None) -> frozenset[int | str]:
    named = () if names is None else tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (names,)
    for name in named:
        if not isinstance(name, str):
            raise CallError("PL601", f"{name!r} is no name of a parameter", fix="a string")
    return frozenset([*static_positions(positions), *named])
