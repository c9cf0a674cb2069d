"""Operands of products that a launch only reads are packed once for all of its blocks: the bits of the reference, whatever else happens."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.interpreters.cpu import sharing
from pypto.interpreters.cpu.facts import facts
from pypto.interpreters.cpu.launch import compile_program
from pypto.interpreters.cpu.machine import enabled, host, unsupported
from tests.fuzz import TARGETS

pytestmark = pytest.mark.skipif(bool(unsupported()), reason=unsupported() or "-")
needs_tiles = pytest.mark.skipif(
    bool(unsupported()) or "amx-granted" not in enabled(host()), reason="this CPU grants no AMX tiles, for which alone operands are packed"
)

F32, BF16, F16, I8 = np.float32, ml_dtypes.bfloat16, np.float16, np.int8
DTYPES = {"FP32": (pl.FP32, F32), "FP16": (pl.FP16, F16), "BF16": (pl.BF16, BF16), "INT8": (pl.INT8, I8)}


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-127, 128, shape).astype(I8) if dtype is I8 else rng.normal(size=shape).astype(F32).astype(dtype)


def bits(kernel, *arrays, **options):
    """The results of a run on copies, the arrays that are written in place included."""
    copies = [a.copy() for a in arrays]
    with pypto.override(check=False, cache=False, platform="cpu", **options):
        made = kernel(*copies)
    outs = made if isinstance(made, tuple) else (made,)
    return [np.asarray(x).tobytes() for x in (*outs, *copies)]


def agree(kernel, *arrays):
    want = bits(kernel, *arrays, executor="reference")
    for threads in (1, 2, 3):
        assert bits(kernel, *arrays, executor="cpu", threads=threads) == want, f"{threads} threads"


def plans(kernel):
    """The packed forms of a program, as (buffer, side of the product), in the order of their launches."""
    with pypto.override(platform="cpu"):
        program = kernel.lower()
    known = facts(program.orchestration, program.bodies)
    found = sharing.shares(program.orchestration, program.bodies, enabled(host()), known)
    forms = {id(p): p for uses in found.launches.values() for ps in uses.values() for p in ps}
    return sorted((p.buffer.name, "right" if p.side.right else "left") for p in forms.values())


def blocked(dtype, size=256, tile=64, depth=128):
    """A product of square matrices, block by block, looped over k."""
    wide = pl.INT32 if dtype is pl.INT8 else pl.FP32
    Matrix, Result = pl.Tensor[[size, size], dtype], pl.Tensor[[size, size], wide]

    @pl.jit
    def blocked(a: Matrix, b: Matrix, out: pl.Out[Result]):
        for i in pl.parallel(0, size, tile):
            for j in pl.parallel(0, size, tile):
                acc = pl.create_tensor([tile, tile], dtype=wide)
                with pl.at(level=pl.Level.CORE_GROUP):
                    for k in pl.range(0, size, depth):
                        if k == 0:
                            acc = pl.matmul(a[i : i + tile, k : k + depth], b[k : k + depth, j : j + tile], out_dtype=wide)
                        else:
                            acc = pl.matmul_acc(acc, a[i : i + tile, k : k + depth], b[k : k + depth, j : j + tile])
                    out[i : i + tile, j : j + tile] = acc

    return blocked


@needs_tiles
@pytest.mark.parametrize("name", ["BF16", "INT8"])
def test_both_operands_of_a_blocked_product_are_packed_once(name):
    assert plans(blocked(DTYPES[name][0])) == [("a", "left"), ("b", "right")]


@pytest.mark.parametrize("name", ["FP32", "FP16"])
def test_dtypes_without_tile_instructions_are_packed_where_they_are_used(name):
    assert plans(blocked(DTYPES[name][0])) == []


@pytest.mark.parametrize("name", DTYPES)
def test_a_blocked_product_has_the_bits_of_the_reference(name):
    dtype, storage = DTYPES[name]
    agree(blocked(dtype), numbers((256, 256), storage), numbers((256, 256), storage, 1))


@pytest.mark.parametrize("target", ["AVX2", "SSE4.2"])
def test_a_lesser_cpu_has_no_packed_forms(target):
    with pypto.override(platform="cpu"):
        program = blocked(pl.BF16).lower()
    assert "%shared" not in compile_program(program.orchestration, program.bodies, TARGETS[target]).text


@needs_tiles
def test_what_every_block_uses_once_is_not_packed_beforehand():
    """One block of columns: the right operand is loaded by every block of rows, the left one only once."""

    @pl.jit
    def narrow(a: pl.Tensor[[256, 128], pl.BF16], b: pl.Tensor[[128, 64], pl.BF16], out: pl.Out[pl.Tensor[[256, 64], pl.FP32]]):
        for i in pl.parallel(0, 256, 64):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[i : i + 64, :] = pl.matmul(a[i : i + 64, :], b[:])

    assert plans(narrow) == [("b", "right")]
    agree(narrow, numbers((256, 128), BF16), numbers((128, 64), BF16, 1))


@needs_tiles
def test_an_operand_that_the_launch_writes_is_packed_by_every_block():
    """Each block reads its own columns of `b`, and then changes them."""
    Matrix = pl.Tensor[[64, 256], pl.BF16]

    @pl.jit
    def changing(a: pl.Tensor[[128, 64], pl.BF16], b: pl.InOut[Matrix], out: pl.Out[pl.Tensor[[128, 256], pl.FP32]]):
        for j in pl.parallel(0, 256, 64):
            for i in pl.range(0, 128, 64):
                with pl.at(level=pl.Level.CORE_GROUP):
                    out[i : i + 64, j : j + 64] = pl.matmul(a[i : i + 64, :], b[:, j : j + 64])
                    b[:, j : j + 64] = pl.adds(b[:, j : j + 64], 1.0)

    assert plans(changing) == []
    agree(changing, numbers((128, 64), BF16), numbers((64, 256), BF16, 1))


@needs_tiles
def test_an_operand_made_by_an_earlier_launch_is_packed_before_the_one_that_reads_it():
    @pl.jit
    def two_launches(x: pl.Tensor[[128, 128], pl.FP32], w: pl.Tensor[[128, 128], pl.BF16], out: pl.Out[pl.Tensor[[128, 128], pl.FP32]]):
        h = pl.create_tensor([128, 128], dtype=pl.BF16)
        for r in pl.parallel(0, 128, 32):
            with pl.at(level=pl.Level.CORE_GROUP):
                h[r : r + 32, :] = pl.cast(pl.muls(x[r : r + 32, :], 0.5), pl.BF16, mode="rint")
        for i in pl.parallel(0, 128, 32):
            for j in pl.parallel(0, 128, 32):
                with pl.at(level=pl.Level.CORE_GROUP):
                    out[i : i + 32, j : j + 32] = pl.matmul(w[i : i + 32, :], h[:, j : j + 32])

    assert plans(two_launches) == [("h", "right")]
    agree(two_launches, numbers((128, 128), F32), numbers((128, 128), BF16, 1))


@needs_tiles
def test_a_loop_around_launches_that_change_an_operand_packs_it_again_in_every_turn():
    @pl.jit
    def layers(w: pl.Tensor[[64, 64], pl.BF16], h: pl.InOut[pl.Tensor[[64, 128], pl.BF16]]):
        for _ in pl.range(3):
            t = pl.create_tensor([64, 128], dtype=pl.FP32)
            for i in pl.parallel(0, 64, 32):
                for j in pl.parallel(0, 128, 32):
                    with pl.at(level=pl.Level.CORE_GROUP):
                        t[i : i + 32, j : j + 32] = pl.matmul(w[i : i + 32, :], h[:, j : j + 32])
            for r in pl.parallel(0, 64, 32):
                with pl.at(level=pl.Level.CORE_GROUP):
                    h[r : r + 32, :] = pl.cast(pl.muls(t[r : r + 32, :], 0.125), pl.BF16, mode="rint")

    assert plans(layers) == [("h", "right")]
    agree(layers, numbers((64, 64), BF16), numbers((64, 128), BF16, 1))


@needs_tiles
def test_a_stack_of_transposed_matrices_is_packed_matrix_by_matrix():
    @pl.jit
    def scores(q: pl.Tensor[[3, 128, 64], pl.BF16], k: pl.Tensor[[3, 128, 64], pl.BF16], out: pl.Out[pl.Tensor[[3, 128, 128], pl.FP32]]):
        for h in pl.parallel(3):
            for i in pl.parallel(0, 128, 32):
                with pl.at(level=pl.Level.CORE_GROUP):
                    t = q[h, i : i + 32, :]
                    for s in pl.range(0, 128, 32):
                        out[h, i : i + 32, s : s + 32] = pl.matmul(t, k[h, s : s + 32, :], b_trans=True)

    assert plans(scores) == [("k", "right")]
    agree(scores, numbers((3, 128, 64), BF16), numbers((3, 128, 64), BF16, 1))


@needs_tiles
def test_blocks_of_an_spmd_launch_share_as_well():
    @pl.jit
    def dispatched(a: pl.Tensor[[128, 64], pl.INT8], b: pl.Tensor[[64, 64], pl.INT8], out: pl.Out[pl.Tensor[[128, 64], pl.INT32]]):
        for n in pl.spmd(4):
            out[n * 32 : n * 32 + 32, :] = pl.matmul(a[n * 32 : n * 32 + 32, :], b[:], out_dtype=pl.INT32)

    assert plans(dispatched) == [("b", "right")]
    agree(dispatched, numbers((128, 64), I8), numbers((64, 64), I8, 1))


@needs_tiles
@pytest.mark.parametrize(
    ("size", "tile", "depth"), [(192, 32, 48), (96, 48, 32), (128, 64, 128)], ids=["odd depth", "odd tiles", "one turn"]
)
def test_tiles_of_any_size_have_the_bits_of_the_reference(size, tile, depth):
    agree(blocked(pl.BF16, size, tile, depth), numbers((size, size), BF16), numbers((size, size), BF16, 1))


@needs_tiles
def test_an_accumulator_that_comes_with_a_value_is_kept():
    Matrix = pl.Tensor[[128, 128], pl.FP32]

    @pl.jit
    def onto(a: pl.Tensor[[128, 64], pl.BF16], b: pl.Tensor[[64, 128], pl.BF16], c: Matrix, out: pl.Out[Matrix]):
        for i in pl.parallel(0, 128, 32):
            for j in pl.parallel(0, 128, 32):
                with pl.at(level=pl.Level.CORE_GROUP):
                    acc = c[i : i + 32, j : j + 32]
                    out[i : i + 32, j : j + 32] = pl.matmul_acc(acc, a[i : i + 32, :], b[:, j : j + 32])

    assert plans(onto) == [("b", "right")]
    agree(onto, numbers((128, 64), BF16), numbers((64, 128), BF16, 1), numbers((128, 128), F32, 2))


@needs_tiles
def test_the_memory_for_packed_forms_is_bounded(monkeypatch):
    """Room for one of both: the other is packed by every block."""
    monkeypatch.setattr(sharing, "_MOST", 256 * 256 * 2)
    assert len(plans(blocked(pl.BF16))) == 1
    agree(blocked(pl.BF16), numbers((256, 256), BF16), numbers((256, 256), BF16, 1))


@needs_tiles
def test_a_bias_is_added_to_a_product_with_a_packed_operand():
    @pl.jit
    def biased(
        a: pl.Tensor[[128, 64], pl.BF16],
        b: pl.Tensor[[64, 64], pl.BF16],
        c: pl.Tensor[[1, 64], pl.FP32],
        out: pl.Out[pl.Tensor[[128, 64], pl.FP32]],
    ):
        for i in pl.parallel(0, 128, 32):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[i : i + 32, :] = pl.matmul_bias(a[i : i + 32, :], b[:], c[:])

    assert plans(biased) == [("b", "right")]
    agree(biased, numbers((128, 64), BF16), numbers((64, 64), BF16, 1), numbers((1, 64), F32, 2))
