"""`RunConfig`: how a program is compiled, run and compared. Every field acts, or is refused with the reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pypto import config
from pypto.errors import CODES, CallError
from pypto.runtime.observed import RINGS, Watch
from pypto.runtime.options import BackendType, DiagnosticPhase, DistributedConfig, MemoryPlanner, OptimizationStrategy, PassDumpLevel

_CANNOT = {
    "enable_chip_swimlane": "a swimlane shows times of device cores, and this CPU has no model of those yet",
    "enable_pmu": "a CPU has none of the NPU's event counters",
    "enable_dep_gen": "orchestrations run in program order, without building a graph that could be written out",
    "aicpu_thread_num": "there is no AICPU: the calling thread runs the orchestration",
    "ring_dep_pool": "orchestrations run in program order, without dependency edges that could fill a pool",
    "distributed_config": "programs of several ranks are not here yet",
    "dump_ptoas_passes": "the assembler ptoas is not part of this library",
}
"""Fields that cannot act on a CPU, and why. They are accepted with their default values only."""

_INSTEAD = {
    "enable_chip_swimlane": "pypto.runtime.benchmark measures where the time goes",
    "enable_pmu": "pypto.runtime.benchmark measures on this CPU",
    "enable_dep_gen": "print(kernel.lower()): the orchestration is the list of tasks",
    "distributed_config": "compile the program of one rank",
}


@dataclass(frozen=True)
class RunConfig:
    """How to compile, run and compare. Unknown fields are a TypeError, values that cannot be honoured are PL607.

    Attributes:
      platform: what programs are compiled for and run as: a2a3, a2a3sim, a5, a5sim, or cpu for no platform limits. All of them
        run on this CPU, with the same bits. Default: the platform in force (a2a3sim unless changed).
      device_id: a number to tell workers apart; all devices are this CPU.
      rtol, atol: allowed relative and absolute error of `run`. Default: by the dtype of each output (see `tolerance_of`).
      strategy: Default, the only one.
      backend_type: the chip family. Default: the platform's; one that contradicts the platform is refused.
      dump_passes: one file per pass in `passes_dump/`: True, False or a PassDumpLevel.
      save_kernels, save_kernels_dir: `run` keeps the compiled program, inputs and goldens, in that directory (by default
        build_output/NAME_TIME).
      codegen_only: `run` stops when the program is compiled; a call, which runs, refuses it.
      compile_profiling: `report/pipeline_profile.txt` and `.json`: seconds of every pass.
      diagnostic_phase: NONE silences the library's warnings; PrePipeline, the default, gives them as they are found.
      disabled_diagnostics: codes of warnings to silence, such as {"PL204"}.
      golden_data_dir: where inputs and goldens are saved, and found again by the next run.
      memory_planner: None or PYPTO.
      ring_task_window, ring_heap: the most tasks, and bytes of buffers, that the open scopes of a ring may hold: one number, or one for
        each of the four rings, 0 for no limit. A run that passes it is PL509. The reference executor runs it.
      enable_scope_stats: one line per scope in `dfx_outputs/scope_stats/scope_stats.jsonl`, where the program is saved.
      enable_dump_args: 2 writes every launch's buffers, before and after, to `dfx_outputs/args_dump/`, where the program is saved; 1 those
        that a launch names in `dumps=`.
      analyze_auto_scopes_for_deps: dependencies always hold here, since work runs in program order; True and False run alike.
      check, executor, verify: as in `pypto.Config`; None keeps what is in force. A golden run that says neither check nor executor is
        checked.
      All other fields of the original exist, and only their defaults are accepted.

    Errors:
      PL606 for a value that does not exist, PL607 for one that cannot be honoured here.

    >>> RunConfig(platform="a5sim").backend_type
    <BackendType.Ascend950: 'a5'>
    """

    __test__ = False  # pytest: no class of tests

    platform: str = ""
    device_id: int = 0
    rtol: float | None = None
    atol: float | None = None
    strategy: OptimizationStrategy = OptimizationStrategy.Default
    backend_type: BackendType | None = None
    dump_passes: bool | PassDumpLevel = False
    save_kernels: bool = False
    save_kernels_dir: str | Path | None = None
    codegen_only: bool = False
    enable_chip_swimlane: int | bool = 0
    enable_dump_args: int | bool = 0
    enable_pmu: int = 0
    enable_dep_gen: bool = False
    enable_scope_stats: bool = False
    compile_profiling: bool = False
    diagnostic_phase: DiagnosticPhase | None = None
    disabled_diagnostics: Any = None
    golden_data_dir: str | Path | None = None
    aicpu_thread_num: int | None = None
    ring_task_window: int | Sequence[int] | None = None
    ring_heap: int | Sequence[int] | None = None
    ring_dep_pool: int | Sequence[int] | None = None
    distributed_config: DistributedConfig | None = None
    analyze_auto_scopes_for_deps: bool = False
    memory_planner: MemoryPlanner | None = None
    dump_ptoas_passes: bool = False
    check: bool | None = None
    executor: str | None = None
    verify: bool | None = None

    def __post_init__(self) -> None:
        self._settle_platform()
        self._check_values()
        for f in fields(self):
            if f.name in _CANNOT and getattr(self, f.name) not in (f.default, None):
                raise CallError(
                    "PL607",
                    f"{f.name}={getattr(self, f.name)!r} cannot be honoured: {_CANNOT[f.name]}",
                    fix=_INSTEAD.get(f.name, f"leave {f.name} out"),
                )

    def _settle_platform(self) -> None:
        kind = self.backend_type
        if kind is not None and not isinstance(kind, BackendType):
            raise CallError("PL606", f"backend_type={kind!r}", fix="BackendType.Ascend910B or BackendType.Ascend950")
        in_force = config.current().platform
        chosen = self.platform or (in_force if kind is None or kind is BackendType.of(in_force) else f"{kind.value}sim")
        family = BackendType.of(chosen)
        if kind is not None and kind is not family and chosen != "cpu":
            raise CallError(
                "PL606",
                f"platform {chosen!r} is {family.name}, but backend_type is {kind.name}",
                fix="drop backend_type: the platform decides",
            )
        object.__setattr__(self, "platform", chosen)
        object.__setattr__(self, "backend_type", kind if chosen == "cpu" and kind is not None else family)

    def _check_values(self) -> None:
        _is_number(self, "device_id", 0)
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")):
                raise CallError("PL606", f"{name}={value!r} is no tolerance", fix="a number from 0 on, or None for the dtype's own")
        if not isinstance(self.strategy, OptimizationStrategy):
            raise CallError("PL606", f"strategy={self.strategy!r}", fix="OptimizationStrategy.Default")
        object.__setattr__(self, "dump_passes", PassDumpLevel.of(self.dump_passes))
        if self.memory_planner not in (None, MemoryPlanner.PYPTO):
            raise CallError(
                "PL607", f"memory_planner={self.memory_planner} cannot be honoured: no such planner is here", fix="MemoryPlanner.PYPTO"
            )
        if self.diagnostic_phase not in (None, DiagnosticPhase.NONE, DiagnosticPhase.PrePipeline):
            raise CallError(
                "PL607",
                f"diagnostic_phase={self.diagnostic_phase} cannot be honoured: warnings are given as they are found",
                fix="DiagnosticPhase.NONE silences them; disabled_diagnostics={'PL204'} silences one kind",
            )
        for code in self.disabled_diagnostics or ():
            if code not in CODES:
                raise CallError("PL606", f"disabled_diagnostics: there is no code {code!r}", fix="a set of codes, such as {'PL204'}")
        if self.executor is not None and self.executor not in config.EXECUTORS:
            raise CallError("PL606", f"there is no executor {self.executor!r}", fix=f"one of {', '.join(config.EXECUTORS)}")
        if self.save_kernels_dir is not None and not self.save_kernels:
            raise CallError("PL606", "save_kernels_dir is given, but save_kernels is False", fix="save_kernels=True")
        if self.enable_dump_args not in (0, 1, 2):
            raise CallError("PL606", f"enable_dump_args={self.enable_dump_args!r}", fix="0, 1 for what dumps= names, or 2 for everything")
        self._check_rings()

    @property
    def wants_files(self) -> bool:
        """Whether a field asks for files of the compiled program."""
        return self.save_kernels or self.compile_profiling or self.dumps is not PassDumpLevel.NONE

    @property
    def is_watching(self) -> bool:
        """Whether a field asks to watch runs, which the reference executor does."""
        limits = self._per_ring("ring_task_window") + self._per_ring("ring_heap")
        return bool(self.enable_scope_stats or self.enable_dump_args or any(limits))

    def watch(self, directory: Callable[[], Path]) -> Watch | None:
        """What these fields ask to watch; files go below `directory()`, which is asked only if there are any."""
        if not self.is_watching:
            return None
        limits = [self._per_ring(name) for name in ("ring_task_window", "ring_heap")]
        files = directory() / "dfx_outputs" if self.enable_scope_stats or self.enable_dump_args else None
        return Watch(
            window=limits[0],
            heap=limits[1],
            scopes=files / "scope_stats" / "scope_stats.jsonl" if files is not None and self.enable_scope_stats else None,
            arguments=files / "args_dump" if files is not None and self.enable_dump_args else None,
            only_marked=int(self.enable_dump_args) == 1,
        )

    def _per_ring(self, name: str) -> tuple[int, ...]:
        value = getattr(self, name)
        return (0,) * RINGS if value is None else (value,) * RINGS if isinstance(value, int) else tuple(value)

    def _check_rings(self) -> None:
        for name, least, power in (("ring_task_window", 4, True), ("ring_heap", 1024, True), ("ring_dep_pool", 4, False)):
            value = getattr(self, name)
            if value is None:
                continue
            each = [value] if isinstance(value, int) else list(value)
            if not isinstance(value, int) and len(each) != RINGS:
                raise CallError("PL606", f"{name} has {len(each)} entries for {RINGS} rings", fix="one number, or one for each ring")
            for n in each:
                known = isinstance(n, int) and not isinstance(n, bool)
                if not known or (n < least and not (n == 0 and len(each) > 1)) or (power and n & (n - 1)) or (n > 2**31 - 1 and not power):
                    kind = "a power of two" if power else "a number"
                    raise CallError("PL606", f"{name}={value!r}", fix=f"{kind} from {least} on")

    @property
    def dumps(self) -> PassDumpLevel:
        """`dump_passes` as a level."""
        assert isinstance(self.dump_passes, PassDumpLevel)
        return self.dump_passes

    @contextmanager
    def in_force(self) -> Iterator[RunConfig]:
        """Compile and run under this configuration for the length of a `with` block."""
        changes: dict[str, Any] = {"platform": self.platform}
        changes |= {name: getattr(self, name) for name in ("check", "executor", "verify") if getattr(self, name) is not None}
        with ExitStack() as stack:
            stack.enter_context(config.override(**changes))
            silent = sorted(CODES) if self.diagnostic_phase is DiagnosticPhase.NONE else sorted(self.disabled_diagnostics or ())
            if silent:
                stack.enter_context(_silenced(tuple(silent)))
            yield self


@contextmanager
def _silenced(codes: tuple[str, ...]) -> Iterator[None]:
    with warnings.catch_warnings():
        for code in codes:
            warnings.filterwarnings("ignore", message=f"{code}: ")
        yield


def _is_number(options: RunConfig, name: str, least: int) -> None:
    value = getattr(options, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise CallError("PL606", f"{name}={value!r}", fix=f"a number from {least} on")


def chosen(options: RunConfig | None, **given: Any) -> RunConfig:
    """A configuration from `config=` or from loose fields, not both.

    Errors:
      PL606 for both, PL601 for something that is no RunConfig.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if options is None:
        return RunConfig(**given)
    if not isinstance(options, RunConfig):
        raise CallError("PL601", f"config= takes a RunConfig, got {type(options).__name__}", fix="config=RunConfig(platform=...)")
    for name, value in given.items():
        if value != getattr(options, name):
            raise CallError("PL606", f"{name}={value!r} is given beside config=, which says {getattr(options, name)!r}", fix="keep one")
    return options
