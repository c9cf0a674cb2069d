"""Kernel files, as the commands name them: `FILE.py:KERNEL`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from pypto.errors import CallError
from pypto.language.kernel import Kernel
from pypto.language.programs import KernelProgram

_FIX = "FILE.py:KERNEL, or FILE.py if it has one entry"


@contextmanager
def loaded(target: str) -> Iterator[tuple[ModuleType, Kernel | KernelProgram]]:
    """Import the file that `target` names, and find its kernel; `FILE.py` alone will do where the file defines one entry.

    Inside the block, the file's folder is where it imports from, as if it was run.

    Errors:
      PL601 for a file or name that does not exist, a name that is no kernel, or no name where there are several entries.
    """
    path, _, name = target.partition(":")
    file = Path(path)
    spec = importlib.util.spec_from_file_location(file.stem, file) if file.is_file() else None
    if spec is None or spec.loader is None:
        found = f"{path} is no Python file" if file.is_file() else f"there is no file {path}"
        raise CallError("PL601", found, fix=_FIX)
    module = importlib.util.module_from_spec(spec)
    folder, before = str(file.resolve().parent), sys.modules.get(file.stem)
    sys.path.insert(0, folder)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
        yield module, _kernel(module, path, name)
    finally:
        sys.path.remove(folder)
        del sys.modules[file.stem]
        if before is not None:
            sys.modules[file.stem] = before


def _kernel(module: ModuleType, path: str, name: str) -> Kernel | KernelProgram:
    kernels = {n: v for n, v in vars(module).items() if isinstance(v, Kernel | KernelProgram)}
    if not name:
        entries = [n for n, v in kernels.items() if _is_entry(v, module.__name__)]
        if len(entries) != 1:
            raise CallError("PL601", f"{path} has the entries {', '.join(entries) or 'none'}", fix=f"name one: {path}:KERNEL")
        name = entries[0]
    value: object = module
    for part in name.split("."):
        value = getattr(value, part, None)
    if not isinstance(value, Kernel | KernelProgram):
        raise CallError("PL601", f"{path} has no kernel `{name}`", fix=f"it has {', '.join(kernels) or 'none'}")
    return value


def _is_entry(value: Kernel | KernelProgram, module: str) -> bool:
    """Whether it is something to run that this file defines: an entry, or a program class."""
    if isinstance(value, KernelProgram):
        return value.entry.fn.__module__ == module
    return value.kind in ("jit", "host") and value.fn.__module__ == module
