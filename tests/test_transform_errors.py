"""Mistakes with transformations: each is an error with a code, at the user's line, and nothing is lost."""

import numpy as np
import pytest

import pypto
from pypto import lax
from pypto.errors import PyptoError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def refused(code, action, line=None):
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.code == code, caught.value
    assert caught.value.source is not None
    if line is not None:
        assert line in caught.value.source.text
    return caught.value


def test_a_static_argument_that_cannot_be_hashed_is_refused_by_name_and_type():
    error = refused("PL620", lambda: pypto.jit(lambda x, axes: x.sum(axes), static_argnames="axes")(X, axes=[0]))
    assert "`axes`" in error.message and "list" in error.message


def test_a_static_argument_that_is_traced_is_refused():
    inner = pypto.jit(lambda x, n: x * n, static_argnums=1)
    refused("PL620", lambda: pypto.grad(lambda n: inner(2.0, n))(3.0))


def test_a_donated_array_is_gone_and_its_result_is_there():
    given = pypto.Array(X)
    result = pypto.jit(lambda x: x + 1.0, donate_argnums=0)(given)
    assert given.is_deleted() and np.array_equal(result, X + 1)
    refused("PL621", lambda: given + 1.0)


def test_an_argument_that_fails_to_trace_is_not_given_away():
    given = pypto.Array(X)
    refused("PL301", lambda: pypto.jit(lambda x: x + np.zeros(7, np.float32), donate_argnums=0)(given))
    assert not given.is_deleted()


@pytest.mark.parametrize(
    "action",
    [
        lambda: pypto.vmap(lambda x, y: x + y)(X, X[:1]),
        lambda: pypto.vmap(lambda x: x, 2)(X),
        lambda: pypto.vmap(lambda x: x, None)(X),
        lambda: pypto.vmap(lambda x: x, (0, 0))(X),
        lambda: pypto.vmap(lambda x: x, out_axes=None)(X),
        lambda: pypto.vmap(lambda x: x, out_axes=5)(X),
        lambda: pypto.vmap(lambda x: x, axis_size=3)(X),
    ],
)
def test_axes_that_do_not_fit_are_refused(action):
    refused("PL622", action)


@pytest.mark.parametrize(
    "action",
    [
        lambda: pypto.grad(lambda n: n * 2.0)(3),
        lambda: pypto.grad(lambda x, m: lax.select(m, x, 0.0).sum(), 1)(X, X > 1),
        lambda: pypto.grad(lambda x: x)(X),
        lambda: pypto.grad(lambda x: (x.sum(), x))(X),
        lambda: pypto.grad(lambda x: lax.argmax(x, axis=0))(X[0]),
        lambda: pypto.jacfwd(lambda n: n * 2.0)(3),
    ],
)
def test_a_derivative_that_does_not_exist_is_explained(action):
    refused("PL720", action)


def test_integers_have_the_gradient_none_where_that_is_allowed():
    dx, dn = pypto.grad(lambda x, n: x * n, (0, 1), allow_int=True)(2.0, 3)
    assert float(dx) == 3.0 and dn is None


def test_a_tangent_of_another_type_is_refused_in_one_sentence():
    error = refused("PL721", lambda: pypto.jvp(lambda x: x * 2.0, (X,), (X[0],)))
    assert "f32[2,3]" in error.message and "f32[3]" in error.message
    refused("PL721", lambda: pypto.vjp(lambda x: x * 2.0, X)[1](np.float16(X)))
    refused("PL721", lambda: pypto.jvp(lambda x, n: x * n, (X, 2), (X, 1)))


def test_a_wrong_cotangent_of_a_custom_rule_is_refused_with_both_types():
    @pypto.custom_vjp
    def double(x):
        return x * 2.0

    double.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (ct[0],))
    error = refused("PL721", lambda: pypto.grad(lambda x: double(x).sum())(X))
    assert "f32[2,3]" in error.message and "f32[3]" in error.message


def test_the_way_back_through_a_while_loop_is_refused_at_its_line():
    def f(x):
        return lax.while_loop(lambda v: v < 100.0, lambda v: v * v, x)  # the loop

    refused("PL703", lambda: pypto.grad(f)(2.0), "# the loop")


def test_a_function_with_a_way_back_only_has_no_forward_mode():
    @pypto.custom_vjp
    def double(x):
        return x * 2.0

    double.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (ct * 2.0,))
    refused("PL703", lambda: pypto.jvp(double, (1.0,), (1.0,)))


def test_a_rule_that_closes_over_what_is_differentiated_is_refused():
    def outer(y):
        @pypto.custom_jvp
        def f(x):
            return x * y

        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
        return f(2.0)

    refused("PL720", lambda: pypto.grad(outer)(3.0))


def test_an_op_without_a_derivative_is_named_with_its_line():
    def f(x):
        words = lax.reinterpret(x, "UINT32")  # bits
        return lax.reinterpret(words, "FP32").sum()

    assert np.array_equal(pypto.grad(f)(X), np.zeros_like(X))  # nothing flows through integers
    refused("PL703", lambda: pypto.grad(lambda x: lax.reinterpret(x, "FP16").sum().astype("FP32"))(X), "FP16")


def test_a_value_that_leaks_out_of_a_trace_is_named_with_its_function_and_line():
    kept = []

    def leaky(x):
        kept.append(x * 2.0)  # leaks here
        return x

    for transform in (pypto.jit(leaky), pypto.grad(lambda x: leaky(x).sum()), pypto.vmap(leaky)):
        kept.clear()
        transform(X)
        error = refused("PL110", lambda: kept[0] + 1.0)
        assert "f32[" in error.message and "leaks here" in error.message


@pytest.mark.parametrize(
    "action",
    [
        lambda: lax.cond(True, lambda x: x, lambda x: (x, x), X),
        lambda: lax.scan(lambda c, x: (c + x, x), X[0, 0], X),
        lambda: lax.while_loop(lambda c: c < 3, lambda c: c * 1.5, np.int32(1)),
        lambda: lax.fori_loop(0, 3, lambda i, c: (c, c), X),
    ],
)
def test_control_flow_that_changes_types_shows_both(action):
    refused("PL206", action)


def test_array_control_flow_takes_pairs_lengths_and_truths():
    refused("PL601", lambda: lax.scan(lambda c, x: c, 0.0, X))
    refused("PL601", lambda: lax.scan(lambda c, x: (c, x), 0.0))
    refused("PL301", lambda: lax.scan(lambda c, x: (c, x[0]), 0.0, (X, X[:1])))
    refused("PL302", lambda: lax.while_loop(lambda c: c, lambda c: c, 1.0))
    refused("PL302", lambda: lax.cond(X > 1, lambda: 1.0, lambda: 2.0))


def test_an_argument_that_is_no_array_says_what_to_do():
    error = refused("PL601", lambda: pypto.jit(lambda x, mode: x)(X, "fast"))
    assert "static_arg" in error.fix
