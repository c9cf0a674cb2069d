"""Inputs and goldens on disk: raw elements as .npy, and one JSON file that says what they are. Nothing in them is ever executed.

| file | holds |
|---|---|
| data.json | name, dtype, shape and SHA-256 of every array, the scalars, the tolerances, the seed |
| in/NAME.npy | what a tensor starts with |
| out/NAME.npy | what the golden says of an output |
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pypto.dtypes import DTYPES
from pypto.errors import NumericsError
from pypto.testing.specs import Array, ScalarSpec, TensorSpec

FORMAT = "pypto golden data 1"
INDEX = "data.json"


@dataclass(frozen=True)
class GoldenData:
    """One saved reference: starting values by name, right results by name, and the tolerances it was saved with."""

    inputs: dict[str, Any]
    expected: dict[str, Array]
    rtol: float | None
    atol: float | None


def save(
    directory: Path,
    specs: Sequence[TensorSpec | ScalarSpec],
    data: GoldenData,
    seed: int,
) -> Path:
    """Write a reference; the index comes last, so that a directory without one is unfinished."""
    rows: dict[str, Any] = {}
    scalars: dict[str, Any] = {}
    for spec in specs:
        if isinstance(spec, ScalarSpec):
            scalars[spec.name] = data.inputs[spec.name]
            continue
        for part, arrays in (("in", data.inputs), ("out", data.expected)):
            if spec.name in arrays and not (part == "in" and spec.output):
                array = arrays[spec.name]
                file = directory / part / f"{spec.name}.npy"
                file.parent.mkdir(parents=True, exist_ok=True)
                content = io.BytesIO()
                np.save(content, _raw(array), allow_pickle=False)
                file.write_bytes(content.getvalue())
                rows[f"{part}/{spec.name}"] = {
                    "dtype": spec.dtype.name,
                    "shape": list(spec.shape),
                    "sha256": hashlib.sha256(content.getvalue()).hexdigest(),
                }
    index = {"format": FORMAT, "seed": seed, "rtol": data.rtol, "atol": data.atol, "scalars": scalars, "arrays": rows}
    (directory / INDEX).write_text(json.dumps(index, indent=1))
    return directory


def found_in(directory: Path) -> bool:
    """Whether a directory holds a reference."""
    return (directory / INDEX).is_file()


def read(directory: Path, specs: Sequence[TensorSpec | ScalarSpec]) -> GoldenData:
    """The reference in a directory.

    Errors:
      PL702 if it is damaged, or not one of these specs.
    """
    try:
        index = json.loads((directory / INDEX).read_text())
        if index["format"] != FORMAT:
            raise ValueError(f"format {index['format']!r}")
        rows, scalars, rtol, atol = index["arrays"], index["scalars"], index["rtol"], index["atol"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _refused(directory, f"{INDEX} cannot be read: {error}") from None
    inputs: dict[str, Any] = {}
    expected: dict[str, Array] = {}
    for spec in specs:
        if isinstance(spec, ScalarSpec):
            if spec.name not in scalars:
                raise _refused(directory, f"there is no scalar {spec.name}")
            inputs[spec.name] = scalars[spec.name]
            if not _is_same(inputs[spec.name], spec.make()):
                raise _refused(directory, f"the scalar {spec.name} is {inputs[spec.name]!r} there, the spec says {spec.make()!r}")
            continue
        if not spec.output:
            inputs[spec.name] = _array(directory, "in", spec, rows)
        if spec.written:
            expected[spec.name] = _array(directory, "out", spec, rows)
    return GoldenData(inputs, expected, rtol, atol)


def _is_same(a: Any, b: Any) -> bool:
    """Equal numbers, of which NaN is one and the zeros are two."""
    return (a, str(a)) == (b, str(b)) or (a != a and b != b)


def _array(directory: Path, part: str, spec: TensorSpec, rows: Mapping[str, Any]) -> Array:
    name = f"{part}/{spec.name}"
    row = rows.get(name)
    if row is None:
        raise _refused(directory, f"there is no {name}")
    if row.get("dtype") != spec.dtype.name or row.get("shape") != list(spec.shape):
        raise _refused(directory, f"{name} is {row.get('dtype')}{row.get('shape')}, the spec says {spec.dtype.name}{list(spec.shape)}")
    file = directory / f"{name}.npy"
    content = file.read_bytes() if file.is_file() else b""
    if hashlib.sha256(content).hexdigest() != row.get("sha256"):
        raise _refused(directory, f"{name}.npy is missing, truncated or changed")
    raw = np.load(io.BytesIO(content), allow_pickle=False)
    return raw.view(DTYPES[row["dtype"]].storage).reshape(spec.shape)


def _raw(array: Array) -> Array:
    """The elements as unsigned integers: .npy has no name for the narrow floats."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _refused(directory: Path, why: str) -> NumericsError:
    return NumericsError("PL702", f"{directory} cannot be used: {why}", fix="another directory, or delete this one to make it anew")
