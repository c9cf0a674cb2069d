"""What a kernel offers beside its body: compiling, `config=`, and the report of writes that stay on the device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pypto import config
from pypto.errors import CallError, OutputError, warn
from pypto.source import Frame, Source

FRONT: dict[str, Callable[..., Any]] = {}
"""What `pypto.runtime` fills in: `compile`, and `call` under a configuration."""


class Front:
    """The part of a kernel that does not look at its body."""

    _device_writes: set[str]

    @property
    def compiled_programs(self) -> dict[Any, Any]:
        """What `compile` has made, by what it was made for."""
        return self.__dict__.setdefault("_compiled_programs", {})

    def compile(self, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        """Compile for sample arguments, of which only shapes and dtypes are read; without any, for the annotations.

        Args:
          args, kwargs: the kernel's own arguments. Tensors whose annotations say shape and dtype may be left out.
          config: a `pypto.runtime.RunConfig`: everything that is no argument of the kernel.
        Returns:
          A `pypto.runtime.CompiledProgram`; the same one for the same samples and configuration.
        Errors:
          PL601, a TypeError, for an argument that is not the kernel's.
        """
        return FRONT["compile"](self, args, kwargs, config)

    def report_device_writes(self, kernel: str, found: Mapping[str, Frame | Source | None], resident: Collection[str] | None) -> None:
        """PL203 as a warning, once per parameter: a write that is allowed and not copied back.

        Args:
          resident: the parameters whose memory is on a device; None if the kernel may write any on the device.
        Errors:
          PL203 for a write to another parameter.
        """
        for name, at in found.items():
            if resident is not None and name not in resident:
                raise undeclared(name, at)
            if resident is None and name not in self._device_writes:
                self._device_writes.add(name)
                warn(
                    "PL203",
                    f"`{name}` of {kernel}() is declared an input and written on the device: nothing is copied back",
                    fix=f"annotate `{name}` with pl.InOut[...] if the caller is to see it",
                    at=at,
                )


def undeclared(name: str, at: Any = None, through: str = "") -> OutputError:
    """The error for a store into an input; `through` names the output of a called function that would be it."""
    what = f"{through} is an output and gets `{name}`" if through else f"a store into `{name}`"
    return OutputError(
        "PL203",
        f"{what}, which is declared an input: it would never reach the caller",
        fix=f'annotate `{name}` with pl.Out[...] or pl.InOut[...]; for device-resident caches @pl.jit(undeclared_writes="device")',
        at=at,
    )


def configured(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method that was given `config=` under that configuration, without it."""
    options = kwargs.pop("config")
    if options is None:
        return function(*args, **kwargs)
    with config.in_force(options):
        return function(*args, **kwargs)


def resident(given: Any, where: str) -> CallError:
    """The error for a device tensor in a call that specializes on its arguments."""
    return CallError(
        "PL602",
        f"{where} is {given!r}: a call of a @pl.jit kernel specializes on host arrays, and a DeviceTensor is none",
        fix="dispatch a compiled program instead: compiled = kernel.compile(...); worker.run(compiled, ...)",
    )
