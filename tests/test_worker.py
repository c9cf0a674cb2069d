"""Workers: registration and dispatch, resident tensors and their copies."""

import ctypes
import tracemalloc
import weakref

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import CallError, OutputError
from pypto.runtime import ChipWorker, RunConfig
from tests.kernels import runs
from tests.refusals import sevens
from tests.run_inputs import THREE, arguments, bits, normal

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


# Dispatch


@pytest.mark.parametrize("kernel", THREE, ids=lambda k: k.__name__)
@pytest.mark.parametrize("config", [RunConfig(), CPU], ids=["reference", "cpu"])
def test_a_worker_gives_the_bits_of_a_call(kernel, config):
    with ChipWorker(config=config) as w:
        compiled = kernel.compile()
        assert bits(w.run(compiled, **arguments(kernel))) == bits(kernel(**arguments(kernel)))
        assert bits(w.register(compiled)(**arguments(kernel))) == bits(kernel(**arguments(kernel)))


def test_a_call_inside_the_block_runs_on_that_worker():
    with ChipWorker() as outer:
        assert ChipWorker.current() is outer
        with ChipWorker() as inner:
            assert ChipWorker.current() is inner
            t = inner.alloc_tensor((8, 16), pl.FP32, init=X)
            assert bits(SUM(t, Y)) == bits(want(X, Y))
        assert ChipWorker.current() is outer and not inner.initialized
    assert ChipWorker.current() is None


def test_a_program_of_another_platform_is_refused_naming_both():
    with ChipWorker(platform="a5sim") as w:
        for call in (lambda: w.register(SUM), lambda: w.run(SUM, X, Y), lambda: SUM(X, Y)):
            error = refused("PL610", call)
            assert "a2a3sim" in error.message and "a5sim" in error.message


def test_what_is_not_compiled_is_refused():
    with ChipWorker() as w:
        assert "compile" in refused("PL601", w.run, runs.scaled_sum, X, Y).fix


