"""Section 7 of the coding style: dynamic shapes, with every row of its quick-reference table. One test per statement."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import CallError, ShapeError
from tests.refusals import refused

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
B_DYN, S_DYN, T_DYN = pl.dynamic("B_DYN"), pl.dynamic("S_DYN"), pl.dynamic("T_DYN")
D, TILE = 16, 8
Tokens = pl.Tensor[[B_DYN, S_DYN, D], pl.FP32]
Flat = pl.Tensor[[T_DYN, D], pl.FP32]


def tokens(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def same(got, want):
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


@pl.jit.inline
def add_one(x: Flat, y: Flat):
    t_dim = pl.tensor.dim(x, 0)
    for t in pl.parallel(0, t_dim, TILE):
        with pl.at(level=CORE):
            rows = pl.slice(x, [TILE, D], [t, 0], valid_shape=[pl.min(TILE, t_dim - t), D])
            y = pl.assemble(y, pl.adds(rows, 1.0), [t, 0])
    return y


@pl.jit
def by_dims(x: Tokens, y: pl.Out[Tokens]):
    x.bind_dynamic(0, B_DYN)
    x.bind_dynamic(1, S_DYN)
    b_dim = pl.tensor.dim(x, 0)
    s_dim = pl.tensor.dim(x, 1)
    t_dim = b_dim * s_dim
    x_flat = pl.reshape(x, [t_dim, D])
    y_flat = pl.reshape(y, [t_dim, D])
    add_one(x_flat, y_flat)
    return y


EXTENTS = [(1, 1), (2, 8), (3, 5), (4, 16)]


@pytest.mark.parametrize("extents", EXTENTS)
def test_one_kernel_serves_every_batch_and_sequence(extents):
    """7. Dynamic shapes: a single kernel supports dynamic batch (B) and sequence (S) dimensions via pl.dynamic symbolic dims."""
    x = tokens(*extents, D)
    same(by_dims(x), x + 1)


def test_one_trace_serves_all_extents():
    """7. Dynamic shapes: the extents are no part of the program: the same one runs for decode and prefill."""
    kernel = pl.jit(by_dims.fn)
    for extents in EXTENTS:
        kernel(tokens(*extents, D))
    assert len(pypto.explain_cache(kernel).programs) == 1


def test_a_symbol_is_a_module_level_constant():
    """7. Declaring: pl.dynamic("name") creates a symbol for a dimension, declared at module level beside the static constants."""
    assert repr(B_DYN) == "pl.dynamic('B_DYN')" and Tokens.shape == (B_DYN, S_DYN, D)


# The quick-reference table: what it says to do, and each of its Don'ts.


def test_a_product_of_symbols_in_an_annotation_is_refused():
    """7. Quick reference: don't B_DYN * S_DYN in annotations: it is an error where it is written."""
    with pytest.raises(ShapeError) as caught:
        pl.Tensor[[B_DYN * S_DYN, D], pl.FP32]
    assert caught.value.code == "PL304"


@pl.jit
def computes_with_a_symbol(x: Tokens, y: pl.Out[Tokens]):
    flat = pl.reshape(x, [B_DYN * S_DYN, D])  # refused
    with pl.at(level=CORE):
        y[0] = flat[0:1, :]


def test_symbol_arithmetic_in_the_body_is_refused():
    """7. Quick reference: don't compute with symbols in the body: it is an error that names pl.tensor.dim."""
    error = refused("PL304", computes_with_a_symbol.lower, at="B_DYN * S_DYN")
    assert "pl.tensor.dim" in error.fix


def test_dims_are_captured_into_local_scalars():
    """7. Quick reference: do capture each dynamic dim with pl.tensor.dim(x, 0) into a local scalar and use it everywhere."""
    assert [e.params["axis"] for e in by_dims.trace().walk() if e.op.name == "dim"][:2] == [0, 1]


