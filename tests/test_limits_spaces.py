"""What fits no memory of a chip, and paths between memories that a chip lacks, are refused at the user's line."""

import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from pypto.platform import Space, platform_of
from tests.refusals import refused

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP


def T(*shape, dtype=pl.FP32):
    return pl.Tensor[list(shape), dtype]


def lowers(kernel, platform="a2a3"):
    with pypto.override(platform=platform):
        return kernel.lower()


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
