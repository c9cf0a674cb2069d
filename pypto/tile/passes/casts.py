"""Casts the chip has no instruction for become chains of casts it has, where the chain gives the direct result.

A chain is taken only when it equals the direct conversion for every value; whether it does is decided once per pair,
mode and platform, on all values of sources up to 16 bits and on the values around every rounding and overflow boundary
of wider ones. Anything else is an error that names the hop to write.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from pypto import numerics
from pypto.core.avals import TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Var
from pypto.dtypes import DTYPES, DType
from pypto.errors import MemorySpaceError, PyptoError
from pypto.platform import PLATFORMS, Platform

_LONGEST = 4


@lru_cache(maxsize=64)
def hard_values(dtype: DType) -> np.ndarray:
    """Values on which a wrong chain would show: everything for narrow dtypes, boundaries and their neighbours for wide ones."""
    if dtype.bits <= 16:
        bits = np.arange(1 << dtype.bits, dtype=np.uint32)
        return bits.astype(np.uint8 if dtype.itemsize == 1 else np.uint16).view(dtype.storage) if dtype.bits in (8, 16) else _small(dtype)
    rng = np.random.default_rng(1)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            patterns = rng.integers(0, 1 << 32, 20000, np.uint32).view(np.float32)
            exact = np.concatenate([_steps().astype(np.float32), patterns])
        bits = exact.view(np.int32)
        near = np.concatenate([bits + d for d in (-1, 0, 1)]).astype(np.int32)
        return near.view(np.float32)
    limits = np.iinfo(dtype.storage)
    powers = [s * (1 << e) + d for e in range(dtype.bits - 1) for s in (1, -1, 3, 5) for d in (-2, -1, 0, 1, 2)]
    ties = [(1 << e) + (1 << k) + d for e in range(8, dtype.bits - 1) for k in range(max(0, e - 26), e) for d in (-1, 0, 1)]
    small = list(range(-70000, 70001, 7)) + list(range(-300, 301))
    values = [v for v in (*powers, *ties, *(-t for t in ties), *small, limits.min, limits.max) if limits.min <= v <= limits.max]
    return np.array(values, dtype.storage)


def _small(dtype: DType) -> np.ndarray:
    return np.arange(int(dtype.min_value), int(dtype.max_value) + 1).astype(dtype.storage)


def _steps() -> np.ndarray:
    """Integers, halves and quarters around every range limit, powers of two with ties of every width, specials."""
    grid = np.arange(-300, 300, 0.25)
    powers = np.array([s * 2.0**e * (1 + 2.0**-k) for e in range(-30, 66) for k in range(1, 25) for s in (1, -1)])
    edges = np.array([65503.99, 65504, 65519, 65519.99, 65520, 65535, 65536, 32767.5, -32768.5, 2147483520, 2147483648, 9.3e18, 3.4e38])
    return np.concatenate([grid, powers, edges, -edges, [np.nan, np.inf, -np.inf, 0.0, -0.0]])


def convert(x: np.ndarray, hops: tuple[DType, ...], mode: str, overflow: str) -> np.ndarray:
    """Convert hop by hop; `hops` starts with the source."""
    for source, target in itertools.pairwise(hops):
        x = numerics.convert(x, source, target, mode, overflow)
    return x


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    nan = np.isnan(numerics.widened(a)) if a.dtype.kind not in "iub" else np.zeros(a.shape, np.bool_)
    other = np.isnan(numerics.widened(b)) if b.dtype.kind not in "iub" else np.zeros(b.shape, np.bool_)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return bool(np.array_equal(nan, other) and np.array_equal(a.view(unsigned)[~nan], b.view(unsigned)[~nan]))


def _paths(source: DType, target: DType, platform: Platform) -> Iterator[tuple[DType, ...]]:
    """Chains of native casts, shortest first."""
    queue: deque[tuple[DType, ...]] = deque([(source,)])
    while queue:
        path = queue.popleft()
        for name in platform.casts.get(path[-1].name, ()):
            step = DTYPES[name]
            if step is target:
                yield (*path, step)
            elif step not in path and len(path) < _LONGEST:
                queue.append((*path, step))


@lru_cache(maxsize=4096)
def legal_chain(source: DType, target: DType, mode: str, overflow: str, platform: Platform) -> tuple[DType, ...] | None:
    """The shortest chain of native casts that equals the direct conversion; None when there is none."""
    values = hard_values(source)
    with np.errstate(all="ignore"):
        want = numerics.convert(values, source, target, mode, overflow)
        for path in _paths(source, target, platform):
            if len(path) == 2 or _same_bits(convert(values, path, mode, overflow), want):
                return path
    return None


def check_casts(e: Eqn, platform: Platform) -> Iterator[PyptoError]:
    """PL406 for a cast no chain equals, naming the two casts to write instead."""
    if _is_cast(e) and _chain(e, platform) is None:
        yield _no_chain(e, e.ins[0].aval.dtype, e.params["dtype"], platform)


def _is_cast(e: Eqn) -> bool:
    return e.op.name == "convert" and isinstance(e.ins[0].aval, TileAval) and e.ins[0].aval.dtype is not e.params["dtype"]


def _chain(e: Eqn, platform: Platform) -> tuple[DType, ...] | None:
    return legal_chain(e.ins[0].aval.dtype, e.params["dtype"], e.params["mode"], e.params["overflow"], platform)


def legalise_casts(jaxpr: Jaxpr, platform: Platform) -> Jaxpr:
    """Replace tile casts by chains the platform has; every cast has passed `check_casts`."""

    def cast(e: Eqn, out: list[Eqn]) -> None:
        mode, overflow = e.params["mode"], e.params["overflow"]
        path = _chain(e, platform)
        assert path is not None
        value: Atom = e.ins[0]
        for step in path[1:-1]:
            hop = Var(_with_dtype(e.ins[0].aval, step), e.outs[0].name)
            out.append(Eqn(e.op, (value,), (hop,), {"dtype": step, "mode": mode, "overflow": overflow}, e.source))
            value = hop
        out.append(e.replace(ins=(value,)))

    def block(j: Jaxpr) -> Jaxpr:
        out: list[Eqn] = []
        for e in j.eqns:
            if _is_cast(e):
                cast(e, out)
            else:
                out.append(e.replace(params={k: block(p) if isinstance(p, Jaxpr) else p for k, p in e.params.items()}))
        return j.replace(eqns=tuple(out))

    return block(jaxpr)


def _with_dtype(aval: object, dtype: DType) -> TileAval:
    assert isinstance(aval, TileAval)
    return TileAval(aval.shape, dtype, aval.level, aval.space, aval.valid)


def _no_chain(e: Eqn, source: DType, target: DType, platform: Platform) -> PyptoError:
    path = next(_paths(source, target, platform), None)
    if path is None:
        native = platform.casts.get(source.name, ())
        fix = f"{platform.name} converts {source.name} only to {', '.join(native)}" if native else f"it converts {source.name} to nothing"
        others = sorted({p.family for p in PLATFORMS.values() if next(_paths(source, target, p), None) is not None})
        fix += "".join(f'; platform="{other}" has this cast' for other in others)
    else:
        hops = "pl.cast(" * (len(path) - 1) + "x" + "".join(f", pl.{d.name})" for d in path[1:])
        fix = f"if rounding in each step is what you want, write the hops: {hops}"
    return MemorySpaceError(
        "PL406",
        f"{platform.name} has no cast from {source.name} to {target.name}, and no chain of casts gives the same values",
        fix=fix,
        at=e.source,
    )
