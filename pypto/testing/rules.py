"""Comparisons for outputs that are right without being close everywhere: a share of outliers, top-k with ties.

A rule is called with the actual and the expected array, and by keyword with all outputs, the inputs and the tolerances of
the run; it returns whether they agree, and what to print if not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pypto import numerics
from pypto.errors import NumericsError
from pypto.testing.closeness import Closeness, measure
from pypto.testing.specs import Array, to_numpy

Verdict = tuple[bool, str]
Rule = Callable[..., Verdict]


def ratio_allclose(atol: float | None = None, rtol: float | None = None, max_error_ratio: float = 0.005) -> Rule:
    """All but a share of the elements are close; a NaN or infinity on one side only is never an outlier.

    Args:
      atol, rtol: of the comparison; by default the run's, and the dtype's where the run has none.
      max_error_ratio: the share that may be further away.

    >>> rule = ratio_allclose(max_error_ratio=0.25)
    >>> rule(np.float32([1, 2, 3, 9]), np.float32([1, 2, 3, 4]))[0], rule(np.float32([1, 2, 9, 9]), np.float32([1, 2, 3, 4]))[0]
    (True, False)
    """
    own_rtol, own_atol = rtol, atol

    def compare(actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None, **_: Any) -> Verdict:
        got, want = to_numpy(actual), to_numpy(expected)
        allowed = Closeness.of(want.dtype).but(own_rtol if own_rtol is not None else rtol, own_atol if own_atol is not None else atol)
        found = measure(got, want, allowed)
        odd = int(_one_sided(got, want).sum())
        if odd:
            return False, f"{odd} elements are NaN or infinite on one side only\n{found.report()}"
        return found.fraction <= max_error_ratio, f"more than {max_error_ratio:.3%} of the elements differ\n{found.report()}"

    return compare


def ratio_reldiff(diff_thd: float = 0.01, pct_thd: float = 0.05, max_diff_hd: float = float("inf")) -> Rule:
    """At most a share `pct_thd` of the elements has a relative error above `diff_thd`, and none above `max_diff_hd`.

    >>> ratio_reldiff(0.1, 0.5)(np.float32([1, 2]), np.float32([1, 4]))[0]
    True
    """

    def compare(actual: Any, expected: Any, **_: Any) -> Verdict:
        got, want = _wide(to_numpy(actual)), _wide(to_numpy(expected))
        found = measure(to_numpy(actual), to_numpy(expected), Closeness(diff_thd, 0.0))
        with np.errstate(all="ignore"):
            error = np.abs(got - want) / np.maximum(np.abs(want), np.finfo(np.float64).tiny)
        error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, np.where(np.isnan(error), np.inf, error))
        share, most = float((error > diff_thd).mean()) if error.size else 0.0, float(error.max(initial=0.0))
        text = f"{share:.3%} of the elements are off by more than {diff_thd:g} (allowed {pct_thd:.3%}), the worst by {most:.3g}"
        return share <= pct_thd and most <= max_diff_hd, f"{text}\n{found.report()}"

    return compare


def topk_pair_compare(vals_name: str, *, scores_name: str | None = None, dim: int = -1, max_show: int = 10) -> Rule:
    """Indices of a top-k, where elements of equal value may change places.

    Position by position, an index is right if it is the expected one; or if the values there agree and the index is one that the
    golden has for that value, or the value is the last one, of which the golden may have left some out. No index may occur twice.

    Args:
      vals_name: the output that holds the values of these indices.
      scores_name: the input they were chosen from; if given, every index must point to its value there.
      dim: the axis of the choice.
      max_show: how many wrong positions the report shows.
    """

    def compare(
        actual: Any,
        expected: Any,
        *,
        actual_outputs: Mapping[str, Any],
        expected_outputs: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        **_: Any,
    ) -> Verdict:
        if vals_name not in actual_outputs:
            raise NumericsError("PL702", f"there is no output {vals_name!r} with the values", fix=f"one of {sorted(actual_outputs)}")
        got, want = _rows(actual, dim), _rows(expected, dim)
        got_values, want_values = _rows(actual_outputs[vals_name], dim), _rows(expected_outputs[vals_name], dim)
        allowed = Closeness.of(want_values.dtype).but(rtol, atol)
        scores = None if scores_name is None else _rows((inputs or {})[scores_name], dim)
        wrong = []
        for row in range(len(want)):
            own = None if scores is None else scores[row]
            wrong += [(row, *found) for found in _row(got[row], want[row], got_values[row], want_values[row], own, allowed)]
        shown = [f"  row {r}, place {i}: {why}" for r, i, why in wrong[:max_show]]
        more = [f"  and {len(wrong) - max_show} more"] if len(wrong) > max_show else []
        return not wrong, "\n".join([f"{len(wrong)} wrong indices", *shown, *more])

    return compare


def _row(got: Array, want: Array, got_values: Array, want_values: Array, scores: Array | None, allowed: Closeness) -> list[tuple[int, str]]:
    """The wrong places of one row, with the reason."""
    wrong: list[tuple[int, str]] = []
    seen: set[int] = set()
    values = _wide(want_values)
    for i, index in enumerate(map(int, got)):
        if index in seen:
            wrong.append((i, f"index {index} a second time"))
        seen.add(index)
        if index == int(want[i]) or (i, f"index {index} a second time") in wrong:
            continue
        tied = _close(values, values[i], allowed)
        open_end = bool(tied[-1])
        if not _close(_wide(got_values[i]), values[i], allowed):
            wrong.append((i, f"index {index} with value {got_values[i]}, expected {int(want[i])} with {want_values[i]}"))
        elif index not in want[tied] and not open_end:
            wrong.append((i, f"index {index} is not one of those with value {want_values[i]}: {want[tied].tolist()}"))
        elif scores is not None and not (0 <= index < len(scores) and _close(_wide(scores[index]), values[i], allowed)):
            wrong.append((i, f"index {index} does not have value {want_values[i]}"))
    return wrong


def _close(a: Any, b: Any, allowed: Closeness) -> Any:
    with np.errstate(invalid="ignore"):
        distance = np.abs(a - b)
        near = np.isfinite(distance) & (distance <= allowed.atol + allowed.rtol * np.abs(b))
        return (a == b) | near | (np.isnan(a) & np.isnan(b))


def _rows(x: Any, dim: int) -> Array:
    """An array as rows along one axis."""
    moved = np.moveaxis(to_numpy(x), dim, -1)
    return moved.reshape(-1, moved.shape[-1])


def _one_sided(got: Array, want: Array) -> Array:
    a, b = _wide(got), _wide(want)
    return (np.isfinite(a) != np.isfinite(b)) | (~np.isfinite(a) & ~np.isfinite(b) & (a != b) & ~(np.isnan(a) & np.isnan(b)))


def _wide(x: Array) -> Array:
    return numerics.numbers(x).astype(np.float64)
