"""Every op under every transformation, by the registry: rules exist or say why not; jvp, vjp and vmap of each sample are right.

Derivatives are compared with JAX's, and with central differences, both in FP64 on the golden. A tolerance is relative to the largest
element: rules compute in FP32, in a few roundings. Batched results are compared with those of single examples, bit for bit.
"""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pypto
from pypto import dtypes, lax
from pypto.core.op import OPS, No, Structural
from pypto.dtypes import dtype_of
from tests.bits import identical
from tests.op_runs import CALLS, OPERATIONS, as_tuple, golden, resolve

SLOTS = ("jvp", "transpose", "batching")


@pytest.mark.parametrize("op", OPS.values(), ids=str)
def test_every_rule_exists_or_says_why_not(op):
    for slot in SLOTS:
        rule = getattr(op, slot)
        assert callable(rule) or (isinstance(rule, No) and len(rule.reason.split()) > 3), slot
        assert not isinstance(rule, No) or not {"built", "known"} & set(rule.reason.split()[:4]), rule


def test_only_ops_of_kernels_and_of_rules_cannot_be_batched():
    without = {op.name for op in OPS.values() if isinstance(op.batching, No) and not isinstance(op.axes, Structural)}
    assert without == {"set_validshape", "custom_tangent"}


# ---- derivatives -------------------------------------------------------------------------------------------------


def moving(op, args):
    """The operands a sample can be differentiated with respect to."""
    found = []
    for i, a in enumerate(args):
        if np.asarray(a).dtype == np.float32 and i not in op.index and np.asarray(a).size:
            found.append(i)
    return found


NOT_IN = {"scatter_mul": {2}}
"""Operands an op has no derivative in, as its rule says."""

SAMPLES = []
for _op in OPERATIONS:
    if isinstance(_op.jvp, No):
        continue
    seen = set()
    for _args, _params in _op.samples():
        where = [i for i in moving(_op, _args) if i not in NOT_IN.get(_op.name, ())]
        key = repr(sorted((k, str(v)) for k, v in _params.items() if k not in ("body", "branches", "test")))
        key += str([np.shape(a) for a in _args]) if len(seen) < 3 else ""
        outs = as_tuple(_op(*_args, **_params))
        if where and key not in seen and len(seen) < 4 and any(o.dtype is dtypes.FP32 for o in outs):
            seen.add(key)
            SAMPLES.append(pytest.param(_op, _args, _params, where, id=f"{_op.name}-{len(seen)}"))


def direction(args, where, seed):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, np.shape(a)).astype(np.float32) if i in where else None for i, a in enumerate(args)]


def at(op, args, params, where):
    """The op as a function of the operands that move."""

    def function(*values):
        given = dict(zip(where, values, strict=True))
        return as_tuple(op(*(given.get(i, a) for i, a in enumerate(args)), **params))

    return function


def forward(op, args, params, where, seed=0):
    ds = [d for d in direction(args, where, seed) if d is not None]
    values, tangents = pypto.jvp(at(op, args, params, where), tuple(args[i] for i in where), tuple(ds))
    return values, tangents, ds


@pytest.mark.parametrize(("op", "args", "params", "where"), SAMPLES)
def test_the_value_under_jvp_and_vjp_is_the_value(op, args, params, where):
    alone = as_tuple(op(*args, **params))
    values, _, _ = forward(op, args, params, where)
    assert all(identical(a, b) for a, b in zip(values, alone, strict=True))
    if not isinstance(op.jvp, No) and op.name != "while":
        pulled, _ = pypto.vjp(at(op, args, params, where), *(args[i] for i in where))
        assert all(identical(a, b) for a, b in zip(pulled, alone, strict=True))


@pytest.mark.parametrize(("op", "args", "params", "where"), [s for s in SAMPLES if s.values[0].name != "while"])
def test_vjp_is_the_transpose_of_jvp(op, args, params, where):
    _, tangents, ds = forward(op, args, params, where, seed=1)
    rng = np.random.default_rng(2)
    cts = [None if t is None else rng.uniform(-1, 1, t.shape).astype(np.float32) for t in tangents]
    _, pull = pypto.vjp(at(op, args, params, where), *(args[i] for i in where))
    found = pull(tuple(cts))
    left = sum(np.vdot(np.float64(np.asarray(t)), c) for t, c in zip(tangents, cts, strict=True) if t is not None)
    right = sum(np.vdot(np.float64(np.asarray(f)), d) for f, d in zip(found, ds, strict=True))
    size = sum(np.sum(np.abs(np.float64(np.asarray(t)) * c)) for t, c in zip(tangents, cts, strict=True) if t is not None)
    size += sum(np.sum(np.abs(np.float64(np.asarray(f)) * d)) for f, d in zip(found, ds, strict=True))
    assert abs(left - right) <= 1e-5 * max(size, 1e-6)  # both sides are sums of FP32 products in other orders


