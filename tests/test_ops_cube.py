"""Matrix products: every form and dtype in kernels against scalar loops of exact FMAs, and the reported faults about them."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.errors import LevelError, PyptoError
from pypto.lax import control
from tests.bits import identical
from tests.refusals import f32, refused, reports, sevens, untouched
from tests.test_contraction import chain, chunk32, scalar_matmul

FLOATS = ("FP32", "FP16", "BF16", "FP8E4M3FN", "FP8E5M2")
OPERANDS = (*FLOATS, "INT8")
STORAGE = {n: getattr(dtypes, n).storage for n in OPERANDS}
BF16 = ml_dtypes.bfloat16
EXTENTS = [(1, 5, 3), (4, 1, 1), (1, 1, 1), (3, 70, 5)]
TENSOR = pl.Tensor


def numbers(name, shape, seed=0):
    rng = np.random.default_rng(seed)
    if name == "INT8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.uniform(-2, 2, shape).astype(np.float32).astype(STORAGE[name])


def accumulators(name, shape, seed=5):
    rng = np.random.default_rng(seed)
    return rng.integers(-(2**31), 2**31, shape).astype(np.int32) if name == "INT8" else rng.uniform(-9, 9, shape).astype(np.float32)


def product(a, b, acc=None, rule=None):
    """acc + a @ b of one batch element, by the contract."""
    if a.dtype == np.int8:
        total = a.astype(np.int64) @ b.astype(np.int64) + (0 if acc is None else acc.astype(np.int64))
        return total.astype(np.uint64).astype(np.uint32).view(np.int32)
    start = np.zeros((a.shape[0], b.shape[1])) if acc is None else acc
    return scalar_matmul(a, b, start, rule or (chunk32 if a.dtype == BF16 else chain))


def both(kernel, *args):
    """Traced and eager; what they leave in their arguments must be the same bits."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    with pypto.override(platform="cpu", verify=True):
        kernel(*args)
    kernel.eager(*copies)
    assert all(identical(a, b) for a, b in zip(args, copies, strict=True) if isinstance(a, np.ndarray))
    return args[-1]


