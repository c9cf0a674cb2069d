"""The decorators that make kernels of functions: the `pl.jit` family, `pl.function` and `pl.inline`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType as PythonFunction
from typing import Any

from pypto.errors import BodyError, CallError
from pypto.language.declaration import Declaration, FunctionType, Role, checked_flag, of_function
from pypto.language.external import External, external
from pypto.language.kernel import Kernel
from pypto.language.scopes import Level
from pypto.source import user_source

__all__ = ["Kernel", "function", "inline", "jit"]


class _Jit:
    """The decorator family. Each is written with or without parentheses: `@pl.jit`, `@pl.jit(auto_scope=False)`."""

    def __call__(self, fn: Callable[..., Any] | None = None, *, auto_scope: bool = True, undeclared_writes: str | None = None) -> Any:
        """Make a kernel entry: what a caller runs.

        Args:
          auto_scope: False leaves the placing of scopes to the body.
          undeclared_writes: "device" allows writes to parameters that are not declared outputs; they are not copied back.
        """
        flag = checked_flag("auto_scope", auto_scope, "pl.jit")
        return _decorate(fn, Declaration("jit", auto_scope=flag, undeclared_writes=undeclared_writes))

    def host(self, fn: Callable[..., Any] | None = None, *, auto_scope: bool = True) -> Any:
        """Make an entry of the host: it calls chip entries (`@pl.jit` functions), each with `device=` if it likes."""
        return _decorate(fn, Declaration("host", auto_scope=checked_flag("auto_scope", auto_scope, "pl.jit.host"), level=Level.HOST))

    def inline(self, fn: Callable[..., Any] | None = None, *, auto_scope: bool = True) -> Any:
        """Make a part of other kernels, spliced into each caller."""
        return _decorate(fn, Declaration("inline", auto_scope=checked_flag("auto_scope", auto_scope, "pl.jit.inline")))

    def opaque(self, fn: Callable[..., Any] | None = None) -> Any:
        """Make a function of its own that holds orchestration loops and regions, called from an entry."""
        return _decorate(fn, Declaration("opaque"))

    def incore(self, fn: Callable[..., Any] | None = None, *, level: Level | None = None) -> Any:
        """Make one in-core region, called from orchestration or run on its own.

        Args:
          level: CORE_GROUP, or AIC or AIV of `pl.Level` for a kernel of the cube or the vector unit alone.
        """
        if level not in (None, Level.CORE_GROUP, Level.AIC, Level.AIV):
            raise CallError("PL606", f"pl.jit.incore: level={level!r}", fix="CORE_GROUP, AIC or AIV of pl.Level")
        return _decorate(fn, Declaration("incore", level=level))

    @staticmethod
    def extern(fn: Callable[..., Any] | None = None, **sources: Any) -> External | Callable[[Any], External]:
        """Declare a kernel written in C++: its signature is here, its meaning is what `stub.meaning` is given."""
        return external(fn, sources)


def _decorate(fn: Any, declared: Declaration) -> Any:
    return (lambda f: Kernel(_python_function(f), declared)) if fn is None else Kernel(_python_function(fn), declared)


def _python_function(fn: Any) -> PythonFunction:
    if not isinstance(fn, PythonFunction):
        raise BodyError("PL109", f"{fn!r} is not a Python function", fix="decorate a `def`", at=user_source())
    return fn


def function(
    fn: Callable[..., Any] | None = None,
    *,
    type: FunctionType = FunctionType.Opaque,
    level: Level | None = None,
    role: Role | None = None,
    auto_scope: bool = True,
    strict_ssa: bool = False,
) -> Any:
    """Make a function of a `@pl.program` class, or a standalone one that such methods call by name.

    Args:
      type: Opaque (its regions are its `pl.at` blocks), Orchestration (the entry), InCore (one region), AIC or AIV (one region of
        the cube or the vector unit), Inline (spliced into its callers), Graph (orchestration that is recorded once).
      level, role: HOST or CHIP with Orchestrator; CHIP with SubWorker is an in-core function.
      auto_scope: False leaves the placing of scopes to the body.
      strict_ssa: True refuses to give a name a second value (PL114), and with it `x[...] = v`.
    Errors:
      PL606 for a combination that cannot be written here, and for a type that contradicts the level or the role.
    """
    return _decorate(fn, of_function(type, level, role, auto_scope, strict_ssa))


def inline(fn: Callable[..., Any]) -> Any:
    """Make a part of other kernels of both forms, spliced into each caller."""
    return _decorate(fn, Declaration("inline", "any"))


jit = _Jit()