def wide(a):
    raw = np.asarray(a)
    return raw.astype(np.float64) if raw.dtype == np.float32 else raw


def reference(op, args, params, where):
    """The golden on FP64, as a function of the operands that move; None where JAX has none."""
    if op.golden is None:
        return None
    function = resolve(op.golden)
    call = CALLS.get(op.name, lambda f, *xs, **options: f(*xs, **options))

    def run(*values):
        given = dict(zip(where, values, strict=True))
        operands = [given.get(i, jnp.asarray(wide(a))) for i, a in enumerate(args)]
        from tests.op_runs import _theirs

        made = _differentiable(op.name, call, function, operands, {k: _theirs(v) for k, v in params.items()})
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    return run


def _differentiable(name, call, function, operands, params):
    if name.startswith("reduce_"):
        params = {k: v for k, v in params.items() if k != "order"}
        result = function(operands[0], params["axes"])
        return jnp.expand_dims(result, params["axes"]) if params["keepdims"] else result
    return call(function, *operands, **params)


JAX_DIFFERS = {
    "clamp": "where the limits are the wrong way round JAX has no derivative, though the value is the upper limit",
    "scatter_min": "where an update is dropped JAX's derivative is NaN or infinite",
    "scatter_max": "where an update is dropped JAX's derivative is NaN or infinite",
}
WITHOUT_JAX = {"convert", "gather_along", "stop"}
"""Ops whose golden is called in its own dtype, so that FP64 would be another function; they are linear or constant."""
GOLDEN = [s for s in SAMPLES if s.values[0].golden and s.values[0].name not in WITHOUT_JAX]
OWN = [s for s in SAMPLES if not any(s is g for g in GOLDEN) and s.values[0] is not OPS["stop"]]
"""All others but `stop`, whose derivative is not that of its values: that is what it is for."""


def off_kinks(a, operand):
    """A sample with every element somewhere else by a little: none is 0, and none equals another of this or of another operand."""
    raw = np.float64(a)
    return raw + 3e-5 * (1 + 0.37 * operand) * (1 + np.arange(raw.size).reshape(raw.shape))


@pytest.mark.parametrize(("op", "args", "params", "where"), [s for s in GOLDEN if s.id.endswith(("-1", "-3"))])
def test_jvp_is_that_of_jax(op, args, params, where):
    if op.name in JAX_DIFFERS:
        return  # compared with differences below
    _, tangents, ds = forward(op, args, params, where)
    with jax.enable_x64(True):
        primals, directions = ([jnp.asarray(np.float64(v)) for v in vs] for vs in ([args[i] for i in where], ds))
        wanted = jax.jvp(reference(op, args, params, where), tuple(primals), tuple(directions))[1]
    for t, w in zip(tangents, wanted, strict=True):
        if t is not None:
            found = np.float64(np.asarray(t))
            assert np.max(np.abs(found - np.asarray(w)), initial=0.0) <= 2e-5 * np.max(np.abs(found), initial=1.0)


@pytest.mark.parametrize(("op", "args", "params", "where"), GOLDEN)
def test_jvp_is_that_of_central_differences_in_fp64_at_every_point(op, args, params, where):
    """Of the golden, at points off the kinks. Elements that the golden itself has no value for, NaN or infinite, are not compared."""
    moved = [off_kinks(a, i).astype(np.float32) if i in where else a for i, a in enumerate(args)]
    _, tangents, ds = forward(op, moved, params, where)
    step = 1e-6
    with jax.enable_x64(True):
        run = reference(op, moved, params, where)
        primals, directions = ([jnp.asarray(np.float64(v)) for v in vs] for vs in ([moved[i] for i in where], ds))
        ahead, behind = (run(*(p + s * d for p, d in zip(primals, directions, strict=True))) for s in (step, -step))
        values = run(*primals)
    compared = finite = total = 0
    for i, t in enumerate(tangents):
        if t is None:
            continue
        found, difference = np.float64(np.asarray(t)), (np.asarray(ahead[i]) - np.asarray(behind[i])) / (2 * step)
        defined = np.isfinite(np.asarray(values[i])) & np.isfinite(difference)
        assert np.all(np.abs(found - difference)[defined] <= 2e-4 * np.max(np.abs(found[defined]), initial=1.0))
        compared, finite, total = compared + int(defined.sum()), finite + int(np.isfinite(values[i]).sum()), total + defined.size
    assert compared >= 0.9 * finite and compared >= 0.5 * total


def change(a, b):
    """a - b; nothing where they are equal, also infinite."""
    return np.subtract(a, b, out=np.zeros_like(a), where=a != b)


