"""`@pl.jit.extern`: kernels whose body is C++ source. They run here once a Python meaning is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pypto.errors import BodyError, CallError
from pypto.language.declaration import Declaration
from pypto.language.kernel import Kernel
from pypto.source import user_source

_SOURCES = ("source", "aic_source", "aiv_source", "core_type", "dual_aiv_dispatch", "include_dirs")


class External:
    """The signature of a kernel in C++. `@stub.meaning` gives it a body that runs on this CPU.

    Attributes:
      fn: the stub.
      sources: the keywords of the decorator; the files are not read.
    """

    def __init__(self, fn: Callable[..., Any], sources: dict[str, Any]) -> None:
        self.fn, self.sources = fn, sources
        self.kernel: Kernel | None = None

    def __repr__(self) -> str:
        return f"<pl.jit.extern {self.fn.__name__}>"

    def __pypto_guard__(self) -> Any:
        return None if self.kernel is None else self.kernel.__pypto_guard__()

    def meaning(self, fn: Callable[..., Any]) -> Kernel:
        """Register what the kernel computes: a function with the same parameters, written as an in-core kernel.

        Errors:
          PL601 if the parameters differ.
        """
        given, declared = (list(inspect.signature(f).parameters) for f in (fn, self.fn))
        if given != declared:
            raise CallError("PL601", f"the meaning of {self.fn.__name__} takes {given}, its stub {declared}", fix="give both one signature")
        assert inspect.isfunction(fn)
        self.kernel = Kernel(fn, Declaration("incore"))
        return self.kernel

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.kernel is None:
            raise BodyError(
                "PL112",
                f"`{self.fn.__name__}` is a kernel in C++, which does not run here",
                fix=f"say what it computes: `@{self.fn.__name__}.meaning` on a function with its parameters, as of @pl.jit.incore",
            )
        return self.kernel(*args, **kwargs)


def external(fn: Any, sources: dict[str, Any]) -> Any:
    """The decorator behind `pl.jit.extern`."""
    for name in sources:
        if name not in _SOURCES:
            raise CallError("PL606", f"pl.jit.extern has no keyword {name}", fix=f"one of {', '.join(_SOURCES)}")
    if fn is None:
        return lambda f: external(f, sources)
    if not inspect.isfunction(fn):
        raise BodyError("PL109", f"{fn!r} is not a Python function", fix="decorate a `def`", at=user_source())
    return External(fn, sources)
