"""Reported faults about carried names (cases C07, C08, C64-C66): told apart by what they are, typed by what they hold."""

from pathlib import Path

import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import f32, sevens, untouched

V2, V4, V8, V16 = (pl.Tensor[[n], pl.FP32] for n in (2, 4, 8, 16))

# C07: carried outputs are told apart by what they are, not by their order.


@pl.jit.inline
def fills_both(x: pl.Tensor, b: pl.Tensor, a: pl.Tensor):
    for i in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            b[:] = x + 1.0
            a[:] = pl.cast(x, pl.INT32, mode="rint")
    return b, a


@pl.jit
def fills_two_outputs_in_a_loop(x: V4, b: pl.Out[V4], a: pl.Out[pl.Tensor[[4], pl.INT32]]):
    b, a = fills_both(x, b, a)
    return a, b


@pl.jit
def carries_two_outputs(x: V4, b: pl.Out[V4], a: pl.Out[pl.Tensor[[4], pl.INT32]]):
    for i, (p, q) in pl.range(2, init_values=(b, a)):
        with pl.at(level=pl.Level.CORE_GROUP):
            p = pl.assemble(p, x + 1.0, [0])
            q = pl.assemble(q, pl.cast(x, pl.INT32, mode="rint"), [0])
        p, q = pl.yield_(p, q)


@pytest.mark.parametrize("kernel", [fills_two_outputs_in_a_loop, carries_two_outputs])
def test_two_outputs_written_in_a_loop_are_not_exchanged(kernel):  # C07
    b, a = sevens(4), sevens(4, dtype=np.int32)
    kernel(f32(0.5, 1.5, 2.5, -0.5), b, a)
    assert b.tolist() == [1.5, 2.5, 3.5, 0.5]
    assert a.tolist() == [0, 2, 2, 0]


