"""Section 2 of the coding style: vector operations, reductions, broadcasts, padding. One test per statement."""

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
ROWS, COLS = 16, 64
M = pl.Tensor[[ROWS, COLS], pl.FP32]
I = pl.Tensor[[ROWS, COLS], pl.INT32]
COLUMN = pl.Tensor[[ROWS, 1], pl.FP32]
ROW = pl.Tensor[[1, COLS], pl.FP32]
RNG = np.random.default_rng(0)
A = RNG.uniform(0.5, 4, (ROWS, COLS)).astype(np.float32)
B = RNG.uniform(0.5, 4, (ROWS, COLS)).astype(np.float32)
C = RNG.integers(0, 100, (ROWS, COLS)).astype(np.int32)
HIDDEN_INV, EPS = 1 / COLS, 1e-6


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


def close(got, want, ulp=4):
    np.testing.assert_array_max_ulp(np.asarray(got), np.asarray(want, np.float32), maxulp=ulp)


def binary(op, kind=M):
    @pl.jit
    def kernel(a: kind, b: kind, out: pl.Out[kind]):
        with pl.at(level=CORE):
            out[:] = op(a, b)

    return kernel


def unary(op, kind=M, result=None):
    result = kind if result is None else result

    @pl.jit
    def kernel(a: kind, out: pl.Out[result]):
        with pl.at(level=CORE):
            out[:] = op(a[:, :])

    return kernel


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_the_binary_operations_work_on_two_tensors(name):
    """2. Elementwise: Tensor-tensor binary: pl.add, pl.sub, pl.mul, pl.div, pl.maximum, pl.minimum."""
    golden = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum}
    same(binary(getattr(pl, name))(A, B), golden[name](A, B))


@pytest.mark.parametrize("name", ["adds", "subs", "muls", "divs", "maxs", "mins"])
@pytest.mark.parametrize("number", [2, 1.5])
def test_the_scalar_variants_have_an_s(name, number):
    """2. Elementwise: Tensor-scalar variants (second operand is a Python int/float) suffix with s."""
    golden = {"adds": np.add, "subs": np.subtract, "muls": np.multiply, "divs": np.divide, "maxs": np.maximum, "mins": np.minimum}
    same(unary(lambda a: getattr(pl, name)(a, number))(A), golden[name](A, np.float32(number)))


@pl.jit
def scales_by_a_scalar(a: M, scale: pl.Scalar[pl.FP32], out: pl.Out[M]):
    with pl.at(level=CORE):
        out[:] = pl.muls(a, scale)


def test_the_second_operand_may_be_a_run_time_scalar():
    """2. Elementwise: The second operand of a scalar variant may be a pl.Scalar."""
    same(scales_by_a_scalar(A, 0.37), A * np.float32(0.37))


@pytest.mark.parametrize("name", ["neg", "abs", "exp", "log", "sqrt", "recip", "rsqrt"])
def test_the_unary_operations(name):
    """2. Elementwise: Unary: pl.neg, pl.abs, pl.exp, pl.log, pl.sqrt, pl.recip, pl.rsqrt."""
    x = A.astype(np.float64) * (-1 if name in ("neg", "abs") else 1)
    golden = {"recip": lambda v: 1 / v, "rsqrt": lambda v: 1 / np.sqrt(v), "neg": np.negative}.get(name, getattr(np, name, None))
    close(unary(getattr(pl, name))(x.astype(np.float32)), golden(x), ulp=0)


def test_the_activations():
    """2. Elementwise: Activations: pl.relu, pl.lrelu, pl.prelu."""
    x = A - 2
    same(unary(pl.relu)(x), np.maximum(x, 0))
    same(unary(lambda a: pl.lrelu(a, 0.5))(x), np.where(x > 0, x, x * np.float32(0.5)))
    same(binary(lambda a, slope: pl.prelu(a, slope))(x, B), np.where(x > 0, x, x * B))


def test_a_cast_names_its_target():
    """2. Elementwise: Type conversion: pl.cast(x, target_type=...)."""
    kernel = unary(lambda a: pl.cast(a, target_type=pl.BF16, mode="rint"), M, pl.Tensor[[ROWS, COLS], pl.BF16])
    same(kernel(A), A.astype(ml_dtypes.bfloat16))


def test_binary_operations_broadcast():
    """2. Elementwise: Binary ops broadcast over compatible shapes."""

    @pl.jit
    def kernel(a: M, row: ROW, column: COLUMN, out: pl.Out[M]):
        with pl.at(level=CORE):
            out[:] = pl.add(pl.mul(a, column), row)

    same(kernel(A, B[:1], B[:, :1].copy()), A * B[:, :1] + B[:1])


def test_silu_by_recip_and_mul():
    """2. Elementwise: x * sigmoid(x) is written pl.mul(x, pl.recip(pl.add(pl.exp(pl.neg(x)), one)))."""

    @pl.jit
    def kernel(x: M, one: M, out: pl.Out[M]):
        with pl.at(level=CORE):
            out[:] = pl.mul(x, pl.recip(pl.add(pl.exp(pl.neg(x)), one)))

    x = A.astype(np.float64) - 2
    close(kernel(A - 2, np.ones_like(A)), x / (1 + np.exp(-x)))


