"""Workers: the end of tensors, registrations and workers, and threads."""

import gc
import resource
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig
from tests.kernels import runs
from tests.refusals import sevens
from tests.run_inputs import bits, normal

STATM = Path("/proc/self/statm")
X, Y = normal(8, 16), normal(8, 16, seed=1)
SUM = runs.scaled_sum.compile(s=1.0)
CPU = RunConfig(check=False, executor="cpu")


def refused(code, call, *args, **kwargs):
    with pytest.raises(CallError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return caught.value


def want(a, b, s=1.0):
    return runs.scaled_sum(a, b, s)


# The end of things


def test_use_after_free_and_a_second_free_are_errors():
    with ChipWorker() as w:
        t = w.alloc_tensor((8, 16), pl.FP32, init=X)
        w.free_tensor(t)
        refused("PL609", w.free_tensor, t)
        refused("PL609", w.run, SUM, t, Y)
        refused("PL609", t.numpy)
        refused("PL609", lambda: t.data_ptr)
        assert "freed" in repr(t)


def test_a_tensor_of_another_worker_is_refused():
    with ChipWorker() as w, ChipWorker() as other:
        t = other.alloc_tensor((8, 16), pl.FP32, init=X)
        refused("PL609", w.run, SUM, t, Y)
        refused("PL609", w.free_tensor, t)
        assert np.array_equal(t.numpy(), X)


def test_a_closed_worker_takes_no_work_and_may_be_closed_again():
    w = ChipWorker()
    t = w.alloc_tensor((8, 16), pl.FP32, init=X)
    w.close()
    w.close()
    for call in (lambda: w.run(SUM, X, Y), lambda: w.register(SUM), lambda: w.alloc_tensor((8, 16), pl.FP32), t.numpy, w.__enter__):
        refused("PL609", call)


def test_a_worker_left_open_with_tensors_warns_when_it_is_collected():
    w = ChipWorker()
    w.alloc_tensor((8, 16), pl.FP32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del w
        gc.collect()
    assert [c.category for c in caught] == [ResourceWarning]


def test_a_worker_left_open_without_tensors_goes_quietly():
    w = ChipWorker()
    assert bits(w.run(SUM, X, Y)) == bits(want(X, Y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del w
        gc.collect()


# Threads


def in_threads(count, work):
    """Run `work(number)` in that many threads at once; what each returned or raised."""
    found, start = [None] * count, threading.Barrier(count)

    def run(number):
        start.wait()
        try:
            found[number] = work(number)
        except CallError as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    return found


@pytest.mark.parametrize("config", [RunConfig(), CPU], ids=["reference", "cpu"])
def test_four_threads_get_their_own_right_results(config):
    inputs = [(normal(8, 16, seed=n), normal(8, 16, seed=n + 10), float(n)) for n in range(4)]
    with ChipWorker(config=config) as w:
        handle = w.register(SUM)
        found = in_threads(4, lambda n: [bits(handle(*inputs[n])) for _ in range(25)])
    assert found == [[bits(want(*inputs[n]))] * 25 for n in range(4)]


def test_four_threads_that_compile_and_run_the_same_kernel_get_right_results():
    @pl.jit
    def tripled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.muls(x, 3.0)

    def work(number):
        found = []
        for rows in (8, 16, 24):
            x = normal(rows, 16, seed=number)
            compiled = tripled.compile(x, x)
            found.append(np.array_equal(compiled(x, sevens(rows, 16), config=CPU), x * np.float32(3)))
        return found

    assert in_threads(4, work) == [[True] * 3] * 4


def test_four_threads_that_add_to_one_resident_tensor_lose_no_update():
    @pl.jit
    def add_one(total: pl.InOut[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            total[:] = pl.adds(total, 1.0)

    with ChipWorker(config=CPU) as w:
        handle, total = w.register(add_one.compile()), w.alloc_tensor((8, 16), pl.FP32)
        in_threads(4, lambda n: [handle(total) for _ in range(25)])
        assert (total.numpy() == 100).all()


def test_a_worker_closed_while_busy_gives_right_results_or_an_error():
    w = ChipWorker(config=CPU)
    handle = w.register(SUM)

    def work(number):
        if number == 3:
            w.close()
            return "closed"
        right = 0
        for _ in range(2000):
            assert bits(handle(X, Y)) == EXPECTED
            right += 1
        return right

    found = in_threads(4, work)
    assert found[3] == "closed"
    assert all(f == 2000 or (isinstance(f, CallError) and f.code == "PL609") for f in found[:3]), found


EXPECTED = bits(want(X, Y))


def resident_kib():
    """Memory of this process now; where the system does not say, its peak so far."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * resource.getpagesize() // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_rounds_of_register_run_and_close_keep_the_memory_flat():
    def rounds(count):
        for _ in range(count):
            with ChipWorker(config=CPU) as w:
                t = w.alloc_tensor((64, 1024), pl.FP32)  # 256 KiB, so that a leak of tensors shows at once
                w.register(SUM)(X, Y)
                del t

    rounds(100)
    gc.collect()
    before = resident_kib()
    rounds(600)
    gc.collect()
    grown = resident_kib() - before
    assert grown < 8 * 1024, f"{grown} KiB more after 600 rounds, in which 150 MiB were allocated"


def test_no_tensor_or_worker_outlives_its_last_name():
    def live():
        gc.collect()
        return sum(type(o) in (DeviceTensor, ChipWorker) for o in gc.get_objects())  # isinstance would ask the objects

    before = live()
    for _ in range(5):
        with ChipWorker() as w:
            w.alloc_tensor((8, 16), pl.FP32)
            w.register(SUM)(X, Y)
    del w
    assert live() == before
