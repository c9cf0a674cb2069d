"""Every op with a rule for the compiled executor has the reference executor's bits, over its samples and over special values."""

import itertools

import numpy as np
import pytest

from pypto import dtypes
from pypto.core.op import OPS
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Lanewise, Tilewise
from pypto.lax.convert import MODES
from tests.both import differs, disagreements, op_program, samples_of
from tests.fuzz import TARGETS
from tests.hard_inputs import narrowed

COMPILED = sorted(name for name, op in OPS.items() if isinstance(op.cpu, Lanewise | Tilewise))
LANEWISE = [name for name in COMPILED if isinstance(OPS[name].cpu, Lanewise) and name not in ("convert", "select")]
NAMES = ["FP32", "FP16", "BF16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL"]
PLAIN = [dtypes.DTYPES[n] for n in NAMES]
MINIFLOATS = [dtypes.FP8E4M3FN, dtypes.FP8E5M2, dtypes.FP4, dtypes.HF8]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1.5, -2.5, 65504.0, 65519.0, 65520.0, 3e38, 1e-45, -1e-45, 6e-8, 2.9e-8]
SPECIAL += [2.0**31, -(2.0**31), 2.0**31 - 128, 127.5, -128.5, 255.5, 32767.5, -32769.0, 2.0**63, 2.0**64, 8388609.0, 1e-40]


def edges(dtype, count, seed=0):
    """Random bits of a dtype, with the values at the front that rules are about."""
    rng = np.random.default_rng(seed)
    if dtype is dtypes.BOOL:
        return rng.integers(0, 2, count).astype(np.bool_)
    raw = rng.integers(0, 256, count * dtype.itemsize).astype(np.uint8).view(dtype.storage).copy()
    if dtype.is_float:
        with np.errstate(all="ignore"):
            chosen = narrowed(np.array(SPECIAL, np.float32), dtype)
    else:
        ends = [int(dtype.min_value), int(dtype.max_value), int(dtype.max_value) - 1, 0, 1, 2, 7]
        chosen = np.array(ends + ([-1, -2, -7] if dtype.is_signed else []), dtype.storage)
    raw[: len(chosen)] = chosen
    last = rng.integers(0, 100, 64)
    raw[-64:] = narrowed(last.astype(np.float32), dtype) if dtype.is_float else last.astype(dtype.storage)
    return raw


def parts(arrays):
    return [None if a.ndim == 0 else tuple(max(1, d - 1) for d in a.shape) for a in arrays]


def allowed(op, arrays, params, valids, dynamic):
    """Whether the op takes operands that are valid in part like this."""
    try:
        op_program(op, arrays, params, valids, dynamic)
    except ShapeError:
        return False
    return True


def check(name, *, every, target=None):
    """The disagreements over an op's samples, whole and partly valid; without `every`, one sample per dtype."""
    op, seen, applications = OPS[name], set(), []
    for arrays, params in reversed(samples_of(op)):
        key = arrays[0].dtype if arrays else None
        if not every and key in seen:
            continue
        seen.add(key)
        shapes = [(None, False)] if not arrays else [(None, False), (parts(arrays), True)]
        applications += [(op, arrays, params, *how) for how in shapes if allowed(op, arrays, params, *how)]
    return disagreements(applications, target)


@pytest.mark.parametrize("name", [n for n in COMPILED if OPS[n].samples()])
def test_an_op_has_the_bits_of_the_reference(name):
    assert check(name, every=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in COMPILED if OPS[n].samples()])
def test_an_op_has_the_bits_of_the_reference_over_all_samples(name):
    assert check(name, every=True) == []


@pytest.mark.parametrize("name", LANEWISE)
def test_an_elementwise_op_agrees_on_special_values_and_random_bits(name):
    op, applications = OPS[name], []
    for dtype in sorted(op.accepts & set(PLAIN), key=lambda d: d.name):
        first = edges(dtype, 1024)
        arrays = [first]
        if len(op.operands) == 2:  # every special value against every other one
            pairs = np.array(list(itertools.product(range(32), repeat=2)))
            arrays = [np.concatenate([edges(dtype, 1024, seed=i), first[pairs[:, i]]]) for i in range(2)]
        applications.append((op, [a.reshape(1, -1) for a in arrays], {o: op.defaults.get(o) for o in op.options}, None, False))
    assert disagreements(applications) == []


@pytest.mark.parametrize("source", PLAIN, ids=str)
def test_casts_agree_from_a_dtype_to_every_other(source):
    applications = []
    for target in PLAIN:
        for mode in MODES if source.is_float or target.is_float else MODES[:1]:
            params = {"dtype": target, "mode": mode, "overflow": "wrap" if mode == "rint" else "saturate"}
            applications.append((OPS["convert"], [edges(source, 512).reshape(1, -1)], params, None, False))
    assert disagreements(applications) == []


SHAPES = [(1, 1, 1), (7, 33, 35), (8, 64, 32), (9, 300, 33), (1, 257, 31), (40, 3, 70), (32, 192, 64), (64, 64, 32)]


@pytest.mark.parametrize("dtype", [dtypes.FP32, dtypes.FP16, dtypes.BF16, dtypes.INT8], ids=str)
def test_a_product_agrees_for_every_shape_and_orientation(dtype):
    applications = []
    for (m, k, n), flags in itertools.product(SHAPES, itertools.product((False, True), repeat=2)):
        rng = np.random.default_rng(m * n)
        a, b = rng.normal(size=(k, m) if flags[0] else (m, k)), rng.normal(size=(n, k) if flags[1] else (k, n))
        scale = 100 if dtype is dtypes.INT8 else 1
        arrays = [(x * scale).astype(np.float32).astype(dtype.storage) for x in (a, b)]
        params = {"a_trans": flags[0], "b_trans": flags[1], "out_dtype": None, "numerics": "contract"}
        applications.append((OPS["matmul"], arrays, params, None, False))
    assert disagreements(applications) == []


