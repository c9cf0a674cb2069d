"""Section 4 of the coding style: data movement and shapes, and section 6: mixed regions. One test per statement."""

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
BATCH, HIDDEN, BATCH_TILE, STEP = 32, 128, 16, 64
X_TYPE = pl.Tensor[[BATCH, HIDDEN], pl.FP32]
RNG = np.random.default_rng(2)
X = RNG.integers(-8, 9, (BATCH, HIDDEN)).astype(np.float32)
W = RNG.integers(-4, 5, (HIDDEN, HIDDEN)).astype(np.float32)


def same(got, want):
    got = np.asarray(got)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


def test_regions_fill_one_created_tensor():
    """4. create_tensor: allocated once in orchestration, then each region writes its piece via assemble."""

    @pl.jit
    def kernel(x: X_TYPE, out: pl.Out[X_TYPE]):
        q_proj = pl.create_tensor([BATCH, HIDDEN], dtype=pl.FP32)
        for q0 in pl.parallel(0, HIDDEN, STEP):
            with pl.at(level=CORE, name_hint="q_proj"):
                q_acc = pl.muls(x[:, q0 : q0 + STEP], 2.0)
                q_proj = pl.assemble(q_proj, q_acc, [0, q0])
        with pl.at(level=CORE):
            out[:] = pl.adds(q_proj, 1.0)

    same(kernel(X), 2 * X + 1)


def test_a_result_that_flows_on_needs_no_create_tensor():
    """4. create_tensor: if the result of a single pl.at flows directly to its caller, no create_tensor is needed."""

    @pl.jit.inline
    def doubles(x):
        with pl.at(level=CORE):
            y = pl.muls(x, 2.0)
        return y

    @pl.jit
    def kernel(x: X_TYPE, out: pl.Out[X_TYPE]):
        y = doubles(x)
        with pl.at(level=CORE):
            out[:] = pl.adds(y, 1.0)

    same(kernel(X), 2 * X + 1)


def test_create_tensor_in_a_region_is_an_on_chip_declaration():
    """4. create_tensor: orchestration only, says the style; kernels create in regions too, so here that is an on-chip declaration."""

    @pl.jit
    def kernel(x: X_TYPE, out: pl.Out[X_TYPE]):
        with pl.at(level=CORE):
            acc = pl.create_tensor([BATCH, HIDDEN], dtype=pl.FP32)
            acc[:] = pl.muls(x, 2.0)
            out[:] = acc

    same(kernel(X), 2 * X)
    assert not [e for e in kernel.lower().orchestration.walk() if e.op.name == "alloc"]


@pl.jit
def spelled_out(hidden_states: X_TYPE, q_proj: pl.Out[X_TYPE]):
    for b0 in pl.parallel(0, BATCH, BATCH_TILE):
        for k0 in pl.parallel(0, HIDDEN, STEP):
            with pl.at(level=CORE):
                tile = pl.slice(hidden_states, [BATCH_TILE, STEP], [b0, k0])
                q_proj = pl.assemble(q_proj, pl.neg(tile), [b0, k0])


@pl.jit
def as_subscripts(hidden_states: X_TYPE, q_proj: pl.Out[X_TYPE]):
    for b0 in pl.parallel(0, BATCH, BATCH_TILE):
        for k0 in pl.parallel(0, HIDDEN, STEP):
            with pl.at(level=CORE):
                tile = hidden_states[b0 : b0 + BATCH_TILE, k0 : k0 + STEP]
                q_proj[b0 : b0 + BATCH_TILE, k0 : k0 + STEP] = pl.neg(tile)


def ops_of(kernel):
    return [e.op.name for k in kernel.lower().kernels for e in k.jaxpr.walk()]


def test_slice_takes_sizes_then_offsets_and_assemble_writes_back():
    """4. slice / assemble: pl.slice(tensor, sizes, offsets) takes a sub-region; pl.assemble(dst, src, offsets) writes one back."""
    same(spelled_out(X), -X)


def test_crossing_the_boundary_of_a_region_is_a_load_and_a_store():
    """4. slice / assemble: When these cross the pl.at boundary they lower to InCore loads and stores."""
    assert ops_of(spelled_out) == ["get", "neg", "set"]


def test_the_subscripts_are_equivalent():
    """4. slice / assemble: The shorthand subscript forms are equivalent."""
    same(as_subscripts(X), -X)
    assert ops_of(as_subscripts) == ops_of(spelled_out)


