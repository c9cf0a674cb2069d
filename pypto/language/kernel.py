"""Functions that are kernels: called from Python they run, called in another kernel's body they become part of it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any

from pypto import config
from pypto.captures.guard import Guard, captures
from pypto.core.avals import RefAval, ScalarAval
from pypto.core.ir import Jaxpr, Literal, rename
from pypto.core.reports import CacheReport
from pypto.core.trace import EVAL, current_trace, tracing
from pypto.errors import BodyError, CallError, PyptoDeprecationWarning, PyptoError, warn
from pypto.interpreters.reference import Machine
from pypto.interpreters.ties import TieCounter
from pypto.language import calls, passing, samples
from pypto.language.calls import Call, Parameter, Signature
from pypto.language.declaration import Declaration
from pypto.language.eager import EagerRuntime, EagerTrace
from pypto.language.explaining import explain, report
from pypto.language.front import FRONT, Front, configured
from pypto.language.functional import KernelLaunch, call_in_program
from pypto.language.launching import MISS, Launches
from pypto.language.misspelled import warn_misspelled
from pypto.language.recovery import reporting
from pypto.language.repeats import Repeats
from pypto.language.rewrite import Staged, rewrite
from pypto.language.scopes import At, Level
from pypto.language.splicing import splice
from pypto.language.staging import StagingRuntime
from pypto.language.trace import PlTrace
from pypto.language.types import Annotation, TensorType, TupleType, annotation_of
from pypto.language.values import RefValue, Value
from pypto.language.viewing import viewed
from pypto.noted import collecting, note
from pypto.platform import platform_of
from pypto.source import Frame, Source, user_locals
from pypto.tile import Program, lower_program
from pypto.tile.origins import with_origins
from pypto.tile.outputs import check_outputs


class Kernel(Front):
    """A decorated function. Calling it runs it; inside another kernel's body it becomes part of that kernel.

    Attributes:
      fn: the function as the user wrote it.
      declared: what its decorator says.
      owner: the `@pl.program` it is a method of.
      attributes: what `pl.func_attr` says of it, once its body has been traced.
    """

    def __init__(self, fn: FunctionType, declared: Declaration, *, like: Kernel | None = None) -> None:
        """`like` is a kernel of the same function, decorated before: what its surroundings said then holds for this one, too."""
        if declared.undeclared_writes not in (None, "device"):
            raise CallError("PL606", f"undeclared_writes={declared.undeclared_writes!r}", fix='"device", or leave it out')
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.declared = declared
        self.owner: Any = None
        self.attributes: dict[str, Any] = {}
        same = like is not None and like.declared.strict_ssa == declared.strict_ssa
        self.staged: Staged = like.staged if like is not None and same else rewrite(fn, strict_ssa=declared.strict_ssa)
        self.is_method = declared.form == "program" and self.staged.parameters[:1] == ("self",)
        body: Any = self.staged.function  # not a method, whatever a type checker makes of a function in an attribute
        self.guard: Guard = captures(body)
        self._signature: Signature | None = None
        self._named: dict[str, Any] = _named_in_strings(fn) if like is None else like._named
        self._programs: dict[Any, Program] = {}
        self._launches, self._repeats = Launches(self), Repeats(self)
        self.functions: dict[Any, KernelLaunch] = {}
        self._device_writes: set[str] = set()

    @property
    def kind(self) -> str:
        """jit, host, opaque, inline or incore; see `Declaration`."""
        return self.declared.kind

    @property
    def undeclared_writes(self) -> str | None:
        """ "device" if parameters that are not declared outputs may be written."""
        return self.declared.undeclared_writes

    @property
    def auto_scope(self) -> bool:
        """Whether the library places the scopes of this function's body."""
        return self.declared.auto_scope

    def __repr__(self) -> str:
        return f"<{self.declared.spelled} {self.fn.__name__}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None or self.is_method else functools.partial(self, instance)

    def __pypto_watch__(self) -> Callable[[], bool]:
        return self.guard.watch()

    def __pypto_guard__(self) -> Any:
        return (self.declared, self.guard.snapshot())

    def snapshot(self) -> Any:
        """The part of a program's key that stands for the captured Python values; of a method, those of its whole class."""
        return self.guard.snapshot() if self.owner is None else self.owner.snapshot()

    def watch(self) -> Callable[[], bool]:
        """A quick test of whether `snapshot` would give what it gives now."""
        return self.guard.watch() if self.owner is None else self.owner.watch()

    @property
    def signature(self) -> Signature:
        """The parameters; annotations are evaluated at first use, strings where the function was defined."""
        if self._signature is None:
            notes = inspect.get_annotations(self.fn)
            parameters = [
                Parameter(name, self._annotation(name, notes.get(name)), p.default, p.kind is p.KEYWORD_ONLY)
                for name, p in list(inspect.signature(self.fn).parameters.items())[self.is_method :]
            ]
            returns = self._annotation("return", notes.get("return"))
            self._signature = Signature(self.fn.__name__, tuple(parameters), self.staged.source, returns)
            if self.kind == "inline":
                self._warn_directions(self._signature)
        return self._signature

    def _annotation(self, name: str, note: Any) -> Annotation | None:
        try:
            if isinstance(note, str):
                closure = inspect.getclosurevars(self.fn).nonlocals
                note = eval(note, {**self.fn.__globals__, **self._named, **closure})
            found = annotation_of(note)
        except PyptoError as error:
            raise type(error)(error.code, f"the annotation of `{name}`: {error.message}", fix=error.fix, at=self._place(name)) from None
        except Exception as error:  # whatever the user's expression raises
            raise CallError(
                "PL602",
                f"the annotation of `{name}`, {note}, cannot be evaluated: {error}",
                fix="make every name in it known where the kernel is defined",
                at=self._place(name),
            ) from error
        if isinstance(found, TupleType) and name != "return":
            raise CallError("PL602", f"`{name}` is annotated {found!r}", fix="one parameter per part", at=self._place(name))
        return found

    def _place(self, name: str) -> Source:
        return self.staged.places.get(name, self.staged.source)

    def _warn_directions(self, signature: Signature) -> None:
        for p in signature.parameters:
            if p.is_output:
                warn(
                    "PL116",
                    f"the direction of `{p.name}` of the inline function {signature.name}() carries no information: its parameters are the "
                    "caller's own tensors",
                    fix=f"annotate `{p.name}` pl.Tensor; until then it only says that the argument must be writable",
                    at=self._place(p.name),
                    category=PyptoDeprecationWarning,
                )

    # ---- calling ----

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._launches.known and not kwargs and (result := self._launches(args)) is not MISS:
            return result
        if "config" in kwargs and not self.signature.has("config"):
            return FRONT["call"](self, args, kwargs, kwargs.pop("config"))
        trace = current_trace()
        if isinstance(trace, PlTrace):
            return splice(self, trace, args, dict(kwargs))
        if self.kind == "inline":
            raise BodyError(
                "PL112", f"`{self.fn.__name__}` is inline: it is only part of other kernels", fix="call it from a @pl.jit kernel"
            )
        if trace is not EVAL:
            return call_in_program(self, args, kwargs)
        call, program = (None if kwargs else self._repeats(args)) or self._first(args, kwargs)
        return self._run(program, call)

    def _first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, Program]:
        """A call that is not laid out like an earlier one."""
        call = self._bind(args, kwargs)
        program = self._program(call)
        if not kwargs:
            self._repeats.remember(args, call, program)
        return call, program

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return calls.prepare(self.signature, self.signature.bind(args, kwargs), self.guard.key)

    def _run(self, program: Program, call: Call) -> Any:
        chosen = config.current()
        if chosen.executor == "cpu" and not chosen.check:
            compiled = program.compiled
            if compiled.executor == "cpu":
                return self._run_compiled(program, compiled, call)
        check = bool(chosen.check)
        values = self._values(call, check=check)
        machine = (TieCounter if check and collecting() else Machine)(program.bodies, check=check)
        try:
            machine.run(program.orchestration, values)
        except PyptoError as error:
            raise with_origins(error, program) from None
        if isinstance(machine, TieCounter):
            machine.report()
        return passing.write_back(self.signature, call, values)

    def _run_compiled(self, program: Program, compiled: Any, call: Call) -> Any:
        def again() -> None:
            Machine(program.bodies, check=False).run(program.orchestration, self._values(call, check=False))

        values = passing.to_compiled_values(
            call, compiled.parameters, may_fail=compiled.may_fail, undeclared_writes=self.undeclared_writes is not None
        )
        compiled.run(values, again, threads=config.current().threads or 0)
        if self.undeclared_writes is None:
            self._launches.remember(compiled, call)
        return passing.write_back(self.signature, call, values)

    def _values(self, call: Call, *, check: bool) -> list[Any]:
        return passing.to_values(call, check=check, undeclared_writes=self.undeclared_writes is not None)

    def _program(self, call: Call) -> Program:
        key = (call.key, self.snapshot(), platform_of(config.current().platform))
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
        return self.traced(self._avals(args, kwargs, "trace"))

    def lower(self, *args: Any, **kwargs: Any) -> Program:
        """The tile program: in-core kernels and the orchestration that launches them. `print` shows it."""
        if "config" in kwargs and not self.signature.has("config"):
            return configured(self.lower, args, kwargs)
        return self._lower(self._avals(args, kwargs, "lower"))

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Whether a call would compile, and which argument, captured value or platform is the reason. Nothing is run."""
        return explain(self, self._bind(args, kwargs), self._programs)

    def cache_report(self) -> CacheReport:
        """The programs that are there and what made each; see `pypto.explain_cache`."""
        return report(self, self._programs)

    def _avals(self, args: tuple[Any, ...], kwargs: dict[str, Any], verb: str) -> list[Any]:
        return samples.avals(self.signature, samples.named(self.signature, args, kwargs, verb), verb)

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """Run the same body at once, statement by statement, checked: prints show numbers and a debugger can step through it."""
        call = self._bind(args, kwargs)
        machine = Machine(check=config.current().finds_faults)
        trace = EagerTrace(machine, in_core=self.kind == "incore", undeclared_writes=self.undeclared_writes is not None)
        values = passing.to_values(call, check=machine.check, undeclared_writes=trace.undeclared_writes)
        with tracing(trace):
            inputs = self._inputs(trace, [a.aval if a.aval is not None else a.static for a in call.arguments])
            traced = [t for t in inputs if isinstance(t, Value)]
            machine.env.update({t.var: v for t, v in zip(traced, values, strict=True)})
            inputs = self._marked(trace, inputs)
            with trace.calling(self):
                self.execute(EagerRuntime(trace, self.outputs(inputs), self.signature.returns), inputs)
        self.report_device_writes(self.fn.__name__, trace.device_writes, None)
        return passing.write_back(self.signature, call, values)

    # ---- tracing ----

    def traced(self, avals: list[Any], device_writes: Collection[str] | None = ()) -> Jaxpr:
        """The body for these abstract values (and plain Python values); `device_writes` names parameters that are on a device."""
        device_writes = None if self.undeclared_writes is not None else device_writes
        trace = PlTrace(in_core=False, undeclared_writes=device_writes is None or bool(device_writes))
        with tracing(trace), reporting(trace):
            inputs = self._inputs(trace, avals)
            traced = [t for t in inputs if isinstance(t, Value)]
            inputs = self._marked(trace, inputs)
            runtime = StagingRuntime(trace, self.outputs(inputs), self.signature.returns)
            with trace.calling(self):
                if self.kind == "incore":
                    trace.in_core_function = True
                    opened = At(Level.CORE_GROUP, self.fn.__name__, self.declared.options)
                    runtime.with_(opened, lambda: (self.execute(runtime, inputs), ())[1], None, (), (), ())
                else:
                    self.execute(runtime, inputs)
        jaxpr = Jaxpr(tuple(t.var for t in traced), tuple(trace.scope.eqns), (), self.fn.__name__)
        if trace.aliases:
            jaxpr = rename(jaxpr, {v: _final(trace, v) for v in trace.aliases})
        warn_misspelled(jaxpr)
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
                        what = f"axis {axis} of `{p.name}` is the symbol {d.name}: one program serves every extent"
                        note("PL309", what, at=self.staged.source)
        return inputs

    def _marked(self, trace: PlTrace, inputs: list[Any]) -> list[Any]:
        """The inputs as the body sees them: those whose annotation says so hold data in their leading part only."""
        kept = []
        for p, x in zip(self.signature.parameters, inputs, strict=True):
            view = p.type.view if isinstance(p.type, TensorType) else None
            if view is not None and view.stride is not None and isinstance(x, RefValue):
                trace.strides[x.var] = view.stride  # the call has checked them
            kept.append(viewed(trace, x, view, f"`{p.name}` of {self.fn.__name__}()"))
        return kept

    def outputs(self, inputs: list[Any]) -> dict[str, RefValue]:
        return {p.name: v for p, v in zip(self.signature.parameters, inputs, strict=True) if p.is_output and isinstance(v, RefValue)}

    def execute(self, runtime: StagingRuntime, inputs: list[Any]) -> Any:
        named = [(p.name, v) for p, v in zip(self.signature.parameters, inputs, strict=True) if p.by_name]
        try:
            own = (self._program_of_method(),) if self.is_method else ()
            return self.staged.function(runtime, *own, *inputs[: len(inputs) - len(named)], **dict(named))
        except NameError as error:
            raise self._unset(error) from None

    def _program_of_method(self) -> Any:
        if self.owner is None:
            raise CallError(
                "PL601",
                f"{self.fn.__name__}() takes `self`, and its class is not a @pl.program",
                fix="decorate the class with @pl.program, or drop `self`",
                at=self.staged.source,
            )
        return self.owner

    def _unset(self, error: NameError) -> Exception:
        """An unset local of the body is our error; any other NameError is the user's."""
        name = error.name or next(iter(re.findall(r"variable '(\w+)'", str(error))), "")  # Python 3.11 names no plain local
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


def _final(trace: PlTrace, var: Any) -> Any:
    target: Any = trace.aliases[var]
    while not isinstance(target, Literal) and target in trace.aliases:
        target = trace.aliases[target]
    return target


def _named_in_strings(fn: FunctionType) -> dict[str, Any]:
    """The local variables around `fn` that its string annotations name: Python does not close over those."""
    words = {w for note in fn.__annotations__.values() if isinstance(note, str) for w in re.findall(r"\w+", note)}
    return {name: value for name, value in user_locals().items() if name in words} if words else {}
