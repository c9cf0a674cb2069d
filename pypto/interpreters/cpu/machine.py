"""Machine code from LLVM text, for this CPU or a lesser one. The only file that knows llvmlite."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from typing import Any

from pypto.errors import InternalError

Target = tuple[str, str]
"""CPU and features, as LLVM spells them."""


@cache
def host() -> Target:
    """This CPU."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine(target: Target) -> Any:
    """A target machine. An execution engine takes its machine with it when it goes, so that none is shared."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    chosen = llvm.Target.from_default_triple()
    return chosen.create_target_machine(cpu=target[0], features=target[1], opt=2, jit=True, codemodel="jitdefault")


def enabled(target: Target) -> frozenset[str]:
    """The features that are switched on."""
    found = frozenset(f[1:] for f in target[1].split(",") if f.startswith("+"))
    return found | {"amx-granted"} if "amx-tile" in found and tiles_granted() else found


@cache
def tiles_granted() -> bool:
    """Whether this process may use AMX tiles: on Linux the kernel has to be asked once."""
    try:
        request = ctypes.CDLL(None, use_errno=True).syscall
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux" and platform.machine() == "x86_64" and request(158, 0x1023, 18) == 0


class Code:
    """Loaded machine code. It lives as long as this object, or, made to stay `forever`, as the process."""

    def __init__(self, text: str, target: Target, *, forever: bool = False) -> None:
        import llvmlite.binding as llvm

        machine = _machine(target)
        wide = '"prefer-vector-width"="512" "min-legal-vector-width"="512" ' if "avx512f" in enabled(target) else ""
        attributes = f'attributes #0 = {{ nounwind {wide}"target-cpu"="{target[0]}" "target-features"="{target[1]}" }}\n'
        module = llvm.parse_assembly(f"{text}\n{attributes}")
        module.verify()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        if forever:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._engine))  # threads may be in it while the interpreter is taken down

    def address(self, name: str) -> int:
        """Where a function or a global of the module lies."""
        found = self._engine.get_function_address(name) or self._engine.get_global_value_address(name)
        if not found:
            raise InternalError("PL901", f"compiled code has no {name}")
        return found
