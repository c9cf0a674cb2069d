"""The keywords of the transformations and of control flow, as JAX has them: each has its effect, and none changes a bit it should not."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pypto
from pypto import lax, tree
from pypto.errors import PyptoError
from pypto.interpreters.evaluate import evaluate
from pypto.lax import scanning
from tests.bits import identical

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (7, 3)).astype(np.float32)
W = np.float32(0.3)

NOT_HERE = {
    "jit": {"in_shardings", "out_shardings", "keep_unused", "device", "backend", "inline", "compiler_options"},
    "grad": {"reduce_axes"},
    "value_and_grad": {"reduce_axes"},
    "vjp": {"reduce_axes"},
    "vmap": {"spmd_axis_name", "sum_match"},
    "checkpoint": {"prevent_cse", "concrete"},
    "ShapeDtypeStruct": {"sharding", "weak_type", "manual_axis_type", "is_ref"},
    "lax.scan": {"_split_transpose"},
    **{f"lax.{name}": {"axis_index_groups"} for name in ("psum", "pmean", "pmax", "pmin")},
}
"""What the page docs/functional.md lists as not there."""
NAMES = [
    *("jit", "grad", "value_and_grad", "jvp", "vjp", "linearize", "vmap", "checkpoint", "custom_jvp", "custom_vjp", "make_jaxpr"),
    *("eval_shape", "ShapeDtypeStruct", "jacfwd", "jacrev", "hessian"),
    *("lax.cond", "lax.switch", "lax.while_loop", "lax.fori_loop", "lax.scan", "lax.map", "lax.stop_gradient"),
    *("lax.psum", "lax.pmean", "lax.pmax", "lax.pmin", "lax.axis_index", "lax.axis_size"),
]
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def found(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return inspect.signature(module).parameters


@pytest.mark.parametrize("name", NAMES)
def test_keywords_their_order_and_their_defaults_are_those_of_jax(name):
    ours, theirs = found(pypto, name), found(jax, name)
    absent = NOT_HERE.get(name, set())
    assert absent <= set(theirs)  # a name that JAX no longer has is no difference
    here = [p for p in theirs.values() if p.name not in absent]
    in_order = [p.name for p in here if p.kind in POSITIONAL]
    assert [p.name for p in ours.values() if p.kind in POSITIONAL][: len(in_order)] == in_order
    assert {p.name for p in here} <= set(ours)
    simple = [p for p in here if p.default is None or isinstance(p.default, bool | int | tuple)]
    assert {p.name: ours[p.name].default for p in simple} == {p.name: p.default for p in simple}


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"])
def test_there_are_no_complex_numbers(name):
    refused("PL601", lambda: getattr(pypto, name)(lambda x: x, holomorphic=True))
    getattr(pypto, name)(lambda x: x, holomorphic=False)


def refused(code, action):
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.code == code, caught.value
    return caught.value


# ---- scan, fori_loop, map ----------------------------------------------------------------------------------------


def recurrence(unroll, reverse):
    return lambda w, x: lax.scan(lambda c, v: (c * w + v, lax.sin(c * v) * w), x[0], x, reverse=reverse, unroll=unroll)


WRAPS = {
    "at once": lambda f: f(W, X),
    "jit": lambda f: pypto.jit(f)(W, X),
    "vmap": lambda f: pypto.vmap(f, (0, None))(np.stack([W, -W]), X),
    "jvp": lambda f: pypto.jvp(f, (W, X), (W, X)),
    "grad": lambda f: pypto.grad(lambda w, x: f(w, x)[1].sum(), (0, 1))(W, X),
    "grad of jit": lambda f: pypto.grad(lambda w, x: pypto.jit(f)(w, x)[1].sum(), (0, 1))(W, X),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [2, 3, 7, 100, True])
def test_unrolling_a_scan_changes_no_bit_of_values_or_derivatives(unroll, reverse):
    for wrap in WRAPS.values():
        plain, several = (tree.flatten(wrap(recurrence(u, reverse)))[0] for u in (1, unroll))
        assert plain and all(identical(p, q) for p, q in zip(plain, several, strict=True))


def test_an_unrolled_scan_runs_its_body_less_often_with_several_turns_in_it():
    runs = []

    def counted(body, args):
        runs.append(len(body.eqns))
        return evaluate(body, args)

    def turns(unroll):
        runs.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scanning, "evaluate", counted)
            lax.scan(lambda c, v: (c + v, None), X[0], X, unroll=unroll)
        return list(runs)

    assert turns(1) == [1] * 7 and turns(3) == [3, 3, 1] and turns(True) == [7]


def test_loops_with_constant_bounds_unroll_and_others_say_why_not():
    for unroll in (None, False, 1, 2, True):
        assert float(lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, 1.0, unroll=unroll)) == float(
            lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, 1.0)
        )
    refused("PL601", lambda: pypto.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0, unroll=2))(4))
    refused("PL601", lambda: lax.scan(lambda c, x: (c, x), 0.0, X, unroll=0))
    refused("PL601", lambda: lax.map(lambda x: x, X, batch_size=0))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 9])
def test_map_in_batches_gives_each_element_the_bits_it_has_alone(size):
    f = lambda x: {"sum": lax.reduce_sum(lax.exp(x), 0), "x": x * 2.0, "one": 1}  # noqa: E731 - one expression
    for wrap in (lambda g: g, pypto.jit):
        made, plain = wrap(lambda x: lax.map(f, x, batch_size=size))(X), lax.map(f, X)
        assert all(identical(made[k], plain[k]) for k in plain)
    loss = lambda **options: lambda x: lax.map(f, x, **options)["sum"].sum()  # noqa: E731 - one expression
    assert identical(pypto.grad(loss(batch_size=size))(X), pypto.grad(loss())(X))
    names = [e.op.name for e in pypto.make_jaxpr(lambda x: lax.map(f, x, batch_size=size))(X).walk()]
    assert ("scan" in names) == (size <= 7)


def test_an_operand_may_be_given_by_name():
    assert float(lax.cond(True, lambda x: x + 1.0, lambda x: x, operand=2.0)) == 3.0
    assert float(lax.switch(1, [lambda _: 1.0, lambda _: 2.0], operand=None)) == 2.0
    refused("PL601", lambda: lax.cond(True, lambda x: x, lambda x: x, 1.0, operand=2.0))


# ---- Jacobians ---------------------------------------------------------------------------------------------------


def test_jacobians_pass_aux_on():
    f = lambda x: (x * x, {"twice": x * 2.0})  # noqa: E731 - one expression
    for jacobian in (pypto.jacfwd, pypto.jacrev):
        for made, aux in (jacobian(f, has_aux=True)(X[0]), pypto.jit(jacobian(f, has_aux=True))(X[0])):
            assert identical(made, np.diag(2 * X[0])) and identical(aux["twice"], 2 * X[0])
    made, aux = pypto.hessian(lambda x: ((x * x * x).sum(), x), has_aux=True)(X[0])
    wanted, theirs = jax.hessian(lambda x: ((x * x * x).sum(), x), has_aux=True)(jnp.asarray(X[0]))
    assert np.allclose(made, wanted, rtol=1e-6) and identical(aux, theirs)  # two products in another order


def test_the_jacobian_of_integers_is_none_or_refused():
    f = lambda x, n: {"a": x * n, "n": np.int32(3)}  # noqa: E731 - one expression
    made = pypto.jacfwd(f)(X[0], 2)
    assert made["n"] is None and identical(made["a"], np.diag(np.full(3, 2, np.float32)))
    refused("PL720", lambda: pypto.jacrev(f)(X[0], 2))
    da, dn = pypto.jacrev(lambda x, n: x * n, (0, 1), allow_int=True)(X[0], 2)
    assert dn is None and identical(da, np.diag(np.full(3, 2, np.float32)))
    refused("PL720", lambda: pypto.jacrev(lambda x, n: x * n, 1)(X[0], 2))


def test_a_position_is_differentiated_once():
    error = refused("PL601", lambda: pypto.grad(lambda x, y: x * y, (0, -2))(1.0, 2.0))
    assert "twice" in error.message


# ---- custom rules ------------------------------------------------------------------------------------------------


def test_arguments_that_are_not_differentiated_may_be_named():
    rule = pypto.custom_vjp(lambda x, n: x**n, nondiff_argnames=("n",))
    rule.defvjp(lambda x, n: (x**n, x), lambda n, x, ct: (100.0 * n * ct,))
    assert float(pypto.grad(lambda x: rule(x, 3))(2.0)) == float(pypto.grad(lambda x: rule(x, n=3))(2.0)) == 300.0
    forward = pypto.custom_jvp(lambda n, x: x**n, nondiff_argnames="n")
    forward.defjvp(lambda n, primals, tangents: (primals[0] ** n, 10.0 * n * tangents[0]))
    assert float(pypto.grad(lambda x: forward(2, x))(2.0)) == 20.0
    refused("PL601", lambda: pypto.custom_vjp(lambda x: x, nondiff_argnames="k"))
