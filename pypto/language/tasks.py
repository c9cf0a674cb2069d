"""Tasks from the language: what a scope asks of one, the ids of tasks, and dispatches written as calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pypto import dtypes, lax
from pypto.core.avals import RefAval
from pypto.core.ir import Atom, Literal, Var
from pypto.core.trace import Scope
from pypto.errors import BodyError, CallError, ShapeError, TaskError
from pypto.language.scopes import Asked, At, Level, Loop
from pypto.language.spelled import trace_here
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, ScalarValue, Unset, Value
from pypto.lax.tasks import Launch

_DEPS = "deps=[tid], where tid comes from `with pl.at(...) as tid`, `with pl.spmd(n) as tid`, pl.submit or pl.array.create(n, pl.TASK_ID)"


# ---- ids ---------------------------------------------------------------------------------------------------------


def is_task(x: Any) -> bool:
    """Whether this is the id of a task, or an array of them."""
    return isinstance(x, ScalarValue | RefValue) and x.dtype is dtypes.TASK_ID


def as_task(trace: PlTrace, x: Any, what: str) -> Any:
    """The id of one task; None is the id of none.

    Errors:
      PL503 for anything else.
    """
    if isinstance(x, Unset):
        raise x.error()
    if x is None:
        return trace.process(lax.task_invalid, [], {})
    if isinstance(x, ScalarValue) and x.dtype is dtypes.TASK_ID:
        return x
    raise TaskError("PL503", f"{what}: {_shown(x)} is the id of no task", fix=_DEPS)


def _shown(x: Any) -> str:
    return f"{x.aval}" if isinstance(x, Value) else repr(x)


def dependencies(trace: PlTrace, deps: Any, where: str) -> list[Any]:
    """What `deps=` names, in order, lists in lists taken apart.

    Errors:
      PL503 for what names no task; PL110 and PL111 for ids that do not exist where this stands.
    """
    if not isinstance(deps, list | tuple):
        if is_task(deps):
            raise TaskError("PL503", f"{where}: deps={_name(deps)} is no list", fix=f"deps=[{_name(deps)}]")
        raise TaskError("PL503", f"{where}: deps={_shown(deps)}", fix=_DEPS)
    found: list[Any] = []
    for x in deps:
        if isinstance(x, list | tuple):
            found += dependencies(trace, x, where)
        elif isinstance(x, RefValue) and x.dtype is dtypes.TASK_ID:
            found.append(x)
        elif x is not None:
            found.append(as_task(trace, x, f"{where}: deps="))
    return found


def _name(x: Any) -> str:
    return x.var.name or "tid"


# ---- what a scope asks -------------------------------------------------------------------------------------------


@dataclass
class Dispatch:
    """What a task asks for, as operands of its equation."""

    launch: Launch
    predicate: list[Any]
    deps: list[Any]
    no_dep: list[Any]
    dumps: list[Any]

    def operands(self, trace: PlTrace, marked: Sequence[Any] = ()) -> tuple[Launch, list[Atom]]:
        """How to launch it, and its operands; `marked` are the arguments that `pl.no_dep` left out of its dependencies."""
        no_dep = [*self.no_dep, *marked]
        parts = [*self.predicate, *self.deps, *no_dep, *self.dumps]
        launch = replace(self.launch, predicate=bool(self.predicate), deps=len(self.deps), no_dep=len(no_dep), dumps=len(self.dumps))
        return launch, [trace.atom(x) for x in parts]


def dispatch(trace: PlTrace, asked: Asked, where: str, *, named: bool) -> Dispatch:
    """Check what a scope asks of its task, before its body is traced.

    Errors:
      PL503 for dependencies that name no task, PL504 for a predicate, tensors or hints that cannot be had.
    """
    if trace.in_cluster and (asked.predicate is not None or asked.early):
        raise TaskError(
            "PL504", f"{where}: a dispatch in a cluster takes no predicate and no allow_early_resolve", fix="move it out of pl.cluster()"
        )
    return Dispatch(
        Launch(named=named, early=asked.early, together=asked.together),
        [] if asked.predicate is None else [predicate(trace, asked.predicate, where)],
        [] if asked.deps is None else dependencies(trace, asked.deps, where),
        _tensors(asked.no_dep_args, f"{where}: no_dep_args"),
        _tensors(asked.dumps, f"{where}: dumps"),
    )


def part_asks_nothing(asked: Asked) -> None:
    """A named part of a region is no task.

    Errors:
      PL504 if it asks for something only a task has.
    """
    if asked != Asked():
        given = [k for k in ("deps", "no_dep_args", "dumps") if getattr(asked, k) is not None] or ["allow_early_resolve"]
        raise TaskError(
            "PL504",
            f"pl.at inside a region is a part of it and no task: it has no {', '.join(given)}",
            fix="ask for it where the region around it opens",
        )


def _tensors(given: Any, what: str) -> list[RefValue]:
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise TaskError("PL504", f"{what}={_shown(given)} is no list", fix=f"{what.split(': ')[-1]}=[tensor]")
    for x in given:
        if isinstance(x, Unset):
            raise x.error()
        if not isinstance(x, RefValue) or x.dtype is dtypes.TASK_ID:
            raise TaskError(
                "PL504", f"{what}: {_shown(x)} is no tensor in global memory", fix="tensors that the task uses; ids go into deps="
            )
    return list(given)


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def predicate(trace: PlTrace, test: Any, where: str) -> Any:
    """A comparison of one element of a tensor with an integer: what the scheduler can evaluate.

    Errors:
      PL504 for any other condition.
    """
    if isinstance(test, Unset):
        raise test.error()
    simple = isinstance(test, ScalarValue) and test.dtype is dtypes.BOOL
    if simple and not trace.concrete:
        made = _maker(trace.scope, test.var)
        simple = made is not None and made.op.name in _COMPARISONS and _is_element(trace.scope, made.ins[0]) and _is_int(trace, made.ins[1])
    if not simple:
        raise TaskError(
            "PL504",
            f"{where}: predicate={_shown(test)} is not `tensor[i] OP integer`",
            fix="let a task before it write one number that says so, and compare that: predicate=(gate[0] > 0)",
        )
    return test


def _maker(scope: Scope | None, var: Any) -> Any:
    while scope is not None:
        for e in reversed(scope.eqns):
            if var in e.outs:
                return e
        scope = scope.parent
    return None


def _is_element(scope: Scope, a: Atom) -> bool:
    """Whether this is an element of a tensor, read where it stands."""
    made = _maker(scope, a) if isinstance(a, Var) else None
    while made is not None and made.op.name == "convert":
        made = _maker(scope, made.ins[0])
    return made is not None and made.op.name == "read" and isinstance(made.ins[0].aval, RefAval)


def _is_int(trace: PlTrace, a: Atom) -> bool:
    if isinstance(a, Var):
        made = _maker(trace.scope, a)
        return made is not None and made.op.name == "convert" and isinstance(made.ins[0], Literal) and a.aval.dtype.is_integer
    return a.aval.dtype.is_integer


# ---- dispatches as calls -----------------------------------------------------------------------------------------


class NoDep:
    """`pl.no_dep(tensor)`: an argument that no dependency is derived from."""

    def __init__(self, tensor: RefValue) -> None:
        self.tensor = tensor

    def __repr__(self) -> str:
        return f"pl.no_dep({self.tensor!r})"


def dump_tag(tensor: Any) -> Any:
    """Mark a tensor: a run with `RunConfig(enable_dump_args=1)` writes it before and after every later task that takes it.

    The declaration for many tasks where `dumps=` names the tensors of one. It changes no number.

    Args:
      tensor: a tensor of orchestration.
    Returns:
      The tensor.
    Errors:
      PL105 inside a region, PL307 for anything but a GM tensor.
    """
    trace = trace_here("dump_tag")
    if trace.in_region:
        raise BodyError("PL105", "pl.dump_tag inside a region", fix="mark the tensor in orchestration, before the task that takes it")
    if not isinstance(tensor, RefValue):
        raise ShapeError("PL307", f"pl.dump_tag of {tensor!r}, which is no GM tensor", fix="mark a tensor that tasks take")
    trace.emit(lax.dump_tag, [trace.atom(tensor)], {})
    return tensor


def no_dep(tensor: Any) -> NoDep:
    """Mark an argument of a kernel call: no dependency is derived from it for that task. The tensor itself is unchanged.

    Errors:
      PL504 for anything but a tensor.
    """
    trace_here("no_dep")
    return NoDep(_tensors([tensor], "pl.no_dep")[0])


def plain_arguments(task: bool, values: Sequence[Any]) -> tuple[list[Any], list[RefValue]]:
    """The arguments of a kernel call without their marks, and the tensors that `pl.no_dep` marks.

    Errors:
      PL504 for a mark on an argument of a call that is no `task`.
    """
    marked = [v.tensor for v in values if isinstance(v, NoDep)]
    if marked and not task:
        fix = "mark arguments of in-core kernels; for a region, no_dep_args=[tensor]"
        raise TaskError("PL504", "pl.no_dep marks an argument of a task, and a call of an inline function is none", fix=fix)
    return [v.tensor if isinstance(v, NoDep) else v for v in values], marked


def _submitted(what: str, kernel: Any, args: Sequence[Any], kwargs: dict[str, Any], context: Any) -> tuple[Any, ...]:
    from pypto.language.staging import StagingRuntime

    trace = trace_here(what)
    if getattr(kernel, "kind", None) != "incore":
        fix = f"pl.{what}(self.kernel, ...) with an in-core kernel: @pl.function(type=pl.FunctionType.InCore) or @pl.jit.incore"
        raise TaskError("PL504", f"pl.{what}: {kernel!r} is no in-core kernel", fix=fix)
    if trace.in_region:
        raise BodyError("PL105", f"pl.{what} inside a region", fix="tasks are submitted by orchestration: move it out")

    said: dict[str, Any] = {}  # what pl.func_attr says of the kernel

    def body(tid: Any) -> tuple[Any, ...]:
        result = kernel(*args, **kwargs)
        said.update(kernel.attributes)
        return result, tid

    name, options = kernel.fn.__name__, kernel.declared.options
    if isinstance(context, Loop):
        context = replace(context, name=name, options=options)
    else:
        context = At(Level.CORE_GROUP, name, options, context)
    before, trace.in_core_function = trace.in_core_function, True
    trace.attributes.append(said)
    try:
        result, tid = StagingRuntime(trace, {}).with_(context, body, "", ("result", "tid"), (), ())
    finally:
        trace.attributes.pop()
        trace.in_core_function = before
    return (*result, tid) if isinstance(result, tuple | list) else (result, tid)


def submit(
    kernel: Callable[..., Any],
    *args: Any,
    deps: Any = None,
    dumps: Any = None,
    allow_early_resolve: bool = False,
    predicate: Any = None,
    **kwargs: Any,
) -> tuple[Any, ...]:
    """Dispatch an in-core kernel as one task: `result, tid = pl.submit(self.kernel, x, out, deps=[before])`.

    Args:
      kernel: an in-core kernel; what follows are its arguments.
      deps, dumps, allow_early_resolve, predicate: as `pl.spmd`.
    Returns:
      The kernel's results, then the task's id.
    Errors:
      PL503 and PL504 for what is asked of the task, PL105 inside a region.
    """
    asked = Asked(deps, None, dumps, predicate, bool(allow_early_resolve))
    return _submitted("submit", kernel, args, kwargs, asked)


def spmd_submit(
    kernel: Callable[..., Any],
    *args: Any,
    core_num: Any = None,
    sync_start: bool = False,
    deps: Any = None,
    dumps: Any = None,
    allow_early_resolve: bool = False,
    predicate: Any = None,
    **kwargs: Any,
) -> tuple[Any, ...]:
    """Dispatch an in-core kernel once per block, as one task: `result, tid = pl.spmd_submit(self.kernel, x, out, core_num=8)`.

    Args:
      kernel: an in-core kernel that reads its block index; what follows are its arguments.
      core_num: how many blocks.
      sync_start, deps, dumps, allow_early_resolve, predicate: as `pl.spmd`.
    Returns:
      The kernel's results, then the task's id.
    Errors:
      PL601 without `core_num`; otherwise as `pl.submit`.
    """
    if core_num is None:
        raise CallError("PL601", "pl.spmd_submit misses `core_num`", fix="pl.spmd_submit(kernel, ..., core_num=8)")
    asked = Asked(deps, None, dumps, predicate, bool(allow_early_resolve), bool(sync_start))
    return _submitted("spmd_submit", kernel, args, kwargs, Loop("spmd", 0, core_num, 1, asked=asked))
