"""Compiling: a kernel with sample arguments, a lowered program, or a program class, to a `CompiledProgram`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pypto.core.avals import Aval
from pypto.core.trace import EVAL, current_trace
from pypto.errors import BodyError, CallError
from pypto.language import samples
from pypto.language.calls import OMITTED
from pypto.language.decorators import Kernel
from pypto.language.front import FRONT
from pypto.language.types import ScalarType
from pypto.platform import platform_of
from pypto.runtime.compiled import CompiledProgram
from pypto.runtime.config import RunConfig, chosen
from pypto.runtime.options import (
    BackendType,
    DiagnosticPhase,
    DistributedConfig,
    MemoryPlanner,
    OptimizationStrategy,
    PassDumpLevel,
    RuntimeKind,
    VerificationLevel,
)
from pypto.source import Source, user_source
from pypto.tile import Program, lower_program


def compile_kernel(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], options: RunConfig | None) -> CompiledProgram:
    """`kernel.compile(*args, config=)`: compile for the shapes and dtypes of sample arguments, whose contents are never read.

    Without tensor arguments, the annotations give shapes and dtypes. A number for a scalar parameter becomes the value that a
    dispatch may leave out; the compiled program serves every value.

    Errors:
      PL601 for what is no parameter of the kernel: compile options go in `config=`.
    """
    config = chosen(options)
    with config.in_force():
        if kernel.kind == "inline":
            raise CallError(
                "PL601", f"`{kernel.fn.__name__}` is inline: it is only part of other kernels", fix="compile the @pl.jit kernel"
            )
        known = samples.named(kernel.signature, args, kwargs, "compile")
        sampled = samples.avals(kernel.signature, known, "compile")
        cache = kernel.compiled_programs
        key = (
            _key(kernel, sampled, known),
            kernel.snapshot(),
            platform_of(config.platform),
            config.dumps,
            config.compile_profiling,
            config.verify,
        )
        if key not in cache:
            cache[key] = _compiled(kernel, sampled, known, config)
        found = cache[key]
        assert isinstance(found, CompiledProgram)
        return found


def _key(kernel: Kernel, sampled: list[Any], known: dict[str, Any]) -> Any:
    """What of the samples decides about the program."""
    key: list[Any] = []
    for p, found in zip(kernel.signature.parameters, sampled, strict=True):
        value = known.get(p.name)
        default = value if isinstance(p.type, ScalarType) and isinstance(value, bool | int | float) else None
        resident = getattr(value, "__pypto_resident__", False)
        key.append((found if isinstance(found, Aval) else kernel.guard.key(found), resident, kernel.guard.key(default)))
    return tuple(key)


def _compiled(kernel: Kernel, sampled: list[Any], known: dict[str, Any], config: RunConfig) -> CompiledProgram:
    resident = {name for name, value in known.items() if getattr(value, "__pypto_resident__", False)}
    program = lower_program(kernel.traced(sampled, device_writes=resident), platform=config.platform)
    fixed, defaults = [], {}
    for position, (p, found) in enumerate(zip(kernel.signature.parameters, sampled, strict=True)):
        value = known.get(p.name, p.default)
        if not isinstance(found, Aval):
            fixed.append((position, p.name, found))
        elif isinstance(p.type, ScalarType) and isinstance(value, bool | int | float):
            defaults[p.name] = value
    return CompiledProgram(program, config, kernel.staged.source, defaults=defaults, fixed=fixed)


def compile_program(
    program: Any,
    output_dir: str | Path | None = None,
    strategy: OptimizationStrategy = OptimizationStrategy.Default,
    dump_passes: bool | PassDumpLevel = True,
    backend_type: BackendType | None = None,
    skip_ptoas: bool = False,
    verification_level: VerificationLevel | None = None,
    diagnostic_phase: DiagnosticPhase | None = None,
    disabled_diagnostics: Any = None,
    memory_planner: MemoryPlanner | None = None,
    enable_pypto_l0c_double_buffer: bool | None = None,
    profiling: bool = False,
    platform: str | None = None,
    distributed_config: DistributedConfig | None = None,
    analyze_auto_scopes_for_deps: bool = False,
    emit_source_loc: bool | None = None,
    dump_ptoas_passes: bool = False,
    runtime: RuntimeKind | None = None,
) -> CompiledProgram:
    """Compile a kernel, a program class, or what `kernel.lower()` gives. This is `pypto.ir.compile`.

    Args:
      output_dir: where it is saved, at once. Without it, `compiled.output_dir` saves it when first asked for.
      dump_passes, profiling: as `dump_passes` and `compile_profiling` of RunConfig.
      platform, backend_type, diagnostic_phase, disabled_diagnostics, memory_planner, distributed_config,
        analyze_auto_scopes_for_deps, dump_ptoas_passes: as in RunConfig.
      skip_ptoas: True or False, there is no assembler here to skip.
      verification_level: NONE leaves the verifier out, BASIC runs it around every pass; ROUNDTRIP also writes the program and
        reads it back.
      enable_pypto_l0c_double_buffer: None; buffers are not planned here.
      emit_source_loc: None or True; equations carry their places always.
      runtime: None or TENSORMAP_AND_RINGBUFFER.
    Errors:
      PL607 for an option that cannot be honoured, PL610 for a lowered program of another platform.
    """
    config = RunConfig(
        platform=platform or (program.platform if isinstance(program, Program) and backend_type is None else ""),
        backend_type=backend_type,
        strategy=strategy,
        dump_passes=dump_passes,
        diagnostic_phase=diagnostic_phase,
        disabled_diagnostics=disabled_diagnostics,
        memory_planner=memory_planner,
        compile_profiling=profiling,
        distributed_config=distributed_config,
        analyze_auto_scopes_for_deps=analyze_auto_scopes_for_deps,
        dump_ptoas_passes=dump_ptoas_passes,
        verify=None if verification_level is None else verification_level is not VerificationLevel.NONE,
    )
    if enable_pypto_l0c_double_buffer:
        raise CallError("PL607", "enable_pypto_l0c_double_buffer cannot be honoured: buffers are not planned here", fix="leave it out")
    if emit_source_loc is False:
        raise CallError("PL607", "emit_source_loc=False cannot be honoured: programs carry their places always", fix="leave it out")
    if runtime not in (None, RuntimeKind.TENSORMAP_AND_RINGBUFFER):
        raise CallError("PL607", f"runtime={runtime} cannot be honoured: there is one way to run", fix="leave it out")
    compiled = _of(program, config)
    if verification_level is VerificationLevel.ROUNDTRIP:
        _round_trip(compiled)
    if output_dir is not None:
        compiled.save(output_dir)
    return compiled


def _of(program: Any, config: RunConfig) -> CompiledProgram:
    if isinstance(program, Program):
        return _lowered(program, config)
    if hasattr(program, "compile"):
        return program.compile(config=config)
    raise CallError(
        "PL601", f"{type(program).__name__} is nothing to compile", fix="a @pl.jit kernel, a @pl.program class, or kernel.lower(...)"
    )


def _lowered(program: Program, config: RunConfig) -> CompiledProgram:
    if program.platform != config.platform:
        if program.traced is None:
            raise CallError(
                "PL610",
                f"`{program.name}` was lowered for {program.platform}, not {config.platform}",
                fix="compile the kernel for that platform",
            )
        with config.in_force():
            program = lower_program(program.traced, platform=config.platform)
    source = user_source() or Source("<unknown>", 1)
    return CompiledProgram(program, config, source)


def _round_trip(compiled: CompiledProgram) -> None:
    """Write the program and read it back: it must be the same."""
    from pypto.core.ir import alpha_equal
    from pypto.errors import InternalError
    from pypto.runtime.encoding import decode, encode

    again = decode(encode(compiled.program))
    bodies: Sequence[Any] = [(compiled.program.orchestration, again.orchestration)]
    bodies = [*bodies, *((a.jaxpr, b.jaxpr) for a, b in zip(compiled.program.kernels, again.kernels, strict=True))]
    if not all(alpha_equal(a, b) for a, b in bodies):
        raise InternalError("PL901", f"{compiled.name} is another program after it was written and read back")


def call_kernel(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], options: Any) -> Any:
    """`kernel(*args, config=)`: run under a configuration. One that watches the run, or wants files, goes by way of the compiled program.

    Errors:
      PL112 in the body of another kernel, PL607 for `codegen_only`.
    """
    config = chosen(options)
    if current_trace() is not EVAL:
        raise BodyError("PL112", f"config= in a call of `{kernel.fn.__name__}` inside another program", fix="give it to the outermost call")
    with config.in_force():
        if not (config.is_watching or config.wants_files or config.codegen_only):
            return kernel(*args, **kwargs)
        values = dict(zip(kernel.signature.names, kernel.signature.bind(args, kwargs), strict=True))
        compiled = compile_kernel(kernel, (), {n: v for n, v in values.items() if v is not OMITTED}, config)
        if config.wants_files:
            compiled.save(config.save_kernels_dir) if config.save_kernels_dir is not None else compiled.output_dir
        return compiled(*args, config=config, **kwargs)


FRONT["compile"] = compile_kernel
FRONT["call"] = call_kernel
