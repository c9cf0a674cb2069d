"""How long a compiled program takes: its own time and the time around it, launch by launch.

There is no device, and no model of one yet: "device" is the time of this CPU inside the compiled program, "host" the time of the whole
dispatch, binding and copies included. `BenchmarkStats.device` says so wherever the numbers are shown.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pypto.errors import CallError
from pypto.runtime.compiled import CompiledProgram
from pypto.runtime.config import RunConfig, chosen
from pypto.runtime.dispatch import Timing
from pypto.runtime.tensors import DeviceTensor
from pypto.runtime.worker import ChipWorker

DEVICE = "this CPU, inside the compiled program"


@dataclass(frozen=True)
class TraceSpan:
    """One part of a launch: a dotted name, and microseconds."""

    name: str
    dur_us: float

    @property
    def depth(self) -> int:
        """How many parts it is inside of."""
        return self.name.count(".") - 1

    @property
    def is_device(self) -> bool:
        """Whether it is time inside the program."""
        return self.name.endswith("device_wall")


@dataclass(frozen=True)
class TraceInvocation:
    """The parts of one launch."""

    spans: tuple[TraceSpan, ...]
    task: str

    @staticmethod
    def of(timing: Timing, task: str) -> TraceInvocation:
        """From the seconds of a dispatch."""
        parts = (("chip.run", timing.total), ("chip.run.bind", timing.bind), ("chip.run.device_wall", timing.device))
        parts = (*parts, ("chip.run.copy_back", timing.back))
        return TraceInvocation(tuple(TraceSpan(name, s * 1e6) for name, s in parts), task)

    def by_name(self) -> dict[str, TraceSpan]:
        """The parts by name."""
        return {s.name: s for s in self.spans}

    @property
    def device_wall_us(self) -> float:
        """Microseconds inside the program."""
        return self.by_name()["chip.run.device_wall"].dur_us

    @property
    def host_wall_us(self) -> float:
        """Microseconds of the whole dispatch."""
        return self.by_name()["chip.run"].dur_us

    def format_tree(self, value: Callable[[TraceSpan], str] | None = None) -> str:
        """The parts as an indented tree."""
        show = value or (lambda s: f"{s.dur_us:10.1f} us")
        lines = []
        for i, s in enumerate(self.spans):
            branch = "" if s.depth == 0 else "`- " if i == len(self.spans) - 1 else "|- "
            label = f"{branch}{s.name if s.depth == 0 else s.name.rsplit('.', 1)[1]}{' [dev]' if s.is_device else ''}"
            lines.append(f"{label:24}{show(s)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class BenchmarkStats:
    """Times of every measured launch, in microseconds.

    Attributes:
      device_wall_us: inside the program, launch by launch. `device` says what that is.
      host_wall_us: the whole dispatch, launch by launch.
      rounds, warmup: how many launches were measured, and how many went before.
      invocations: the parts of every measured launch.
      executor: what ran it: "cpu", or "reference" with the reason why.
      rounds_dispatches, fallback_flattened, unstable_dispatch_slots: of programs of several ranks; empty here.
    """

    device_wall_us: list[float] = field(default_factory=list)
    host_wall_us: list[float] = field(default_factory=list)
    rounds: int = 0
    warmup: int = 0
    invocations: list[TraceInvocation] = field(default_factory=list)
    rounds_dispatches: list[dict[int, list[TraceInvocation]]] = field(default_factory=list)
    fallback_flattened: bool = False
    unstable_dispatch_slots: bool = False
    executor: str = ""

    device = DEVICE

    @property
    def samples(self) -> list[float]:
        """`device_wall_us`."""
        return self.device_wall_us

    @property
    def all_zero_device(self) -> bool:
        """Whether there are launches, and all took no time inside the program."""
        return bool(self.device_wall_us) and not any(self.device_wall_us)

    @property
    def device_us_min(self) -> float:
        """The shortest time inside the program."""
        return min(self.device_wall_us)

    @property
    def device_us_median(self) -> float:
        """The median time inside the program."""
        return statistics.median(self.device_wall_us)

    @property
    def device_us_mean(self) -> float:
        """The mean time inside the program."""
        return statistics.fmean(self.device_wall_us)

    @property
    def device_us_max(self) -> float:
        """The longest time inside the program."""
        return max(self.device_wall_us)

    @property
    def device_us_stdev(self) -> float:
        """The standard deviation of the time inside the program; 0 for a single launch."""
        return statistics.stdev(self.device_wall_us) if len(self.device_wall_us) > 1 else 0.0

    device_wall_us_min = device_us_min
    device_wall_us_median = device_us_median
    device_wall_us_mean = device_us_mean
    device_wall_us_max = device_us_max
    device_wall_us_stdev = device_us_stdev

    def per_round(self, metric: str = "device") -> list[float]:
        """One value per launch of "device" or "host".

        Errors:
          PL606 for another metric.
        """
        if metric not in ("device", "host"):
            raise CallError("PL606", f"there is no metric {metric!r} of a program of one rank", fix="'device' or 'host'")
        return list(self.device_wall_us if metric == "device" else self.host_wall_us)

    def per_rank(self, metric: str = "device") -> dict[int, list[float]]:
        """By rank, for programs of several.

        Errors:
          PL606 for another metric; PL607: programs of several ranks are not here yet.
        """
        self.per_round(metric)
        raise _one_rank("per_rank")

    def per_dispatch(self, metric: str = "device") -> dict[tuple[int, int], list[float]]:
        """By dispatch of a rank, for programs of several.

        Errors:
          PL606 for another metric; PL607: programs of several ranks are not here yet.
        """
        self.per_round(metric)
        raise _one_rank("per_dispatch")

    def dispatch_groups(self) -> dict[tuple[int, int], list[TraceInvocation]]:
        """The launches by dispatch of a rank, for programs of several.

        Errors:
          PL607: programs of several ranks are not here yet.
        """
        raise _one_rank("dispatch_groups")

    def dispatch_tasks(self) -> dict[tuple[int, int], str]:
        """What each dispatch of a rank runs, for programs of several.

        Errors:
          PL607: programs of several ranks are not here yet.
        """
        raise _one_rank("dispatch_tasks")

    def mean_invocation(self) -> TraceInvocation:
        """The mean of all launches, part by part."""
        groups = zip(*(i.spans for i in self.invocations), strict=True)
        spans = tuple(TraceSpan(group[0].name, statistics.fmean(s.dur_us for s in group)) for group in groups)
        return TraceInvocation(spans, self.invocations[0].task)

    def format_tree(self, launch: int | None = None) -> str:
        """The parts of one launch, or of all."""
        chosen_ones = enumerate(self.invocations) if launch is None else [(launch, self.invocations[launch])]
        return "\n".join(f"launch {i} ({self.executor}; device: {self.device}):\n{one.format_tree()}" for i, one in chosen_ones)

    def print_tree(self, launch: int | None = None) -> None:
        """Print `format_tree`."""
        print(self.format_tree(launch))

    def format_mean_tree(self, spread: str = "stdev") -> str:
        """The mean of all launches, part by part, with its spread: "stdev", "minmax", "both" or "none".

        Errors:
          PL606 for another spread.
        """
        if spread not in ("stdev", "minmax", "both", "none"):
            raise CallError("PL606", f"there is no spread {spread!r}", fix="'stdev', 'minmax', 'both' or 'none'")
        series: dict[str, list[float]] = {}
        for one in self.invocations:
            for s in one.spans:
                series.setdefault(s.name, []).append(s.dur_us)

        def shown(s: TraceSpan) -> str:
            values = series[s.name]
            parts = [f"{s.dur_us:10.1f} us"]
            if spread in ("stdev", "both"):
                parts.append(f"±{statistics.stdev(values) if len(values) > 1 else 0.0:.1f}")
            if spread in ("minmax", "both"):
                parts.append(f"[{min(values):.1f}..{max(values):.1f}]")
            return "  ".join(parts)

        head = f"mean of {self.rounds} launches after {self.warmup} of warmup ({self.executor}; device: {self.device}):"
        return f"{head}\n{self.mean_invocation().format_tree(shown)}"

    def print_mean_tree(self, spread: str = "stdev") -> None:
        """Print `format_mean_tree`."""
        print(self.format_mean_tree(spread))

    def __str__(self) -> str:
        return self.format_mean_tree("both")


def benchmark(
    compiled: CompiledProgram,
    args: Sequence[Any],
    *,
    rounds: int = 100,
    warmup: int = 3,
    platform: str | None = None,
    device_id: int | None = None,
    config: RunConfig | None = None,
) -> BenchmarkStats:
    """Register a program once, launch it `rounds` times, and keep the times.

    The compiled executor runs it, without the checks of the reference executor, unless `config` says which to use.

    Args:
      args: the program's arguments, the same for every launch. With device tensors, it runs on their worker.
      rounds, warmup: launches that are measured, and before them.
      platform, device_id, config: of the worker; by default those the program was compiled with.
    Errors:
      PL601 for numbers of launches that make no measurement; as `ChipWorker.run`.
    """
    if not isinstance(compiled, CompiledProgram):
        raise CallError("PL601", f"benchmark measures compiled programs, not a {type(compiled).__name__}", fix="kernel.compile(...)")
    if rounds < 1 or warmup < 0:
        raise CallError("PL601", f"rounds={rounds}, warmup={warmup}", fix="at least one round, and a warmup of 0 and more")
    options = chosen(config, platform=platform if platform is not None or config is not None else compiled.platform, device_id=device_id)
    options = _as_measured(options)
    owners = [a.worker for a in args if isinstance(a, DeviceTensor)]
    with nullcontext(owners[0]) if owners else ChipWorker(config=options) as worker:
        with options.in_force():
            worker.register(compiled)
        for _ in range(warmup):
            worker.timed(compiled, args, {}, options)
        timings = [worker.timed(compiled, args, {}, options)[1] for _ in range(rounds)]
    return BenchmarkStats(
        device_wall_us=[t.device * 1e6 for t in timings],
        host_wall_us=[t.total * 1e6 for t in timings],
        rounds=rounds,
        warmup=warmup,
        invocations=[TraceInvocation.of(t, compiled.name) for t in timings],
        executor=_why(compiled, timings[-1].executor, options),
    )


def _as_measured(options: RunConfig) -> RunConfig:
    """The compiled executor, which checks nothing, where the configuration leaves that open."""
    if options.executor is None and not options.check:
        options = replace(options, executor="cpu")
    if options.executor == "cpu" and options.check is None:
        options = replace(options, check=False)
    return options


def _why(compiled: CompiledProgram, executor: str, options: RunConfig) -> str:
    if executor == "cpu" or options.executor != "cpu":
        return executor
    if options.check:
        return "reference: check=True"
    if options.is_watching:
        return "reference: it is watched"
    return f"reference: {compiled.program.compiled.reason}"


def _one_rank(what: str) -> CallError:
    reason = "programs of several ranks are not here yet, and this is one of one"
    return CallError("PL607", f"{what}() cannot be honoured: {reason}", fix="per_round() has every launch, invocations its parts")
