"""A kernel called inside another kernel's body: its own body becomes part of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.core.avals import show_shape
from pypto.core.index import Index
from pypto.core.trace import Tracer
from pypto.dtypes import TASK_ID
from pypto.errors import BodyError, CallError, OutputError, ShapeError, warn
from pypto.language import access
from pypto.language.calls import OMITTED, Parameter
from pypto.language.eager import EagerRuntime
from pypto.language.scopes import At, Level
from pypto.language.staging import StagingRuntime
from pypto.language.tasks import as_task, plain_arguments
from pypto.language.trace import PlTrace
from pypto.language.types import ArrayType, ScalarType, Symbol, TensorType, differ
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset
from pypto.language.viewing import viewed

if TYPE_CHECKING:
    from pypto.language.kernel import Kernel

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


def splice(kernel: Kernel, trace: PlTrace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Trace the body of `kernel` into its caller's; an in-core function opens a region of its own.

    Errors:
      PL112 for calls inside one another without end, PL601 for missing arguments, PL301 and PL302 for arguments that do not fit;
      PL115, a warning, for a function of the other form.
    """
    name = kernel.fn.__name__
    if len(trace.callers) > _DEEPEST:
        raise BodyError(
            "PL112",
            f"`{name}` is call {_DEEPEST + 1} inside another: bodies are spliced into their callers, which never ends here",
            fix="a function may only call itself under a condition that Python decides: a static argument that reaches its end",
        )
    _check_form(kernel, trace)
    device = _device(kernel, trace, kwargs)
    values, marked = plain_arguments(kernel.kind == "incore", kernel.signature.bind(args, kwargs))
    for i, (p, v) in enumerate(zip(kernel.signature.parameters, values, strict=True)):
        if v is OMITTED:
            raise CallError(
                "PL601", f"{name}() misses `{p.name}`", fix="inside a kernel every output is passed: pl.create_tensor(...) makes one"
            )
        if isinstance(v, Unset):
            raise v.error()
        if isinstance(p.type, ScalarType) and p.type.dtype is TASK_ID:
            values[i] = as_task(trace, v, f"`{p.name}` of {name}()")
        _check_parameter(name, p, v)
        if isinstance(p.type, TensorType):
            values[i] = viewed(trace, values[i], p.type.view, f"`{p.name}` of {name}()")
    symbols = _symbols(kernel, values)
    runtime_type = EagerRuntime if trace.concrete else StagingRuntime
    runtime = runtime_type(trace, kernel.outputs(values), kernel.signature.returns)
    with trace.calling(kernel, device, symbols):
        if kernel.kind == "incore":
            trace.block_reads += 1
            if not trace.in_region:
                result = _region(kernel, trace, runtime, values, marked)
                return NoResult(name) if result is None else result
        trace.no_dep += marked
        result = kernel.execute(runtime, values)
    return NoResult(name) if result is None else result


def _check_form(kernel: Kernel, trace: PlTrace) -> None:
    caller, form = trace.callers[-1] if trace.callers else None, kernel.declared.form
    if caller is not None and "any" not in (form, caller.declared.form) and form != caller.declared.form:
        warn(
            "PL115",
            f"`{caller.fn.__name__}` (@{caller.declared.spelled}) calls `{kernel.fn.__name__}` (@{kernel.declared.spelled})",
            fix="write both in one form: @pl.jit functions of a module, or methods of a @pl.program; @pl.inline belongs to both",
        )


def _device(kernel: Kernel, trace: PlTrace, kwargs: dict[str, Any]) -> Any:
    """The `device=` of a chip entry called by a host entry: taken out of the arguments."""
    if kernel.kind != "jit" or "device" not in kwargs or kernel.signature.has("device"):
        return None
    caller = trace.callers[-1] if trace.callers else None
    if caller is None or caller.kind != "host":
        raise CallError(
            "PL601", f"device= on {kernel.fn.__name__}(), which is not called by a host entry", fix="leave it out, or @pl.jit.host"
        )
    device = access.offset(trace, kwargs.pop("device"), "device=")
    if isinstance(device, int) and device < 0:
        raise CallError("PL601", f"device={device} on {kernel.fn.__name__}()", fix="the number of a device: 0 and more")
    return device


def _region(kernel: Kernel, trace: PlTrace, runtime: StagingRuntime, values: list[Any], marked: list[RefValue]) -> Any:
    def body() -> tuple[Any]:
        trace.no_dep += marked
        return (kernel.execute(runtime, values),)

    before, trace.in_core_function = trace.in_core_function, True
    opened = At(Level.CORE_GROUP, kernel.fn.__name__, kernel.declared.options)
    try:
        (result,) = runtime.with_(opened, body, None, ("result",), (), ())
    finally:
        trace.in_core_function = before
    return result


def _check_parameter(name: str, p: Parameter, v: Any) -> None:
    where = f"`{p.name}` of {name}()"
    if isinstance(p.type, ArrayType):
        found = (v.shape, v.dtype) if isinstance(v, RefValue | TileValue) else None
        if found != ((p.type.extent,), p.type.dtype):
            what = str(v.aval) if isinstance(v, RefValue | TileValue | ScalarValue) else repr(v)
            raise ShapeError("PL302", f"{where} is declared {p.type!r}, got {what}", fix="pl.array.create(n, dtype) makes one")
        return
    if not isinstance(p.type, TensorType) or not isinstance(v, RefValue | TileValue):
        return
    dims, dtype = p.type.dims, p.type.dtype
    if dtype is not None and v.dtype is not dtype:
        raise ShapeError("PL302", f"{where} is declared {dtype.name}, got {v.aval}", fix="pass a tensor of that dtype")
    if dims is not None and differ(dims, v.shape):
        raise ShapeError("PL301", f"{where} is declared [{show_shape(dims)}], got [{show_shape(v.shape)}]", fix="slice or reshape it")
    if p.is_output and isinstance(v, RefValue):
        access.check_direction(_trace_of(v), v, where)


def _symbols(kernel: Kernel, values: list[Any]) -> dict[Symbol, tuple[RefValue, int]]:
    """What the symbols of a callee's annotations stand for in this call.

    Errors:
      PL602 for one symbol with two extents, naming both.
    """
    found: dict[Symbol, tuple[RefValue, int]] = {}
    names: dict[Symbol, str] = {}
    for p, v in zip(kernel.signature.parameters, values, strict=True):
        if not isinstance(p.type, TensorType) or p.type.shape is None or not isinstance(v, RefValue | TileValue):
            continue
        for axis, symbol in enumerate(p.type.shape):
            if not isinstance(symbol, Symbol):
                continue
            before = found.get(symbol)
            if before is not None and (Index.of(before[0].shape[before[1]]) - Index.of(v.shape[axis])).value not in (None, 0):
                raise CallError(
                    "PL602",
                    f"{symbol.name} of {kernel.fn.__name__}() is {before[0].shape[before[1]]} (axis {before[1]} of `{names[symbol]}`) "
                    f"and {v.shape[axis]} (axis {axis} of `{p.name}`)",
                    fix="one symbol has one extent in a call: use two symbols, or pass tensors that agree",
                )
            if isinstance(v, RefValue) and before is None:
                found[symbol], names[symbol] = (v, axis), p.name
    return found


def _trace_of(v: Tracer) -> PlTrace:
    assert isinstance(v.trace, PlTrace)
    return v.trace