def kernel_of(multiply, count):
    """A kernel of two or three operands."""

    @pl.jit
    def multiplies(a: TENSOR, b: TENSOR, out: pl.Out[TENSOR]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = multiply(a[:], b[:])  # refused

    @pl.jit
    def multiplies_three(a: TENSOR, b: TENSOR, c: TENSOR, out: pl.Out[TENSOR]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = multiply(a[:], b[:], c[:])  # refused

    return multiplies if count == 2 else multiplies_three


# ---- every form and dtype --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERANDS)
def test_every_product_is_its_formula_however_it_runs(name):
    for m, k, n in EXTENTS:
        a, b = numbers(name, (m, k), 1), numbers(name, (k, n), 2)
        acc, bias = accumulators(name, (m, n)), accumulators(name, (1, n), 6)
        plain, added = product(a, b), product(a, b, acc)
        with np.errstate(over="ignore"):
            biased = plain + bias
        forms = [
            (lambda x, y: pl.matmul(x, y), (a, b), plain),
            (lambda x, y: pl.matmul(x, y, a_trans=True), (a.T.copy(), b), plain),
            (lambda x, y: pl.matmul(x, y, b_trans=True), (a, b.T.copy()), plain),
            (lambda x, y: pl.matmul(x, y, None, True, True), (a.T.copy(), b.T.copy()), plain),
            (lambda c, x, y: pl.matmul_acc(c, x, y), (acc, a, b), added),
            (lambda c, x, y: pl.matmul_acc(c, x, y, b_trans=True), (acc, a, b.T.copy()), added),
            (lambda x, y, v: pl.matmul_bias(x, y, v), (a, b, bias), biased),
        ]
        if m == 1:
            forms += [
                (lambda x, y: pl.gemv(x, y), (a, b), plain),
                (lambda x, y: pl.gemv(x, y, acc_phase="final"), (a, b), plain),
                (lambda c, x, y: pl.gemv_acc(c, x, y, acc_phase="partial"), (acc, a, b), added),
                (lambda x, y, v: pl.gemv_bias(x, y, v), (a, b, bias), biased),
            ]
        for i, (form, operands, want) in enumerate(forms):
            assert identical(both(kernel_of(form, len(operands)), *operands, np.ones_like(want)), want), (i, m, k, n)
        assert identical(lax.matmul(a, b), plain) and identical(lax.matmul_acc(acc, a, b), added)
        assert identical(lax.matmul_bias(a, b, bias), biased)


@pytest.mark.parametrize("name", ["FP32", "FP16", "BF16"])
@pytest.mark.parametrize("out", ["FP32", "FP16", "BF16"])
def test_a_result_dtype_rounds_the_whole_product_once(name, out):
    a, b, bias = numbers(name, (3, 70)), numbers(name, (70, 5), 1), accumulators(name, (1, 5))
    want = product(a, b)
    storage = getattr(dtypes, out).storage
    kernel = kernel_of(lambda x, y: pl.matmul(x, y, out_dtype=getattr(pl, out)), 2)
    assert identical(both(kernel, a, b, np.ones((3, 5), storage)), want.astype(storage))
    assert identical(lax.matmul_bias(a, b, bias, out_dtype=out), (want + bias).astype(storage))


def test_the_sequential_order_of_bf16_is_one_chain():
    a, b = numbers("BF16", (3, 70)), numbers("BF16", (70, 5), 1)
    want = product(a, b, rule=chain)
    assert not identical(want, product(a, b))
    assert identical(both(kernel_of(lambda x, y: pl.matmul(x, y, numerics="sequential"), 2), a, b, np.ones_like(want)), want)
    assert identical(lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type="FP32", numerics="sequential"), want)


@pytest.mark.parametrize("name", ["FP32", "BF16", "INT8"])
@pytest.mark.parametrize(
    ("shape_a", "shape_b"), [((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2))]
)
def test_more_axes_are_a_batch_that_broadcasts(name, shape_a, shape_b):
    a, b = numbers(name, shape_a), numbers(name, shape_b, 1)
    lead = np.broadcast_shapes(shape_a[:-2], shape_b[:-2])
    left, right = np.broadcast_to(a, (*lead, *shape_a[-2:])), np.broadcast_to(b, (*lead, *shape_b[-2:]))
    want = np.array([product(left[i], right[i]) for i in np.ndindex(lead)]).reshape(*lead, shape_a[-2], shape_b[-1])
    acc = accumulators(name, want.shape)
    added = np.array([product(left[i], right[i], acc[i]) for i in np.ndindex(lead)]).reshape(want.shape)
    assert identical(both(kernel_of(pl.matmul, 2), a, b, np.ones_like(want)), want)
    assert identical(both(kernel_of(pl.batch_matmul, 2), a, b, np.ones_like(want)), want)
    assert identical(both(kernel_of(lambda x, y, c: pl.batch_matmul_acc(c, x, y), 3), a, b, acc, np.ones_like(want)), added)
    turned = np.swapaxes(b, -1, -2).copy()
    assert identical(both(kernel_of(lambda x, y: pl.matmul(x, y, b_trans=True), 2), a, turned, np.ones_like(want)), want)


def test_a_product_of_partly_valid_tiles_is_that_of_their_valid_parts():
    @pl.jit
    def multiplies_parts(a: TENSOR, b: TENSOR, m: pl.Scalar[pl.INT32], k: pl.Scalar[pl.INT32], n: pl.Scalar[pl.INT32], out: pl.Out[TENSOR]):
        with pl.at(level=pl.Level.CORE_GROUP):
            x = pl.load(a, [0, 0], [4, 40], valid_shape=[m, k])
            y = pl.load(b, [0, 0], [40, 6], valid_shape=[40, n])
            out[:] = pl.fillpad(pl.matmul(x, y))

    a, b = numbers("BF16", (4, 40)), numbers("BF16", (40, 6), 1)
    for m, k, n in ((3, 40, 5), (4, 33, 6), (1, 1, 1)):
        want = np.zeros((4, 6), np.float32)
        want[:m, :n] = product(a[:m, :k], b[:k, :n])
        assert identical(both(multiplies_parts, a, b, m, k, n, np.ones((4, 6), np.float32)), want)


@pl.jit
def meets_fewer_rows(a: TENSOR, k: pl.Scalar[pl.INT32], out: pl.Out[TENSOR]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.load(a, [0, 0], [4, 4], valid_shape=[k, 4])
        out[:] = pl.matmul(a, y)  # refused


def test_the_right_operand_has_at_least_as_many_valid_k():
    x = np.eye(4, dtype=np.float32)
    meets_fewer_rows(x, 4, sevens(4, 4))
    refused("PL301", meets_fewer_rows, x, 3, sevens(4, 4), at="pl.matmul(a, y)")


# ---- init_cond -------------------------------------------------------------------------------------------------------


def accumulating(condition):
    @pl.jit
    def accumulates(a: pl.Tensor[[4, 96], pl.BF16], b: pl.Tensor[[96, 4], pl.BF16], out: pl.Out[pl.Tensor[[4, 4], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.create_tensor([4, 4], dtype=pl.FP32)
            for k in pl.range(3):
                acc = pl.matmul_acc(acc, a[:, k * 32 : k * 32 + 32], b[k * 32 : k * 32 + 32, :], init_cond=condition(k))
            out[:] = acc

    return accumulates


@pl.jit
def starts_over(a: TENSOR, b: TENSOR, acc: TENSOR, out: pl.Out[TENSOR]):
    with pl.at(level=pl.Level.CORE_GROUP):
        first = pl.matmul_acc(acc, a, b, init_cond=True)
        out[:] = pl.matmul_acc(first, a, b, init_cond=False)


def test_an_initial_condition_overwrites_the_accumulator():
    a, b = numbers("BF16", (4, 96)), numbers("BF16", (96, 4), 1)
    assert identical(both(accumulating(lambda k: k == 0), a, b, sevens(4, 4)), product(a, b))
    assert identical(both(accumulating(lambda k: k != 1), a, b, sevens(4, 4)), product(a[:, 64:], b[64:]))
    assert identical(both(starts_over, a, b, accumulators("BF16", (4, 4)), sevens(4, 4)), product(a, b, product(a, b)))


def test_a_run_time_condition_becomes_a_branch_of_the_cube_unit():
    program = accumulating(lambda k: k == 0).lower()
    (kernel,) = program.kernels
    assert kernel.unit == "cube" and any(e.op is control.cond for e in kernel.jaxpr.walk())


@pytest.mark.parametrize(
    ("code", "multiply"),
    [
        ("PL301", lambda c, x, y: pl.matmul_acc(c, x, y, init_cond=True)),
        ("PL302", lambda c, x, y: pl.matmul_acc(c[0], x[0], y[0], init_cond=pl.read(c, [0, 0, 0]))),
        ("PL301", lambda c, x, y: pl.matmul_acc(c[0], x[0], y[0][:, 0:2], init_cond=True)),
        ("PL302", lambda c, x, y: pl.matmul_acc(pl.cast(c[0], pl.BF16), x[0], y[0], init_cond=True)),
    ],
)
def test_a_conditional_product_that_does_not_fit_is_refused(code, multiply):
    x = np.ones((1, 4, 4), np.float32)
    with pytest.raises(PyptoError) as caught:
        kernel_of(multiply, 3)(x, x, x, np.ones((4, 4), np.float32))
    assert caught.value.code == code


# ---- reported faults -------------------------------------------------------------------------------------------------

EYE = np.eye(2, dtype=np.float32)


@pytest.mark.parametrize(("mode", "expected"), [("rint", 1.015625), ("round", 1.0234375), ("trunc", 1.015625), ("ceil", 1.0234375)])
def test_a_cast_after_a_product_follows_its_own_mode(mode, expected):  # C13
    kernel = kernel_of(lambda x, y: pl.cast(pl.matmul(x, y), pl.BF16, mode=mode), 2)
    out = both(kernel, f32([[1.01953125]]), f32([[1]]), np.zeros((1, 1), BF16))
    assert out.astype(np.float64).tolist() == [[expected]]


def test_a_result_dtype_rounds_ties_to_even():  # C13
    found = lax.matmul(f32([[1.01953125]]), f32([[1]]), out_dtype="BF16")
    assert float(found[0, 0]) == 1.015625


@pytest.mark.parametrize("spelled", [pl.matmul, pl.tensor.matmul])
def test_a_transposed_operand_is_transposed(spelled):  # C48
    a, b = f32([1, 2], [3, 4]), f32([5, 6], [7, 8])
    assert both(kernel_of(lambda x, y: spelled(x, y, b_trans=True), 2), a, b, sevens(2, 2)).tolist() == [[17, 23], [39, 53]]


@pl.jit
def transposes_at_tile_level(a: TENSOR, b: TENSOR, out: pl.Out[TENSOR]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(pl.load(a, [0, 0], [2, 2]), pl.load(b, [0, 0], [2, 2]), b_trans=True)  # refused


FLAGS = {
    "b_trans": lambda c, x, y: pl.tile.matmul(x, y, b_trans=True),
    "a_trans": lambda c, x, y: pl.tile.matmul_acc(c, x, y, a_trans=True),
    "out_dtype": lambda c, x, y: pl.tile.matmul(x, y, out_dtype=pl.BF16),
}


def test_a_flag_of_the_other_level_is_a_type_error_that_names_both():  # C48
    call = "pl.matmul(pl.load(a, [0, 0], [2, 2]), pl.load(b, [0, 0], [2, 2]), b_trans=True)"
    error = untouched("PL307", transposes_at_tile_level, EYE, EYE, sevens(2, 2), at=call)
    assert isinstance(error, LevelError) and "`b_trans`" in error.message
    assert "pl.tensor.matmul" in error.message and "pl.tile.matmul" in error.message and "transpose_view" in error.fix
    for flag, multiply in FLAGS.items():
        with pytest.raises(TypeError, match=f"`{flag}`"):
            kernel_of(multiply, 3)(EYE, EYE, EYE, sevens(2, 2))


def test_at_tile_level_the_operand_is_turned_and_the_accumulators_dtype_may_be_said():
    a, b = f32([1, 2], [3, 4]), f32([5, 6], [7, 8])
    turned = kernel_of(lambda x, y: pl.tile.matmul(x, pl.tile.transpose_view(y), out_dtype=pl.FP32), 2)
    assert both(turned, a, b, sevens(2, 2)).tolist() == [[17, 23], [39, 53]]


A23, V2, V3 = f32([1, 2, 3], [4, 5, 6]), f32(10, 1), f32(1, 10, 100)


@pytest.mark.parametrize(
    ("multiply", "x", "y", "want"),
    [
        (lambda x, y: pl.matmul(x, y, a_trans=True), A23, V2, [14, 25, 36]),
        (lambda x, y: pl.matmul(x, y), A23, V3, [321, 654]),
        (lambda x, y: pl.matmul(x, y), V2, A23, [14, 25, 36]),
        (lambda x, y: pl.matmul(x, y, b_trans=True), V3, A23, [321, 654]),
    ],
)
def test_a_vector_is_a_row_on_the_left_and_a_column_on_the_right(multiply, x, y, want):  # C49
    assert both(kernel_of(multiply, 2), x, y, sevens(len(want))).tolist() == want
    assert lax.matmul(V2, A23).tolist() == [14, 25, 36] and lax.matmul(V3, V3).shape == ()


@pytest.mark.parametrize(
    ("code", "multiply", "x", "y"),
    [
        ("PL308", lambda x, y: pl.matmul(x, y, b_trans=True), A23, V3),
        ("PL308", lambda x, y: pl.matmul(x, y, a_trans=True), V2, A23),
        ("PL301", lambda x, y: pl.matmul(x, y), A23, V2),
        ("PL301", lambda x, y: pl.matmul(x, y), V3, V3),
        ("PL301", lambda x, y: pl.matmul(x, y), A23, A23),
        ("PL301", lambda x, y: pl.matmul_acc(y, x, y), A23, V3),
        ("PL308", lambda x, y: pl.matmul(x, y, c_matrix_nz=True), A23, A23),
        ("PL308", lambda x, y: pl.matmul(x, y, numerics="fast", b_trans=True), A23, A23),
        ("PL305", lambda x, y: pl.matmul(x, y, out_dtype=pl.INT32, b_trans=True), A23, A23),
        ("PL305", lambda x, y: pl.matmul(x, y, b_trans=True), A23.astype(np.int32), A23.astype(np.int32)),
        ("PL305", lambda x, y: pl.matmul(x, y, out_dtype=pl.FP32, b_trans=True), A23.astype(np.int8), A23.astype(np.int8)),
        ("PL302", lambda x, y: pl.matmul(x, y, b_trans=True), A23, A23.astype(np.float16)),
        ("PL301", lambda x, y: pl.batch_matmul(x, y), A23, A23.T.copy()),
        ("PL301", lambda x, y: pl.batch_matmul(x, y), np.ones((2, 3, 4), np.float32), np.ones((3, 4, 5), np.float32)),
        ("PL301", lambda x, y: pl.gemv(x, y), A23, A23.T.copy()),
        ("PL308", lambda x, y: pl.gemv(x, y, acc_phase="first"), A23[:1], A23.T.copy()),
        ("PL301", lambda x, y: pl.matmul_bias(x, y, x), A23, A23.T.copy()),
        ("PL302", lambda x, y: pl.matmul_bias(x, y, x[0:1, 0:2]), A23.astype(np.float16), A23.T.astype(np.float16).copy()),
    ],
)
def test_a_product_that_does_not_fit_is_refused(code, multiply, x, y):  # C49
    with pytest.raises(PyptoError) as caught:
        kernel_of(multiply, 2)(x, y, np.zeros((2, 2), np.float32))
    assert caught.value.code == code and caught.value.fix and "lambda x, y" in caught.value.source.text


@pl.jit
def uses_both_ways(v: TENSOR, x: TENSOR, out: pl.Out[TENSOR], other: pl.Out[TENSOR]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(v, x)
        other[:] = pl.matmul(v, x, b_trans=True)


def test_one_tensor_is_used_plain_and_transposed():  # C50
    out, other = sevens(1, 2), sevens(1, 2)
    with pypto.override(platform="cpu"):
        uses_both_ways(f32([[1, 10]]), f32([1, 2], [3, 4]), out, other)
    assert out.tolist() == [[31, 42]] and other.tolist() == [[21, 43]]


@pl.jit
def chains_two(a: TENSOR, w: TENSOR, v: TENSOR, out: pl.Out[TENSOR]):
    with pl.at(level=pl.Level.CORE_GROUP):
        half = pl.cast(pl.matmul(a, w), pl.FP16)
        out[:] = pl.matmul(half, v)


def test_a_product_of_a_cast_product_keeps_both():  # C77
    a, w, v = (np.float16(x) for x in ([[1, 2], [3, 4]], [[1, 0], [0, 2]], [[1, 1], [0, 1]]))
    assert both(chains_two, a, w, v, sevens(2, 2)).tolist() == [[1, 5], [3, 11]]


def test_a_tall_int8_product_is_that_of_its_pieces():  # C86
    a, b = numbers("INT8", (128, 64)), numbers("INT8", (64, 32), 1)
    want = a.astype(np.int64) @ b.astype(np.int64)
    found = both(kernel_of(pl.matmul, 2), a, b, np.zeros((128, 32), np.int32))
    pieces = [both(kernel_of(pl.matmul, 2), a[i : i + 16], b, np.zeros((16, 32), np.int32)) for i in range(0, 128, 16)]
    assert np.array_equal(found, want) and np.array_equal(found, np.concatenate(pieces))


def test_a_created_accumulator_says_the_dtype_of_a_product():
    @pl.jit
    def declares(a: TENSOR, b: TENSOR, bias: TENSOR, out: pl.Out[TENSOR]):
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.create_tensor([2, 2], dtype=pl.BF16)
            acc = pl.matmul_bias(a, b, bias)
            out[:] = acc

    out = both(declares, f32([1.01953125, 0], [0, 1]), EYE, f32([[0, 0]]), np.zeros((2, 2), BF16))
    assert float(out[0, 0]) == 1.015625


@pytest.mark.checked
def test_an_unwritten_row_reaches_only_the_rows_it_belongs_to():
    @pl.jit
    def multiplies_a_half(a: TENSOR, b: TENSOR, out: pl.Out[TENSOR]):
        with pl.at(level=pl.Level.CORE_GROUP):
            x = pl.create_tile([4, 2], pl.FP32)
            x[0:2, :] = a[0:2, :]
            out[:] = pl.matmul_bias(x, b, b[0:1, :])[0:2, :]

    assert both(multiplies_a_half, EYE, EYE, sevens(2, 2)).tolist() == [[2, 0], [1, 1]]
    with reports():
        multiplies_a_half(EYE, EYE, sevens(2, 2))