def lattice(a, operand):
    """A sample on multiples of 1/16, shifted by operand: at least 1/64 from 0, and 1/32 from the elements of the next operand."""
    return (np.round(np.float64(a) * 16) / 16 + (1 + 2 * operand % 4) / 64).astype(np.float32)


@pytest.mark.parametrize(("op", "args", "params", "where"), OWN)
def test_jvp_of_an_op_without_golden_is_that_of_its_own_differences(op, args, params, where):
    """Of ops that JAX has not, by the op itself. Its FP32 values are exact where it moves, adds and multiplies: points and steps have
    few bits. Where it does more (bodies with sines), two steps are extrapolated, and an error of 2^-24 is divided by a step of 2^-8."""
    moved = [lattice(a, i) if i in where else a for i, a in enumerate(args)]
    f = at(op, moved, params, where)
    rng = np.random.default_rng(3)
    points = [moved[i] for i in where]
    ds = [rng.choice(np.float32([-1, -0.5, 0.5, 1]), p.shape) for p in points]
    _, tangents = pypto.jvp(f, tuple(points), tuple(ds))

    def difference(step):
        ahead, behind = (f(*(p + np.float32(s) * d for p, d in zip(points, ds, strict=True))) for s in (step, -step))
        return [change(np.float64(np.asarray(a)), np.float64(np.asarray(b))) / (2 * step) for a, b in zip(ahead, behind, strict=True)]

    for t, wide_step, small_step in zip(tangents, difference(2.0**-7), difference(2.0**-8), strict=True):
        if t is not None:
            found, wanted = np.float64(np.asarray(t)), (4 * small_step - wide_step) / 3
            assert np.all(np.isfinite(wanted))
            assert np.max(np.abs(found - wanted), initial=0.0) <= 2e-4 * np.max(np.abs(found), initial=1.0)


def test_every_op_with_a_derivative_is_compared_with_differences():
    compared = {s.values[0].name for s in (*GOLDEN, *OWN)} | {"stop"}
    floats = {op.name for op in OPERATIONS if not isinstance(op.jvp, No) and any(moving(op, a) for a, _ in op.samples())}
    constant = {name for name in floats - compared if all(o.dtype is not dtypes.FP32 for o in first_results(OPS[name]))}
    assert floats - compared == constant  # what gives integers and truth values has nothing to compare


def first_results(op):
    args, params = next((a, p) for a, p in op.samples() if moving(op, a))
    return as_tuple(op(*args, **params))


# ---- batching ----------------------------------------------------------------------------------------------------


BATCHED = []
for _op in OPERATIONS:
    if isinstance(_op.batching, No):
        continue
    seen = set()
    for _args, _params in _op.samples():
        key = repr(sorted((k, str(v)) for k, v in _params.items() if k not in ("body", "branches", "test")))
        key += str([str(np.asarray(a).dtype) for a in _args[:1]]) if len(seen) < 3 else ""
        if _args and key not in seen and len(seen) < 3:
            seen.add(key)
            BATCHED.append(pytest.param(_op, _args, _params, id=f"{_op.name}-{len(seen)}"))


def variants(a, count, seed):
    """Examples like one sample: its elements in other orders, so that every one stays in the domain."""
    raw = np.asarray(a)
    rng = np.random.default_rng(seed)
    return np.stack([raw, *(rng.permutation(raw.reshape(-1)).reshape(raw.shape) for _ in range(count - 1))])


@pytest.mark.parametrize(("op", "args", "params"), BATCHED)
def test_an_example_of_a_batch_has_the_bits_it_has_alone(op, args, params):
    choices = [tuple(range(len(args))), *((i,) for i in range(min(len(args), 3)))]
    for chosen in dict.fromkeys(choices):
        given = [variants(a, 3, zlib.crc32(op.name.encode()) + i) if i in chosen else a for i, a in enumerate(args)]
        axes = tuple(0 if i in chosen else None for i in range(len(args)))
        wanted = [as_tuple(op(*(g[k] if i in chosen else g for i, g in enumerate(given)), **params)) for k in range(3)]
        found = as_tuple(pypto.vmap(lambda *xs: op(*xs, **params), axes)(*given))
        for column, batched in zip(zip(*wanted, strict=True), found, strict=True):
            assert batched.dtype is column[0].dtype
            assert identical(batched, np.stack([np.asarray(c) for c in column])), f"operands {chosen}"


def test_all_examples_may_lie_along_any_axis():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for source in range(3):
        for target in range(2):
            found = pypto.vmap(lambda v: lax.reduce_sum(v, 0), source, target)(x)
            wanted = np.stack([np.asarray(lax.reduce_sum(v, 0)) for v in np.moveaxis(x, source, 0)], target)
            assert identical(found, wanted)


__all__ = ["dtype_of", "golden"]
