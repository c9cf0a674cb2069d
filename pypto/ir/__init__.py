"""The names under which users of the original compile: `from pypto import ir`, `ir.compile(program, ...)`."""

from pypto.runtime.compiled import CompiledProgram
from pypto.runtime.compiling import compile_program as compile
from pypto.runtime.options import DiagnosticPhase, MemoryPlanner, OptimizationStrategy, PassDumpLevel, RuntimeKind, VerificationLevel
from pypto.tile import Program

__all__ = [
    "CompiledProgram",
    "DiagnosticPhase",
    "MemoryPlanner",
    "OptimizationStrategy",
    "PassDumpLevel",
    "Program",
    "RuntimeKind",
    "VerificationLevel",
    "compile",
]
