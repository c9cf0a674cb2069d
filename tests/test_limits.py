"""What a chip cannot do is refused when a kernel is lowered for it, at the user's line, all of it at once."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from pypto.platform import PLATFORMS
from tests.refusals import refused

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP


def T(*shape, dtype=pl.FP32):
    return pl.Tensor[list(shape), dtype]


def lowers(kernel, platform="a2a3"):
    with pypto.override(platform=platform):
        return kernel.lower()


# ---- rows ----------------------------------------------------------------------------------------------------------


@pl.jit
def row_of_20_bytes(x: T(4, 5), out: pl.Out[T(4, 5)]):
    with pl.at(level=CORE):
        out[:] = pl.exp(x)  # refused


@pl.jit
def vector_of_12_bytes(x: T(3), out: pl.Out[T(3)]):
    with pl.at(level=CORE):
        t = pl.slice(x, [3], [0])  # refused
        out[:] = t


@pl.jit
def column_of_16_bytes(x: T(4, 8), out: pl.Out[T(4, 1)]):
    with pl.at(level=CORE):
        out[:] = pl.row_sum(x)  # refused


@pl.jit
def one_number(x: T(1, 8), out: pl.Out[T(1, 1)]):
    with pl.at(level=CORE):
        out[:] = pl.row_max(x)  # refused


@pl.jit
def half_a_block_of_bytes(x: T(4, 16, dtype=pl.INT8), out: pl.Out[T(4, 16, dtype=pl.INT8)]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 16])  # refused
        pl.store(t, [0, 0], out)


@pytest.mark.parametrize(
    ("kernel", "at", "says", "fix"),
    [
        (row_of_20_bytes, "pl.exp(x)", "20 bytes", "valid_shape=[4, 5]"),
        (vector_of_12_bytes, "pl.slice(x, [3], [0])", "12 bytes", "pl.slice(x, [8], offsets, valid_shape=[3])"),
        (column_of_16_bytes, "pl.row_sum(x)", "16 bytes", "[8, 1]"),
        (one_number, "pl.row_max(x)", "4 bytes", "pl.read"),
        (half_a_block_of_bytes, "pl.load(x, [0, 0], [4, 16])", "16 bytes", "[4, 32]"),
    ],
)
@pytest.mark.parametrize("platform", ["a2a3sim", "a2a3", "a5sim", "a5"])
def test_a_row_that_is_no_whole_number_of_blocks_is_refused_with_its_bytes(kernel, at, says, fix, platform):
    error = refused("PL402", lambda: lowers(kernel, platform), at=at)
    assert says in error.message and "32 bytes" in error.message and platform in error.message
    assert fix in error.fix


@pl.jit
def padded_row(x: T(4, 5), out: pl.Out[T(4, 5)]):
    with pl.at(level=CORE):
        t = pl.slice(x, [4, 8], [0, 0], valid_shape=[4, 5])
        pl.assemble(out, pl.exp(t), [0, 0])


@pl.jit
def eight_rows(x: T(8, 8), out: pl.Out[T(8, 1)]):
    with pl.at(level=CORE):
        out[:] = pl.row_sum(x)


@pl.jit
def a_mask_of_few_columns(x: T(4, 8), out: pl.Out[T(4, 8)]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 8])
        mask = pl.cmps(t, 0.0, pl.CmpType.GT)
        out[:] = pl.sel(mask, t, pl.neg(t))


@pytest.mark.parametrize("kernel", [padded_row, eight_rows, a_mask_of_few_columns])
def test_whole_blocks_are_accepted(kernel):
    assert lowers(kernel).limits_checked


def test_the_fix_of_a_narrow_row_is_right():
    out = np.full((4, 5), -7, np.float32)
    padded_row(np.zeros((4, 5), np.float32), out)
    assert (out == 1).all()


# ---- fractals ------------------------------------------------------------------------------------------------------


def product(m, k, n, dtype=pl.BF16, acc=pl.FP32):
    @pl.jit
    def multiplies(a: T(m, k, dtype=dtype), b: T(k, n, dtype=dtype), out: pl.Out[T(m, n, dtype=acc)]):
        with pl.at(level=CORE):
            left = pl.slice(a, [m, k], [0, 0])
            right = pl.slice(b, [k, n], [0, 0])
            out[:] = pl.matmul(left, right)  # refused

    return multiplies


@pytest.mark.parametrize(
    ("m", "k", "n", "sides"),
    [(20, 32, 16, ["left"]), (16, 24, 16, ["left", "right"]), (16, 32, 8, ["right"]), (20, 24, 8, ["left", "right"])],
)
def test_an_operand_that_is_no_whole_number_of_fractals_is_refused(m, k, n, sides):
    error = refused("PL403", product(m, k, n).lower, at="pl.matmul(left, right)")
    assert error.message.startswith(f"the {sides[0]} operand")
    assert f"`{sides[0]}`" in error.message and "16" in error.message and "valid_shape=" in error.fix


def test_integers_of_a_byte_come_in_blocks_of_32_along_k():
    error = refused("PL403", product(16, 16, 32, pl.INT8, pl.INT32).lower, at="pl.matmul(left, right)")
    assert "32" in error.message
    lowers(product(16, 32, 16, pl.INT8, pl.INT32))
    lowers(product(272, 256, 144, pl.INT8, pl.INT32))


def test_one_row_times_a_matrix_is_accepted():
    lowers(product(1, 32, 16))


@pl.jit
def ragged_product(a: T(20, 40, dtype=pl.BF16), b: T(40, 24, dtype=pl.BF16), out: pl.Out[T(20, 24)]):
    with pl.at(level=CORE):
        left = pl.slice(a, [32, 48], [0, 0], valid_shape=[20, 40])
        right = pl.slice(b, [48, 32], [0, 0], valid_shape=[40, 24])
        pl.assemble(out, pl.matmul(left, right), [0, 0])


def test_a_ragged_product_of_padded_operands_is_accepted_and_right():
    import ml_dtypes

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((20, 40), (40, 24)))
    assert (np.asarray(ragged_product(a, b)) == a.astype(np.float32) @ b.astype(np.float32)).all()


# ---- counts and dtypes ---------------------------------------------------------------------------------------------


@pl.jit
def tall(x: T(5000, 8), out: pl.Out[T(5000, 8)]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [5000, 8])  # refused
        pl.store(t, [0, 0], out)


@pl.jit
def sorts_a_long_row(x: T(1, 8192), out: pl.Out[T(1, 16384)]):
    with pl.at(level=CORE):
        index = pl.arange(0, [1, 8192], dtype=pl.UINT32)
        out[:] = pl.sort32(x, index)  # refused


@pl.jit
def merges_many_runs(x: T(1, 66560, dtype=pl.FP16), out: pl.Out[T(1, 66560, dtype=pl.FP16)]):
    with pl.at(level=CORE):
        out[:] = pl.mrgsort(x[:, :], block_len=64)  # refused


@pl.jit
def tall_operand(a: T(8192, 16, dtype=pl.BF16), b: T(16, 16, dtype=pl.BF16), out: pl.Out[T(8192, 16)]):
    with pl.at(level=CORE):
        out[:] = pl.matmul(a, b)


def test_an_operand_on_its_way_to_the_cube_unit_may_have_more_rows():
    assert lowers(tall_operand).limits_checked


@pytest.mark.parametrize(
    ("kernel", "at", "limit"),
    [
        (tall, "pl.load(x, [0, 0], [5000, 8])", "4095"),
        (sorts_a_long_row, "pl.sort32(x, index)", "255"),
        (merges_many_runs, "pl.mrgsort(x[:, :], block_len=64)", "260 groups"),
    ],
)
def test_more_than_one_instruction_takes_is_refused_with_the_limit(kernel, at, limit):
    error = refused("PL405", kernel.lower, at=at)
    assert limit in error.message


@pl.jit
def adds_bf16(x: T(4, 16, dtype=pl.BF16), out: pl.Out[T(4, 16, dtype=pl.BF16)]):
    with pl.at(level=CORE):
        out[:] = pl.adds(x, 1.0)  # refused


def test_a_dtype_one_chip_lacks_is_refused_there_and_taken_by_the_other():
    error = refused("PL406", adds_bf16.lower, at="pl.adds(x, 1.0)")
    assert "a2a3sim" in error.message and "BF16" in error.message and "pl.FP32" in error.fix
    lowers(adds_bf16, "a5")


# ---- together, and off ---------------------------------------------------------------------------------------------


@pl.jit
def four_violations(x: T(4, 5), y: T(1, 48000), z: T(4, 16, dtype=pl.BF16), out: pl.Out[T(4, 5)], more: pl.Out[T(4, 16, dtype=pl.BF16)]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 5])  # refused
        u = pl.exp(t)
        pl.store(u, [0, 0], out)
        w = pl.load(y, [0, 0], [1, 48000])
        pl.write(out, [0, 0], pl.read(w, [0, 0]))
        more[:] = pl.adds(z, 1.0)


def test_everything_a_kernel_breaks_is_reported_together_in_the_order_of_its_lines():
    error = refused("PL402", four_violations.lower, at="pl.load(x, [0, 0], [4, 5])")
    assert [e.code for e in error.others] == ["PL402", "PL404", "PL406"]
    lines = [error.source.line, *(e.source.line for e in error.others)]
    assert lines == sorted(set(lines))
    assert all(other.message in str(error) and other.fix in str(error) for other in error.others)


def test_cpu_takes_the_limits_away_and_says_so():
    x = np.zeros((4, 5), np.float32)
    with pypto.override(platform="cpu"):
        program = row_of_20_bytes.lower()
        out = np.asarray(row_of_20_bytes(x))
    assert (out == 1).all()
    assert not program.limits_checked
    assert "no limits checked" in str(program).splitlines()[0]


@pytest.mark.parametrize("way", [{}, {"check": False}, {"check": False, "executor": "cpu"}], ids=str)
def test_a_program_of_one_platform_never_runs_for_another(way):
    x = np.zeros((4, 5), np.float32)
    with pypto.override(**way):
        for _ in range(2):  # the second call is remembered
            with pypto.override(platform="cpu"):
                row_of_20_bytes(x)
        with pytest.raises(PyptoError) as caught:
            row_of_20_bytes(x)
        assert caught.value.code == "PL402"


def test_a_refused_kernel_leaves_its_outputs_alone():
    out = np.full((4, 5), -7, np.float32)
    with pytest.raises(PyptoError) as caught:
        row_of_20_bytes(np.zeros((4, 5), np.float32), out)
    assert caught.value.code == "PL402" and (out == -7).all()


def test_every_platform_but_cpu_is_checked():
    assert [name for name, row in PLATFORMS.items() if not row.checked] == ["cpu"]
