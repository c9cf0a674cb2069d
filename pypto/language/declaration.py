"""What a decorator says about a function: which plane it belongs to, and the keywords it was given."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from pypto.errors import CallError
from pypto.language.scopes import Level


class FunctionType(enum.Enum):
    """The plane a function of a `@pl.program` belongs to."""

    Opaque = 0
    Orchestration = 1
    InCore = 2
    AIC = 3
    AIV = 4
    Group = 5
    Spmd = 6
    Inline = 7
    Graph = 8


class Role(enum.Enum):
    """What a function at a `level=` does there: it sequences others, or is a unit of work."""

    Orchestrator = 0
    SubWorker = 1


KINDS = {
    FunctionType.Opaque: "opaque",
    FunctionType.Orchestration: "jit",
    FunctionType.Graph: "jit",
    FunctionType.InCore: "incore",
    FunctionType.AIC: "incore",
    FunctionType.AIV: "incore",
    FunctionType.Inline: "inline",
}
"""What each type of function is here; the others are made by a compiler, not written."""

_MADE = {
    FunctionType.Group: "a group of cube and vector functions is what a mixed region becomes: write the region",
    FunctionType.Spmd: "an spmd function is what a dispatch becomes: write `with pl.spmd(n):`",
}
_CHIP = (Level.CHIP, Level.CHIP_DIE)


@dataclass(frozen=True)
class Declaration:
    """The decorator of a function.

    Attributes:
      kind: jit (an entry: orchestration), host (an entry that calls chip entries), opaque (orchestration that others call),
        inline (spliced into its caller) or incore (one region).
      form: `jit` for the module-level family, `program` for methods and `@pl.function`, `any` for `@pl.inline`.
      auto_scope: whether the body of every function, loop and branch is a scope of its own.
      strict_ssa: whether a name may be given a value once only.
      undeclared_writes: "device" if parameters that are not declared outputs may be written.
      type, level, role: as given.
    """

    kind: str
    form: str = "jit"
    auto_scope: bool = True
    strict_ssa: bool = False
    undeclared_writes: str | None = None
    type: FunctionType | None = None
    level: Level | None = None
    role: Role | None = None

    @property
    def spelled(self) -> str:
        """The decorator as the user writes it, for messages."""
        if self.form == "program":
            return f"pl.function(type=pl.FunctionType.{self.type.name})" if self.type is not None else "pl.function"
        return "pl.jit" if self.kind == "jit" else "pl.inline" if self.form == "any" else f"pl.jit.{self.kind}"

    @property
    def options(self) -> tuple[tuple[str, Any], ...]:
        """What the kernel an in-core function becomes keeps of it."""
        core = self.type.name if self.type in (FunctionType.AIC, FunctionType.AIV) else None
        core = self.level.name if core is None and self.kind == "incore" and self.level in (Level.AIC, Level.AIV) else core
        return (("core", core),) if core is not None else ()


def checked_flag(name: str, value: Any, where: str) -> bool:
    """A keyword that is True or False."""
    if not isinstance(value, bool):
        raise CallError("PL606", f"{where}: {name}={value!r}", fix=f"{name}=True or {name}=False")
    return value


def of_function(type: FunctionType, level: Level | None, role: Role | None, auto_scope: bool, strict_ssa: bool) -> Declaration:
    """What `@pl.function(type=, level=, role=, auto_scope=, strict_ssa=)` declares.

    Errors:
      PL606 for a type, level or role that does not exist or cannot be written here, or that contradict each other.
    """
    for name, value, kind in (("type", type, FunctionType), ("level", level, Level), ("role", role, Role)):
        if not isinstance(value, kind) and not (value is None and name != "type"):
            raise CallError("PL606", f"pl.function: {name}={value!r}", fix=f"a member of pl.{kind.__name__}")
    checked_flag("auto_scope", auto_scope, "pl.function")
    checked_flag("strict_ssa", strict_ssa, "pl.function")
    if type in _MADE:
        raise CallError("PL606", f"pl.function: a {type.name} function is not written by hand", fix=_MADE[type])
    kind = KINDS[type]
    if role is not None or level is not None:
        kind = _placed(kind, level, role)
        _check_agreement(type, level, role, kind)
    if not auto_scope and kind == "incore":
        raise CallError("PL606", "pl.function: auto_scope=False on an in-core function, which has no scopes", fix="put it on its caller")
    return Declaration(kind, "program", auto_scope, strict_ssa, None, type, level, role)


def _check_agreement(type: FunctionType, level: Level | None, role: Role | None, kind: str) -> None:
    """Refuse a type that says another thing than the level and the role, which make the function a `kind`."""
    assert level is not None
    made_of = {"host": ("opaque", "jit"), "jit": ("opaque", "jit"), "incore": ("opaque", "incore")}
    fits = KINDS[type] == kind or (type is not FunctionType.Graph and KINDS[type] in made_of.get(kind, ()))
    own = {FunctionType.AIC: Level.AIC, FunctionType.AIV: Level.AIV}.get(type)
    if own is not None and level in (Level.AIC, Level.AIV):
        fits = fits and level is own
    if role is Role.SubWorker and kind != "incore":
        fits = False
    if not fits:
        said = f"type=pl.FunctionType.{type.name}, level=pl.Level.{level.name}{f', role=pl.Role.{role.name}' if role is not None else ''}"
        fix = "say it once: leave out type=, or level= and role="
        raise CallError("PL606", f"pl.function: {said} contradict each other", fix=fix)


def _placed(kind: str, level: Level | None, role: Role | None) -> str:
    """The kind of a function whose level is given."""
    if level is None:
        raise CallError("PL606", f"pl.function: role={role} without a level", fix="level=pl.Level.HOST or level=pl.Level.CHIP")
    if role is Role.SubWorker and level is Level.HOST:
        raise CallError(
            "PL606",
            "pl.function: a worker of the host is Python code that runs beside the program, not a kernel",
            fix="call it from Python, before or after the program",
        )
    if level is Level.HOST:
        return "host"
    if role is Role.Orchestrator:
        if level in _CHIP:
            return "jit"
        raise CallError("PL606", f"pl.function: an orchestrator at level {level.name}", fix="level=pl.Level.HOST or level=pl.Level.CHIP")
    if role is Role.SubWorker and level in _CHIP:
        return "incore" if kind in ("incore", "opaque") else kind
    if level in (Level.CORE_GROUP, Level.AIC, Level.AIV):
        return "incore"
    if level in _CHIP:
        return kind
    raise CallError("PL606", f"pl.function: level {level.name} holds no functions here", fix="CORE_GROUP, CHIP or HOST of pl.Level")
