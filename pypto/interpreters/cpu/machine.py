"""Machine code from LLVM text, for this CPU or a lesser one. The only file that knows llvmlite."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
import threading
from typing import Any

from pypto.errors import InternalError
from pypto.interpreters.cpu import cache
from pypto.version import VERSION

Target = tuple[str, str]
"""CPU and features, as LLVM spells them."""


@functools.cache
def host() -> Target:
    """This CPU."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine(target: Target) -> Any:
    """A target machine. An execution engine takes its machine with it when it goes, so that none is shared."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the runtime changes stacks in assembly
    chosen = llvm.Target.from_default_triple()
    return chosen.create_target_machine(cpu=target[0], features=target[1], opt=2, jit=True, codemodel="jitdefault")


def unsupported() -> str:
    """Why there is no machine code on this system; empty if there is."""
    if os.name != "posix":
        return f"the runtime of compiled programs needs POSIX threads, and this is {os.name}"
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return f"machine code is made for x86-64, and this is {platform.machine()}"
    return ""


def enabled(target: Target) -> frozenset[str]:
    """The features that are switched on."""
    found = frozenset(f[1:] for f in target[1].split(",") if f.startswith("+"))
    return found | {"amx-granted"} if "amx-tile" in found and tiles_granted() else found


@functools.cache
def tiles_granted() -> bool:
    """Whether this process may use AMX tiles: on Linux the kernel has to be asked once."""
    try:
        request = ctypes.CDLL(None, use_errno=True).syscall
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux" and platform.machine() == "x86_64" and request(158, 0x1023, 18) == 0


PASSES = ("sroa", "instruction_combine", "simplify_cfg")
"""What LLVM does to a module before it becomes machine code: as fast code as all of its passes, in a tenth of the time."""


_alone = threading.RLock()
"""Held while a program is compiled, and while the process forks."""


@functools.cache
def _forks_wait() -> None:
    """A child of a fork in the middle of LLVM's work would wait for locks that nobody opens there, ours and the one of llvmlite."""
    from llvmlite.binding import ffi

    of_llvmlite = ffi.lib._lock  # around each of its calls; it offers no other way to wait for their end

    def before() -> None:
        _alone.acquire()
        of_llvmlite.__enter__()

    def after() -> None:
        of_llvmlite.__exit__(None, None, None)
        _alone.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


class Code:
    """Loaded machine code, from disk where an earlier process has left it. It lives as long as this object.

    Args:
      runtime: the key of the code that this code calls; changing that makes this another one.
    Attributes:
      key: a hash of all that the code depends on.
      origin: "disk", or "compiled".
    """

    def __init__(self, text: str, target: Target, *, runtime: str = "") -> None:
        _forks_wait()
        with _alone:
            self._make(text, target, runtime)

    def _make(self, text: str, target: Target, runtime: str) -> None:
        import llvmlite
        import llvmlite.binding as llvm

        wide = '"prefer-vector-width"="512" "min-legal-vector-width"="512" ' if "avx512f" in enabled(target) else ""
        attributes = f'attributes #0 = {{ nounwind {wide}"target-cpu"="{target[0]}" "target-features"="{target[1]}" }}\n'
        text = f"{text}\n{attributes}"
        versions = (VERSION, llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info)), sys.platform, *PASSES)
        self.key = cache.key_of((*versions, *target, runtime, text))
        disk = cache.chosen()
        content = None if disk is None else disk.load(self.key)
        self.origin = "compiled" if content is None else "disk"
        if content is None:
            content = _pipeline(target).compiled(text)
            if disk is not None:
                disk.store(self.key, content)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(target))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        self._engine.finalize_object()

    def keep(self) -> None:
        """Make it live as long as the process: threads may be in it while the interpreter is taken down."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._engine))

    def address(self, name: str) -> int:
        """Where a function or a global of the module lies."""
        found = self._engine.get_function_address(name) or self._engine.get_global_value_address(name)
        if not found:
            raise InternalError("PL901", f"compiled code has no {name}")
        return found


class _Pipeline:
    """What makes object files for a target. There is one for each, since LLVM never gives the memory of a pass manager back."""

    def __init__(self, target: Target) -> None:
        import llvmlite.binding as llvm

        self.machine = _machine(target)
        self.builder = llvm.create_pass_builder(self.machine, llvm.create_pipeline_tuning_options(speed_level=2))
        self.passes = llvm.create_new_module_pass_manager()
        for name in PASSES:
            getattr(self.passes, f"add_{name}_pass")()

    def compiled(self, text: str) -> bytes:
        """An object file."""
        import llvmlite.binding as llvm

        module = llvm.parse_assembly(text, context=llvm.create_context())  # what LLVM's common one has seen, it keeps
        module.verify()
        self.passes.run(module, self.builder)
        return self.machine.emit_object(module)


@functools.cache
def _pipeline(target: Target) -> _Pipeline:
    return _Pipeline(target)
