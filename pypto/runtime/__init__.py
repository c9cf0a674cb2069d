"""Compile, run, compare, measure: what stands between a kernel and its numbers."""

import pypto.language as _language  # noqa: F401  # first: it loads this package at its end
from pypto.runtime.benchmark import BenchmarkStats, TraceInvocation, TraceSpan, benchmark
from pypto.runtime.compiled import CompiledProgram
from pypto.runtime.compiling import compile_program
from pypto.runtime.config import RunConfig
from pypto.runtime.goldens import write_golden
from pypto.runtime.harness import RunResult, run, run_jit
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
from pypto.runtime.tensors import DeviceTensor
from pypto.runtime.worker import ChipWorker, RegistrationHandle
from pypto.testing.specs import ScalarSpec, TensorSpec

load = CompiledProgram.from_dir
__all__ = [
    "BackendType",
    "BenchmarkStats",
    "ChipWorker",
    "CompiledProgram",
    "DeviceTensor",
    "DiagnosticPhase",
    "DistributedConfig",
    "MemoryPlanner",
    "OptimizationStrategy",
    "PassDumpLevel",
    "RegistrationHandle",
    "RunConfig",
    "RunResult",
    "RuntimeKind",
    "ScalarSpec",
    "TensorSpec",
    "TraceInvocation",
    "TraceSpan",
    "VerificationLevel",
    "benchmark",
    "compile_program",
    "load",
    "run",
    "run_jit",
    "write_golden",
]