@pl.jit
def scratch_of_a_product(x: Tokens, y: pl.Out[Tokens]):
    b_dim, s_dim = pl.tensor.dim(x, 0), pl.tensor.dim(x, 1)
    chunk_s = b_dim * s_dim
    first = pl.create_tensor([chunk_s, D], dtype=pl.FP32)
    second = pl.create_tensor([b_dim * s_dim, D], dtype=pl.FP32)
    add_one(pl.reshape(x, [chunk_s, D]), first)
    add_one(first, second)
    add_one(second, pl.reshape(y, [b_dim * s_dim, D]))


def test_a_composite_extent_works_with_and_without_a_name():
    """7. Quick reference: do compute a composite to a local first; pl.create_tensor([C * s_dim, ...]) directly is no issue here."""
    x = tokens(3, 5, D)
    same(scratch_of_a_product(x), x + 3)


@pl.jit.inline
def writes_through_a_view(x: Tokens, y: Tokens):
    t_dim = pl.tensor.dim(x, 0) * pl.tensor.dim(x, 1)
    add_one(pl.reshape(x, [t_dim, D]), pl.reshape(y, [t_dim, D]))
    return y


@pl.jit.inline
def reshapes_back(x: Tokens, y: Tokens):
    b_dim, s_dim = pl.tensor.dim(x, 0), pl.tensor.dim(x, 1)
    t_dim = b_dim * s_dim
    y_flat = pl.reshape(y, [t_dim, D])
    add_one(pl.reshape(x, [t_dim, D]), y_flat)
    return pl.reshape(y_flat, [b_dim, s_dim, D])


def nesting(inner):
    @pl.jit.inline
    def middle(x, y):
        y = inner(x, y)
        return y

    @pl.jit
    def outer(x: Tokens, y: pl.Out[Tokens]):
        y = middle(x, y)
        return y

    return outer


@pytest.mark.parametrize("inner", [writes_through_a_view, reshapes_back], ids=lambda k: k.fn.__name__)
def test_a_trailing_reshape_back_is_no_issue(inner):
    """7. Quick reference: do skip the reshape-back on pl.Out in a nested inline; a trailing one is no issue here."""
    x = tokens(2, 5, D)
    same(nesting(inner)(x), x + 1)


@pl.jit
def annotated_only(x: Flat, y: pl.Out[Flat]):
    add_one(x, y)


@pl.jit
def bound_to_another(x: Flat, y: pl.Out[Flat]):
    x.bind_dynamic(0, B_DYN)  # refused
    add_one(x, y)


def test_annotating_alone_is_no_issue():
    """7. Quick reference: do annotate and bind_dynamic() at the entry; annotating alone is no issue here."""
    for rows in (1, 9):
        same(annotated_only(tokens(rows, D)), tokens(rows, D) + 1)


def test_binding_another_symbol_is_refused():
    """7. Binding: bind_dynamic() says what the annotation says; another symbol is an error."""
    refused("PL304", bound_to_another.lower, at="x.bind_dynamic(0, B_DYN)")


@pl.jit.inline
def binds_its_own(x: Flat, y: Flat):
    x.bind_dynamic(0, T_DYN)
    for t in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=CORE):
            y[t : t + 1, :] = pl.adds(x[t : t + 1, :], 1.0)
    return y


@pl.jit
def gives_constants(x: pl.Tensor[[5, D], pl.FP32], y: pl.Out[pl.Tensor[[5, D], pl.FP32]]):
    binds_its_own(x, y)


def test_an_inline_binds_a_symbol_to_what_it_is_given():
    """7. Binding: the symbols of an inline stand for the extents it is given, constants too."""
    same(gives_constants(tokens(5, D)), tokens(5, D) + 1)


CHUNKS = 2


@pl.jit
def outermost(x: Flat, y: pl.Out[Flat]):
    t_dim = pl.tensor.dim(x, 0)
    for block in pl.spmd(t_dim * CHUNKS, name_hint="chunks"):
        t = block // CHUNKS
        local = block % CHUNKS
        y[t : t + 1, local * 8 : local * 8 + 8] = pl.adds(x[t : t + 1, local * 8 : local * 8 + 8], 1.0)