@pytest.mark.parametrize("real", [1, 7, 16])
def test_valid_shape_marks_a_padded_load(real):
    """4. slice / assemble: valid_shape=[h, w] marks a padded load; the tail is zero-padded, for fewer rows than the tile has."""
    n = pl.dynamic("n")

    @pl.jit
    def kernel(x: pl.Tensor[[n, HIDDEN], pl.FP32], out: pl.Out[pl.Tensor[[1, HIDDEN], pl.FP32]]):
        rows = pl.tensor.dim(x, 0)
        with pl.at(level=CORE):
            tile = pl.slice(x, [BATCH_TILE, HIDDEN], [0, 0], valid_shape=[rows, HIDDEN])
            out[:] = pl.col_sum(pl.fillpad(tile, pad_value=pl.PadValue.zero))

    same(kernel(X[:real]), X[:real].sum(axis=0, keepdims=True))


def test_reshape_is_a_view_inside_and_outside():
    """4. reshape: pl.reshape(x, new_shape) is a logical view, legal both inside and outside pl.at."""

    @pl.jit
    def kernel(x: X_TYPE, out: pl.Out[pl.Tensor[[BATCH * 2, HIDDEN // 2], pl.FP32]]):
        flat = pl.reshape(out, [BATCH, HIDDEN])
        with pl.at(level=CORE):
            tile = pl.reshape(x[0:16, :], [32, 64])
            flat[0:16, :] = pl.reshape(tile, [16, 128])
            flat[16:32, :] = x[16:32, :]

    same(kernel(X), X.reshape(64, 64))


def test_a_reshape_keeps_the_number_of_elements():
    """4. reshape: The total element count must match."""
    from pypto.errors import PyptoError

    @pl.jit
    def kernel(x: X_TYPE, out: pl.Out[X_TYPE]):
        flat = pl.reshape(x, [BATCH, HIDDEN + 1])
        with pl.at(level=CORE):
            out[:] = flat

    with pytest.raises(PyptoError) as caught:
        kernel.lower()
    assert caught.value.code == "PL301"


@pl.jit
def projection(
    normed: pl.Tensor[[BATCH, HIDDEN], pl.BF16], wq: pl.Tensor[[HIDDEN, HIDDEN], pl.BF16], out: pl.Out[pl.Tensor[[BATCH, HIDDEN], pl.BF16]]
):
    q_proj = pl.create_tensor([BATCH, HIDDEN], dtype=pl.BF16)
    for b0 in pl.range(0, BATCH, BATCH_TILE):
        for q0 in pl.parallel(0, HIDDEN, STEP):
            q_acc = pl.create_tensor([BATCH_TILE, STEP], dtype=pl.FP32)
            with pl.at(level=CORE, name_hint="q_proj"):
                for kb in pl.pipeline(0, HIDDEN // STEP, stage=2):
                    k0 = kb * STEP
                    tile_a = pl.slice(normed, [BATCH_TILE, STEP], [b0, k0])
                    tile_b = pl.slice(wq, [STEP, STEP], [k0, q0])
                    if kb == 0:
                        q_acc = pl.matmul(tile_a, tile_b)
                    else:
                        q_acc = pl.matmul_acc(q_acc, tile_a, tile_b)
                q_bf16 = pl.cast(q_acc, target_type=pl.BF16)
                q_proj = pl.assemble(q_proj, q_bf16, [b0, q0])
    with pl.at(level=CORE, name_hint="copy"):
        out[:] = q_proj


def test_one_region_holds_cube_and_vector_work():
    """6. Mixed regions: A single pl.at region can contain both cube and vector ops: a projection with a cast epilogue."""
    want = (X @ W).astype(ml_dtypes.bfloat16)  # |X @ W| < 2**12 and whole: ties are away from zero in the kernel
    got = np.asarray(projection(X.astype(ml_dtypes.bfloat16), W.astype(ml_dtypes.bfloat16))).astype(np.float32)
    away = np.abs(X @ W)
    step = 2.0 ** (np.floor(np.log2(np.maximum(away, 1))) - 7)
    exact = np.sign(X @ W) * np.floor(away / step + 0.5) * step
    assert (got == exact).all() and want.shape == got.shape


def test_each_operation_goes_to_its_unit():
    """6. Mixed regions: The compiler assigns each op to the appropriate unit."""
    kernel = projection.lower().kernels[0]
    assert (kernel.name, kernel.unit) == ("q_proj", "mixed")
    assert {e.op.unit for e in kernel.jaxpr.walk() if e.op.name in ("matmul", "matmul_acc")} == {"cube"}
    assert {e.op.unit for e in kernel.jaxpr.walk() if e.op.name == "convert"} == {"vector"}