@pytest.mark.parametrize("depth", [70, 64, 320])
@pytest.mark.parametrize("numerics", ["contract", "sequential"])
def test_subnormals_in_a_bf16_product_are_treated_as_its_order_says(numerics, depth):
    rng = np.random.default_rng(5)
    a, b = (edges(dtypes.BF16, 32 * depth, seed=i).reshape(shape) for i, shape in enumerate([(32, depth), (depth, 32)]))
    tiny = [(rng.normal(size=x.shape) * scale).astype(np.float32).astype(a.dtype) for x, scale in ((a, 2.0**-80), (b, 2.0**-50))]
    acc = np.full((32, 32), 1e-40, np.float32)
    for left, right in ((a, b), tiny):
        assert differs(OPS["matmul_acc"], [acc, left, right], {"a_trans": False, "b_trans": False, "numerics": numerics}) == ""


@pytest.mark.parametrize("columns", [1, 5, 16, 63, 64, 65, 100, 128, 200])
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"])
def test_reductions_agree_for_every_length(columns, name):
    x = edges(dtypes.FP32, 3 * columns + 64, seed=columns)[: 3 * columns].reshape(3, columns)
    y = np.random.default_rng(0).normal(size=(3, columns)).astype(np.float32)
    order = {"order": "lanes64"} if name in ("reduce_sum", "reduce_prod") else {}
    applications = []
    for array, axis in itertools.product((x, y), (0, 1)):
        for how in [order, {"order": "ascending"}] if order else [order]:
            params = {"axes": (axis,), "keepdims": True, **how}
            applications += [(OPS[name], [array], params, None, False), (OPS[name], [array], params, [(2, max(1, columns - 1))], True)]
    assert disagreements(applications) == []


LESSER = ["AVX2", "SSE4.2"]


@pytest.mark.parametrize("cpu", LESSER)
@pytest.mark.parametrize("name", ["exp", "log", "rsqrt", "div", "maximum", "floor_mod", "fmod", "shr"])
def test_code_for_a_lesser_cpu_has_the_same_bits(name, cpu):
    op, applications = OPS[name], []
    for dtype in sorted(op.accepts & set(PLAIN), key=lambda d: d.name):
        arrays = [edges(dtype, 1024, seed=i).reshape(1, -1) for i in range(len(op.operands))]
        applications.append((op, arrays, {o: op.defaults.get(o) for o in op.options}, None, False))
    assert disagreements(applications, target=TARGETS[cpu]) == []


@pytest.mark.slow
@pytest.mark.parametrize("cpu", LESSER)
@pytest.mark.parametrize("name", [n for n in COMPILED if OPS[n].samples()])
def test_an_op_has_the_same_bits_on_a_lesser_cpu(name, cpu):
    assert check(name, every=False, target=TARGETS[cpu]) == []


@pytest.mark.parametrize("cpu", LESSER)
@pytest.mark.parametrize("source", [dtypes.FP32, dtypes.FP16, dtypes.INT64, dtypes.UINT64], ids=str)
def test_casts_have_the_same_bits_on_a_lesser_cpu(source, cpu):
    applications = [
        (OPS["convert"], [edges(source, 512).reshape(1, -1)], {"dtype": t, "mode": m, "overflow": "saturate"}, None, False)
        for t in (*PLAIN, *MINIFLOATS)
        for m in MODES[1:]
    ]
    assert disagreements(applications, target=TARGETS[cpu]) == []


@pytest.mark.parametrize("source", MINIFLOATS, ids=str)
def test_every_value_of_a_narrow_float_converts_as_the_reference_does(source):
    values = np.arange(1 << source.bits).astype(np.uint8).view(source.storage).reshape(1, -1)
    targets = [d for d in (*PLAIN, *MINIFLOATS) if d is not source]
    params = [{"dtype": t, "mode": m, "overflow": "saturate"} for t in targets for m in ("rint", "floor")]
    assert disagreements([(OPS["convert"], [values], p, None, False) for p in params]) == []


@pytest.mark.parametrize("target", MINIFLOATS, ids=str)
@pytest.mark.parametrize("overflow", ["saturate", "ieee"])
def test_casts_to_a_narrow_float_agree_in_every_mode(target, overflow):
    near = (np.linspace(-8, 8, 512) * np.exp2(np.arange(512) % 20 - 14)).astype(np.float32)
    applications = []
    for mode in MODES:
        params = {"dtype": target, "mode": mode, "overflow": overflow}
        applications += [(OPS["convert"], [x.reshape(1, -1)], params, None, False) for x in (near, edges(dtypes.FP32, 512))]
    assert disagreements(applications) == []


@pytest.mark.parametrize("dtype", [dtypes.FP32, dtypes.FP16, dtypes.BF16, dtypes.INT8], ids=str)
def test_a_product_for_a_lesser_cpu_has_the_same_bits(dtype):
    arrays = [edges(dtype, 32 * 192, seed=i).reshape(shape) for i, shape in enumerate([(32, 192), (192, 32)])]
    params = {"a_trans": False, "b_trans": False, "out_dtype": None, "numerics": "contract"}
    assert all(differs(OPS["matmul"], arrays, params, target=TARGETS[cpu]) == "" for cpu in LESSER)
