"""What a chip cannot do is refused when a kernel is lowered for it, at the user's line, all of it at once."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from pypto.platform import PLATFORMS, Space, platform_of
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


# ---- sizes ---------------------------------------------------------------------------------------------------------


@pl.jit
def too_long(x: T(1, 48000), out: pl.Out[T(1, 48000)]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [1, 48000])  # refused
        pl.store(t, [0, 0], out)


def test_a_tile_larger_than_its_space_is_refused_with_both_sizes():
    error = refused("PL404", too_long.lower, at="pl.load(x, [0, 0], [1, 48000])")
    assert "`t`" in error.message and "192000 bytes" in error.message and "188416" in error.message and "VEC" in error.message
    assert "47104" in error.fix


def test_what_does_not_fit_one_chip_may_fit_another():
    assert lowers(too_long, "a5").limits_checked


@pl.jit.incore
def too_much_in_right(x: T(256, 256, dtype=pl.FP16), y: T(16, 256, dtype=pl.FP16), out: pl.Out[T(16, 256)]):
    a = pl.move(pl.load(y, [0, 0], [16, 256], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
    b1 = pl.load(x, [0, 0], [256, 256], target_memory=pl.Mem.Mat)
    b = pl.move(b1, target_memory=pl.Mem.Right)  # refused
    pl.store(pl.matmul(a, b), [0, 0], out)


def test_a_tile_larger_than_the_space_it_is_moved_to_is_refused():
    error = refused("PL404", too_much_in_right.lower, at="pl.move(b1, target_memory=pl.Mem.Right)")
    assert "131072 bytes" in error.message and "65536" in error.message and "RIGHT" in error.message


@pl.jit
def large_operands(a: T(128, 1024, dtype=pl.BF16), b: T(1024, 256, dtype=pl.BF16), out: pl.Out[T(128, 256)]):
    with pl.at(level=CORE):
        out[:] = pl.matmul(a, b)


@pl.jit
def large_product(a: T(256, 64, dtype=pl.BF16), b: T(64, 256, dtype=pl.BF16), out: pl.Out[T(256, 256)]):
    with pl.at(level=CORE):
        out[:] = pl.matmul(a, b)


@pytest.mark.parametrize("kernel", [large_operands, large_product])
def test_operands_go_by_way_of_l1_and_a_product_that_is_only_stored_is_made_in_parts(kernel):
    lowers(kernel)


@pl.jit
def large_product_in_vec(a: T(256, 64, dtype=pl.BF16), b: T(64, 256, dtype=pl.BF16), out: pl.Out[T(256, 256)]):
    with pl.at(level=CORE):
        acc = pl.matmul(a, b)  # refused
        out[:] = pl.exp(acc)


def test_a_product_that_vector_instructions_want_whole_must_fit_the_accumulator():
    refused("PL404", large_product_in_vec.lower, at="pl.matmul(a, b)")


@pl.jit
def split_in_two(a: T(128, 64, dtype=pl.BF16), b: T(64, 128, dtype=pl.BF16), x: T(128, 512), out: pl.Out[T(128, 512)]):
    with pl.at(level=CORE, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):
        t = pl.slice(x, [128, 512], [0, 0])
        t[:, 0:128] = pl.matmul(a, b)
        out[:] = pl.adds(t, 1.0)


def test_a_split_region_has_the_room_of_both_vector_units():
    lowers(split_in_two)


@pl.program
class SaysUpDown:
    @pl.function(type=pl.FunctionType.InCore)
    def main(self, a: T(128, 64, dtype=pl.BF16), b: T(64, 128, dtype=pl.BF16), x: T(128, 512), out: pl.Out[T(128, 512)]):
        pl.func_attr({"optimizations": "split(UP_DOWN)", "note": "UP_DOWN and LEFT_RIGHT"})
        t = pl.slice(x, [128, 512], [0, 0])  # refused
        t[:, 0:128] = pl.matmul(a, b)
        out[:] = pl.adds(t, 1.0)


@pl.jit
def split_in_none(a: T(128, 64, dtype=pl.BF16), b: T(64, 128, dtype=pl.BF16), x: T(128, 512), out: pl.Out[T(128, 512)]):
    with pl.at(level=CORE, optimizations=[pl.split(pl.SplitMode.NONE)]):
        t = pl.slice(x, [128, 512], [0, 0])  # refused
        t[:, 0:128] = pl.matmul(a, b)
        out[:] = pl.adds(t, 1.0)


@pytest.mark.parametrize("kernel", [SaysUpDown, split_in_none], ids=["an attribute", "split(NONE)"])
def test_only_a_split_doubles_the_room(kernel):
    refused("PL404", kernel.lower, at="pl.slice(x, [128, 512], [0, 0])")


# ---- paths ---------------------------------------------------------------------------------------------------------


@pl.jit.incore
def stores_from_mat(x: T(16, 16, dtype=pl.FP16), out: pl.Out[T(16, 16, dtype=pl.FP16)]):
    t = pl.load(x, [0, 0], [16, 16], target_memory=pl.Mem.Mat)
    pl.store(t, [0, 0], out)  # refused


@pl.jit.incore
def from_vec_to_acc(x: T(16, 16), out: pl.Out[T(16, 16)]):
    t = pl.load(x, [0, 0], [16, 16])
    u = pl.move(t, target_memory=pl.Mem.Acc)  # refused
    pl.store(u, [0, 0], out)


@pl.jit.incore
def from_left_to_vec(x: T(16, 16), out: pl.Out[T(16, 16)]):
    t = pl.move(pl.load(x, [0, 0], [16, 16], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
    u = pl.move(t, target_memory=pl.Mem.Vec)  # refused
    pl.store(u, [0, 0], out)


@pl.jit.incore
def in_a_space_of_a5(x: T(16, 16), out: pl.Out[T(16, 16)]):
    t = pl.create_tile([16, 16], pl.FP32, target_memory=pl.Mem.LeftScale)  # refused
    pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)
    pl.read(t, [0, 0])


@pytest.mark.parametrize(
    ("kernel", "at", "path"),
    [
        (stores_from_mat, "pl.store(t, [0, 0], out)", ("MAT", "global memory")),
        (from_vec_to_acc, "pl.move(t, target_memory=pl.Mem.Acc)", ("VEC", "ACC")),
        (from_left_to_vec, "pl.move(t, target_memory=pl.Mem.Vec)", ("LEFT", "VEC")),
        (in_a_space_of_a5, "pl.create_tile([16, 16], pl.FP32, target_memory=pl.Mem.LeftScale)", ("LEFT_SCALE", "a2a3")),
    ],
)
def test_a_path_the_chip_lacks_is_refused_with_both_ends_and_the_way_around(kernel, at, path):
    error = refused("PL401", lambda: lowers(kernel), at=at)
    assert all(end in error.message for end in path) and "a2a3" in error.message


@pl.jit.incore
def by_hand(a: T(32, 32, dtype=pl.FP16), b: T(32, 32, dtype=pl.FP16), out: pl.Out[T(32, 32)]):
    a_l1 = pl.load(a, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
    b_l1 = pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
    c = pl.matmul(pl.move(a_l1, target_memory=pl.Mem.Left), pl.move(b_l1, target_memory=pl.Mem.Right))
    v = pl.move(c, target_memory=pl.Mem.Vec)
    pl.store(pl.adds(v, 1.0), [0, 0], out)


@pl.jit.incore
def crosses_to_the_vector_unit(x: T(16, 16), out: pl.Out[T(16, 16)]):
    t = pl.load(x, [0, 0], [16, 16], target_memory=pl.Mem.Mat)
    u = pl.adds(t, 1.0)
    pl.store(pl.add(u, pl.move(t, target_memory=pl.Mem.Vec)), [0, 0], out)


@pytest.mark.parametrize("platform", ["a2a3", "a5"])
def test_a_tile_in_l1_may_go_to_the_vector_unit(platform):
    assert lowers(crosses_to_the_vector_unit, platform).limits_checked


@pytest.mark.parametrize("platform", ["a2a3", "a5"])
def test_the_paths_of_a_product_placed_by_hand_are_legal(platform):
    lowers(by_hand, platform)


@pl.jit.incore
def loads_into_left(x: T(16, 16), out: pl.Out[T(16, 16)]):
    t = pl.load(x, [0, 0], [16, 16], target_memory=pl.Mem.Left)  # refused
    pl.store(t, [0, 0], out)


@pl.jit.incore
def loads_into_acc(x: T(16, 16), out: pl.Out[T(16, 16)]):
    t = pl.load(x, [0, 0], [16, 16], target_memory=pl.Mem.Acc)  # refused
    pl.store(t, [0, 0], out)


@pytest.mark.parametrize(("kernel", "fix"), [(loads_into_left, "pl.move(pl.load("), (loads_into_acc, "VEC, MAT")])
def test_a_load_into_a_space_that_only_moves_reach_says_what_to_write(kernel, fix):
    space = "Left" if kernel is loads_into_left else "Acc"
    error = refused("PL401", kernel.lower, at=f"pl.load(x, [0, 0], [16, 16], target_memory=pl.Mem.{space})")
    assert "global memory" in error.message and space.upper() in error.message and fix in error.fix


def moved(source, target):
    @pl.jit.incore
    def moves(x: T(16, 16), out: pl.Out[T(16, 16)]):
        t = pl.move(pl.load(x, [0, 0], [16, 16], target_memory=source), target_memory=target)
        pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)
        pl.write(out, [0, 0], pl.read(t, [0, 0]))

    return moves


@pytest.mark.parametrize("platform", ["a2a3", "a5"])
@pytest.mark.parametrize("source", [Space.VEC, Space.MAT])
@pytest.mark.parametrize("target", [s for s in Space if s is not Space.DDR])
def test_a_pair_of_spaces_is_refused_or_moved_as_the_table_says(source, target, platform):
    row = platform_of(platform)
    if target in row.capacity and row.carries(source, target):
        assert lowers(moved(source, target), platform).limits_checked
    else:
        with pytest.raises(PyptoError) as caught:
            lowers(moved(source, target), platform)
        assert caught.value.code == "PL401"


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
        with pytest.raises(PyptoError):
            row_of_20_bytes(x)


def test_a_refused_kernel_leaves_its_outputs_alone():
    out = np.full((4, 5), -7, np.float32)
    with pytest.raises(PyptoError):
        row_of_20_bytes(np.zeros((4, 5), np.float32), out)
    assert (out == -7).all()


def test_every_platform_but_cpu_is_checked():
    assert [name for name, row in PLATFORMS.items() if not row.checked] == ["cpu"]
