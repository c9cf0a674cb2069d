"""Every op of the registry: golden, traced, in a kernel, refused dtypes and valid regions. No op is named but by a rule."""

import numpy as np
import pytest

from pypto import Array, dtypes, lax
from pypto.core.ir import Jaxpr, alpha_equal
from pypto.core.op import Labels, Moves, Pointwise, Ulp, Whole
from pypto.dtypes import DTYPES, dtype_of
from pypto.errors import PyptoError
from tests.bits import identical
from tests.op_runs import (
    OPERATIONS,
    UNWRITTEN,
    as_tuple,
    compute,
    eager,
    golden,
    in_kernel,
    poisoned,
    replaced_dtype,
    rounded,
    samples_by_dtype,
    tile_aval,
    traced,
    ulps,
    value_of,
)

every_op = pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
SAMPLED = [op for op in OPERATIONS if op.samples()]
every_sampled_op = pytest.mark.parametrize("op", SAMPLED, ids=lambda op: op.name)


MADE_BY_TRANSFORMATIONS = {"remat_tangent", "custom_jvp_call", "custom_vjp_call", "custom_tangent", "kernel"} | {
    op.name for op in OPERATIONS if "axis_name" in op.options
}
"""Their bodies are made by tracing user functions, or they work along an axis of `vmap`: tests/test_custom_rules.py,
tests/test_kernel_transforms.py and tests/test_named_axes.py run them."""


