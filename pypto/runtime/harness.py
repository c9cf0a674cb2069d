"""Golden tests: compile, make inputs, compute the golden, run, compare. `run` is what users call."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pypto import config as settings
from pypto.errors import CallError, NumericsError
from pypto.runtime import saved
from pypto.runtime.compiled import CompiledProgram, free_directory
from pypto.runtime.compiling import compile_program
from pypto.runtime.config import RunConfig, chosen
from pypto.runtime.goldens import Golden, Spec, made
from pypto.runtime.worker import ChipWorker
from pypto.testing.closeness import Closely, Closeness, measure
from pypto.testing.compare import Comparison
from pypto.testing.harness import copied, refuse_bad_specs, untouched
from pypto.testing.specs import Array, ScalarSpec, TensorSpec, as_library
from pypto.tile import Program


@dataclass(frozen=True)
class RunResult:
    """What a run found.

    Attributes:
      passed: every output is what the golden says. True, too, if there was no golden (`checked` is False then).
      test_name: what it was called.
      error: the report of the outputs that differ, None if it passed.
      execution_time: seconds of everything: compiling, the golden, running, comparing. `benchmark` measures the program alone.
      profile: seconds of each part; what ran it; bytes the golden needed at its peak.
      reports: what comparing each output found, by name.
      actual, expected: the arrays that were compared.
      checked: whether there was a golden.
      compiled: the program; work_dir: where it and its data were saved, if they were.
    """

    __test__ = False  # pytest: no class of tests

    passed: bool
    test_name: str | None = None
    error: str | None = None
    execution_time: float | None = None
    profile: dict[str, Any] | None = None
    reports: dict[str, str] = field(default_factory=dict)
    actual: dict[str, Array] = field(default_factory=dict)
    expected: dict[str, Array] = field(default_factory=dict)
    checked: bool = True
    compiled: CompiledProgram | None = None
    work_dir: Path | None = None

    def __str__(self) -> str:
        name = f" {self.test_name}" if self.test_name else ""
        seconds = f" ({self.execution_time:.2f} s)" if self.execution_time is not None else ""
        note = "" if self.checked else ", not compared: there is no golden"
        return f"{'PASS' if self.passed else 'FAIL'}{name}{seconds}{note}" + (f"\n{self.error}" if self.error else "")


def run(
    program: Any,
    *args: Any,
    golden: Golden = None,
    config: RunConfig | None = None,
    golden_fn: Callable[..., Any] | None = None,
    compare: Mapping[str, Callable[..., Any]] | Callable[..., Any] | None = None,
    seed: int = 0,
    test_name: str | None = None,
    **kwargs: Any,
) -> Any:
    """Run a program: on specs, against a golden, as `run(program, specs, golden, config)`; or once on tensors, `run(program, *tensors)`.

    Args:
      program: a kernel, a program class, a lowered or a compiled program.
      specs: one per parameter, of its name.
      golden: takes every input as an array, in order, and returns the outputs, in order or by name; or the dotted name of a JAX function.
      golden_fn: the other convention: takes one dict of all values by name, and fills in the outputs.
      config: how to compile, run and compare; None takes the defaults, and the platform of a lowered or compiled program.
      compare: for an output by name, or for all: a rule of `pypto.testing`, or any function of (actual, expected). One that has the
        keywords is also given actual_outputs, expected_outputs, inputs, rtol and atol. It returns a bool, (bool, text), or a comparison.
      seed: every input's values depend on it and on the input's name.
    Returns:
      A `RunResult`. With tensors, which are written in place: the compiled program.
    Errors:
      PL702 for specs, a golden or saved data that cannot be used; PL610 for a compiled program of another platform than `config` says;
      whatever compiling and running raise. A mismatch is no error.

    >>> import pypto.language as pl
    >>> @pl.jit
    ... def twice(x: pl.Tensor[[8, 16], pl.FP16], out: pl.Out[pl.Tensor[[8, 16], pl.FP16]]):
    ...     with pl.at(level=pl.Level.CORE_GROUP):
    ...         out[:] = pl.muls(x, 2.0)
    >>> specs = [TensorSpec("x", [8, 16], pl.FP16), TensorSpec("out", [8, 16], pl.FP16, output=True)]
    >>> run(twice, specs, lambda x: 2 * x).passed
    True
    """
    home = program.platform if isinstance(program, CompiledProgram | Program) else ""
    given = [*args]
    specs = given.pop(0) if given and are_specs(given[0]) else kwargs.pop("specs", None)
    if specs is None:
        _refuse_extra(kwargs)
        _refuse_what_needs_specs(golden=golden, golden_fn=golden_fn, compare=compare, seed=seed or None, test_name=test_name)
        return _run_once(program, args, chosen(config or RunConfig(platform=home)))
    for name, keyword in (("golden", golden), ("config", config)):
        if given and keyword is not None:
            raise CallError("PL601", f"run() got {name} twice, in its place and by name", fix="keep one")
        if name == "golden":
            golden = given.pop(0) if given else golden
        else:
            config = given.pop(0) if given else config
    if given:
        raise CallError(
            "PL601", f"run() takes program, specs, golden and config in order, got {len(args) + 1} arguments", fix="name the rest"
        )
    options, compare = _original_spelling(config, compare, kwargs, home)
    _refuse_extra(kwargs)
    return _Run(program, list(specs), golden, golden_fn, options, compare, seed, test_name).result()


def run_jit(fn: Any, specs: Sequence[Spec], golden_fn: Callable[..., Any] | None = None, **options: Any) -> RunResult:
    """`run` under the name and with the keywords of the original's kernel library; `golden_fn` takes the dict of all values.

    Args:
      options: of `run`, and `golden_data`, `compile_cfg`, `runtime_cfg`, `rtol`, `atol`, `compare_fn`, `compile_only`, `save_data`.
    """
    return run(fn, specs=specs, golden_fn=golden_fn, **options)


def _original_spelling(config: RunConfig | None, compare: Any, kwargs: dict[str, Any], home: str) -> tuple[RunConfig, Any]:
    """The keywords of the original's kernel library, as a RunConfig; where none says a platform, it is `home`."""
    fields: dict[str, Any] = {**(kwargs.pop("compile_cfg", None) or {}), **(kwargs.pop("runtime_cfg", None) or {})}
    for name, meaning in (("rtol", "rtol"), ("atol", "atol"), ("golden_data", "golden_data_dir"), ("compile_only", "codegen_only")):
        value = kwargs.pop(name, None)
        if value is not None:
            fields[meaning] = value
    if kwargs.pop("save_data", False):
        fields["save_kernels"] = True
    rules = kwargs.pop("compare_fn", None)
    if rules is not None and compare is not None:
        raise CallError("PL601", "both compare and compare_fn are given", fix="keep one; they mean the same")
    if fields and config is not None:
        raise CallError("PL601", f"{', '.join(fields)} is given beside config=", fix="put it into the RunConfig")
    try:
        fields.setdefault("platform", home)
        options = RunConfig(**fields) if config is None else chosen(config)
    except TypeError as error:
        if isinstance(error, CallError):
            raise
        raise CallError("PL601", f"RunConfig has no such field: {error}", fix="see pypto.runtime.RunConfig") from None
    return options, rules if compare is None else compare