def test_comparison_and_selection():
    """2. Elementwise: For comparison and selection: pl.cmp, pl.cmps, pl.sel, pl.sels."""

    @pl.jit
    def kernel(a: M, b: M, larger: pl.Out[M], at_most: pl.Out[M]):
        with pl.at(level=CORE):
            x, y = pl.load(a, [0, 0], [ROWS, COLS]), pl.load(b, [0, 0], [ROWS, COLS])
            pl.store(pl.sel(pl.cmp(x, y, pl.CmpType.GT), x, y), [0, 0], larger)
            pl.store(pl.sel(pl.cmps(x, 2.0, pl.CmpType.LE), x, y), [0, 0], at_most)

    larger, at_most = kernel(A, B)
    same(larger, np.maximum(A, B))
    same(at_most, np.where(A <= 2, A, B))


def test_bit_twiddling():
    """2. Elementwise: For bit-twiddling: pl.and_, pl.or_, pl.xor, pl.not_, pl.shl, pl.shr."""
    D = np.roll(C, 1)
    for op, want in ((pl.and_, C & D), (pl.or_, C | D), (pl.xor, C ^ D)):
        same(binary(op, I)(C, D), want)
    for op, want in ((pl.shl, C << (D % 8)), (pl.shr, C >> (D % 8))):
        same(binary(op, I)(C, D % 8), want)
    short = pl.Tensor[[ROWS, COLS], pl.INT16]
    same(unary(pl.not_, short)(C.astype(np.int16)), ~C.astype(np.int16))


@pytest.mark.parametrize("name", ["row_max", "row_min", "row_sum"])
def test_row_reductions_keep_the_last_axis(name):
    """2. Reductions: Row reductions (along the last axis, return [..., 1]): pl.row_max, pl.row_min, pl.row_sum."""
    x = C.astype(np.float32)
    golden = getattr(np, name.removeprefix("row_"))(x, axis=1, keepdims=True).astype(np.float32)
    same(unary(getattr(pl, name), M, COLUMN)(x), golden)


@pytest.mark.parametrize("name", ["col_max", "col_min", "col_sum"])
def test_column_reductions_give_one_row(name):
    """2. Reductions: Column reductions (return [1, ...]): pl.col_max, pl.col_min, pl.col_sum."""
    x = C.astype(np.float32)
    golden = getattr(np, name.removeprefix("col_"))(x, axis=0, keepdims=True).astype(np.float32)
    same(unary(getattr(pl, name), M, ROW)(x), golden)


def test_the_inverse_rms_pattern():
    """2. Reductions: sq_sum = pl.row_sum(pl.mul(x, x)); inv_rms = pl.rsqrt(pl.add(pl.mul(sq_sum, HIDDEN_INV), EPS))."""

    @pl.jit
    def kernel(x: M, out: pl.Out[COLUMN]):
        with pl.at(level=CORE):
            sq_sum = pl.row_sum(pl.mul(x, x))
            out[:] = pl.rsqrt(pl.add(pl.mul(sq_sum, HIDDEN_INV), EPS))

    close(kernel(A), 1 / np.sqrt(np.mean(A.astype(np.float64) ** 2, axis=1, keepdims=True) + EPS))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_a_column_is_applied_to_each_row(name):
    """2. Row / column broadcast: Apply a column to each row: pl.row_expand_add, _sub, _mul, _div."""

    @pl.jit
    def kernel(a: M, column: COLUMN, out: pl.Out[M]):
        with pl.at(level=CORE):
            out[:] = getattr(pl, f"row_expand_{name}")(a, column)

    golden = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    same(kernel(A, B[:, :1].copy()), golden(A, B[:, :1]))