@pl.jit
def swaps_tiles(x: V2, y: V2, p_out: pl.Out[V2], q_out: pl.Out[V2], n: pl.Scalar[pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        p, q = x * 1.0, y * 1.0
        for i in pl.range(n):
            (p, q) = (q, p)
        p_out[:] = p
        q_out[:] = q


@pl.jit
def swaps_views(x: V2, y: V2, p_out: pl.Out[V2], q_out: pl.Out[V2], n: pl.Scalar[pl.INT32]):
    p, q = x, y
    for i in pl.range(n):
        (p, q) = (q, p)
    with pl.at(level=pl.Level.CORE_GROUP):
        p_out[:] = p
        q_out[:] = q


@pl.jit
def swaps_views_it_writes_through(x: V2, y: V2, p_out: pl.Out[V2], q_out: pl.Out[V2], n: pl.Scalar[pl.INT32]):
    p, q = p_out, q_out
    for i in pl.range(n):
        (p, q) = (q, p)
    with pl.at(level=pl.Level.CORE_GROUP):
        p[:] = x
        q[:] = y


@pl.jit
def swaps_scalars(x: V2, y: V2, p_out: pl.Out[V2], q_out: pl.Out[V2], n: pl.Scalar[pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b, c, d = x[0], x[1], y[0], y[1]
        for i in pl.range(n):
            a, b, c, d = c, d, a, b
        p_out[0], p_out[1] = a, b
        q_out[0], q_out[1] = c, d


@pl.jit
def swaps_by_yield(x: V2, y: V2, p_out: pl.Out[V2], q_out: pl.Out[V2], n: pl.Scalar[pl.INT32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i, (p, q) in pl.range(n, init_values=(x * 1.0, y * 1.0)):
            p, q = pl.yield_(q, p)
        p_out[:] = p
        q_out[:] = q


@pytest.mark.parametrize("n", [0, 1, 3, 4])
@pytest.mark.parametrize("kernel", [swaps_tiles, swaps_views, swaps_views_it_writes_through, swaps_scalars, swaps_by_yield])
def test_names_exchanged_in_a_loop_are_exchanged_at_once(kernel, n):  # C07
    p, q = kernel(f32(1, 2), f32(3, 4), n=n)
    expected = ([1, 2], [3, 4]) if n % 2 == 0 else ([3, 4], [1, 2])
    assert (p.tolist(), q.tolist()) == expected


# C08: three carries of different shapes.


@pl.jit
def carries_three_tiles(a_out: pl.Out[V4], b_out: pl.Out[V8], c_out: pl.Out[V16]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.full([4], dtype=pl.FP32, value=0)
        b = pl.full([8], dtype=pl.FP32, value=0)
        c = pl.full([16], dtype=pl.FP32, value=0)
        for i in pl.range(4):
            c = c + 100.0
            a = a + 1.0
            b = b + 10.0
        b_out[:] = b
        a_out[:] = a
        c_out[:] = c


@pl.jit
def carries_three_buffers(a_out: pl.Out[V4], b_out: pl.Out[V8], c_out: pl.Out[V16]):
    a = pl.create_tensor([4], dtype=pl.FP32, init_value=0)
    b = pl.create_tensor([8], dtype=pl.FP32, init_value=0)
    c = pl.create_tensor([16], dtype=pl.FP32, init_value=0)
    for i in pl.range(4):
        c_next = pl.create_tensor([16], dtype=pl.FP32)
        a_next = pl.create_tensor([4], dtype=pl.FP32)
        b_next = pl.create_tensor([8], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            b_next[:] = b + 10.0
            c_next[:] = c + 100.0
            a_next[:] = a + 1.0
        b, c, a = b_next, c_next, a_next
    with pl.at(level=pl.Level.CORE_GROUP):
        a_out[:] = a
        b_out[:] = b
        c_out[:] = c


@pl.jit
def carries_three_values_out_of_regions(a_out: pl.Out[V4], b_out: pl.Out[V8], c_out: pl.Out[V16]):
    a = pl.create_tensor([4], dtype=pl.FP32, init_value=0)
    b = pl.create_tensor([8], dtype=pl.FP32, init_value=0)
    c = pl.create_tensor([16], dtype=pl.FP32, init_value=0)
    for i, (p, q, r) in pl.range(4, init_values=(a, b, c)):
        with pl.at(level=pl.Level.CORE_GROUP):
            r = r + 100.0
            p = p + 1.0
            q = q + 10.0
    with pl.at(level=pl.Level.CORE_GROUP):
        a_out[:] = p
        b_out[:] = q
        c_out[:] = r


@pytest.mark.parametrize("kernel", [carries_three_tiles, carries_three_buffers, carries_three_values_out_of_regions])
def test_three_carries_of_different_shapes_stay_apart(kernel):  # C08
    a, b, c = kernel()
    assert (a.tolist(), b.tolist(), c.tolist()) == ([4] * 4, [40] * 8, [400] * 16)


# C64: a scalar carry that starts from a number.


@pl.jit
def largest_annotated(n: pl.Tensor[[4], pl.INT64], out: pl.Out[pl.Tensor[[1], pl.INT64]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc: pl.Scalar[pl.INT64] = 0
        for b in pl.range(4):
            acc = pl.max(acc, n[b])
        out[0] = acc


@pl.jit
def largest_of_narrower_integers(n: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[1], pl.INT64]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc: pl.Scalar[pl.INT64] = 0
        for b in pl.range(4):
            acc = pl.max(acc, n[b])
        out[0] = acc


@pl.jit
def largest_from_a_plain_number(n: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[1], pl.INT32]]):
    acc = 0
    for b in pl.range(4):
        acc = pl.max(acc, n[b])
    out[0] = acc


@pl.jit
def largest_float(n: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[1], pl.FP32]]):
    acc = 0.0
    for b in pl.range(4):
        acc = pl.max(acc, n[b])
    out[0] = acc


@pl.jit
def overflows_its_annotation(n: pl.Tensor[[2], pl.INT32], wide: pl.Out[pl.Tensor[[1], pl.INT64]], narrow: pl.Out[pl.Tensor[[1], pl.INT32]]):
    a: pl.Scalar[pl.INT64] = 0
    b: pl.Scalar[pl.INT32] = 0
    for i in pl.range(2):
        a = a + n[i]
        b = b + n[i]
    wide[0] = a
    narrow[0] = b


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        (largest_annotated, np.int64),
        (largest_of_narrower_integers, np.int32),
        (largest_from_a_plain_number, np.int32),
        (largest_float, np.float32),
    ],
)
def test_a_scalar_carry_that_starts_from_a_number_is_carried(kernel, dtype):  # C64
    n = np.array([3, 9, 2, 5], dtype)
    assert kernel(n).tolist() == [9]
    assert kernel.eager(n).tolist() == [9]


def test_the_annotated_dtype_of_a_carry_is_kept():  # C64
    wide, narrow = overflows_its_annotation(np.array([2**31 - 1, 1], np.int32))
    assert (wide.tolist(), narrow.tolist()) == ([2**31], [-(2**31)])


# C65: a name used again is not a carry unless its value is.


@pl.jit
def uses_names_twice(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = 0.0
        for i in pl.range(2):
            t = x[:, i : i + 1]
            s = s + pl.read(t, [0, 0])
        for i in pl.range(2):
            t = x[:, 2 * i : 2 * i + 2]
            s = s + pl.read(t, [0, 1])
        out[0, 0] = s
        if s > 0.0:
            t = x[:, 0:2]
            out[0:1, 1:2] = pl.row_sum(t)
        else:
            t = x[:, 0:3]
            out[0:1, 1:2] = pl.row_sum(t)


@pl.jit
def peels_the_first_step(a: pl.Tensor[[1, 5], pl.FP32], b: pl.Tensor[[5, 1], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left, right = a[:, 0:2], b[0:2, :]
        acc = pl.matmul(left, right)
        for k in pl.range(1, 2):
            left, right = a[:, 2 * k : 2 * k + 2], b[2 * k : 2 * k + 2, :]
            acc = pl.matmul_acc(acc, left, right)
        left, right = a[:, 4:5], b[4:5, :]
        acc = pl.matmul_acc(acc, left, right)
        out[:] = acc


@pl.jit
def changes_the_shape_of_a_carry(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:, 0:2]
        for i in pl.range(2):
            out[:] = t[:, 0:2]
            t = x[:, 0:3]  # refused


@pl.jit
def changes_the_dtype_of_a_carry(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:, 0:2]
        for i in pl.range(2):
            out[:] = t + 1.0
            t = pl.cast(t, pl.BF16)  # refused


def test_a_name_used_again_in_a_sibling_loop_or_branch_is_a_new_name():  # C65
    assert uses_names_twice(f32([[1, 2, 3, 4]])).tolist() == [[1 + 2 + 2 + 4, 3]]
    assert uses_names_twice(f32([[-1, -2, -3, -4]])).tolist() == [[-9, -6]]


def test_a_peeled_first_step_and_a_tail_of_another_width():  # C65
    assert peels_the_first_step(np.ones((1, 5), np.float32), np.ones((5, 1), np.float32)).tolist() == [[5]]


def test_another_shape_under_a_carried_name_is_refused():  # C65
    error = untouched("PL206", changes_the_shape_of_a_carry, f32([[1, 2, 3, 4]]), sevens(1, 2), at="x[:, 0:3]")
    assert "`t`" in error.message and "f32[1,2]" in error.message and "f32[1,3]" in error.message


def test_another_dtype_under_a_carried_name_is_refused():  # C65
    error = untouched("PL206", changes_the_dtype_of_a_carry, f32([[1, 2, 3, 4]]), sevens(1, 2), at="pl.cast(t, pl.BF16)")
    assert "`t`" in error.message and "f32[1,2]" in error.message and "bf16[1,2]" in error.message


# C66: a name may get a value of another type, except in a carry.


@pl.jit
def gives_a_name_another_type(x: pl.Tensor[[1, 3], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [1, 3])
        s = pl.row_sum(t)
        t = s
        out[:] = t


@pl.jit
def gives_a_name_every_type(x: pl.Tensor[[1, 3], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    t = x
    t = 3
    t = (x, t)
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.row_sum(t[0]) + t[1]
        t = pl.read(t, [0, 0])
        out[0, 0] = t


@pl.jit
def gives_a_carried_name_another_type(x: pl.Tensor[[1, 3], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [1, 3])  # where it entered
        for i in pl.range(2):
            s = pl.row_sum(t)
            out[:] = s
            t = pl.read(s, [0, 0])  # refused


def test_a_name_may_get_a_value_of_another_type():  # C66
    assert gives_a_name_another_type(f32([[1, 2, 3]])).tolist() == [[6]]
    assert gives_a_name_every_type(f32([[1, 2, 3]])).tolist() == [[9]]


def test_another_type_in_a_carry_is_refused_with_both_types_and_both_lines():  # C66
    error = untouched("PL206", gives_a_carried_name_another_type, f32([[1, 2, 3]]), sevens(1, 1), at="pl.read(s, [0, 0])")
    assert "`t`" in error.message and "f32[1,3]" in error.message
    lines = Path(__file__).read_text().splitlines()
    entered = next(n for n, line in enumerate(lines, 1) if line.endswith("[1, 3])  # where it entered"))
    assert f"{Path(__file__).name}:{entered}" in error.message
