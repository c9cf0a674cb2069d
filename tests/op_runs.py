"""Every way to run one op: eagerly, traced, in a kernel on tiles, on partly valid tiles, and its golden in FP64."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import pypto
from pypto import dtypes, lax, numerics
from pypto.core.avals import ArrayAval, RefAval, TileAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Var
from pypto.core.op import OPS, Moves, Op, Structural
from pypto.core.trace import tracing
from pypto.dtypes import DType, dtype_of
from pypto.interpreters.reference import Machine, eval_jaxpr
from pypto.interpreters.values import Buffer, Ref, Value
from pypto.language import access
from pypto.language.scopes import At, Level
from pypto.language.staging import StagingRuntime
from pypto.language.trace import PlTrace
from pypto.lax.families import literal
from pypto.testing.goldens import resolve
from pypto.testing.specs import round_to
from pypto.tile import lower_program
from tests.hard_inputs import narrowed

OPERATIONS = [op for op in OPS.values() if not isinstance(op.axes, Structural)]
"""The ops that compute or move elements."""

UNWRITTEN = (lax.empty, lax.gather_compare, lax.mrgsort_lists)
"""Ops that leave elements of their results unwritten: a kernel may not store those."""


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def eager(op: Op, args: Sequence[Any], params: dict[str, Any]) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(r) for r in as_tuple(op(*args, **params)))


def traced(op: Op, args: Sequence[Any], params: dict[str, Any]) -> tuple[np.ndarray, ...]:
    return tuple(eval_jaxpr(pypto.make_jaxpr(lambda *xs: op(*xs, **params))(*args), *args))


def tile_params(params: dict[str, Any]) -> dict[str, Any]:
    """Ops that make tiles from nothing are told their level."""
    return {**params, "level": "tile"} if "level" in params else params


def in_kernel(op: Op, args: Sequence[Any], params: dict[str, Any], outs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Load every array, apply the op at tile level, store the results, through all passes; numbers stay scalars."""
    arrays = [a for a in args if np.ndim(a)]
    trace = PlTrace()
    with tracing(trace):
        inputs = [trace.new(RefAval(a.shape, dtype_of(a.dtype), direction="in"), f"x{i}") for i, a in enumerate(arrays)]
        results = [trace.new(RefAval(o.shape, dtype_of(o.dtype), direction="out"), f"out{i}") for i, o in enumerate(outs)]

        def body() -> tuple[()]:
            loaded = iter([access.load(trace, x, _whole(x), level="tile") for x in inputs])
            operands = [next(loaded) if np.ndim(a) else literal(np.asarray(a).item(), dtype_of(np.asarray(a).dtype)) for a in args]
            for target, value in zip(results, as_tuple(op(*operands, **tile_params(params))), strict=True):
                if value.dtype is dtypes.MASK:  # a predicate cannot be stored
                    value = lax.select(value, lax.full(value.shape, True, dtypes.BOOL, level="tile"), False)
                access.store(trace, target, _whole(target), value)
            return ()

        StagingRuntime(trace, {}).with_(At(Level.CORE_GROUP), body, None, (), (), ())
    jaxpr = Jaxpr(tuple(t.var for t in (*inputs, *results)), tuple(trace.scope.eqns), (), "kernel")
    with pypto.override(verify=True, platform="cpu"):
        program = lower_program(jaxpr, "cpu")
    memory = [Buffer(a, None, None, "in") for a in arrays]
    memory += [Buffer(np.zeros_like(o), np.zeros(o.shape, np.bool_), np.zeros(o.shape, np.bool_), "out", visible=True) for o in outs]
    Machine(program.bodies).run(program.orchestration, [Ref.whole(b) for b in memory])
    return tuple(b.data for b in memory[len(arrays) :])


def _whole(x: Any) -> access.Window:
    return access.Window((0,) * x.ndim, tuple(x.shape))


def compute(op: Op, values: Sequence[Value], params: dict[str, Any], *, check: bool = True) -> Sequence[Value]:
    """One equation on run-time values, of which the arrays are tiles."""
    ins = tuple(Var(tile_aval(v)) for v in values)
    made = op.abstract_eval([v.aval for v in ins], tile_params(params))
    outs = tuple(Var(a) for a in made)
    machine = Machine(check=check)
    machine.env.update(zip(ins, values, strict=True))
    machine.execute(Eqn(op, ins, outs, tile_params(params)))
    return [machine.env[v] for v in outs]


def tile_aval(v: Value) -> TileAval | Any:
    dtype = dtype_of(v.data.dtype)
    valid = None if v.valid == v.data.shape else v.valid
    return TileAval(v.data.shape, dtype, "tile", None, valid) if v.data.ndim else scalar(dtype)


def value_of(a: Any, valid: tuple[int, ...] | None = None, taint: np.ndarray | None = None) -> Value:
    data = np.asarray(a)
    return Value(data, data.shape if valid is None else valid, taint)


def poisoned(a: np.ndarray, valid: tuple[int, ...]) -> np.ndarray:
    """A copy with values that would show outside a valid region."""
    kind = dtype_of(a.dtype)
    bad = np.full(a.shape, round_to(np.nan if kind.is_float else kind.min_value if kind.is_signed else kind.max_value, kind)[()])
    inside = tuple(slice(0, v) for v in valid)
    bad[inside] = a[inside]
    return bad


