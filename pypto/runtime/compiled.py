"""`CompiledProgram`: a program with its call surface. It can be called, saved, loaded, checked pass by pass."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pypto import config
from pypto.core.ir import Jaxpr
from pypto.errors import CallError
from pypto.runtime import artifacts, encoding
from pypto.runtime.config import RunConfig
from pypto.runtime.dispatch import Entry
from pypto.runtime.options import BackendType, PassDumpLevel
from pypto.runtime.validate import validate
from pypto.runtime.worker import ChipWorker
from pypto.source import Source
from pypto.tile import Program
from pypto.tile.pipeline import stages

_ON_DEVICE = ("build_orch_args", "build_call_config", "runtime_name", "runtime_config", "chip_callable")


class CompiledProgram:
    """A compiled program: call it with the kernel's arguments, or run it on a `ChipWorker`.

    Attributes:
      name: the kernel's.
      program: the tile program; `print` shows it.
      platform: what it was compiled for.
      config: what it was compiled with.
    """

    def __init__(
        self,
        program: Program,
        options: RunConfig,
        source: Source,
        *,
        defaults: Mapping[str, Any] | None = None,
        fixed: Sequence[tuple[int, str, Any]] = (),
        output_dir: str | Path | None = None,
    ) -> None:
        self.program, self.name, self.platform = program, program.name, program.platform
        self.config, self.source = options, source
        self.entry = Entry(program, source, defaults, fixed)
        self._directory = None if output_dir is None else Path(output_dir)
        self._is_saved = False

    def __repr__(self) -> str:
        return f"<CompiledProgram {self.name}({', '.join(self.param_names)}) for {self.platform}>"

    def __getattr__(self, name: str) -> Any:
        if name in _ON_DEVICE:
            raise AttributeError(f"{name} belongs to the runtime of a device; here the program is called, or given to a ChipWorker")
        raise AttributeError(f"a CompiledProgram has no {name!r}")

    # ---- its call surface ----

    @property
    def backend_type(self) -> BackendType:
        """The chip family it was compiled for."""
        return BackendType.of(self.platform)

    @property
    def param_names(self) -> list[str]:
        """The parameters, in order."""
        return self.entry.names

    @property
    def output_indices(self) -> list[int]:
        """Positions of the parameters it writes for the caller, in/out ones included."""
        return self.entry.outputs

    @property
    def has_return(self) -> bool:
        """Whether outputs may be left out of a call, which then returns them: every pure output may."""
        return any(
            p.is_output and p.type is not None and getattr(p.type, "direction", "") == "out" for p in self.entry.signature.parameters
        )

    @property
    def orchestration_names(self) -> list[str]:
        """The orchestrations it has: one."""
        return [self.name]

    def __call__(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Any:
        """Run it; outputs are written in place, and those left out are returned.

        Inside `with ChipWorker(...)` it runs on that worker; otherwise on a worker of its own.

        Errors:
          PL601, PL602 for arguments that do not fit, PL610 if `config` or the worker is of another platform.
        """
        worker = ChipWorker.current()
        if worker is not None:
            return worker.run(self, *args, config=config, **kwargs)
        with ChipWorker(platform=self.platform) as own:
            return own.run(self, *args, config=config, **kwargs)

    def refuse_other_platform(self, config: RunConfig | None) -> None:
        """Refuse a configuration of another platform than it was compiled for.

        Errors:
          PL610.
        """
        if config is not None and config.platform != self.platform:
            raise CallError(
                "PL610",
                f"`{self.name}` is compiled for {self.platform}, config= says {config.platform}",
                fix=f"compile it with config=RunConfig(platform={config.platform!r})",
            )

    def load(self) -> None:
        """Make it ready to run: with the compiled executor in force, its machine code."""
        chosen = config.current()
        if chosen.executor == "cpu" and not chosen.check:
            _ = self.program.compiled

    # ---- looking at it ----

    def as_text(self, *, lines: bool = False) -> str:
        """The tile program as text; with the user's lines on request."""
        return self.program.as_text(lines=lines)

    def validate_ir(
        self,
        tensors: Mapping[str, Any] | Sequence[Any],
        expected: Mapping[str, Any] | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        passes: Sequence[Any] | None = None,
    ) -> list[str]:
        """Run the program after each pass, and name the first pass whose results differ. See `pypto.runtime.validate`."""
        return validate(self, tensors, expected, rtol=rtol, atol=atol, passes=passes)

    # ---- on disk ----

    @property
    def output_dir(self) -> Path:
        """Where it is saved. Asking saves it, if it is not: into the directory it was compiled for, or build_output/NAME_TIME."""
        if self._directory is None:
            self._directory = free_directory(self.name)
        if not self._is_saved:
            self.save(self._directory)
        return self._directory

    def save(self, directory: str | Path) -> Path:
        """Write it to a directory that `load_from` or `from_dir` reads in any process, with the same bits.

        Errors:
          PL608 for a directory that holds other files, or a program that has no written form.
        """
        target = Path(directory)
        facts = {
            "name": self.name,
            "platform": self.platform,
            "parameters": self.param_names,
            "source": [self.source.file, self.source.line, self.source.column, self.source.end_column],
            "defaults": self.entry.defaults,
            "fixed": [list(row) for row in self.entry.fixed],
        }
        _refuse_objects(self.name, facts["fixed"])
        artifacts.write(target, encoding.encode(self.program), facts, self._texts())
        self._directory, self._is_saved = target, True
        return target

    @classmethod
    def from_dir(cls, directory: str | Path) -> CompiledProgram:
        """The program saved in a directory.

        Errors:
          PL608 for a directory that is missing, truncated, edited, or not of this kind. Nothing in it is ever executed.
        """
        saved = artifacts.read(Path(directory))
        source, defaults, fixed = artifacts.call_surface(Path(directory), saved.facts)
        compiled = cls(saved.program, RunConfig(platform=saved.program.platform), source, defaults=defaults, fixed=fixed)
        compiled._directory, compiled._is_saved = Path(directory), True
        return compiled

    def _texts(self) -> dict[str, str]:
        """The files for people that its configuration asks for."""
        found: dict[str, str] = {}
        if self.program.traced is None or not (self.config.dumps is not PassDumpLevel.NONE or self.config.compile_profiling):
            return found
        seconds: dict[str, float] = {}
        began = time.perf_counter()
        for number, (name, stage) in enumerate(stages(self.program.traced, self.platform)):
            seconds[name] = time.perf_counter() - began
            if self.config.dumps is not PassDumpLevel.NONE:
                found[f"passes_dump/{number:02}_after_{name}.txt"] = _shown(stage, self.config.dumps is PassDumpLevel.EXPLICIT)
            began = time.perf_counter()
        if self.config.compile_profiling:
            found["report/pipeline_profile.json"] = json.dumps(seconds, indent=1)
            found["report/pipeline_profile.txt"] = "".join(f"{name:24} {s * 1e3:10.3f} ms\n" for name, s in seconds.items())
        return found


def _shown(stage: Jaxpr | Program, lines: bool) -> str:
    from pypto.core.printer import show

    return (stage.as_text(lines=lines) if isinstance(stage, Program) else show(stage, lines=lines)) + "\n"


def _refuse_objects(name: str, fixed: Any) -> None:
    for _, parameter, value in fixed:
        if value is not None and type(value) not in (bool, int, float, str):
            raise CallError(
                "PL608",
                f"`{parameter}` of {name}() is the {type(value).__name__} it was compiled for, which has no written form",
                fix="numbers and strings do; keep the program in this process otherwise",
            )


def free_directory(name: str) -> Path:
    """A directory under build_output that does not exist yet."""
    stamp = time.strftime("%Y%m%d_%H%M%S")
    base = Path("build_output") / f"{name}_{stamp}"
    found, count = base, 1
    while found.exists():
        count += 1
        found = base.with_name(f"{base.name}_{count}")
    return found
