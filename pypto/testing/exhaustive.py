"""Check the correctly rounded functions on all 2**32 FP32 inputs, against an independent computation.

    python -m pypto.testing.exhaustive            # minutes per function; stops and resumes where it was
    python -m pypto.testing.exhaustive --only exp --stride 64

The independent value is the C library's FP64 function with an error far above what any library has; where rounding
within that error is open, `decimal` decides. FP64 square roots and quotients round to the right FP32 number by
themselves (Figueroa 1995: 53 >= 2 * 24 + 2).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from pathlib import Path

import numpy as np

from pypto import numerics

CHUNK = 1 << 22
TOTAL = 1 << 32
_MARGIN = 2.0**-48
_EXACT = Context(prec=70, Emax=999999, Emin=-999999)

_SLOW: dict[str, Callable[[Decimal], Decimal]] = {
    "exp": _EXACT.exp,
    "log": _EXACT.ln,
    "rsqrt": lambda d: _EXACT.divide(Decimal(1), _EXACT.sqrt(d)),
}
_FAST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sqrt": np.sqrt,
    "recip": lambda x: 1.0 / x,
}


def expected(name: str, x: np.ndarray) -> np.ndarray:
    """The correctly rounded FP32 results, computed independently of `pypto.numerics`."""
    with np.errstate(all="ignore"):
        y = _FAST[name](x.astype(np.float64))
        if name not in _SLOW:
            return y.astype(np.float32)
        low, high = (y * (1 - _MARGIN)).astype(np.float32), (y * (1 + _MARGIN)).astype(np.float32)
    result = low
    for i in np.nonzero((low != high) & ~np.isnan(y))[0]:
        result[i] = _nearest(_SLOW[name](Decimal(float(x[i]))), float(low[i]), float(high[i]))
    return result


def _nearest(value: Decimal, a: float, b: float) -> np.float32:
    """Which of two neighbouring FP32 numbers is nearer; infinity stands for 2**128."""
    ends = [Decimal(2) ** 128 if np.isinf(v) else Decimal(v) for v in (a, b)]
    return np.float32(a if abs(value - ends[0]) < abs(value - ends[1]) else b)


def mismatches(name: str, start: int, stride: int = 1) -> list[int]:
    """Bit patterns in one chunk whose result is not the expected one; NaN equals NaN."""
    bits = np.arange(start, min(start + CHUNK, TOTAL), stride, dtype=np.int64).astype(np.uint32)
    x = bits.view(np.float32)
    got, want = getattr(numerics, name)(x), expected(name, x)
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    return [int(b) for b in bits[~same]]


def run(names: list[str], state: Path, stride: int) -> Iterator[str]:
    """Check chunk by chunk; yields progress lines. Finished chunks are kept in `state`."""
    done: dict[str, int] = json.loads(state.read_text()) if state.exists() else {}
    for name in names:
        key = f"{name}/{stride}/{numerics.VERSION}"
        start, began = done.get(key, 0), time.perf_counter()
        first = start
        while start < TOTAL:
            bad = mismatches(name, start, stride)
            if bad:
                raise SystemExit(f"{name}: wrong for {len(bad)} inputs, first {bad[0]:#010x}")
            start += CHUNK
            done[key] = start
            if (start // CHUNK) % 32 == 0 or start >= TOTAL:
                state.write_text(json.dumps(done))
                rate = (start - first) / (time.perf_counter() - began)
                yield f"{name}: {start / TOTAL:6.1%}, {(TOTAL - start) / rate:4.0f} s left"
        yield f"{name}: correctly rounded for all inputs{f' of stride {stride}' if stride > 1 else ''}"


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pypto.testing.exhaustive", description=__doc__)
    parser.add_argument("--only", choices=sorted(_FAST), action="append", help="one function; may be repeated")
    parser.add_argument("--stride", type=int, default=1, help="check every n-th input")
    parser.add_argument("--state", type=Path, default=Path(".exhaustive.json"), help="where progress is kept")
    args = parser.parse_args(argv)
    for line in run(args.only or sorted(_FAST), args.state, args.stride):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
