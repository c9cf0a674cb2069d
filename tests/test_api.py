"""The arguments of the transformations: positions, trees, aux, axes, keywords; as JAX has them."""

from typing import NamedTuple

import numpy as np
import pytest

import pypto
from pypto import lax
from pypto.errors import PyptoError
from tests.bits import identical

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


class Pair(NamedTuple):
    a: object
    b: object


def test_aux_is_passed_on_and_not_differentiated():
    f = lambda x: (lax.reduce_sum(x * x), {"twice": x * 2.0, "n": np.int32(3)})  # noqa: E731 - one expression
    (value, aux), gradient = pypto.value_and_grad(f, has_aux=True)(X)
    assert float(value) == float((X * X).sum()) and identical(aux["twice"], X * 2) and int(aux["n"]) == 3
    assert identical(gradient, X * 2)
    gradient, aux = pypto.jit(pypto.grad(f, has_aux=True))(X)
    assert identical(gradient, X * 2) and identical(aux["twice"], X * 2)
    value, pull, aux = pypto.vjp(f, X, has_aux=True)
    assert identical(pull(1.0)[0], X * 2) and identical(aux["twice"], X * 2)
    value, tangent, aux = pypto.jvp(f, (X,), (X,), has_aux=True)
    assert float(tangent) == float(2 * (X * X).sum()) and identical(aux["twice"], X * 2)
    with pytest.raises(PyptoError) as caught:
        pypto.grad(lambda x: x, has_aux=True)(1.0)
    assert caught.value.code == "PL601"


def test_argnums_count_from_the_end_and_several_give_a_tuple():
    f = lambda x, y, *, z: x * y * z  # noqa: E731 - one expression
    assert float(pypto.grad(f, -1)(2.0, 3.0, z=4.0)) == 8.0
    assert tuple(map(float, pypto.grad(f, (1, 0))(2.0, 3.0, z=4.0))) == (8.0, 12.0)
    with pytest.raises(PyptoError) as caught:
        pypto.grad(f, 2)(2.0, 3.0, z=4.0)
    assert caught.value.code == "PL601"


def test_trees_of_tuples_named_tuples_dicts_and_none_keep_their_structure():
    tree = Pair({"w": X, "none": None}, [X[0], (2.0,)])
    f = lambda t: lax.reduce_sum(t.a["w"]) + lax.reduce_sum(t.b[0] * t.b[1][0])  # noqa: E731 - one expression
    gradient = pypto.grad(f)(tree)
    assert isinstance(gradient, Pair) and gradient.a["none"] is None and isinstance(gradient.b[1], tuple)
    assert float(gradient.b[1][0]) == float(X[0].sum())


def test_in_axes_and_out_axes_are_trees_that_may_stop_early():
    f = lambda p, x: {"sum": p["a"] + x, "same": p["b"]}  # noqa: E731 - one expression
    p = {"a": X, "b": X}
    made = pypto.vmap(f, ({"a": 0, "b": None}, 1), {"sum": 1, "same": None})(p, X.T)
    assert identical(made["sum"], (X + X).T) and identical(made["same"], X)
    assert identical(pypto.vmap(lambda x, *, y: x + y)(X, y=X), X + X)
    assert pypto.vmap(lambda: pypto.Array(1.0), axis_size=4)().shape == (4,)


def test_jacobians_of_trees_are_trees_of_trees():
    f = lambda p: {"y": p["a"] * p["b"], "s": lax.reduce_sum(p["a"])}  # noqa: E731 - one expression
    p = {"a": X[0], "b": X[1]}
    for made in (pypto.jacfwd(f)(p), pypto.jacrev(f)(p)):
        assert identical(made["y"]["a"], np.diag(X[1])) and identical(made["y"]["b"], np.diag(X[0]))
        assert identical(made["s"]["a"], np.ones(3, np.float32)) and identical(made["s"]["b"], np.zeros(3, np.float32))
    rows, columns = pypto.jacfwd(lambda x, y: x * y, (0, 1))(X[0], X[1])
    assert rows.shape == columns.shape == (3, 3)


def test_float0_of_jax_is_understood_and_never_given():
    jax = pytest.importorskip("jax", reason="its float0 is what is tested")
    zero = np.zeros((), jax.dtypes.float0)
    _, tangent = pypto.jvp(lambda x, n: x * n, (2.0, 3), (1.0, zero))
    assert float(tangent) == 3.0
    _, pull = pypto.vjp(lambda x, n: (x * n, n), 2.0, 3)
    dx, dn = pull((1.0, None))
    assert float(dx) == 3.0 and dn is None


def test_carried_numbers_take_the_dtype_of_what_replaces_them():
    half = pypto.Array([1.0, 2.0], "BF16")
    total, _ = lax.scan(lambda c, x: (c + x, None), 0.0, half)
    assert total.dtype is half.dtype
    assert lax.fori_loop(0, 2, lambda i, c: c * 1.5, 2).dtype.name == "FP32"


def test_traced_bounds_make_a_while_loop_and_constant_ones_a_scan():
    f = lambda n, x: lax.fori_loop(0, n, lambda i, v: v * 2.0, x)  # noqa: E731 - one expression
    assert [e.op.name for e in pypto.make_jaxpr(lambda x: f(3, x))(1.0).eqns] == ["scan"]
    assert "while" in [e.op.name for e in pypto.make_jaxpr(f)(3, 1.0).eqns]
    assert identical(pypto.jit(f)(5, 1.0), np.float32(32)) and identical(f(5, 1.0), np.float32(32))
    assert identical(pypto.vmap(f, (0, None))(np.int32([0, 1, 4]), 1.0), np.float32([1, 2, 16]))


def test_switch_takes_the_first_or_the_last_for_an_index_outside():
    branches = [lambda x: x, lambda x: x * 10.0, lambda x: x * 100.0]
    found = [float(lax.switch(i, branches, 1.0)) for i in (-5, 0, 1, 2, 9)]
    assert found == [1, 1, 10, 100, 100]
    assert identical(pypto.vmap(lambda i: lax.switch(i, branches, 1.0))(np.int32([-5, 0, 1, 2, 9])), np.float32(found))


def test_empty_loops_and_empty_batches_work():
    total, ys = lax.scan(lambda c, x: (c + x, x * 2.0), 1.5, np.zeros(0, np.float32))
    assert float(total) == 1.5 and ys.shape == (0,)
    assert float(pypto.grad(lambda c: lax.scan(lambda c, x: (c * x, None), c, np.zeros(0, np.float32))[0])(2.0)) == 1.0
    assert pypto.vmap(lambda x: lax.sin(x) * 2.0)(np.zeros((0, 3), np.float32)).shape == (0, 3)