def same(a, b):
    """Equal options; bodies are equal up to the names of their variables."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return alpha_equal(a, b) if isinstance(a, Jaxpr) else a == b


@every_op
def test_every_op_that_computes_has_samples(op):
    if op is lax.set_validshape:  # it marks tiles only: tests below and those of the executor run it
        return
    if op.name in MADE_BY_TRANSFORMATIONS:
        return
    assert op.samples()
    for args, params in op.samples():
        assert set(params) <= set(op.options) and (op.variadic or len(args) == len(op.operands))


@every_sampled_op
def test_samples_are_the_same_every_time(op):
    for (a, p), (b, q) in zip(op.samples(), op.samples(), strict=True):
        assert p.keys() == q.keys() and all(same(p[k], q[k]) for k in p) and all(identical(x, y) for x, y in zip(a, b, strict=True))


@every_sampled_op
def test_an_op_has_samples_of_every_dtype_it_takes(op):
    given = {dtype_of(np.asarray(a).dtype) for args, _ in op.samples() for a in args} | {p.get("dtype") for _, p in op.samples()}
    # an index is a scalar, and no array is a mask
    assert op.accepts is None or set(op.accepts) - {dtypes.INDEX, dtypes.MASK} <= given


@every_sampled_op
def test_shape_and_dtype_of_results_are_those_of_the_abstract_rule(op):
    for args, params in op.samples():
        rule = op.abstract_eval([value_of(a) and _aval(a) for a in args], params)
        for found, aval in zip(eager(op, args, params), rule, strict=True):
            assert (found.shape, found.dtype) == (aval.shape, aval.dtype.storage)


def _aval(a):
    return Array(a).aval


@every_sampled_op
def test_inputs_are_left_alone_and_results_share_no_memory_with_them(op):
    """A kernel may update the result in place. Only the meaning of `reinterpret` is the same memory under another dtype."""
    for args, params in op.samples():
        before = [np.array(a) for a in args]
        made = (*eager(op, args, params), *(() if op is lax.reinterpret else as_tuple(op.meaning(*args, **params))))
        assert all(identical(a, b) for a, b in zip(args, before, strict=True))
        assert not any(np.shares_memory(result, a) for result in made for a in args), params


def spread(op):
    """One sample of each set of options and one of each combination of dtypes; `samples_by_dtype` has every pair of the two."""
    by_option, by_dtype = {}, {}
    for sample in samples_by_dtype(op):
        by_option.setdefault(repr(sorted(sample[1].items(), key=str)), sample)
        by_dtype.setdefault(tuple(str(np.asarray(x).dtype) for x in sample[0]), sample)
    return [*by_option.values(), *(s for s in by_dtype.values() if not any(s is t for t in by_option.values()))]


# Against JAX

# Roundings of chains of operations: a bound of one unit in the last place per operation, on the sum of magnitudes.
SUMS = {"reduce_sum", "cumsum", "matmul"}
# Products (and the sums of exponentials) have a relative error of one unit in the last place per factor.
PRODUCTS = {"reduce_prod", "cumprod", "integer_pow", "cumlogsumexp"}


@pytest.mark.parametrize("op", [op for op in SAMPLED if op.golden], ids=lambda op: op.name)
def test_results_are_those_of_jax(op):
    compared = 0
    for args, params in spread(op):  # JAX compiles for each pair of shapes and options
        if op is lax.convert and not _jax_converts(args[0], **params):
            continue
        magnitude = golden(op, args, params, magnitude=True) if op.name in SUMS else None
        for i, (found, reference) in enumerate(zip(eager(op, args, params), golden(op, args, params), strict=True)):
            compared += 1
            assert found.shape == reference.shape
            assert is_golden(op, args, params, found, reference, magnitude and magnitude[i]), (args, params)
    assert compared


def is_golden(op, args, params, found, reference, magnitude):
    """Equal to the bit, or as near as the op says."""
    dtype = dtype_of(found.dtype)
    if not dtype.is_float:
        return np.array_equal(found, reference.astype(found.dtype))
    if op.name in SUMS:
        steps = max(np.size(a) for a in args)
        bound = magnitude * steps * 2.0**-24 + np.abs(reference) * 2.0 ** -(dtype.mantissa + 1)
        return np.all(np.abs(found.astype(np.float64) - reference) <= bound)
    if op.name in PRODUCTS:
        steps = max(abs(params.get("y", 0)) + 1, max(np.shape(args[0])))
        return np.all(ulps(found, reference) <= (steps if dtype is dtypes.FP32 else 1 + steps / 2**13))
    if isinstance(op.exact, Ulp):
        # of a narrower dtype the FP32 result is rounded once more: half a unit, and a little for the FP32 error
        return np.all(ulps(found, reference) <= (op.exact.bound if dtype is dtypes.FP32 else 0.51))
    return identical(found, rounded(reference, dtype))


def _jax_converts(x, dtype, mode, overflow):
    """Whether this is a conversion JAX has: to nearest even to floats, truncating to integers, of values that fit."""
    floats = dtype_of(x.dtype).is_float, dtype.is_float
    return mode == ("rint" if floats[1] else "trunc") if floats[0] else mode == "rint"


# The same bits however it runs


@every_sampled_op
def test_a_traced_program_gives_the_same_bits(op):
    for args, params in op.samples():
        assert all(identical(a, b) for a, b in zip(traced(op, args, params), eager(op, args, params), strict=True))


@pytest.mark.parametrize("op", [op for op in SAMPLED if isinstance(op.axes, Pointwise)], ids=lambda op: op.name)
def test_an_element_of_an_elementwise_result_does_not_depend_on_the_shape(op):
    """One row, one column, one element and ragged shapes: all as the elements by themselves, whose values JAX confirms."""
    for args, params in op.samples():
        shape = np.broadcast_shapes(*(np.shape(a) for a in args))
        flat = [np.broadcast_to(a, shape).reshape(-1).copy() for a in args]
        for found, alone in zip(eager(op, args, params), eager(op, flat, params), strict=True):
            assert found.shape == shape and identical(found.reshape(-1), alone), params


def with_bodies(op):
    """The control flow of array functions: a kernel has statements for it."""
    values = [p for _, params in op.samples() for p in params.values()]
    return any(isinstance(p, Jaxpr) or (isinstance(p, tuple) and p and isinstance(p[0], Jaxpr)) for p in values)


@pytest.mark.parametrize("op", [op for op in SAMPLED if with_bodies(op)], ids=lambda op: op.name)
def test_control_flow_of_array_functions_is_refused_in_a_kernel(op):
    args, params = op.samples()[0]
    with pytest.raises(PyptoError) as caught:
        in_kernel(op, args, params, eager(op, args, params))
    assert caught.value.code == "PL112"


@pytest.mark.parametrize("op", [op for op in SAMPLED if op not in UNWRITTEN and not with_bodies(op)], ids=lambda op: op.name)
def test_a_kernel_gives_the_same_bits(op):
    for args, params in op.samples():
        want = eager(op, args, params)
        assert all(identical(a, b) for a, b in zip(in_kernel(op, args, params, want), want, strict=True)), (args, params)


# Refused dtypes


@pytest.mark.parametrize("op", [op for op in SAMPLED if op.accepts], ids=lambda op: op.name)
def test_every_other_dtype_is_refused_by_name(op):
    args, params = op.samples()[0]
    assert op.accepts is not None
    made = not any(np.ndim(a) for a in args)  # what makes a tile from numbers says its dtype in an option
    for dtype in set(DTYPES.values()) - set(op.accepts):
        with pytest.raises(PyptoError) as caught:
            avals = [_aval(a) for a in args] if made else replaced_dtype(args, dtype)
            op.abstract_eval(avals, {**params, "dtype": dtype} if made else params)
        # the accumulator of these stands first, and has the dtype that the product of the other two has
        assert caught.value.code == ("PL302" if op.name in ("matmul_acc", "gemv_acc") else "PL305"), dtype
        spelled = (dtype.name, dtype.short, *(["predicate mask"] if dtype is dtypes.MASK else []))
        assert any(name in caught.value.message for name in spelled) and caught.value.fix, dtype


# Valid regions


def crops_of(shape):
    rows, columns = shape[-2:]
    lead = shape[:-2]
    return [(*lead, r, c) for r, c in {(rows, columns), (max(rows - 1, 1), columns), (1, max(columns - 2, 1)), (rows, max(columns - 1, 1))}]


def cut(a, valid):
    return a[tuple(slice(0, v) for v in valid)] if np.ndim(a) else a


def aligned(valid, first, shape):
    """The valid region of an operand that is broadcast to the first one."""
    return tuple(1 if d == 1 else v if d == f else d for v, f, d in zip(valid, first, shape, strict=True))


@pytest.mark.parametrize("op", [op for op in SAMPLED if isinstance(op.axes, Pointwise)], ids=lambda op: op.name)
def test_elementwise_ops_keep_the_valid_region_and_see_nothing_outside(op):
    for args, params in samples_by_dtype(op):
        first = args[0].shape
        for valid in crops_of(first):
            regions = [aligned(valid, first, a.shape) if a.ndim else () for a in args]
            poison = [value_of(poisoned(a, r) if a.ndim else a, r) for a, r in zip(args, regions, strict=True)]
            wanted = eager(op, [cut(a, r) for a, r in zip(args, regions, strict=True)], params)
            for result, want in zip(compute(op, poison, params, check=False), wanted, strict=True):
                assert result.valid == want.shape and identical(cut(result.data, result.valid), want), (valid, params)


def by_labels(op):
    args, params = op.samples()[0]
    return callable(op.axes) and isinstance(op.axes_of([_aval(a) for a in args], params), Labels | Whole)


@pytest.mark.parametrize("op", [op for op in SAMPLED if by_labels(op)], ids=lambda op: op.name)
def test_reductions_and_products_take_the_valid_region_only(op):
    for args, params in samples_by_dtype(op):
        labels = op.axes_of([_aval(a) for a in args], params)
        names = labels.inputs if isinstance(labels, Labels) else ["ab"[: a.ndim] for a in args]
        extents = {c: n for letters, a in zip(names, args, strict=True) for c, n in zip(letters, a.shape, strict=True)}
        for less in [{}, *({c: n - 1} for c, n in extents.items() if n > 1), {c: max(1, n // 2) for c, n in extents.items()}]:
            smaller = {**extents, **less}
            regions = [
                tuple(smaller[c] if n != 1 else 1 for c, n in zip(x, a.shape, strict=True)) for x, a in zip(names, args, strict=True)
            ]
            poison = [value_of(poisoned(a, r), r) for a, r in zip(args, regions, strict=True)]
            wanted = eager(op, [cut(a, r) for a, r in zip(args, regions, strict=True)], params)
            for result, want in zip(compute(op, poison, params, check=False), wanted, strict=True):
                assert result.valid == want.shape and identical(cut(result.data, result.valid), want), (regions, params)


@every_sampled_op
def test_a_region_that_is_all_valid_stays_all_valid(op):
    for args, params in op.samples():
        if op.name.startswith("fillpad"):
            continue  # the sample itself states what is valid
        for result, want in zip(compute(op, [value_of(a) for a in args], params, check=False), eager(op, args, params), strict=True):
            assert result.valid == want.shape and identical(result.data, want)


@every_sampled_op
def test_the_abstract_valid_region_is_the_one_at_run_time_where_it_is_known(op):
    for args, params in samples_by_dtype(op):
        if not args or np.ndim(args[0]) < 2 or op.name.startswith("fillpad"):
            continue
        first = args[0].shape
        valid = tuple(max(d - 1, 1) if i == 0 else d for i, d in enumerate(first))
        regions = [aligned(valid, first, a.shape) if np.ndim(a) == len(first) else np.shape(a) for a in args]
        if by_labels(op) or isinstance(op.axes, Pointwise | Moves):
            from pypto.core.ir import Var

            values = [value_of(a, r) for a, r in zip(args, regions, strict=True)]
            try:
                made = op.abstract_eval([Var(tile_aval(v)).aval for v in values], params)
            except PyptoError:
                continue  # this region has no image under the op, which is an error by design
            for aval, result in zip(made, compute(op, values, params, check=False), strict=True):
                known = getattr(aval, "valid", None) or aval.shape
                assert all(k is None or k == v for k, v in zip(known, result.valid, strict=True)), (op, known, result.valid)
