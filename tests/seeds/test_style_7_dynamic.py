"""Section 7 of the coding style: dynamic batch and sequence; each row of its Do / Don't table. One test per statement."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
D = 16
B_DYN, S_DYN, T_DYN = pl.dynamic("B_DYN"), pl.dynamic("S_DYN"), pl.dynamic("T_DYN")
BSD = pl.Tensor[[B_DYN, S_DYN, D], pl.FP32]
TD = pl.Tensor[[T_DYN, D], pl.FP32]
RNG = np.random.default_rng(7)


def same(got, want):
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


def data(*shape):
    return RNG.integers(-9, 10, shape).astype(np.float32)


@pl.jit.inline
def doubles_tokens(x, y):
    t_dim = pl.tensor.dim(x, 0)
    for t in pl.spmd(t_dim, name_hint="double"):
        y[t : t + 1, :] = pl.muls(x[t : t + 1, :], 2.0)
    return y


@pl.jit
def decode_and_prefill(x: BSD, y: pl.Out[BSD]):
    x.bind_dynamic(0, B_DYN)
    x.bind_dynamic(1, S_DYN)
    b_dim = pl.tensor.dim(x, 0)
    s_dim = pl.tensor.dim(x, 1)
    tokens = b_dim * s_dim
    x_flat = pl.reshape(x, [tokens, D])
    y_flat = pl.reshape(y, [tokens, D])
    doubles_tokens(x_flat, y_flat)
    return y


@pytest.mark.parametrize(("batch", "seq"), [(1, 1), (4, 1), (2, 7), (3, 5)])
def test_one_kernel_serves_decode_and_prefill(batch, seq):
    """7. Dynamic: A single kernel serves both decode and prefill: symbols in annotations, run-time dims by pl.tensor.dim."""
    x = data(batch, seq, D)
    same(decode_and_prefill(x), 2 * x)


def test_one_trace_serves_all_extents():
    """7. Dynamic: B and S are dynamic: one traced program serves every extent."""
    before = len(decode_and_prefill._programs)
    for shape in ((1, 2, D), (5, 3, D), (2, 2, D)):
        decode_and_prefill(data(*shape))
    assert len(decode_and_prefill._programs) == max(1, before)


@pl.jit
def composite_in_a_shape(x: TD, out: pl.Out[TD]):
    t_dim = pl.tensor.dim(x, 0)
    scratch = pl.create_tensor([2 * t_dim, D], dtype=pl.FP32)
    for t in pl.range(t_dim):
        with pl.at(level=CORE):
            scratch[2 * t : 2 * t + 1, :] = pl.muls(x[t : t + 1, :], 2.0)
        with pl.at(level=CORE):
            out[t : t + 1, :] = scratch[2 * t : 2 * t + 1, :]


@pl.jit
def composite_in_a_local(x: TD, out: pl.Out[TD]):
    t_dim = pl.tensor.dim(x, 0)
    chunk = 2 * t_dim
    scratch = pl.create_tensor([chunk, D], dtype=pl.FP32)
    for t in pl.range(t_dim):
        with pl.at(level=CORE):
            scratch[2 * t : 2 * t + 1, :] = pl.muls(x[t : t + 1, :], 2.0)
        with pl.at(level=CORE):
            out[t : t + 1, :] = scratch[2 * t : 2 * t + 1, :]


@pytest.mark.parametrize("kernel", [composite_in_a_local, composite_in_a_shape])
def test_a_composite_extent_is_computed_to_a_local_or_where_it_is_used(kernel):
    """7. Quick reference: compute a composite to a local, then use it. (pl.create_tensor([C * s_dim, ...]) works here, too.)"""
    x = data(5, D)
    same(kernel(x), 2 * x)


def test_arithmetic_on_a_symbol_is_refused_in_an_annotation():
    """7. Quick reference: Don't: B_DYN * S_DYN in annotations."""
    with pytest.raises(PyptoError) as caught:
        pl.Tensor[[B_DYN * S_DYN, D], pl.FP32]
    assert caught.value.code == "PL304" and "pl.tensor.dim" in caught.value.fix


@pl.jit
def symbol_arithmetic_in_the_body(x: TD, out: pl.Out[TD]):
    for t in pl.range(T_DYN * 1):
        with pl.at(level=CORE):
            out[t : t + 1, :] = x[t : t + 1, :]


def test_arithmetic_on_a_symbol_is_refused_in_the_body():
    """7. Quick reference: Don't: DynVar arithmetic in the body; pl.tensor.dim(x, 0) gives a local scalar."""
    with pytest.raises(PyptoError) as caught:
        symbol_arithmetic_in_the_body.lower()
    assert caught.value.code == "PL304" and caught.value.source.text.strip() == "for t in pl.range(T_DYN * 1):"


@pl.jit.inline
def reshapes_back(x, y):
    t_dim = pl.tensor.dim(x, 0)
    y_flat = pl.reshape(y, [t_dim, D])
    y_flat = doubles_tokens(x, y_flat)
    return pl.reshape(y_flat, [t_dim, D])


@pl.jit
def calls_what_reshapes_back(x: TD, out: pl.Out[TD]):
    reshapes_back(x, out)


def test_a_trailing_reshape_back_is_harmless():
    """7. Quick reference: Skip the reshape-back on a pl.Out in a nested inline. (Left in, it is harmless here: a view.)"""
    x = data(3, D)
    same(calls_what_reshapes_back(x), 2 * x)


