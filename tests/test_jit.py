"""`pypto.jit`: what it traces again, what it keeps, what it says about it; and the reported faults C35-C37, C67-C73."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.errors import PyptoError
from tests.bits import identical

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_one_trace_serves_all_calls_of_one_type():
    f = pypto.jit(lambda x: x * 2.0)
    f(X), f(X + 1), f(pypto.Array(X))
    assert f.cache_size() == 1
    f(X[:1])
    assert f.cache_size() == 2 and "leaf 0" in f.explain() and "f32[1,3]" in f.explain()


SCALE = 2.0


def scaled(x):
    return x * SCALE


def test_a_changed_global_is_a_new_program_and_the_explanation_names_it():
    global SCALE
    f = pypto.jit(scaled)
    assert np.array_equal(f(X), X * 2)
    SCALE = 3.0
    try:
        assert np.array_equal(f(X), X * 3)
        assert "SCALE" in f.explain() and "3.0" in str(pypto.explain_cache(f))
    finally:
        SCALE = 2.0


def test_numbers_are_values_of_the_program_and_keep_the_bits_they_have_without_it():
    f = pypto.jit(lambda x, s: x * s)
    half = pypto.Array([1.5, 3.0], "BF16")
    for s in (2.0, 0.5, 3, 0.1, 1e-3):
        assert identical(f(half, s), pypto.Array(half) * s)
    assert f.cache_size() == 4  # one for exact floats, one for integers, one for each of the two that FP32 does not hold


def test_static_arguments_by_position_and_by_name():
    f = pypto.jit(lambda x, n: sum([x] * n), static_argnums=1)
    assert np.array_equal(f(X, 3), X * 3) and np.array_equal(f(X, n=2), X * 2)
    g = pypto.jit(lambda x, *, double: x * (2.0 if double else 1.0), static_argnames="double")
    assert np.array_equal(g(X, double=True), X * 2)


def test_stages_can_be_looked_at_and_run():
    f = pypto.jit(lambda x: {"y": lax.exp(x) * 2.0})
    traced = f.trace(pypto.ShapeDtypeStruct((2, 3), "FP32"))
    assert traced.out_info == {"y": pypto.ShapeDtypeStruct((2, 3), "FP32")}
    compiled = traced.lower().compile()
    assert "exp" in compiled.as_text() and identical(compiled(X)["y"], f(X)["y"])
    with pytest.raises(PyptoError) as caught:
        compiled(X[0])
    assert caught.value.code == "PL602"


def test_a_jitted_method_and_partial_trace_what_they_hold():
    class Model:
        def __init__(self):
            self.scale = 2.0

        def apply(self, x):
            return x * self.scale

    model = Model()
    f = pypto.jit(model.apply)
    assert np.array_equal(f(X), X * 2)
    model.scale = 5.0
    assert np.array_equal(f(X), X * 5)


# ---- reported faults ---------------------------------------------------------------------------------------------


def test_c35_floor_division_is_pythons_folded_and_traced_and_at_once():
    pairs = ((-5, 3), (5, -3))
    for a, b in pairs:
        for f in (lambda x, y: (x // y, x % y), pypto.jit(lambda x, y: (x // y, x % y))):
            quotient, rest = f(np.int32(a) + pypto.Array(0), np.int32(b))
            assert (int(quotient), int(rest)) == (a // b, a % b)
    assert int(lax.fmod(-5, 3)) == -2


def test_c36_products_and_sums_are_not_contracted_and_inverses_not_cancelled():
    f = pypto.jit(lambda a, b: a * b + (-a) * b)
    assert float(f(np.float32(1e20), np.float32(1e10))) == 0.0
    g = pypto.jit(lambda x: lax.log2(lax.exp2(x)))
    assert float(g(np.float32(128))) == float("inf")
    h = pypto.jit(lambda a, b, c: a * b + c)
    assert float(h(np.float32(1e20), np.float32(1e10), np.float32(-1e30))) == float(np.float32(1e30) + np.float32(-1e30))


def test_c37_narrowing_casts_stay():
    one, small = pypto.Array(1.0, "BF16"), pypto.Array(2.0**-8, "BF16")
    f = lambda x, y: y - ((x + y) - x)  # noqa: E731 - one expression
    g = lambda x: x.astype("BF16").astype("FP32")  # noqa: E731 - one expression
    for wrap in (lambda h: h, pypto.jit):
        assert float(wrap(f)(one, small)) == 0.00390625
        assert float(wrap(g)(pypto.Array(np.float32(np.pi)))) == 3.140625


def test_c68_a_mutated_static_object_never_runs_a_stale_program():
    class Options:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return isinstance(other, Options)

    f = pypto.jit(lambda x, o: x * float(o.n), static_argnums=1)
    options = Options(2)
    assert np.array_equal(f(X, options), X * 2)
    options.n = 5
    assert np.array_equal(f(X, options), X * 5)
    frozen = dataclasses.make_dataclass("Frozen", ["n"], frozen=True)
    assert np.array_equal(f(X, frozen(3)), X * 3)


def test_c69_a_trace_that_read_changed_python_state_is_not_used_again():
    state = []

    def f(x):
        return x + float(len(state))

    g = pypto.jit(f)
    assert np.array_equal(g(X), X)
    state.append(1)
    assert np.array_equal(g(X), X + 1)


def test_c70_integers_in_custom_gradients_have_none():
    @pypto.custom_vjp
    def element(x, i):
        return x[i] * x[i]

    def back(residuals, ct):
        x, i = residuals
        return lax.broadcast(pypto.Array(0.0), (3,)).at[i].set(2.0 * x[i] * ct), None

    element.defvjp(lambda x, i: (element(x, i), (x, i)), back)
    x = np.array([1, 2, 3], np.float32)
    dx, di = pypto.grad(element, (0, 1), allow_int=True)(x, 1)
    assert np.array_equal(dx, [0, 4, 0]) and di is None


def test_c71_the_branch_not_taken_gives_nothing_but_select_computes_both():
    by_cond = lambda x: lax.cond(x > 0.0, lax.sqrt, lambda v: v * 0.0, x)  # noqa: E731 - one expression
    by_select = lambda x: lax.select(x > 0.0, lax.sqrt(x), 0.0)  # noqa: E731 - one expression
    assert float(pypto.grad(by_cond)(0.0)) == 0.0
    assert np.isnan(float(pypto.grad(by_select)(0.0)))
    assert np.array_equal(pypto.vmap(pypto.grad(by_cond))(np.array([0, 4], np.float32)), [0, 0.25])


def test_c72_ties_of_a_maximum_share_the_gradient_and_are_counted_exactly():
    assert np.array_equal(pypto.grad(lambda x: x.max())(np.array([3, 3, 1], np.float32)), [0.5, 0.5, 0])
    ties = pypto.Array(np.ones(300, np.float32), "BF16")
    shares = np.asarray(pypto.grad(lambda x: x.max())(ties)).astype(np.float32)
    assert np.array_equal(shares, np.asarray(pypto.Array(np.full(300, 1 / 300, np.float32), "BF16")).astype(np.float32))


def test_a_kernel_is_still_a_kernel_where_nothing_is_traced():
    @pl.jit
    def double(x: pl.Tensor[[2, 8], pl.FP32], out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, x)

    x = np.ones((2, 8), np.float32)
    assert np.array_equal(double(x), x + x)


def test_a_number_beyond_fp32_is_infinite_without_a_warning():
    assert float(pypto.jit(lambda x: x * 2.0)(1e300)) == np.inf  # warnings are errors here


def test_the_report_has_the_reasons_of_each_program():
    f = pypto.jit(lambda x: x * 2.0)
    f(X), f(X[:1])
    first, second = pypto.explain_cache(f).programs
    assert first.reasons == () and "f32[1,3]" in second.reasons[0] and "the first call" in str(pypto.explain_cache(f))


def peak_of(f, x):
    tracemalloc.start()
    try:
        f(x)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_a_donated_array_is_free_after_its_last_use():
    double = lambda x: ((x + x) * 0.5 + 1.0) * 0.25  # noqa: E731 - one expression
    kept, given = pypto.jit(double), pypto.jit(double, donate_argnums=0)
    wide = np.zeros((256, 256), np.float32)
    kept(wide), given(wide)
    live = peak_of(lambda _: kept(pypto.Array(wide)), None), peak_of(lambda _: given(pypto.Array(wide)), None)
    assert live[1] <= live[0] - 0.9 * wide.nbytes


def test_a_numpy_array_is_not_given_away():
    x = X.copy()
    pypto.jit(lambda v: v + 1.0, donate_argnums=0)(x)
    assert np.array_equal(x, X)