def _refuse_extra(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise CallError("PL601", f"run() has no option `{next(iter(kwargs))}`", fix="options go in config=RunConfig(...)")


def _refuse_what_needs_specs(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise CallError(
                "PL601", f"run() got `{name}` with tensors: nothing is made or compared then", fix="give specs: run(program, specs, golden)"
            )


def are_specs(x: Any) -> bool:
    """Whether it is a list of specs, as opposed to a tensor."""
    return isinstance(x, list | tuple) and bool(x) and all(isinstance(item, TensorSpec | ScalarSpec) for item in x)


def _run_once(program: Any, tensors: tuple[Any, ...], options: RunConfig) -> CompiledProgram:
    compiled = _compiled(program, tensors, options)
    if not options.codegen_only:
        with options.in_force():
            compiled(*tensors, config=options)
    return compiled


def _compiled(program: Any, samples: Sequence[Any] | Mapping[str, Any], options: RunConfig) -> CompiledProgram:
    """The program for a run: as it is, or compiled for these samples."""
    if isinstance(program, CompiledProgram):
        program.refuse_other_platform(options)
        return program
    if hasattr(program, "compile"):
        args, kwargs = ((), samples) if isinstance(samples, Mapping) else (samples, {})
        return program.compile(*args, config=options, **kwargs)
    with options.in_force():
        return compile_program(program, dump_passes=options.dumps, profiling=options.compile_profiling, platform=options.platform)


class _Run:
    """One golden test."""

    def __init__(
        self,
        program: Any,
        specs: list[Spec],
        golden: Golden,
        golden_fn: Callable[..., Any] | None,
        options: RunConfig,
        compare: Any,
        seed: int,
        test_name: str | None,
    ) -> None:
        if golden is not None and golden_fn is not None:
            raise CallError("PL601", "both golden and golden_fn are given", fix="keep the one whose convention the function follows")
        refuse_bad_specs(specs, None, compare if isinstance(compare, Mapping) else None)
        if options.check is None and options.executor is None:  # a run to find faults with
            options = replace(options, check=settings.current().finds_faults)
        self.program, self.specs, self.options, self.seed, self.test_name = program, specs, options, seed, test_name
        self.golden, self.golden_fn, self.compare = golden, golden_fn, compare
        self.tensors = [s for s in specs if isinstance(s, TensorSpec)]
        self.written = [s for s in self.tensors if s.written]
        self.data_dir = None if options.golden_data_dir is None else Path(options.golden_data_dir)
        self.seconds: dict[str, Any] = {}
        self.notes: dict[str, str] = {}

    def result(self) -> RunResult:
        started = time.perf_counter()
        with self.options.in_force():
            compiled = self._timed("compile", lambda: _compiled(self.program, self._samples(), self.options))
            self._refuse_other_names(compiled)
            where = self._kept(compiled)  # before the run, which may write dumps there
            if self.options.codegen_only:
                return self._finished(started, compiled, RunResult(True, self.test_name, checked=False), where)
            data = self._timed("golden", self._data)
            if self.options.save_kernels and where is not None:
                self._save_data(where, data)
            arguments = {s.name: self._argument(s, data) for s in self.specs}
            before = {name: copied(value) for name, value in arguments.items()}
            with ChipWorker(config=self.options) as worker:
                _, timing = self._timed("run", lambda: worker.timed(compiled, (), arguments))
            self.seconds |= {"executor": timing.executor, "device": timing.device}
            found = self._timed("compare", lambda: self._compared(arguments, before, data))
        return self._finished(started, compiled, found, where)

    def _timed(self, name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        self.seconds[name] = time.perf_counter() - began
        return result

    def _samples(self) -> dict[str, Any]:
        return {s.name: s if isinstance(s, TensorSpec) else s.make() for s in self.specs}

    def _refuse_other_names(self, compiled: CompiledProgram) -> None:
        names = [s.name for s in self.specs]
        if sorted(names) != sorted(compiled.param_names):
            raise NumericsError(
                "PL702", f"the specs are {names}, the parameters of {compiled.name}() {compiled.param_names}", fix="one spec per parameter"
            )
        outputs = {compiled.param_names[i] for i in compiled.output_indices} | compiled.entry.device_writes
        for s in self.written:
            if s.name not in outputs:
                raise NumericsError("PL702", f"{s.name} is no output of {compiled.name}()", fix=f"outputs: {sorted(outputs)}")

    @staticmethod
    def _argument(s: Spec, data: saved.GoldenData) -> Any:
        if isinstance(s, ScalarSpec):
            return data.inputs[s.name]
        return s.make() if s.output else data.inputs[s.name].copy()

    # ---- the golden ----

    def _data(self) -> saved.GoldenData:
        """Inputs and goldens: those that were saved, or new ones, which are saved if there is a place for them."""
        if self.data_dir is not None and saved.found_in(self.data_dir):
            self.seconds["data"] = "found"
            return saved.read(self.data_dir, self.specs)
        data = made(self.specs, self.golden, self.golden_fn, self.seed, self.notes, self.seconds)
        if self.data_dir is not None:
            self._save_data(self.data_dir, data)
            self.seconds["data"] = "saved"
        return data

    # ---- the comparison ----

    def _compared(self, arguments: dict[str, Any], before: dict[str, Any], data: saved.GoldenData) -> RunResult:
        actual = {s.name: arguments[s.name] for s in self.written}
        if not data.expected:
            return RunResult(True, self.test_name, actual=actual, checked=False)
        rtol, atol = self._allowed(data)
        known = self._views(actual, data, rtol, atol)
        reports, failed = {}, []
        for s in self.written:
            passed, reports[s.name] = self._judged(s, actual[s.name], data.expected[s.name], known, rtol, atol)
            failed += [] if passed else [reports[s.name]]
        changed = [s.name for s in self.tensors if not s.written and arguments[s.name].tobytes() != before[s.name].tobytes()]
        failed += [f"{name}: the kernel changed this input" for name in changed]
        return RunResult(not failed, self.test_name, "\n".join(failed) or None, reports=reports, actual=actual, expected=data.expected)

    def _allowed(self, data: saved.GoldenData) -> tuple[float | None, float | None]:
        """The tolerances: of the configuration, or those the data was saved with."""
        options = self.options
        return data.rtol if options.rtol is None else options.rtol, data.atol if options.atol is None else options.atol

    def _views(self, actual: dict[str, Array], data: saved.GoldenData, rtol: float | None, atol: float | None) -> dict[str, Any]:
        """What rules may ask for, as arrays of the library whose dtypes the specs have."""

        def shown(arrays: Mapping[str, Any]) -> dict[str, Any]:
            return {s.name: as_library(arrays[s.name], s.library) for s in self.tensors if s.name in arrays}

        return {
            "actual_outputs": shown(actual),
            "expected_outputs": shown(data.expected),
            "inputs": {**data.inputs, **shown(data.inputs)},
            "rtol": rtol,
            "atol": atol,
        }

    def _judged(self, s: TensorSpec, got: Array, want: Array, known: dict[str, Any], rtol: Any, atol: Any) -> tuple[bool, str]:
        rule = self.compare.get(s.name) if isinstance(self.compare, Mapping) else self.compare
        note = untouched(s, got, want, self.notes.get(s.name, ""))
        if rule is None:
            found = measure(got, want, Closeness.of(s.dtype).but(rtol, atol), name=s.name, note=note)
            return found.passed, found.report()
        asked = inspect.signature(rule).parameters
        everything = any(p.kind is p.VAR_KEYWORD for p in asked.values())
        verdict = rule(
            known["actual_outputs"][s.name],
            known["expected_outputs"][s.name],
            **{k: v for k, v in known.items() if everything or (k in asked and asked[k].kind is not inspect.Parameter.POSITIONAL_ONLY)},
        )
        if isinstance(verdict, Closely | Comparison):
            return verdict.passed, verdict.report()
        passed, text = verdict if isinstance(verdict, tuple) else (verdict, "its own comparison says no")
        text = f"{s.name}: {text}" if not passed else f"{s.name}: its own comparison says yes"
        return bool(passed), f"{text}\n  {note}" if note and not passed else text

    # ---- what is kept ----

    def _kept(self, compiled: CompiledProgram) -> Path | None:
        """Where the program is saved, if the configuration asks for it."""
        if self.options.save_kernels:
            directory = self.options.save_kernels_dir
            return compiled.save(Path(directory) if directory is not None else free_directory(compiled.name))
        return compiled.output_dir if self.options.wants_files else None

    def _save_data(self, directory: Path, data: saved.GoldenData) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        rtol, atol = self._allowed(data)
        saved.save(directory, self.specs, replace(data, rtol=rtol, atol=atol), self.seed)

    def _finished(self, started: float, compiled: CompiledProgram, found: RunResult, where: Path | None) -> RunResult:
        return replace(found, execution_time=time.perf_counter() - started, profile=self.seconds, compiled=compiled, work_dir=where)