@pl.jit
def innermost(x: Flat, y: pl.Out[Flat]):
    t_dim = pl.tensor.dim(x, 0)
    for block in pl.spmd(CHUNKS * t_dim):
        local = block // t_dim
        t = block % t_dim
        y[t : t + 1, local * 8 : local * 8 + 8] = pl.adds(x[t : t + 1, local * 8 : local * 8 + 8], 1.0)


@pytest.mark.parametrize("kernel", [outermost, innermost], ids=lambda k: k.fn.__name__)
def test_the_dynamic_dim_is_outermost_or_innermost(kernel):
    """7. Quick reference: do put the dynamic dim outermost in pl.spmd(t_dim * STATIC); innermost costs a division and is no issue."""
    for rows in (1, 6):
        same(kernel(tokens(rows, D)), tokens(rows, D) + 1)


@pl.jit
def tile_of_run_time_size(x: Flat, y: pl.Out[Flat]):
    t_dim = pl.tensor.dim(x, 0)
    with pl.at(level=CORE):
        y[:] = pl.adds(pl.slice(x, [t_dim, D], [0, 0]), 1.0)  # refused


def test_a_tile_of_run_time_size_is_refused():
    """7. Quick reference: don't let tiling depend on runtime dims: a tile with such an extent is an error that names valid_shape."""
    error = refused("PL304", tile_of_run_time_size.lower, at="pl.slice(x, [t_dim, D], [0, 0])")
    assert "valid_shape" in error.fix


@pl.jit
def hardcoded(x: pl.Tensor[[2, 4, D], pl.FP32], y: pl.Out[pl.Tensor[[2, 4, D], pl.FP32]]):
    with pl.at(level=CORE):
        y[:] = pl.adds(x, 1.0)


def test_hardcoded_extents_serve_one_mode():
    """7. Quick reference: don't hardcode B and S: a kernel with constants in its annotation refuses other extents by name."""
    same(hardcoded(tokens(2, 4, D)), tokens(2, 4, D) + 1)
    with pytest.raises(CallError) as caught:
        hardcoded(tokens(1, 4, D))
    assert caught.value.code == "PL602" and "`x`" in caught.value.message


# Bounds.


@pl.jit
def every_loop(x: Flat, y: pl.InOut[Flat]):
    t_dim = pl.tensor.dim(x, 0)
    for t in pl.range(t_dim):
        with pl.at(level=CORE):
            y[t : t + 1, :] = pl.adds(y[t : t + 1, :], 1.0)
    for t in pl.parallel(0, t_dim, 2):
        with pl.at(level=CORE):
            y[t : t + 1, :] = pl.adds(y[t : t + 1, :], 10.0)
    with pl.at(level=CORE):
        for t in pl.pipeline(t_dim - 1, 0, -1, stage=2):
            y[t : t + 1, :] = pl.adds(y[t : t + 1, :], 100.0)
    for t in pl.spmd(t_dim):
        y[t : t + 1, :] = pl.adds(y[t : t + 1, :], 1000.0)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_every_loop_takes_dynamic_bounds(rows):
    """7. Bounds: all four loop constructs accept dynamic bounds."""
    want = np.full((rows, D), 1001, np.float32)
    want[::2] += 10
    want[1:] += 100
    y = np.zeros((rows, D), np.float32)
    every_loop(y.copy(), y)
    same(y, want)


