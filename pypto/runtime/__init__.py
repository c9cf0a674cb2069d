"""Compile, run, compare, measure: what stands between a kernel and its numbers."""

import pypto.language as _language  # noqa: F401  # first: it loads this package at its end
from pypto.runtime.compiled import CompiledProgram
from pypto.runtime.compiling import compile_program
from pypto.runtime.config import RunConfig
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

load = CompiledProgram.from_dir
__all__ = [
    "BackendType",
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
    "RuntimeKind",
    "VerificationLevel",
    "compile_program",
    "load",
]
