"""`@pl.program`: a class whose methods are the functions of one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import FunctionType as PythonFunction
from types import MappingProxyType
from typing import Any

from pypto.captures.freezing import ATOMS, Freezer, difference, only_identity
from pypto.captures.guard import function_reads
from pypto.core.ir import Jaxpr
from pypto.core.reports import CacheReport
from pypto.errors import BodyError, CallError, MemberError
from pypto.language.declaration import checked_flag
from pypto.language.kernel import Kernel
from pypto.source import user_source
from pypto.tile import Program

_FIRST = (("host",), ("jit",), ("opaque",), ("incore",))
"""Which functions may be the entry, the first kind there is."""


class KernelProgram:
    """A program of several functions. Calling it calls its entry; an attribute is the function of that name.

    Attributes:
      name: the class's name.
      functions: its functions by name, in the order written. Each is a kernel that can be called, traced and lowered by itself.
      constants: the other attributes of the class, which bodies read as `self.NAME`.
    """

    def __init__(self, name: str, functions: Mapping[str, Kernel], constants: Mapping[str, Any]) -> None:
        self.name = name
        self.functions: Mapping[str, Kernel] = MappingProxyType(dict(functions))
        self.constants: Mapping[str, Any] = MappingProxyType(dict(constants))
        self._arrays: dict[int, tuple[Any, int]] = {}

    def __repr__(self) -> str:
        return f"<pl.program {self.name}: {', '.join(self.functions)}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "functions" not in self.__dict__:
            raise AttributeError(name)
        if name in self.functions:
            return self.functions[name]
        if name in self.constants:
            return self.constants[name]
        raise MemberError(
            "PL112", f"`{self.name}` has no function or constant `{name}`", fix=f"it has {', '.join([*self.functions, *self.constants])}"
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions, *self.constants})

    def snapshot(self) -> Any:
        """The part of a program's key that stands for the Python values its functions read."""
        freezer = Freezer(self._arrays, function_reads)
        own = tuple(freezer.key(value) for value in self.constants.values())
        return (*((name, k.guard.snapshot()) for name, k in self.functions.items()), *own)

    def explain(self, old: Any, new: Any) -> str:
        """Which value that the program reads differs between two snapshots."""
        for (name, k), before, after in zip(self.functions.items(), old, new):
            if before != after:
                return f"{k.guard.explain(before[1], after[1])} (in {name})"
        for name, before, after in zip(self.constants, old[len(self.functions) :], new[len(self.functions) :]):
            if before != after:
                return difference(f"self.{name}", before, after)
        return ""

    def cache_report(self) -> CacheReport:
        """The programs of the entry; see `pypto.explain_cache`."""
        return self.entry.cache_report()

    def watch(self) -> Callable[[], bool]:
        """A quick test of whether `snapshot` would give what it gives now."""
        if all(type(value) in ATOMS or only_identity(value) for value in self.constants.values()):
            tests = [k.guard.watch() for k in self.functions.values()]
            return lambda: all(test() for test in tests)
        now = self.snapshot()
        return lambda: self.snapshot() == now

    def __pypto_guard__(self) -> Any:
        return self.snapshot()

    def __pypto_watch__(self) -> Callable[[], bool]:
        return self.watch()

    @property
    def entry(self) -> Kernel:
        """The function that others do not call: the host's, else the orchestration, else the opaque, else the in-core one.

        Errors:
          PL601 if there is not exactly one.
        """
        called = {name for k in self.functions.values() for name in k.staged.members}
        for kinds in _FIRST:
            found = [k for name, k in self.functions.items() if k.kind in kinds and name not in called]
            if len(found) == 1:
                return found[0]
            if found:
                names = [k.fn.__name__ for k in found]
                raise CallError("PL601", f"{self.name} has the entries {', '.join(names)}", fix=f"call one: {self.name}.{names[0]}(...)")
        raise CallError("PL601", f"{self.name} has no entry: its functions call each other", fix="a function that no other one calls")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the entry."""
        return self.entry(*args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Jaxpr:
        """The entry's body, with what it calls, as a jaxpr at the ref level."""
        return self.entry.trace(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Program:
        """The tile program of the entry: in-core kernels and the orchestration that launches them."""
        return self.entry.lower(*args, **kwargs)

    def compile(self, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        """Compile the entry for sample arguments, or for its annotations; see `Kernel.compile`."""
        return self.entry.compile(*args, config=config, **kwargs)

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """Run the entry at once, statement by statement."""
        return self.entry.eager(*args, **kwargs)

    def as_text(self) -> str:
        """The functions, one per line: the plane each belongs to, its parameters, and what it calls."""
        lines = [f"program {self.name}"]
        for name, k in self.functions.items():
            parameters = ", ".join(f"{p.name}: {p.type!r}" if p.type is not None else p.name for p in k.signature.parameters)
            calls = [m for m in dict.fromkeys(k.staged.members) if m in self.functions]
            lines.append(f"  {k.kind} {name}({parameters}){' calls ' + ', '.join(calls) if calls else ''}")
        return "\n".join(lines)

    __str__ = as_text


def program(cls: type | None = None, *, strict_ssa: bool = False) -> Any:
    """Make one program of a class: its methods, decorated with `@pl.function`, are the functions, which call each other as
    `self.other(...)`. The class is not one that can be instantiated: its name stands for the program.

    Args:
      strict_ssa: as `pl.function`, for every method.
    Errors:
      PL112 for a class without functions, or a method that is not decorated.
    """
    checked_flag("strict_ssa", strict_ssa, "pl.program")
    if cls is None:
        return lambda c: program(c, strict_ssa=strict_ssa)
    if not isinstance(cls, type):
        raise BodyError("PL109", f"{cls!r} is not a class", fix="decorate a `class`", at=user_source())
    functions, constants = {}, {}
    for name, value in _attributes(cls):
        if isinstance(value, Kernel):
            if not value.is_method and value.declared.form == "program":
                raise BodyError("PL112", f"`{cls.__name__}.{name}` misses `self`", fix=f"def {name}(self, ...)", at=value.staged.source)
            # a kernel of its own, as the class may share the function with others: `self` is another program in each
            declared = replace(value.declared, strict_ssa=strict_ssa or value.declared.strict_ssa)
            functions[name] = Kernel(value.fn, declared, like=value)
        elif isinstance(value, PythonFunction):
            fix = "@pl.function(type=...) makes it a function of the program; a helper in Python stands outside of the class"
            raise BodyError("PL112", f"`{cls.__name__}.{name}` is not decorated", fix=fix, at=user_source())
        else:
            constants[name] = value.__func__ if isinstance(value, staticmethod) else value
    if not functions:
        raise BodyError("PL112", f"`{cls.__name__}` has no functions", fix="decorate its methods with @pl.function", at=user_source())
    made = KernelProgram(cls.__name__, functions, constants)
    made.__doc__ = cls.__doc__
    for k in functions.values():
        k.owner = made
    return made


def _attributes(cls: type) -> Iterator[tuple[str, Any]]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        found.update(vars(base))
    return ((name, value) for name, value in found.items() if not (name.startswith("__") and name.endswith("__")))
