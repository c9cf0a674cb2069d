"""Run a kernel and its golden on the same seeded inputs, each on memory of its own, and compare what they wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pypto import config
from pypto.errors import NumericsError
from pypto.noted import Note, notes
from pypto.platform import platform_of
from pypto.testing.compare import Compare, Comparison, Tolerance, compare
from pypto.testing.goldens import jax_golden
from pypto.testing.specs import Array, ScalarSpec, TensorSpec, poison, round_to, to_numpy

Spec = TensorSpec | ScalarSpec
Tolerances = Tolerance | Mapping[str, Tolerance] | None


@dataclass(frozen=True)
class CheckResult:
    """What `check` found.

    Attributes:
      outputs: one comparison per output, by name.
      changed_inputs: names of pure inputs that the kernel wrote to.
      seed: the seed the inputs were made from.
      kernel_seconds, golden_seconds: how long each took, once.
      actual, expected: the arrays that were compared.
      notes: what the run had to say, such as casts that round ties another way than JAX does.
      platform: what the kernel was lowered for.
    """

    outputs: dict[str, Comparison]
    changed_inputs: tuple[str, ...]
    seed: int
    kernel_seconds: float
    golden_seconds: float
    actual: dict[str, Array]
    expected: dict[str, Array]
    notes: tuple[Note, ...] = ()
    platform: str = "a2a3sim"

    @property
    def passed(self) -> bool:
        """Every output is within its tolerance and no input was changed."""
        return not self.changed_inputs and all(found.passed for found in self.outputs.values())

    @property
    def equal_bits(self) -> bool:
        """Every output has exactly the golden's bits."""
        return all(found.equal_bits for found in self.outputs.values())

    def report(self) -> str:
        """The reports of all outputs, and how to repeat the run."""
        lines = [found.report() for found in self.outputs.values()]
        lines += [f"{name}: the kernel changed this input" for name in self.changed_inputs]
        lines += [str(note) for note in self.notes if note.code == "PL706"]
        if not platform_of(self.platform).checked:
            lines.append(f"platform {self.platform}: no limits checked")
        lines.append(f"seed {self.seed}; kernel {self.kernel_seconds:.3g} s, golden {self.golden_seconds:.3g} s")
        return "\n".join(lines)


def check(
    kernel: Callable[..., Any],
    golden: Callable[..., Any] | str,
    specs: Sequence[Spec],
    *,
    seed: int = 0,
    tolerance: Tolerances = None,
    compare: Compare | Mapping[str, Compare] | None = None,
    raises: bool = True,
    returns: bool = False,
) -> CheckResult:
    """Run `kernel` and compare every output with `golden`. The run is checked, unless `pypto.override(check=False)` is in force.

    Args:
      kernel: called with one NumPy array (or Python number, for a ScalarSpec) per spec, in order; writes its outputs in place. Pure
        outputs are given to it filled with NaN, or with the integer furthest from zero, so that what it does not write shows.
      golden: a function, or the dotted name of a JAX function. It runs first, on copies of everything that is not a pure output, in
        order, and returns the outputs in order — one array, or a tuple — or a dict of them by name. A wider float result is
        rounded once to the output's dtype, and the report says so.
      specs: one per parameter.
      seed: every input's values depend on it and on the input's name only.
      tolerance: for all float outputs, or by name. Default: equal values. `Tolerance.of(dtype)` is the usual allowance for a golden
        that computes another way. Integers are always exact.
      compare: a comparison in place of the usual one, for all outputs or by name.
      raises: whether a mismatch raises.
      returns: `kernel` is an array function: it is called like the golden, and returns the outputs as the golden does.
    Errors:
      PL701 with the report, if an output differs or an input was changed.
      PL702 if the golden or the specs cannot be used: duplicate names, no output, wrong count, shape or dtype, shared memory.
    """
    refuse_bad_specs(specs, tolerance, compare)
    run_golden = jax_golden(golden) if isinstance(golden, str) else golden
    arguments: dict[str, Any] = {spec.name: spec.make(seed) for spec in specs}
    before = {name: copied(value) for name, value in arguments.items()}

    started = time.perf_counter()
    returned = run_golden(*(copied(before[spec.name]) for spec in specs if not _is_pure_output(spec)))
    golden_seconds = time.perf_counter() - started
    written = [spec for spec in specs if isinstance(spec, TensorSpec) and spec.written]
    raw = _by_name(returned, written)
    expected, fitted = as_written(raw, written, arguments)
    kept = {name: value.copy() for name, value in raw.items()}

    with notes() as told, config.override(check=config.current().finds_faults):
        started = time.perf_counter()
        made = kernel(*(arguments[spec.name] for spec in specs if not (returns and _is_pure_output(spec))))
        kernel_seconds = time.perf_counter() - started
    if returns:
        arguments.update(_returned(made, written))
    for name, value in raw.items():
        if not _same_bits(value, kept[name]):
            raise NumericsError(
                "PL702", f"{name}: the golden's result changed while the kernel ran: they share memory", fix="return a copy from the golden"
            )

    outputs, actual = {}, {}
    for spec in written:
        got = actual[spec.name] = arguments[spec.name]
        outputs[spec.name] = _judge(spec, got, expected[spec.name], fitted[spec.name], tolerance, compare)
    inputs = [spec.name for spec in specs if isinstance(spec, TensorSpec) and not spec.written]
    changed = tuple(name for name in inputs if not _same_bits(arguments[name], before[name]))
    platform = config.current().platform
    result = CheckResult(outputs, changed, seed, kernel_seconds, golden_seconds, actual, expected, tuple(told), platform)
    if raises and not result.passed:
        fix = "follow the worst element with kernel.eager(...), or pass the tolerance that the golden's own rounding needs"
        raise NumericsError("PL701", "the kernel differs from its golden\n" + result.report(), fix=fix)
    return result