def test_a_failed_dispatch_leaves_arrays_tensors_and_worker_as_they_were():
    @pl.jit
    def reads_at(x: pl.Tensor[[8, 16], pl.FP32], i: pl.Scalar[pl.INT32], out: pl.InOut[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:4] = x[0:4]
            pl.write(out, [7, 0], pl.read(x, [i, 0]))

    compiled = reads_at.compile()
    with ChipWorker() as w:
        t, out = w.alloc_tensor((8, 16), pl.FP32, init=X), sevens(8, 16)
        for config in (RunConfig(), CPU):
            with pytest.raises(pypto.PyptoError) as caught:
                w.run(compiled, Y, 8, t, config=config)
            assert caught.value.code == "PL303"
            with pytest.raises(pypto.PyptoError) as caught:
                w.run(compiled, Y, 8, out, config=config)
            assert caught.value.code == "PL303"
        assert np.array_equal(t.numpy(), X) and (out == -7).all()
        w.run(compiled, Y, 7, t)
        assert np.array_equal(t.numpy()[:4], Y[:4])


def test_a_worker_is_made_from_a_config_or_its_fields_but_not_from_both():
    with ChipWorker(platform="a5sim", device_id=2) as w:
        assert (w.platform, w.device_id) == ("a5sim", 2)
    refused("PL606", ChipWorker, RunConfig(), platform="a5sim")
    refused("PL601", ChipWorker, "a5sim")
    refused("PL606", ChipWorker, platform="a6")


# Registration


def test_a_registration_ends_with_unregister_its_block_or_its_worker():
    with ChipWorker() as w:
        first, second = w.register(SUM), w.register(SUM)
        with second:
            assert bits(second(X, Y)) == bits(want(X, Y))
        refused("PL609", second, X, Y)
        assert not first.closed and bits(first(X, Y)) == bits(want(X, Y))
        first.unregister()
        first.unregister()
        refused("PL609", first, X, Y)
        third = w.register(SUM)
    assert third.closed
    refused("PL609", third, X, Y)


# Resident tensors


def test_a_resident_input_is_used_where_it_is_and_results_come_back():
    with ChipWorker() as w:
        t = w.alloc_tensor((8, 16), pl.FP32, init=X)
        for seed in range(3):
            batch = normal(8, 16, seed=seed)
            out = sevens(8, 16)
            w.run(SUM, batch, t, 1.0, out)
            assert bits(out) == bits(want(batch, X))
        assert np.array_equal(t.numpy(), X)


def test_a_resident_output_stays_on_the_device():
    with ChipWorker() as w:
        t = w.alloc_tensor([8, 16], "FP32")
        assert (t.numpy() == 0).all()
        assert w.run(SUM, X, Y, out=t) is t
        assert bits(t.numpy()) == bits(want(X, Y))


def test_a_cache_keeps_what_one_program_writes_for_the_next():
    with ChipWorker() as w:
        total = w.alloc_tensor((16, 32), pl.FP32, init=normal(16, 32, seed=3))
        compiled, given = runs.product_and_bias.compile(), arguments(runs.product_and_bias)
        on_host = given.pop("total")
        for _ in range(2):
            runs.product_and_bias(**given, total=on_host)
            w.run(compiled, **given, total=total)
        assert bits(total.numpy()) == bits(on_host)


@pytest.mark.parametrize("config", [RunConfig(), CPU], ids=["reference", "cpu"])
def test_undeclared_writes_reach_a_device_tensor_and_nothing_else(config):
    """Idiom R4: legal when the argument is a DeviceTensor."""
    with ChipWorker(config=config) as w:
        cache = w.alloc_tensor((32, 16), pl.FP32, init=normal(32, 16, seed=2))
        compiled = runs.updates_a_cache.compile(cache=cache)
        before, host = cache.numpy(), normal(32, 16, seed=2)
        (out,) = [w.run(compiled, X, cache)]
        assert np.array_equal(out, X + before[0:8])
        assert np.array_equal(cache.numpy()[8:16], X + before[0:8])
        assert np.array_equal(np.delete(cache.numpy(), slice(8, 16), 0), np.delete(before, slice(8, 16), 0))
        assert np.array_equal(w.run(compiled, X, host), out)
        assert np.array_equal(host, normal(32, 16, seed=2)), "an array of the host is an input, and nothing is copied back to it"


def test_undeclared_writes_are_refused_when_no_tensor_is_resident():
    with pytest.raises(OutputError) as caught:
        runs.updates_a_cache.compile()
    assert caught.value.code == "PL203" and "cache[8:16] = new" in caught.value.source.text


def test_undeclared_writes_to_another_parameter_than_the_resident_one_are_refused():
    with ChipWorker() as w, pytest.raises(OutputError) as caught:
        runs.updates_a_cache.compile(x=w.alloc_tensor((8, 16), pl.FP32))
    assert caught.value.code == "PL203" and "cache[8:16] = new" in caught.value.source.text


def test_a_run_that_cannot_fail_writes_resident_tensors_where_they_are():
    @pl.jit
    def add_one(total: pl.InOut[pl.Tensor[[512, 512], pl.FP32]]):
        for i in pl.range(8):
            with pl.at(level=pl.Level.CORE_GROUP):
                total[i * 64 : i * 64 + 64] = pl.adds(total[i * 64 : i * 64 + 64], 1.0)

    compiled = add_one.compile()
    with ChipWorker(config=CPU) as w:
        total = w.alloc_tensor((512, 512), pl.FP32)
        place = total.data_ptr
        w.run(compiled, total)
        tracemalloc.start()
        w.run(compiled, total)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (total.numpy() == 2).all() and total.data_ptr == place
    if not compiled.program.compiled.may_fail:
        assert peak < total.nbytes / 2, "nothing of the size of the tensor was allocated"


def test_one_tensor_as_input_and_output_is_refused():
    with ChipWorker() as w:
        t = w.alloc_tensor((8, 16), pl.FP32, init=X)
        refused("PL605", w.run, SUM, t, Y, out=t)
        assert np.array_equal(t.numpy(), X)


def test_a_resident_tensor_of_another_shape_or_dtype_is_refused():
    with ChipWorker() as w:
        refused("PL602", w.run, SUM, w.alloc_tensor((8, 32), pl.FP32), Y)
        refused("PL602", w.run, SUM, w.alloc_tensor((8, 16), pl.FP16), Y)
        refused("PL602", w.alloc_tensor, (8, -16), pl.FP32)
        refused("PL602", w.alloc_tensor, (8, 16), pl.FP32, init=X[:4])


def test_copies_go_both_ways_between_whole_tensors():
    with ChipWorker() as w:
        t = w.alloc_tensor((8, 16), pl.FP32)
        host = sevens(8, 16)
        t.copy_from(X)
        t.copy_to(host)
        assert np.array_equal(host, X)
        w.copy_to(t, Y)
        w.copy_from(host, t)
        assert np.array_equal(host, Y)
        refused("PL602", t.copy_from, X[:4])
        refused("PL602", t.copy_to, X.astype(np.float64))
        frozen = sevens(8, 16)
        frozen.flags.writeable = False
        refused("PL604", t.copy_to, frozen)


def test_copies_by_address_stay_inside_what_was_allocated():
    with ChipWorker() as w:
        t = w.alloc_tensor((8, 16), pl.FP32, init=X)
        host = sevens(8, 16)
        w.copy_from(host.ctypes.data, t.data_ptr, t.nbytes)
        assert np.array_equal(host, X)
        w.copy_from(host, t.data_ptr + 64, 64)
        assert np.array_equal(host[0], X[1])
        w.copy_to(t.data_ptr, Y.ctypes.data, t.nbytes)
        assert np.array_equal(t.numpy(), Y)
        block = w.malloc(64)
        w.copy_to(block, X, 64)
        w.copy_from(host, block, 64)
        assert np.array_equal(host[0], X[0])
        refused("PL602", w.copy_from, host, t.data_ptr, t.nbytes + 1)
        refused("PL602", w.copy_from, host[:1], t.data_ptr, t.nbytes)
        refused("PL609", w.copy_from, host, host.ctypes.data, 4)
        w.free(block)
        refused("PL609", w.free, block)
        refused("PL609", w.copy_from, host, block, 64)


def test_copies_by_address_write_what_can_be_written_only():
    with ChipWorker() as w:
        t = w.alloc_tensor((8, 16), pl.FP32, init=X)
        frozen = sevens(8, 16)
        frozen.flags.writeable = False
        for host in (frozen, [0.0] * 128):
            for device, nbytes in ((t.data_ptr, 64), (t, 64)):
                refused("PL604", w.copy_from, host, device, nbytes)
        assert np.array_equal(frozen, sevens(8, 16))


def test_a_number_of_bytes_is_kept_to_for_tensors_too_and_is_never_negative():
    with ChipWorker() as w:
        t = w.alloc_tensor((8, 16), pl.FP32, init=X)
        host = sevens(8, 16)
        w.copy_from(host, t, 64)
        assert np.array_equal(host[0], X[0]) and np.array_equal(host[1:], sevens(7, 16))
        w.copy_to(t, Y, 64)
        assert np.array_equal(t.numpy(), np.concatenate([Y[:1], X[1:]]))
        for nbytes in (-1, -64, 1.5, True):
            refused("PL602", w.copy_from, host, t.data_ptr, nbytes)
            refused("PL602", w.copy_to, t, Y, nbytes)
            refused("PL602", w.copy_to, t.data_ptr, Y.ctypes.data, nbytes)
            refused("PL602", w.malloc, nbytes)
        refused("PL602", w.copy_to, t, Y, t.nbytes + 1)


def test_a_list_is_alive_until_it_is_copied(monkeypatch):
    """Its array is made for the copy: nothing else holds it."""
    from pypto.runtime import worker

    kept, convert = [], worker.to_numpy

    def to_numpy(value):
        data = convert(value)
        kept.append(weakref.ref(data))
        return data

    class Move:
        memmove = staticmethod(lambda *to: (seen.append([r() is not None for r in kept]), ctypes.memmove(*to)))

    seen = []
    monkeypatch.setattr(worker, "to_numpy", to_numpy)
    monkeypatch.setattr(worker, "ctypes", Move)
    with ChipWorker() as w:
        block = w.malloc(64)
        w.copy_to(block, [float(n) for n in range(16)], 64)
        assert seen == [[True]]
        host = sevens(16)
        w.copy_from(host, block, 64)
        assert np.array_equal(host, np.arange(16, dtype=np.float32))


def test_copies_of_another_workers_tensor_are_refused():
    with ChipWorker() as w, ChipWorker() as other:
        t = other.alloc_tensor((8, 16), pl.FP32, init=X)
        refused("PL609", w.copy_to, t, Y)
        refused("PL609", w.copy_from, sevens(8, 16), t)
        assert np.array_equal(t.numpy(), X)


def test_a_device_tensor_never_becomes_an_array_by_accident():
    with ChipWorker() as w:
        t = w.alloc_tensor((8, 16), pl.FP32, init=X)
        refused("PL609", np.asarray, t)