def samples_by_dtype(op: Op) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The first sample of every combination of dtypes and options; where there is one, with more than one row and column."""
    seen = set()
    wide = [(args, params) for args, params in op.samples() if all(np.ndim(a) == 0 or min(np.shape(a)[-2:]) > 1 for a in args[:1])]
    for args, params in wide or op.samples():
        key = (tuple(str(np.asarray(a).dtype) for a in args), repr(sorted(params.items(), key=str)))
        if key not in seen:
            seen.add(key)
            yield args, params


def replaced_dtype(args: Sequence[Any], dtype: DType) -> list[Any]:
    """Abstract operands in which the dtype of the first one is another."""
    first = np.asarray(args[0]).dtype
    return [ArrayAval(np.shape(a), dtype if np.asarray(a).dtype == first else dtype_of(np.asarray(a).dtype)) for a in args]


# ---- goldens -----------------------------------------------------------------------------------------------------

Call = Callable[..., Any]


def _reduce(call: Call, x: Any, axes: Any, keepdims: bool, **_: Any) -> Any:
    result = np.asarray(call(x, axes))
    return np.expand_dims(result, axes) if keepdims else result


def _extremum(call: Call, x: Any, axis: int, index_dtype: DType, keepdims: bool) -> Any:
    result = np.asarray(call(x, axis, np.int64))
    return np.expand_dims(result, axis) if keepdims else result


def _tri(call: Call, diagonal: Any, shape: Any, dtype: DType, upper: bool, **_: Any) -> Any:
    ones = np.asarray(call(*shape[-2:], int(diagonal) - (1 if upper else 0)))
    return np.broadcast_to(1 - ones if upper else ones, shape)


CALLS: dict[str, Call] = {
    "convert": lambda f, x, dtype, **_: f(x, dtype.storage),
    "select": lambda f, mask, x, y: f(jnp.broadcast_to(mask, x.shape), x, y),
    "matmul": lambda f, a, b, **_: f(a, b),
    "reshape": lambda f, x, shape: f(x, shape),
    "transpose": lambda f, x, permutation: f(x, permutation),
    "broadcast": lambda f, x, shape: f(x, shape),
    "update": lambda f, x, value, *starts, sizes: f(x, value, starts),
    "concatenate": lambda f, *xs, axis: f(xs, axis),
    "integer_pow": lambda f, x, y: f(x, y),
    "round": lambda f, x, **options: f(x, *(jax.lax.RoundingMethod(int(m)) for m in options.values())),
    "tri": _tri,
    "strided_slice": lambda f, x, start_indices, limit_indices, strides: f(x, start_indices, limit_indices, strides),
    "top_k": lambda f, x, k, axis: f(x, k, axis=axis),
    "sort": lambda f, *xs, **options: f(xs, **options),
    **{f"reduce_{n}": _reduce for n in ("sum", "prod", "max", "min", "and", "or", "xor")},
    **{f"arg{n}": _extremum for n in ("max", "min")},
}
"""How a golden is called where JAX names or orders its options otherwise."""

MOVES = {op.name for op in OPERATIONS if isinstance(op.axes, Moves)} | {"select", "convert", "scatter_add", "scatter_sub", "scatter_mul"}
"""Ops whose golden sees the operands in their own dtype, as it rounds where they do; the others compute in 64 bits."""


def golden(op: Op, args: Sequence[Any], params: dict[str, Any], *, magnitude: bool = False) -> tuple[np.ndarray, ...]:
    """What JAX gives, one array per result, floats in FP64. With `magnitude`, of the absolute values: what errors are measured against."""
    assert op.golden is not None
    function = resolve(op.golden)
    operands = [_wide(np.asarray(a), op) for a in args]
    if magnitude:
        operands = [np.abs(a) for a in operands]
    with jax.enable_x64(True):
        call = CALLS.get(op.name, lambda f, *xs, **options: f(*xs, **options))
        made = call(function, *(jnp.asarray(a) for a in operands), **{k: _theirs(v) for k, v in params.items()})
    return tuple(np.asarray(m) for m in (made if isinstance(made, tuple | list) else (made,)))


def _theirs(option: Any) -> Any:
    """An option as JAX spells it."""
    if dataclasses.is_dataclass(option) and hasattr(jax.lax, type(option).__name__):
        return getattr(jax.lax, type(option).__name__)(**{f.name: getattr(option, f.name) for f in dataclasses.fields(option)})
    return option


def _wide(a: np.ndarray, op: Op) -> np.ndarray:
    """Floats in FP64 and integers in INT64, of which the low bits are the answer: one compilation in JAX serves all of them."""
    dtype = dtype_of(a.dtype)
    if op.name in MOVES or dtype is dtypes.BOOL or dtype is dtypes.UINT64:
        return a
    return numerics.numbers(a).astype(np.float64 if dtype.is_float else np.int64)


def rounded(reference: np.ndarray, dtype: DType) -> np.ndarray:
    """An FP64 result as the contract rounds it: to FP32 as the unit computes, then to a narrower dtype."""
    if reference.dtype != np.float64:
        return reference.astype(dtype.storage)
    with np.errstate(all="ignore"):
        return narrowed(reference.astype(np.float32), dtype)


def ulps(found: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Distance from an FP64 reference in units in the last place of the dtype found, subnormals included."""
    dtype = dtype_of(found.dtype)
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.abs(reference))), dtype.min_exponent)
        distance = np.abs(found.astype(np.float64) - reference) / np.exp2(exponent - dtype.mantissa)
    wide, nearest = found.astype(np.float64), rounded(reference, dtype).astype(np.float64)
    same = (wide == nearest) & np.isinf(nearest) | (np.isnan(wide) & np.isnan(nearest)) | (wide == reference)
    return np.where(same, 0.0, np.nan_to_num(distance, nan=np.inf))