def _returned(made: Any, written: list[TensorSpec]) -> dict[str, Array]:
    """What an array function returned, as arrays of their own by name."""
    found = _by_name(made, written, "function")
    for spec in written:
        got = found[spec.name]
        if got.shape != spec.shape or got.dtype != spec.dtype.storage:
            message = (
                f"{spec.name}: the function's result is {got.dtype}{list(got.shape)}, the spec says {spec.dtype.name}{list(spec.shape)}"
            )
            raise NumericsError("PL702", message, fix="make them agree")
    return {name: got.copy() for name, got in found.items()}


def _is_pure_output(spec: Spec) -> bool:
    return isinstance(spec, TensorSpec) and spec.output


def copied(value: Any) -> Any:
    """An array of its own; whatever else a spec makes cannot change."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _same_bits(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()


def as_written(returned: Any, written: list[TensorSpec], arguments: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, str]]:
    """What a golden returned, as new arrays of the outputs' dtypes by name, and what had to be done to each.

    Errors:
      PL702 for another number, other names, shapes or dtypes, or memory of `arguments`.
    """
    raw = _by_name(returned, written)
    _refuse_shared(raw, arguments)
    expected, notes = {}, {}
    for spec in written:
        expected[spec.name], notes[spec.name] = _fit(raw[spec.name], spec)
    return expected, notes


def refuse_bad_specs(specs: Sequence[Spec], tolerance: Tolerances, compare: Any) -> None:
    """Refuse specs that would prove nothing.

    Errors:
      PL702 for two of one name, no output, options for what is no output, shared starting memory.
    """
    names = [spec.name for spec in specs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise NumericsError("PL702", f"several specs are named {', '.join(twice)}", fix="give every parameter its own name")
    written = {spec.name: spec for spec in specs if isinstance(spec, TensorSpec) and spec.written}
    if not written:
        raise NumericsError("PL702", "no spec is an output: there is nothing to compare", fix="TensorSpec(..., output=True) or inout=True")
    for option, value in (("tolerance", tolerance), ("compare", compare)):
        unknown = sorted(set(value) - set(written)) if isinstance(value, Mapping) else []
        if unknown:
            raise NumericsError("PL702", f"{option} names {', '.join(unknown)}, not an output", fix=f"outputs: {', '.join(written)}")
    for name in tolerance if isinstance(tolerance, Mapping) else ():
        if not written[name].dtype.is_float:
            raise NumericsError("PL702", f"{name} is {written[name].dtype.name}: integers compare exactly", fix="drop its tolerance")
    starts = [(spec.name, spec.init) for spec in specs if isinstance(spec, TensorSpec) and isinstance(spec.init, np.ndarray)]
    for place, (name, start) in enumerate(starts):
        for other, other_start in starts[place + 1 :]:
            if (name in written or other in written) and np.shares_memory(start, other_start):
                raise NumericsError("PL702", f"{name} and {other} start from the same memory", fix="give one of them a copy")


def _by_name(returned: Any, written: list[TensorSpec], who: str = "golden") -> dict[str, Array]:
    names = [spec.name for spec in written]
    if isinstance(returned, Mapping):
        if set(returned) != set(names):
            found = sorted(map(str, returned))
            raise NumericsError("PL702", f"the {who} returned {found}, the outputs are {names}", fix="use their names")
        return {name: to_numpy(returned[name]) for name in names}
    values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(values) != len(names) or any(value is None for value in values):
        found = "nothing" if returned is None else f"{len(values)} results"
        raise NumericsError("PL702", f"the {who} returned {found} for the outputs {names}", fix="return one array for each, in order")
    return {name: to_numpy(value) for name, value in zip(names, values, strict=True)}


def _refuse_shared(results: Mapping[str, Array], arguments: Mapping[str, Any]) -> None:
    for name, result in results.items():
        for parameter, array in arguments.items():
            if isinstance(array, np.ndarray) and np.shares_memory(result, array):
                raise NumericsError(
                    "PL702", f"{name}: the golden's result shares memory with the kernel's argument {parameter}", fix="return a copy"
                )


def _fit(result: Array, spec: TensorSpec) -> tuple[Array, str]:
    """The golden's result as a new array of the output's dtype, and what had to be done to it."""
    if result.shape != spec.shape:
        raise NumericsError(
            "PL702", f"{spec.name}: the golden's result is {list(result.shape)}, the spec says {list(spec.shape)}", fix="make them agree"
        )
    storage = spec.dtype.storage
    if result.dtype == storage:
        return result.copy(), ""
    # ml_dtypes registers some of its floats as kind "V"; all of those are narrower than what may be rounded here.
    if spec.dtype.is_float and result.dtype.kind == "f" and result.dtype.itemsize > storage.itemsize:
        return round_to(result, spec.dtype), f"golden rounded from {result.dtype} to {spec.dtype.name}"
    raise NumericsError(
        "PL702", f"{spec.name}: the golden's result is {result.dtype}, the spec says {spec.dtype.name}", fix="convert it in the golden"
    )


def _judge(spec: TensorSpec, got: Array, want: Array, note: str, tolerance: Tolerances, own: Any) -> Comparison:
    allowed = tolerance.get(spec.name) if isinstance(tolerance, Mapping) else tolerance
    rule = own.get(spec.name) if isinstance(own, Mapping) else own
    note = untouched(spec, got, want, note)
    found = compare(got, want, tolerance=allowed, name=spec.name, note=note)
    if rule is None:
        return found
    verdict = rule(got, want)
    return verdict if isinstance(verdict, Comparison) else replace(found, passed=bool(verdict))


def untouched(spec: TensorSpec, got: Array, want: Array, note: str = "") -> str:
    """A note with a sentence about the elements of a pure output that still hold what it started with."""
    if not spec.output:
        return note
    fill = np.full(spec.shape, poison(spec.dtype), dtype=spec.dtype.storage)
    left = _equal_bits(got, fill) & ~_equal_bits(want, fill)
    if not left.any():
        return note
    found = f"{int(left.sum())} elements still hold the {fill.flat[0]} that outputs start with: were they written?"
    return f"{note}\n  {found}" if note else found


def _equal_bits(a: Array, b: Array) -> Array:
    width = f"u{a.dtype.itemsize}"
    return np.ascontiguousarray(a).view(width) == np.ascontiguousarray(b).view(width)
