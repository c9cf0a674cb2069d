"""Goldens named by a dotted path into JAX, imported only when one is used."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.errors import NumericsError


def jax_golden(name: str, **options: Any) -> Callable[..., Any]:
    """The JAX function of that name as a golden on NumPy arrays; `options` become its keyword arguments.

    Args:
      name: a path that starts with "jax.", such as "jax.nn.softmax" or "jax.lax.exp".
    Errors:
      PL702, when the golden is first called, if JAX is not installed or has no such function.
    """
    if not name.startswith("jax."):
        raise NumericsError("PL702", f"{name!r} is not a JAX name", fix='write its whole path, such as "jax.nn.softmax"')

    def golden(*args: Any) -> Any:
        function = resolve(name)
        import jax
        import jax.numpy as jnp

        # Without this, JAX quietly turns 64-bit inputs into 32-bit ones.
        wide = any(isinstance(arg, np.ndarray) and arg.dtype.itemsize == 8 for arg in args)
        with jax.enable_x64(True) if wide else contextlib.nullcontext():
            result = function(*(jnp.asarray(arg) if isinstance(arg, np.ndarray) else arg for arg in args), **options)
            return jax.tree_util.tree_map(np.asarray, result)

    golden.__name__ = name
    return golden


def resolve(name: str) -> Callable[..., Any]:
    """The object at a dotted path: its longest importable prefix, then attributes."""
    try:
        found: Any = importlib.import_module("jax")
    except ImportError as error:
        raise NumericsError("PL702", f"{name} needs JAX, which is not installed", fix="pip install jax") from error
    path = "jax"
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{path}.{part}")
        if not hasattr(found, part):
            raise NumericsError("PL702", f"{path} has no {part!r}", fix=f"check the golden's name, {name!r}")
        found, path = getattr(found, part), f"{path}.{part}"
    if not callable(found):
        raise NumericsError("PL702", f"{name} is not a function", fix="name a function")
    return found
