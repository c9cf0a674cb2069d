"""Computing a golden, in either convention, on copies of everything; and saving one for later runs."""

from __future__ import annotations

import inspect
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pypto.runtime import saved
from pypto.testing.goldens import jax_golden
from pypto.testing.harness import as_written, refuse_bad_specs
from pypto.testing.specs import ScalarSpec, TensorSpec, as_library, to_numpy

Spec = TensorSpec | ScalarSpec
Golden = Callable[..., Any] | str | None


def made(
    specs: Sequence[Spec],
    golden: Golden,
    golden_fn: Callable[..., Any] | None,
    seed: int,
    notes: dict[str, str] | None = None,
    seconds: dict[str, Any] | None = None,
) -> saved.GoldenData:
    """New inputs, and what the golden says of them; it gets copies, in the library of each spec's dtype.

    Its peak of memory is noted in `seconds` as `golden_peak_bytes`: a golden may need far more than the kernel.
    """
    inputs = {s.name: s.make(seed) for s in specs if not (isinstance(s, TensorSpec) and s.output)}
    written = [s for s in specs if isinstance(s, TensorSpec) and s.written]
    function = jax_golden(golden) if isinstance(golden, str) else golden
    if function is None and golden_fn is None:
        return saved.GoldenData(inputs, {}, None, None)
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    try:
        if function is not None:
            given = [_for_golden(s, inputs[s.name]) for s in specs if s.name in inputs]
            returned = function(*given)
        else:
            returned = _filled(specs, inputs, golden_fn)
        peak = tracemalloc.get_traced_memory()[1] - held
    finally:
        if not tracing:
            tracemalloc.stop()
    if seconds is not None:
        seconds["golden_peak_bytes"] = peak
    expected, found = as_written(returned, written, inputs)
    if notes is not None:
        notes |= found
    return saved.GoldenData(inputs, expected, None, None)


def _filled(specs: Sequence[Spec], inputs: dict[str, Any], golden_fn: Any) -> dict[str, Any]:
    """What a golden of the dict convention leaves in its outputs, which start as zeros."""
    values: dict[str, Any] = {}
    for s in specs:
        start = inputs[s.name] if s.name in inputs else np.zeros(s.shape, s.dtype.storage)  # type: ignore[union-attr]
        values[s.name] = _for_golden(s, start)
    parameters = [p for p in inspect.signature(golden_fn).parameters.values() if p.default is p.empty]
    golden_fn(values, {}) if len(parameters) > 1 else golden_fn(values)
    return {s.name: to_numpy(values[s.name]) for s in specs if isinstance(s, TensorSpec) and s.written}


def _for_golden(s: Spec, value: Any) -> Any:
    return as_library(value.copy(), s.library) if isinstance(s, TensorSpec) else value


def write_golden(
    tensor_specs: Sequence[TensorSpec],
    golden_fn: Callable[..., Any],
    output_path: str | Path,
    rtol: float | None = None,
    atol: float | None = None,
    scalar_specs: Sequence[ScalarSpec] | None = None,
    data_dir: str | Path | None = None,
    *,
    seed: int = 0,
) -> Path:
    """Compute a reference once and save it, for later runs to compare with: `RunConfig(golden_data_dir=...)`.

    Args:
      golden_fn: takes one dict of all values by name, and fills in the outputs.
      output_path: the directory; of a file name, the directory `data` beside it. `data_dir` takes precedence.
      rtol, atol: what later runs allow, unless they say something else.
    Returns:
      The directory.
    Errors:
      PL702 for a golden or specs that cannot be used.
    """
    specs: list[Spec] = [*tensor_specs, *(scalar_specs or ())]
    refuse_bad_specs(specs, None, None)
    path = Path(output_path)
    target = Path(data_dir) if data_dir is not None else path.parent / "data" if path.suffix else path
    data = made(specs, None, golden_fn, seed)
    target.mkdir(parents=True, exist_ok=True)
    return saved.save(target, specs, replace(data, rtol=rtol, atol=atol), seed)
