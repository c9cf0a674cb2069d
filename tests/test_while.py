"""Loops that are left early: `while`, `pl.while_`, `break`, `continue`, `else`; and branches that yield."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError
from tests.both import same
from tests.refusals import refused
from tests.ways import every_way

One = pl.Tensor[[1], pl.INT32]
Four = pl.Tensor[[4], pl.INT32]
M = pl.Tensor[[4, 8], pl.FP32]
Row = pl.Tensor[[1, 8], pl.FP32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)
NUMBERS = np.array([1, -2, 3, 4], np.int32)


@pl.jit
def natural(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        power, turns = 1, 0
        while power < n:
            power = power * 2
            turns += 1
        out[0] = turns


@pl.jit
def explicit(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for power, turns in pl.while_(init_values=(1, 0)):
            pl.cond(power < n)
            _, count = pl.yield_(power * 2, turns + 1)
        out[0] = count


@pl.jit
def rebound(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        turns = 0
        for (power,) in pl.while_(init_values=(1,)):
            pl.cond(power < n)
            power = power * 2
            turns = turns + 1
        out[0] = turns


@pytest.mark.parametrize("kernel", [natural, explicit, rebound], ids=lambda k: k.__name__)
@pytest.mark.parametrize(("n", "turns"), [(100, 7), (64, 6), (1, 0), (-5, 0)])
def test_a_while_loop_runs_until_its_condition_is_false(kernel, n, turns):
    assert every_way(kernel, n).tolist() == [turns]


@pytest.mark.parametrize("kernel", [natural, explicit, rebound], ids=lambda k: k.__name__)
def test_a_while_loop_is_compiled(kernel):
    assert same(kernel, lambda: (100,)) and same(kernel, lambda: (0,))
    assert kernel.lower().compiled.executor == "cpu"


def test_the_loop_is_one_equation_that_says_it_may_be_left():
    loops = [e for e in natural.trace().walk() if e.op.name == "loop"]
    assert [(e.params["kind"], e.params["exits"]) for e in loops] == [("while", True)]
    assert "while the first is true" in str(natural.trace())


@pl.jit
def in_orchestration(x: Row, n: pl.Scalar[pl.INT32], out: pl.Out[Row]):
    current, turns = x, 0
    while turns < n:
        following = pl.create_tensor([1, 8], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            following[:] = pl.adds(current, 1.0)
        current = following
        turns = turns + 1
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = current


def test_a_while_loop_stands_in_orchestration_too():
    assert (every_way(in_orchestration, X[:1], 3) == X[:1] + 3).all()
    assert (every_way(in_orchestration, X[:1], 0) == X[:1]).all()


def counting(loop, ends_with=None):
    @pl.jit
    def until(x: Four, limit: pl.Scalar[pl.INT32], out: pl.Out[One]):
        with pl.at(level=pl.Level.CORE_GROUP):
            total = 0
            for i in loop:
                value = pl.read(x, [i])
                if value < 0:
                    continue
                if value > limit:
                    break
                total = total + value
            else:
                total = total + 1000
            out[0] = total

    return until


LOOPS = [pl.range(4), pl.unroll(4), pl.range(0, 4, 1)]


@pytest.mark.parametrize("loop", LOOPS, ids=str)
@pytest.mark.parametrize(("limit", "total"), [(10, 1008), (3, 4), (2, 1), (0, 0)])
def test_break_leaves_a_loop_and_continue_a_turn(loop, limit, total):
    assert every_way(counting(loop), NUMBERS, limit).tolist() == [total]


@pytest.mark.parametrize("loop", LOOPS, ids=str)
def test_a_loop_that_is_left_is_compiled(loop):
    assert all(same(counting(loop), lambda limit=limit: (NUMBERS, limit)) for limit in (10, 2))


@pl.jit
def decided_in_python(x: Four, out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = 0
        for i in pl.unroll(4):
            if i == 3:
                break
            total = total + pl.read(x, [i])
        out[0] = total


def test_a_break_that_python_decides_ends_an_unrolled_loop_while_tracing():
    assert every_way(decided_in_python, NUMBERS).tolist() == [2]
    assert [e.op.name for e in decided_in_python.trace().walk()].count("read") == 3


@pl.jit
def leaves_the_inner_loop(x: M, out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        found = 0
        for r in pl.range(4):
            for c in pl.range(8):
                if pl.read(x, [r, c]) >= 10.0:
                    found = found + 1
                    break
                if c == 5:
                    continue
                found = found + 0
            if r == 2:
                break
        out[0] = found


def test_break_leaves_the_loop_it_stands_in():
    assert every_way(leaves_the_inner_loop, X).tolist() == [2]


@pl.jit
def jumps_in_the_else_of_an_inner_loop(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = 0
        for i in pl.range(4):
            for j in pl.range(3):
                if j + i > n:
                    break
                total = total + 1
            else:
                if i > 1:
                    break
                else:
                    total = total + 10
                    continue
            total = total + 100
        out[0] = total


def the_same_in_python(n):
    total = 0
    for i in range(4):
        for j in range(3):
            if j + i > n:
                break
            total += 1
        else:
            if i > 1:
                break
            total += 10
            continue
        total += 100
    return total


@pytest.mark.parametrize("n", [0, 2, 3, 4, 5])
def test_jumps_in_the_else_of_a_loop_belong_to_the_loop_around_it(n):
    assert every_way(jumps_in_the_else_of_an_inner_loop, n).tolist() == [the_same_in_python(n)]


@pl.jit
def turns_of_blocks(x: M, out: pl.InOut[M]):
    for r in pl.spmd(4):
        if r == 2:
            continue
        out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)


@pl.jit
def turns_of_a_pipeline(x: M, out: pl.InOut[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.pipeline(4, stage=2):
            if r == 2:
                continue
            out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)


@pytest.mark.parametrize("kernel", [turns_of_blocks, turns_of_a_pipeline], ids=lambda k: k.__name__)
def test_continue_ends_a_turn_of_any_loop(kernel):
    want = X + 1
    want[2] = 0
    assert (every_way(kernel, X, np.zeros_like(X)) == want).all()


@pl.jit
def first_rows(x: M, n: pl.Scalar[pl.INT32], out: pl.Out[Row]):
    with pl.at(level=pl.Level.CORE_GROUP):
        zero = pl.full([1, 8], dtype=pl.FP32, value=0.0)
        for r, (acc,) in pl.range(4, init_values=(zero,)):
            if r == n:
                break
            acc = pl.add(acc, x[r : r + 1, :])
        out[:] = acc


@pl.jit
def first_rows_yielded(x: M, n: pl.Scalar[pl.INT32], out: pl.Out[Row]):
    with pl.at(level=pl.Level.CORE_GROUP):
        zero = pl.full([1, 8], dtype=pl.FP32, value=0.0)
        for r, (acc,) in pl.range(4, init_values=(zero,)):
            if r == n:
                break
            total = pl.yield_(pl.add(acc, x[r : r + 1, :]))
        out[:] = total


@pytest.mark.parametrize("kernel", [first_rows, first_rows_yielded], ids=lambda k: k.__name__)
@pytest.mark.parametrize("n", [0, 2, 9])
def test_what_a_loop_carries_is_what_it_was_when_it_was_left(kernel, n):
    assert (every_way(kernel, X, n) == X[: min(n, 4)].sum(0, keepdims=True)).all()


# Branches that yield.


@pl.jit
def yields_in_both_arms(x: M, out: pl.Out[Row]):
    with pl.at(level=pl.Level.CORE_GROUP):
        init = pl.full([1, 8], dtype=pl.FP32, value=0.0)
        for r, (previous,) in pl.range(4, init_values=(init,)):
            row = x[r : r + 1, :]
            if r == 0:
                result = pl.yield_(row)
            else:
                result = pl.yield_(pl.add(previous, row))
            total = pl.yield_(result)
        out[:] = total


@pl.jit
def yields_two(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if n > 0:
            a, b = pl.yield_(n, 2)
        else:
            a, b = pl.yield_(1, n)
        out[0] = a * 10 + b


@pl.jit
def yields_in_one_arm(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = 0
        if n > 0:  # refused
            a = pl.yield_(n)
        out[0] = a


def test_both_arms_of_a_branch_yield_its_results():
    assert (every_way(yields_in_both_arms, X) == X.sum(0, keepdims=True)).all()
    assert every_way(yields_two, 3).tolist() == [32] and every_way(yields_two, -3).tolist() == [7]


def test_a_branch_that_yields_in_one_arm_only_is_refused():
    refused("PL102", yields_in_one_arm.trace, at="n > 0")


def test_a_loop_of_a_kernel_stands_in_a_kernel():
    with pytest.raises(PyptoError) as caught:
        for _ in pl.while_(init_values=(0,)):
            pass
    assert caught.value.code == "PL112"


# Conditional expressions.


@pl.jit
def chooses(x: Row, n: pl.Scalar[pl.INT32], out: pl.Out[Row]):
    with pl.at(level=pl.Level.CORE_GROUP):
        by = 2.0 if n > 1 else 3.0 if n == 1 else 4.0
        t = x[:] if n > 1 else pl.neg(x[:])
        out[:] = pl.muls(t, by)


@pytest.mark.parametrize(("n", "by"), [(2, 2), (1, -3), (0, -4)])
def test_a_conditional_expression_takes_one_side_at_run_time(n, by):
    assert (every_way(chooses, X[:1], n) == X[:1] * by).all()
