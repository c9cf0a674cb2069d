"""Where loops, scopes and operations may stand: judged by context while tracing, refused at the line that is out of place."""

import numpy as np
import pytest

import pypto.language as pl
from pypto import lax
from pypto.errors import PyptoError
from tests.refusals import f32, refused, sevens, untouched

V4 = pl.Tensor[[4], pl.FP32]
X = f32(1, 2, 3, 4)

# Loops and scopes.


@pl.jit
def pipelines_outside(x: V4, out: pl.Out[V4]):
    for i in pl.pipeline(4, stage=2):  # refused
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1] = x[i : i + 1]


@pl.jit
def parallel_inside(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(4):  # refused
            out[i : i + 1] = x[i : i + 1]


@pl.jit
def parallel_inside_a_loop_inside(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for j in pl.range(1):
            for i in pl.parallel(4):  # refused
                out[i : i + 1] = x[i : i + 1]


@pl.jit
def spmd_loop_inside(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.spmd(4):  # refused
            out[i : i + 1] = x[i : i + 1]


@pl.jit
def spmd_scope_inside(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        with pl.spmd(4):  # refused
            out[:] = x


@pl.jit
def spmd_inside_spmd(x: V4, out: pl.Out[V4]):
    for i in pl.spmd(4):
        for j in pl.spmd(4):  # refused
            out[j : j + 1] = x[j : j + 1]


@pl.jit
def parallel_inside_spmd(x: V4, out: pl.Out[V4]):
    for i in pl.spmd(2):
        for j in pl.parallel(2):  # refused
            out[j : j + 1] = x[j : j + 1]


@pl.jit.inline
def spreads(x, out):
    for i in pl.parallel(4):  # refused
        out[i : i + 1] = x[i : i + 1]


@pl.jit
def calls_an_inline_that_spreads(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        spreads(x, out)


@pl.jit
def asks_for_the_block_outside(x: V4, out: pl.Out[V4]):
    i = pl.tile.get_block_idx()  # refused
    out[:] = x


@pl.jit
def asks_for_the_block_in_a_plain_region(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.tile.get_block_idx()  # refused
        out[:] = x


@pl.jit
def asks_for_the_number_of_blocks_outside(x: V4, out: pl.Out[V4]):
    i = pl.tile.get_block_num()  # refused
    out[:] = x


@pl.jit
def yields_outside(x: V4, out: pl.Out[V4]):
    out[:] = x
    pl.yield_(x)  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (pipelines_outside, "pl.pipeline(4, stage=2)"),
        (parallel_inside, "pl.parallel(4)"),
        (parallel_inside_a_loop_inside, "pl.parallel(4)"),
        (spmd_loop_inside, "pl.spmd(4)"),
        (spmd_scope_inside, "pl.spmd(4)"),
        (spmd_inside_spmd, "pl.spmd(4)"),
        (parallel_inside_spmd, "pl.parallel(2)"),
        (calls_an_inline_that_spreads, "pl.parallel(4)"),
        (asks_for_the_block_outside, "pl.tile.get_block_idx()"),
        (asks_for_the_block_in_a_plain_region, "pl.tile.get_block_idx()"),
        (asks_for_the_number_of_blocks_outside, "pl.tile.get_block_num()"),
        (yields_outside, "pl.yield_(x)"),
    ],
)
def test_a_loop_or_scope_out_of_place_is_refused(kernel, at):
    untouched("PL105", kernel, X.copy(), sevens(4), at=at)
    untouched("PL105", kernel.eager, X.copy(), sevens(4), at=at)


@pl.jit
def every_block_does_the_same(x: V4, out: pl.Out[V4]):
    with pl.spmd(4):  # refused
        out[:] = x


@pl.jit
def dispatches_no_blocks(x: V4, out: pl.Out[V4]):
    for i in pl.spmd(0):  # refused
        out[i : i + 1] = x[i : i + 1]


@pytest.mark.parametrize(("kernel", "at"), [(every_block_does_the_same, "pl.spmd(4)"), (dispatches_no_blocks, "pl.spmd(0)")])
def test_a_dispatch_that_cannot_be_meant_is_refused(kernel, at):
    untouched("PL502", kernel, X.copy(), sevens(4), at=at)
    untouched("PL502", kernel.eager, X.copy(), sevens(4), at=at)


@pl.jit.incore
def copies_its_block(x: V4, out: pl.Out[V4]):
    i = pl.tile.get_block_idx()
    out[i : i + 1] = x[i : i + 1]


@pl.jit.incore
def spreads_inside_an_incore_function(x: V4, out: pl.Out[V4]):
    for i in pl.parallel(4):
        out[i : i + 1] = x[i : i + 1]


@pl.jit
def dispatches_a_kernel(x: V4, out: pl.Out[V4]):
    with pl.spmd(4):
        copies_its_block(x, out)


@pl.jit
def calls_an_incore_function_that_spreads(x: V4, out: pl.Out[V4]):
    spreads_inside_an_incore_function(x, out)


@pl.jit
def reads_its_block(x: V4, out: pl.Out[V4]):
    with pl.spmd(4):
        i = pl.tile.get_block_idx()
        n = pl.tile.get_block_num()
        out[n - 1 - i : n - i] = x[n - 1 - i : n - i]


@pl.jit
def spreads_over_cores(x: V4, out: pl.Out[V4]):
    for i in pl.parallel(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            for j in pl.pipeline(i, i + 1, stage=2):
                out[j : j + 1] = x[j : j + 1]


@pytest.mark.parametrize(
    "kernel",
    [dispatches_a_kernel, calls_an_incore_function_that_spreads, spreads_inside_an_incore_function, reads_its_block, spreads_over_cores],
)
def test_loops_and_scopes_in_their_places_run(kernel):
    assert kernel(X).tolist() == X.tolist()
    assert kernel.eager(X).tolist() == X.tolist()


# Loop targets and yields that do not fit.


@pl.jit
def names_too_few_states(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i, (a,) in pl.range(2, init_values=(x, x)):  # refused
            a = a + 1.0
        out[:] = a


@pl.jit
def yields_too_many(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i, (a,) in pl.range(2, init_values=(x + 0.0,)):  # refused
            a = pl.yield_(a, a)
        out[:] = x


@pl.jit
def yields_twice(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i, (a,) in pl.range(2, init_values=(x + 0.0,)):
            b = pl.yield_(a)
            c = pl.yield_(a)  # refused
        out[:] = x


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (names_too_few_states, "pl.range(2, init_values=(x, x))"),
        (yields_too_many, "pl.range(2, init_values=(x + 0.0,))"),
        (yields_twice, "pl.yield_(a)"),
    ],
)
def test_states_that_do_not_fit_their_loop_are_refused(kernel, at):
    untouched("PL102", kernel, X.copy(), sevens(4), at=at)
    untouched("PL102", kernel.eager, X.copy(), sevens(4), at=at)


# Calls of kernels inside kernels.


@pl.jit.inline
def calls_itself_for_ever(x):
    return calls_itself_for_ever(x)  # refused


@pl.jit.inline
def calls_itself(x, times):
    if times == 0:
        return x + 0.0
    return calls_itself(x, times - 1) + 1.0


@pl.jit
def starts_a_recursion(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = calls_itself_for_ever(x)


@pl.jit
def unfolds_a_recursion(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = calls_itself(x, 5)


def test_a_recursion_that_never_ends_is_refused():
    error = untouched("PL112", starts_a_recursion, X.copy(), sevens(4), at="calls_itself_for_ever(x)")
    assert "`calls_itself_for_ever`" in error.message


def test_a_recursion_that_a_static_argument_ends_is_unfolded():
    assert unfolds_a_recursion(X).tolist() == [6, 7, 8, 9]


# Outside kernels.


def test_a_region_cannot_be_opened_outside_a_kernel():
    def opens():
        with pl.at(level=pl.Level.CORE_GROUP):  # refused
            pass

    refused("PL112", opens, at="with pl.at(level=pl.Level.CORE_GROUP):")


def test_a_dispatch_cannot_be_opened_outside_a_kernel():
    def opens():
        with pl.spmd(4):  # refused
            pass

    refused("PL112", opens, at="with pl.spmd(4):")


@pytest.mark.parametrize("make", [pl.range, pl.parallel, pl.unroll, pl.spmd, lambda n: pl.pipeline(n, stage=2)])
def test_a_loop_cannot_run_outside_a_kernel(make):
    def loops():
        for _i in make(4):  # refused
            pass

    refused("PL112", loops, at="for _i in make(4):")


OUTSIDE = {
    "full": lambda: pl.full([1, 4], dtype=pl.FP32, value=0),  # refused
    "create_tensor": lambda: pl.create_tensor([1, 4], dtype=pl.FP32),  # refused
    "load": lambda: pl.load(X, [0], [4]),  # refused
    "store": lambda: pl.store(X, [0], X),  # refused
    "read": lambda: pl.read(X, [0]),  # refused
    "write": lambda: pl.write(X, [0], 1.0),  # refused
    "slice": lambda: pl.slice(X, [2], [0]),  # refused
    "assemble": lambda: pl.assemble(X, X, [0]),  # refused
    "reshape": lambda: pl.reshape(X, [2, 2]),  # refused
    "get_block_idx": lambda: pl.tile.get_block_idx(),  # refused
    "yield_": lambda: pl.yield_(X),  # refused
    "dim": lambda: pl.tensor.dim(X, 0),  # refused
    "const": lambda: pl.const(1, pl.INT32),  # refused
    "set_validshape": lambda: pl.set_validshape(X, 2),  # refused
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_operation_of_kernel_bodies_is_refused_outside_them(name):
    before = X.copy()
    with pytest.raises(PyptoError) as caught:
        OUTSIDE[name]()
    assert caught.value.code == ("PL307" if name == "store" else "PL112")
    assert caught.value.source is not None and caught.value.source.text.endswith("# refused")
    assert f"pl.{name}(" in caught.value.source.text or f".{name}(" in caught.value.source.text
    assert (before == X).all()


def test_an_operation_that_is_an_array_function_works_on_arrays_outside():
    assert pl.add(X, X).tolist() == lax.add(X, X).tolist() == [2, 4, 6, 8]
    assert pl.adds(X, 1.0).tolist() == [2, 3, 4, 5]
    assert pl.matmul(X.reshape(1, 4), X.reshape(4, 1)).tolist() == [[30]]
    assert pl.row_sum(X.reshape(1, 4)).tolist() == [[10]]
    assert pl.cast(np.float32([0.5]), pl.INT32).tolist() == [1]


def test_an_inline_function_cannot_be_called_outside():
    refused("PL112", lambda: spreads(X, X), at="spreads(X, X)")  # refused


def test_what_a_block_runs_cannot_be_called_in_an_array_program():
    import pypto

    with pytest.raises(PyptoError) as caught:
        pypto.make_jaxpr(lambda x: copies_its_block(x))(X)
    assert caught.value.code == "PL105" and caught.value.source.text.strip() == "i = pl.tile.get_block_idx()"