@pytest.mark.parametrize("name", ["sub", "mul", "div"])
def test_a_row_is_applied_to_each_column(name):
    """2. Row / column broadcast: Apply a row to each column: pl.col_expand_sub, _mul, _div."""

    @pl.jit
    def kernel(a: M, row: ROW, out: pl.Out[M]):
        with pl.at(level=CORE):
            out[:] = getattr(pl, f"col_expand_{name}")(a, row)

    golden = {"sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    same(kernel(A, B[:1]), golden(A, B[:1]))


def test_each_broadcast_is_one_operation():
    """2. Row / column broadcast: Each maps to a single hardware broadcast op."""

    @pl.jit
    def kernel(a: M, column: COLUMN, out: pl.Out[M]):
        with pl.at(level=CORE):
            out[:] = pl.row_expand_mul(a, column)

    names = [e.op.name for k in kernel.lower().kernels for e in k.jaxpr.walk() if e.op.unit == "vector"]
    assert names == ["mul"]


def test_the_rmsnorm_body():
    """2. Row / column broadcast: normed = pl.col_expand_mul(pl.row_expand_mul(x, inv_rms), gamma)."""

    @pl.jit
    def kernel(x: M, inv_rms: COLUMN, gamma: ROW, out: pl.Out[M]):
        with pl.at(level=CORE):
            out[:] = pl.col_expand_mul(pl.row_expand_mul(x, inv_rms), gamma)

    same(kernel(A, B[:, :1].copy(), B[:1]), A * B[:, :1] * B[:1])


def test_full_starts_a_partial_accumulator():
    """2. Fill and pad: pl.full(shape, dtype=..., value=...) allocates a scalar-filled tile, as a partial accumulator starts."""

    @pl.jit
    def kernel(x: M, out: pl.Out[COLUMN]):
        with pl.at(level=CORE):
            partial = pl.full([ROWS, 1], dtype=pl.FP32, value=0.0)
            for c in pl.range(0, COLS, 16):
                partial = pl.add(partial, pl.row_sum(x[:, c : c + 16]))
            out[:] = partial

    x = C.astype(np.float32)
    same(kernel(x), x.sum(axis=1, keepdims=True))


def test_fillpad_rewrites_the_padded_tail():
    """2. Fill and pad: pl.fillpad(x, pad_value=pl.PadValue.min) rewrites the padded tail of a valid_shape slice before a row_max."""

    @pl.jit
    def kernel(x: M, filled: pl.Out[M], largest: pl.Out[COLUMN]):
        with pl.at(level=CORE):
            scores_valid = pl.slice(x, [ROWS, COLS], [0, 0], valid_shape=[ROWS, 50])
            scores = pl.fillpad(scores_valid, pad_value=pl.PadValue.min)
            filled[:] = scores
            largest[:] = pl.row_max(scores)

    want = -A
    want[:, 50:] = -np.inf
    filled, largest = kernel(-A)
    same(filled, want)
    same(largest, want.max(axis=1, keepdims=True))


def test_fillpad_inplace_fills_the_same_tile():
    """2. Fill and pad: There is also an in-place pl.fillpad_inplace."""

    @pl.jit
    def kernel(x: M, out: pl.Out[M]):
        with pl.at(level=CORE):
            t = pl.load(x, [0, 0], [ROWS, COLS], valid_shape=[ROWS, 50])
            pl.store(pl.fillpad_inplace(t, pad_value=pl.PadValue.zero), [0, 0], out)

    want = A.copy()
    want[:, 50:] = 0
    same(kernel(A), want)


@pl.jit
def marks_what_counts(x: M, n: pl.Tensor[[1], pl.INT32], out: pl.Out[COLUMN]):
    with pl.at(level=CORE):
        n_rows = pl.read(n, [0])
        gated = pl.muls(x, 2.0)
        gated_valid = pl.set_validshape(gated, ROWS, pl.min(COLS, n_rows))
        out[:] = pl.row_max(pl.fillpad(gated_valid, pad_value=pl.PadValue.min))


@pytest.mark.parametrize("n", [1, 33, 64, 1000])
def test_set_validshape_marks_a_tile_by_a_run_time_count(n):
    """2. Fill and pad: pl.set_validshape(tile, rows, cols) re-marks the valid region of a computed tile; the count may be a pl.read."""
    same(marks_what_counts(A, np.int32([n])), (2 * A[:, :n]).max(axis=1, keepdims=True))


def test_set_validshape_keeps_the_nominal_shape_and_narrows_what_follows():
    """2. Fill and pad: The returned view has the same nominal shape; downstream ops operate on the valid region only."""
    shapes = []

    @pl.jit
    def kernel(x: M, out: pl.Out[COLUMN]):
        with pl.at(level=CORE):
            t = pl.set_validshape(pl.load(x, [0, 0], [ROWS, COLS]), ROWS, 10)
            shapes.append(t.shape)
            out[:] = pl.row_sum(t)

    x = C.astype(np.float32)
    same(kernel(x), x[:, :10].sum(axis=1, keepdims=True))
    assert shapes[0] == (ROWS, COLS)


def test_the_softmax_tail_mask():
    """2. Fill and pad: The tail-masking idiom: pl.fillpad(pl.set_validshape(weighted, 1, valid_len), pad_value=pl.PadValue.min)."""

    @pl.jit
    def kernel(x: ROW, n: pl.Scalar[pl.INT32], out: pl.Out[ROW]):
        with pl.at(level=CORE):
            weighted = pl.muls(x, 1.0)
            scores = pl.fillpad(pl.set_validshape(weighted, 1, n), pad_value=pl.PadValue.min)
            wide = pl.col_expand(pl.full([8, COLS], dtype=pl.FP32, value=0.0), scores)
            shifted = pl.exp(pl.row_expand_sub(wide, pl.row_max(wide)))
            out[:] = pl.row_expand_div(shifted, pl.row_sum(shifted))[0:1, :]

    x = A[:1].astype(np.float64)
    weights = np.exp(x[:, :40] - x[:, :40].max())
    got = np.asarray(kernel(A[:1], 40))
    close(got[:, :40], weights / weights.sum())
    assert (got[:, 40:] == 0).all()
