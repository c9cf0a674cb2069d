"""`@pl.jit`, `@pl.jit.inline`, `@pl.jit.incore`: functions that are kernels."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any

from pypto import config
from pypto.captures import Guard, captures
from pypto.core.avals import RefAval, ScalarAval, show_shape
from pypto.core.index import Dim
from pypto.core.ir import Jaxpr, Literal, rename
from pypto.core.trace import EVAL, VarTracer, current_trace, tracing
from pypto.errors import BodyError, CallError, OutputError, ShapeError
from pypto.interpreters.reference import Machine
from pypto.language import access, calls, samples
from pypto.language.calls import OMITTED, Call, Parameter, Signature
from pypto.language.eager import EagerRuntime, EagerTrace
from pypto.language.front import Front, configured
from pypto.language.launching import MISS, Launches
from pypto.language.rewrite import Staged, rewrite
from pypto.language.scopes import At, Level
from pypto.language.staging import StagingRuntime
from pypto.language.trace import PlTrace
from pypto.language.types import TensorType, annotation_of
from pypto.language.values import RefValue, TileValue, Unset, Value
from pypto.platform import platform_of
from pypto.source import Frame, user_locals, user_source
from pypto.tile import Program, lower_program
from pypto.tile.outputs import check_outputs

_DEEPEST = 50
"""How many calls of kernels may stand inside one another."""


class NoResult(Unset):
    """What calling a function that returns nothing gives; using it is the error."""

    def error(self) -> BodyError:
        raise OutputError(
            "PL209",
            f"`{self.name}` returns nothing, but its result is used",
            fix=f"add a `return` to `{self.name}`, or call it as a statement",
        )


class Kernel(Front):
    """A decorated function. Calling it runs it; inside another kernel's body it becomes part of that kernel.

    Attributes:
      kind: jit (an entry), inline (spliced into its caller) or incore (one region).
    """

    def __init__(self, fn: FunctionType, kind: str, undeclared_writes: str | None = None) -> None:
        if undeclared_writes not in (None, "device"):
            raise CallError("PL606", f"undeclared_writes={undeclared_writes!r}", fix='"device", or leave it out')
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.kind = kind
        self.undeclared_writes = undeclared_writes
        self.staged: Staged = rewrite(fn)
        body: Any = self.staged.function  # not a method, whatever a type checker makes of a function in an attribute
        self.guard: Guard = captures(body)
        self._signature: Signature | None = None
        self._named = _named_in_strings(fn)
        self._programs: dict[Any, Program] = {}
        self._launches = Launches(self.guard)
        self._device_writes: set[str] = set()

    def __repr__(self) -> str:
        return f"<pl.jit{'' if self.kind == 'jit' else '.' + self.kind} {self.fn.__name__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __pypto_watch__(self) -> Callable[[], bool]:
        return self.guard.watch()

    def __pypto_guard__(self) -> Any:
        return (self.kind, self.guard.snapshot())

    @property
    def signature(self) -> Signature:
        """The parameters; annotations are evaluated at first use, strings where the function was defined."""
        if self._signature is None:
            closure = inspect.getclosurevars(self.fn).nonlocals
            notes = inspect.get_annotations(self.fn)
            parameters = []
            for name, p in inspect.signature(self.fn).parameters.items():
                note = notes.get(name)
                if isinstance(note, str):
                    note = self._evaluated(name, note, {**self.fn.__globals__, **self._named, **closure})
                parameters.append(Parameter(name, annotation_of(note), p.default, p.kind is p.KEYWORD_ONLY))
            self._signature = Signature(self.fn.__name__, tuple(parameters), self.staged.source)
        return self._signature

    def _evaluated(self, name: str, note: str, names: dict[str, Any]) -> Any:
        try:
            return eval(note, names)
        except Exception as error:  # whatever the user's expression raises
            raise CallError(
                "PL602",
                f"the annotation of `{name}`, {note}, cannot be evaluated: {error}",
                fix="make every name in it known where the kernel is defined",
                at=self.staged.source,
            ) from error

    # ---- calling ----

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._launches.known and not kwargs and (result := self._launches(args)) is not MISS:
            return result
        if "config" in kwargs and not self.signature.has("config"):
            return configured(self, args, kwargs)
        trace = current_trace()
        if isinstance(trace, PlTrace):
            return self._inside(trace, args, kwargs)
        if trace is not EVAL:
            raise BodyError(
                "PL112",
                f"`{self.fn.__name__}` called under {type(trace).__name__}",
                fix="kernels inside array programs come with the transformations",
            )
        if self.kind == "inline":
            raise BodyError(
                "PL112", f"`{self.fn.__name__}` is inline: it is only part of other kernels", fix="call it from a @pl.jit kernel"
            )
        call = self._bind(args, kwargs)
        program = self._program(call)
        return self._run(program, call)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return calls.prepare(self.signature, self.signature.bind(args, kwargs), self.guard.key)

    def _run(self, program: Program, call: Call) -> Any:
        chosen = config.current()
        if chosen.executor == "cpu" and not chosen.check:
            compiled = program.compiled
            if compiled.executor == "cpu":
                return self._run_compiled(program, compiled, call)
        values = self._values(call, check=chosen.check)
        Machine(program.bodies, check=chosen.check).run(program.orchestration, values)
        return calls.write_back(self.signature, call, values)

    def _run_compiled(self, program: Program, compiled: Any, call: Call) -> Any:
        def again() -> None:
            Machine(program.bodies, check=False).run(program.orchestration, self._values(call, check=False))

        values = calls.to_compiled_values(
            call, compiled.parameters, may_fail=compiled.may_fail, undeclared_writes=self.undeclared_writes is not None
        )
        compiled.run(values, again, threads=config.current().threads or 0)
        if self.undeclared_writes is None:
            self._launches.remember(compiled, call)
        return calls.write_back(self.signature, call, values)

    def _values(self, call: Call, *, check: bool) -> list[Any]:
        return calls.to_values(call, check=check, undeclared_writes=self.undeclared_writes is not None)

    def _program(self, call: Call) -> Program:
        key = (call.key, self.guard.snapshot(), platform_of(config.current().platform))
        program = self._programs.get(key)
        if program is None:
            avals = [a.aval if a.aval is not None else a.static for a in call.arguments]
            program = self._programs[key] = self._lower(avals)
        return program

    def _lower(self, avals: list[Any]) -> Program:
        return lower_program(self.traced(avals), platform=config.current().platform)

    # ---- inspection ----

    def trace(self, *args: Any, **kwargs: Any) -> Jaxpr:
        """The body as a jaxpr at the ref level. Without arguments, the annotations give shapes and dtypes."""
        return self.traced(self._avals(args, kwargs))

    def lower(self, *args: Any, **kwargs: Any) -> Program:
        """The tile program: in-core kernels and the orchestration that launches them. `print` shows it."""
        if "config" in kwargs and not self.signature.has("config"):
            return configured(self.lower, args, kwargs)
        return self._lower(self._avals(args, kwargs))

    def _avals(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        return samples.avals(self.signature, samples.named(self.signature, args, kwargs))

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """Run the same body at once, statement by statement: prints show numbers and a debugger can step through it."""
        call = self._bind(args, kwargs)
        machine = Machine(check=config.current().check)
        trace = EagerTrace(machine, in_core=self.kind == "incore", undeclared_writes=self.undeclared_writes is not None)
        values = calls.to_values(call, check=machine.check, undeclared_writes=trace.undeclared_writes)
        with tracing(trace):
            inputs = self._inputs(trace, [a.aval if a.aval is not None else a.static for a in call.arguments])
            traced = [t for t in inputs if isinstance(t, Value)]
            machine.env.update({t.var: v for t, v in zip(traced, values, strict=True)})
            self._execute(EagerRuntime(trace, self._outputs(inputs)), inputs)
        self.report_device_writes(self.fn.__name__, trace.device_writes, None)
        return calls.write_back(self.signature, call, values)

    # ---- tracing ----

    def traced(self, avals: list[Any], device_writes: Collection[str] | None = ()) -> Jaxpr:
        """The body for these abstract values (and plain Python values); `device_writes` names parameters that are on a device."""
        device_writes = None if self.undeclared_writes is not None else device_writes
        trace = PlTrace(in_core=False, undeclared_writes=device_writes is None or bool(device_writes))
        with tracing(trace):
            inputs = self._inputs(trace, avals)
            runtime = StagingRuntime(trace, self._outputs(inputs))
            if self.kind == "incore":
                trace.in_core_function = True
                runtime.with_(At(Level.CORE_GROUP, self.fn.__name__), lambda: (self._execute(runtime, inputs), ())[1], None, (), (), ())
            else:
                self._execute(runtime, inputs)
        traced = [t for t in inputs if isinstance(t, Value)]
        jaxpr = Jaxpr(tuple(t.var for t in traced), tuple(trace.scope.eqns), (), self.fn.__name__)
        if trace.aliases:
            jaxpr = rename(jaxpr, {v: _final(trace, v) for v in trace.aliases})
        found = check_outputs(jaxpr, self.staged.source, undeclared_writes=trace.undeclared_writes)
        self.report_device_writes(self.fn.__name__, found, device_writes)
        return jaxpr

    def _inputs(self, trace: PlTrace, avals: list[Any]) -> list[Any]:
        inputs: list[Any] = []
        for p, aval in zip(self.signature.parameters, avals, strict=True):
            if not isinstance(aval, RefAval | ScalarAval):
                inputs.append(aval)
                continue
            value = trace.new(aval, p.name)
            inputs.append(value)
            if isinstance(p.type, TensorType) and p.type.shape is not None:
                for axis, d in enumerate(p.type.shape):
                    if not isinstance(d, int):
                        trace.symbols.setdefault(d, (value, axis))
        return inputs

    def _outputs(self, inputs: list[Any]) -> dict[str, RefValue]:
        return {p.name: v for p, v in zip(self.signature.parameters, inputs, strict=True) if p.is_output and isinstance(v, RefValue)}

    def _execute(self, runtime: StagingRuntime, inputs: list[Any]) -> Any:
        named = [(p.name, v) for p, v in zip(self.signature.parameters, inputs, strict=True) if p.by_name]
        try:
            return self.staged.function(runtime, *inputs[: len(inputs) - len(named)], **dict(named))
        except NameError as error:
            raise self._unset(error) from None

    def _unset(self, error: NameError) -> Exception:
        """An unset local of the body is our error; any other NameError is the user's."""
        name = error.name or ""
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        local = frame is not None and (
            name in frame.tb_frame.f_code.co_varnames + frame.tb_frame.f_code.co_cellvars + frame.tb_frame.f_code.co_freevars
        )
        if not local or frame is None:
            return error
        place = Frame(frame.tb_frame.f_code, frame.tb_lasti).resolve()
        return BodyError("PL111", f"`{name}` is used before it has a value", fix=f"give `{name}` a value first, on every path", at=place)

    def _inside(self, trace: PlTrace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called in another kernel's body: spliced there; an in-core function opens a region of its own."""
        if trace.depth == _DEEPEST:
            raise BodyError(
                "PL112",
                f"`{self.fn.__name__}` is call {_DEEPEST + 1} inside another: bodies are spliced into their callers, which never ends here",
                fix="a function may only call itself under a condition that Python decides: a static argument that reaches its end",
            )
        values = self.signature.bind(args, kwargs)
        for p, v in zip(self.signature.parameters, values, strict=True):
            if v is OMITTED:
                raise CallError(
                    "PL601",
                    f"{self.fn.__name__}() misses `{p.name}`",
                    fix="inside a kernel every output is passed: pl.create_tensor(...) makes one",
                )
            if isinstance(v, Unset):
                raise v.error()
            self._check_parameter(p, v)
        runtime_type = EagerRuntime if trace.concrete else StagingRuntime
        runtime = runtime_type(trace, self._outputs(values))
        trace.depth += 1
        try:
            if self.kind == "incore":
                trace.block_reads += 1
                if not trace.in_region:
                    return self._region(trace, runtime, values)
            result = self._execute(runtime, values)
        finally:
            trace.depth -= 1
        return NoResult(self.fn.__name__) if result is None else result

    def _region(self, trace: PlTrace, runtime: StagingRuntime, values: list[Any]) -> Any:
        before, trace.in_core_function = trace.in_core_function, True
        try:
            (result,) = runtime.with_(
                At(Level.CORE_GROUP, self.fn.__name__), lambda: (self._execute(runtime, values),), None, ("result",), (), ()
            )
        finally:
            trace.in_core_function = before
        return NoResult(self.fn.__name__) if result is None else result

    def _check_parameter(self, p: Parameter, v: Any) -> None:
        if isinstance(p.type, TensorType) and isinstance(v, RefValue | TileValue):
            dims, dtype = p.type.dims, p.type.dtype
            if dtype is not None and v.dtype is not dtype:
                raise ShapeError(
                    "PL302", f"`{p.name}` of {self.fn.__name__}() is declared {dtype.name}, got {v.aval}", fix="pass a tensor of that dtype"
                )
            if dims is not None and _differ(dims, v.shape):
                raise ShapeError(
                    "PL301",
                    f"`{p.name}` of {self.fn.__name__}() is declared [{show_shape(dims)}], got [{show_shape(v.shape)}]",
                    fix="slice or reshape it",
                )
            if p.is_output and isinstance(v, RefValue):
                access.check_direction(self._trace_of(v), v)

    @staticmethod
    def _trace_of(v: VarTracer) -> PlTrace:
        assert isinstance(v.trace, PlTrace)
        return v.trace


def _differ(declared: tuple[Dim, ...], given: tuple[Dim, ...]) -> bool:
    """Whether a shape is not the declared one; an inline's symbols stand for whatever extents it is given."""
    known = [(a, b) for a, b in zip(declared, given, strict=False) if isinstance(a, int) and isinstance(b, int)]
    return len(declared) != len(given) or any(a != b for a, b in known)


def _final(trace: PlTrace, var: Any) -> Any:
    target: Any = trace.aliases[var]
    while not isinstance(target, Literal) and target in trace.aliases:
        target = trace.aliases[target]
    return target


class _Jit:
    """The decorator family. `@pl.jit` and `@pl.jit(undeclared_writes="device")` make entries."""

    def __call__(self, fn: Callable[..., Any] | None = None, *, undeclared_writes: str | None = None) -> Any:
        """Make a kernel entry: what a caller runs."""
        return self._decorate(fn, "jit", undeclared_writes)

    def inline(self, fn: Callable[..., Any] | None = None) -> Any:
        """Make a part of other kernels, spliced into each caller."""
        return self._decorate(fn, "inline", None)

    def incore(self, fn: Callable[..., Any] | None = None) -> Any:
        """Make one in-core region, called from orchestration or run on its own."""
        return self._decorate(fn, "incore", None)

    @staticmethod
    def _decorate(fn: Any, kind: str, undeclared: str | None) -> Any:
        if fn is None:
            return lambda f: Kernel(_function(f), kind, undeclared)
        return Kernel(_function(fn), kind, undeclared)


def _named_in_strings(fn: FunctionType) -> dict[str, Any]:
    """The local variables around `fn` that its string annotations name: Python does not close over those."""
    words = {w for note in fn.__annotations__.values() if isinstance(note, str) for w in re.findall(r"\w+", note)}
    return {name: value for name, value in user_locals().items() if name in words} if words else {}


def _function(fn: Any) -> FunctionType:
    if not isinstance(fn, FunctionType):
        raise BodyError("PL109", f"{fn!r} is not a Python function", fix="decorate a `def`", at=user_source())
    return fn


jit = _Jit()