@pl.jit
def annotates_only(x: TD, out: pl.Out[TD]):
    doubles_tokens(x, out)


@pl.jit
def annotates_and_binds(x: TD, out: pl.Out[TD]):
    x.bind_dynamic(0, T_DYN)
    doubles_tokens(x, out)


@pytest.mark.parametrize("kernel", [annotates_and_binds, annotates_only])
def test_an_entry_annotates_and_may_bind(kernel):
    """7. Quick reference: Annotate and bind_dynamic() at @pl.jit. (The annotation alone is enough here.)"""
    x = data(4, D)
    same(kernel(x), 2 * x)


HEADS = 4


@pl.jit
def dynamic_outermost(x: pl.Tensor[[T_DYN, HEADS * D], pl.FP32], out: pl.Out[pl.Tensor[[T_DYN, HEADS * D], pl.FP32]]):
    t_dim = pl.tensor.dim(x, 0)
    for block in pl.spmd(t_dim * HEADS, name_hint="heads"):
        t = block // HEADS
        local = block % HEADS
        out[t : t + 1, local * D : local * D + D] = pl.muls(x[t : t + 1, local * D : local * D + D], 2.0)


@pl.jit
def dynamic_innermost(x: pl.Tensor[[T_DYN, HEADS * D], pl.FP32], out: pl.Out[pl.Tensor[[T_DYN, HEADS * D], pl.FP32]]):
    t_dim = pl.tensor.dim(x, 0)
    for block in pl.spmd(t_dim * HEADS, name_hint="heads"):
        local = block // t_dim
        t = block % t_dim
        out[t : t + 1, local * D : local * D + D] = pl.muls(x[t : t + 1, local * D : local * D + D], 2.0)


@pytest.mark.parametrize("kernel", [dynamic_outermost, dynamic_innermost])
def test_an_spmd_loop_folds_a_dynamic_dim(kernel):
    """7. Quick reference: pl.spmd(b_dim * STATIC), dynamic dim outermost. (Innermost is right too, and only slower on a device.)"""
    x = data(3, HEADS * D)
    same(kernel(x), 2 * x)


@pl.jit
def tiling_by_a_run_time_dim(x: TD, out: pl.Out[TD]):
    t_dim = pl.tensor.dim(x, 0)
    with pl.at(level=CORE):
        out[:] = pl.load(x, [0, 0], [t_dim, D])


def test_tiling_that_depends_on_run_time_dims_is_refused():
    """7. Quick reference: Static tiling constants; don't: tiling that depends on runtime dims."""
    with pytest.raises(PyptoError) as caught:
        tiling_by_a_run_time_dim.lower()
    assert caught.value.code == "PL304" and "pl.load" in caught.value.source.text


@pl.jit
def bounds_of_every_kind(x: TD, out: pl.Out[TD]):
    t_dim = pl.tensor.dim(x, 0)
    for t in pl.parallel(t_dim):
        with pl.at(level=CORE):
            acc = pl.full([1, D], dtype=pl.FP32, value=0.0)
            for k in pl.pipeline(t_dim, stage=2):
                for _ in pl.range(k, k + 1):
                    acc = pl.add(acc, x[k : k + 1, :])
            out[t : t + 1, :] = acc


def test_every_loop_takes_a_dynamic_bound():
    """7. Dynamic: All four loop constructs accept dynamic bounds."""
    x = data(6, D)
    same(bounds_of_every_kind(x), np.broadcast_to(x.sum(axis=0), (6, D)).astype(np.float32))


@pl.jit
def compares_at_run_time(x: TD, n: pl.Scalar[pl.INT32], out: pl.Out[TD]):
    s_dim = pl.tensor.dim(x, 0)
    for t in pl.range(s_dim):
        with pl.at(level=CORE):
            if n + s_dim < 8:
                row = pl.muls(x[t : t + 1, :], 2.0)
            else:
                row = pl.muls(x[t : t + 1, :], 3.0)
            out[t : t + 1, :] = row


@pytest.mark.parametrize(("n", "factor"), [(0, 2), (100, 3)])
def test_run_time_comparisons_in_conditionals_work(n, factor):
    """7. Dynamic: Runtime Scalar comparisons in conditionals (if runtime_val + s_dim < THRESHOLD) just work."""
    x = data(4, D)
    same(compares_at_run_time(x, n), factor * x)


def test_two_extents_of_one_symbol_are_refused_with_both():
    """7. Dynamic: One symbol has one extent in a call: conflicting extents name both."""
    with pytest.raises(PyptoError) as caught:
        annotates_only(data(3, D), np.zeros((4, D), np.float32))
    assert caught.value.code == "PL602" and "3" in caught.value.message and "4" in caught.value.message


def specs(batch, seq):
    from pypto.testing import TensorSpec

    return [TensorSpec("x", [batch, seq, D], pl.FP32), TensorSpec("y", [batch, seq, D], pl.FP32, output=True)]


MODES = {"decode": (4, 1), "prefill": (2, 8)}


@pytest.mark.parametrize("mode", MODES)
def test_specs_take_the_extents_and_modes_are_looped_over(mode):
    """7. Golden: parameterize build_tensor_specs(B, S) and iterate modes, rather than hardcode B and S inside it."""
    from pypto.testing import check

    assert check(decode_and_prefill, lambda x: 2 * x, specs(*MODES[mode])).equal_bits