def test_spmd_takes_a_composite_expression():
    """7. Bounds: pl.spmd accepts a composite dynamic expression such as b_dim * HEAD_DIM // HEAD_TILE as the block count."""

    @pl.jit
    def kernel(x: Flat, y: pl.Out[Flat]):
        t_dim = pl.tensor.dim(x, 0)
        for block in pl.spmd(t_dim * D // 8):
            t, local = block // 2, block % 2
            y[t : t + 1, local * 8 : local * 8 + 8] = pl.adds(x[t : t + 1, local * 8 : local * 8 + 8], 1.0)

    same(kernel(tokens(5, D)), tokens(5, D) + 1)


@pl.jit
def by_threshold(x: Flat, n: pl.Scalar[pl.INT32], y: pl.Out[Flat]):
    t_dim = pl.tensor.dim(x, 0)
    for t in pl.range(t_dim):
        with pl.at(level=CORE):
            if n + t_dim < 8:
                y[t : t + 1, :] = pl.adds(x[t : t + 1, :], 1.0)
            else:
                y[t : t + 1, :] = pl.adds(x[t : t + 1, :], 2.0)


@pytest.mark.parametrize(("rows", "n", "by"), [(3, 4, 1), (3, 5, 2), (9, -4, 1)])
def test_run_time_comparisons_in_conditionals_just_work(rows, n, by):
    """7. Bounds: runtime Scalar comparisons in conditionals (if runtime_val + s_dim < THRESHOLD) just work."""
    same(by_threshold(tokens(rows, D), n), tokens(rows, D) + by)


# Unified kernels.

MODES = {"decode": (4, 1), "prefill": (2, 12)}


@pytest.mark.parametrize("mode", MODES)
def test_one_inline_on_a_product_symbol_serves_both_modes(mode):
    """7. Unified: a single product symbol T_DYN lets one inline serve decode and prefill: the caller reshapes [B, S, ...] to [T, ...]."""
    x = tokens(*MODES[mode], D)
    same(by_dims(x), x + 1)


def build_tensor_specs(batch, seq):
    from pypto.testing import TensorSpec

    return [TensorSpec("x", [batch, seq, D], pl.FP32), TensorSpec("y", [batch, seq, D], pl.FP32, output=True)]


@pytest.mark.parametrize("mode", MODES)
def test_specs_take_the_extents_and_modes_are_looped_over(mode):
    """7. Unified: parameterize build_tensor_specs(B, S) and iterate modes, rather than hardcode B and S inside it."""
    from pypto.testing import check

    assert check(by_dims, lambda x: x + 1, build_tensor_specs(*MODES[mode])).equal_bits


# Conflicts.

FIRST, SECOND = pl.dynamic("M"), pl.dynamic("M")
First, Second = pl.Tensor[[FIRST, D], pl.FP32], pl.Tensor[[SECOND, D], pl.FP32]


@pl.jit
def one_symbol_twice(a: pl.Tensor[[T_DYN, D], pl.FP32], b: pl.Tensor[[T_DYN, D], pl.FP32], y: pl.Out[Flat]):
    t_dim = pl.tensor.dim(a, 0)
    for t in pl.range(t_dim):
        with pl.at(level=CORE):
            y[t : t + 1, :] = pl.add(a[t : t + 1, :], b[t : t + 1, :])


@pl.jit
def two_symbols_of_one_name(a: First, b: Second, y: pl.Out[First]):
    for t in pl.range(pl.tensor.dim(a, 0)):
        with pl.at(level=CORE):
            y[t : t + 1, :] = pl.adds(a[t : t + 1, :], 1.0)
    with pl.at(level=CORE):
        y[0:1, :] = b[0:1, :]


def test_two_extents_of_one_symbol_are_an_error_that_names_both():
    """7. Declaring: one symbol is one dimension: two extents of it in a call are an error that names both arguments."""
    same(one_symbol_twice(tokens(3, D), tokens(3, D)), tokens(3, D) * 2)
    with pytest.raises(CallError) as caught:
        one_symbol_twice(tokens(3, D), tokens(4, D))
    message = caught.value.message
    assert caught.value.code == "PL602" and "3 (from `a`)" in message and "4 (axis 0 of `b`)" in message


def test_two_symbols_of_one_name_are_two_dimensions():
    """7. Declaring: two pl.dynamic("M") objects are different symbols, whatever their names."""
    got = np.asarray(two_symbols_of_one_name(tokens(3, D), tokens(5, D)))
    same(got[1:], tokens(3, D)[1:] + 1)
