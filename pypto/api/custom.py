"""Functions with derivatives of their own: `custom_jvp` and `custom_vjp`."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pypto import tree
from pypto.api.differentiating import as_array, is_float0
from pypto.api.flat import Flattened, is_static, name_of, positions_of, signature_of, static_positions
from pypto.core.avals import Aval
from pypto.core.op import OPS
from pypto.core.trace import EVAL, aval_of, current_trace
from pypto.errors import CallError, NumericsError
from pypto.interpreters.partial_eval import trace_flat
from pypto.interpreters.tangents import Zero, apply, differentiable, instantiate, plain
from pypto.lax.custom import Rule


class _Custom:
    """A function with a rule. It is called like the function; keyword arguments are put into their places first."""

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: str | Sequence[str] = ()
    ) -> None:
        self.fun = fun
        self.fixed = static_positions(nondiff_argnums) | positions_of(fun, nondiff_argnames)
        self._rules: tuple[Any, ...] = ()  # the user's functions that make up the rule
        self._arrays: dict[int, tuple[Any, int]] = {}
        self._asked = threading.local()
        for name in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(fun, name):
                setattr(self, name, getattr(fun, name))
        self.__wrapped__ = fun

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        bound: Any = self
        return self if instance is None else functools.partial(bound, instance)

    def __pypto_guard__(self) -> Any:
        """The part of a program's key that stands for the function, its rule, and what both read from outside."""
        if getattr(self._asked, "now", False):
            return name_of(self.fun)  # a rule calls the function: the one asked first holds the rest
        from pypto import captures

        self._asked.now = True
        try:
            return captures.Freezer(self._arrays, captures.function_reads).key((self.fun, *self._rules))
        finally:
            self._asked.now = False

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        signature = signature_of(self.fun)
        if signature is None:
            if kwargs:
                raise CallError("PL601", f"`{name_of(self.fun)}` has no signature to put keywords into", fix="positional arguments")
            return args
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            raise CallError("PL601", f"`{name_of(self.fun)}` takes {names} by keyword only: its rule could not", fix="positional arguments")
        return bound.args

    def _flattened(self, args: tuple[Any, ...]) -> Flattened:
        return Flattened(self.fun, args, {}, lambda i: is_static(i, self.fixed, len(args)))

    def _nondiff(self, flat: Flattened) -> list[Any]:
        return [flat.fixed[i] for i in sorted(flat.fixed)]

    def _missing(self, what: str) -> CallError:
        return CallError("PL601", f"`{name_of(self.fun)}` is called before it has a rule", fix=f"{name_of(self.fun)}.{what}")

    def _tree_of(self, flat: Flattened, leaves: Sequence[Any]) -> tuple[Any, ...]:
        return tree.unflatten(flat.inputs, list(leaves))[0]


class custom_jvp(_Custom):  # lower case as in JAX
    """Give a function a derivative rule, as `jax.custom_jvp`.

    >>> import pypto
    >>> from pypto import lax
    >>> @custom_jvp
    ... def softplus(x):
    ...     return lax.log(1.0 + lax.exp(x))
    >>> @softplus.defjvp
    ... def softplus_jvp(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return softplus(x), lax.logistic(x) * dx
    >>> pypto.grad(softplus)(200.0)
    Array(1., dtype=FP32)
    """

    rule: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """The rule `(*nondiff, primals, tangents) -> (value, tangent)`; integers have the tangent None."""
        self.rule, self._rules = jvp, (jvp,)
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """A rule per argument, `(tangent, value, *primals) -> its part of the tangent`, or None where it is zero."""
        if self.fixed:
            raise CallError("PL601", "defjvps with nondiff_argnums", fix="defjvp")

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            value = self(*primals)
            parts = [f(t, value, *primals) for f, t in zip(jvps, tangents, strict=True) if f is not None and t is not None]
            total = functools.reduce(lambda a, b: tree.tree_map(lambda x, y: x + y, a, b), parts) if parts else None
            return value, total if parts else tree.tree_map(lambda x: instantiate(Zero(plain(aval_of(x)))), value)

        self.rule, self._rules = rule, jvps

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._positional(args, kwargs)
        if self.rule is None:
            raise self._missing("defjvp")
        if current_trace() is EVAL:
            return self.fun(*given)
        rule = self.rule
        flat = self._flattened(given)
        body, captured = trace_flat(flat, [plain(aval_of(x)) for x in flat.leaves], name_of(self.fun))
        structure = flat.structure

        def flat_rule(primals: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
            moved = [None if isinstance(t, Zero) else t for t in tangents]
            pair = rule(*self._nondiff(flat), self._tree_of(flat, primals), self._tree_of(flat, moved))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise CallError("PL601", f"the jvp rule of `{name_of(self.fun)}` returns no pair", fix="return (value, tangent)")
            what = f"the jvp rule of `{name_of(self.fun)}`"
            outs = [as_array(x) for x in tree.flatten_like(structure, pair[0], f"the value {what} returns")]
            found = tree.flatten_like(structure, pair[1], f"the tangent {what} returns")
            return outs, [_typed(what, "tangent", t, aval_of(o)) for t, o in zip(found, outs, strict=True)]

        options = {"body": body, "rule": Rule(name_of(rule), flat_rule), "consts": len(captured)}
        return tree.unflatten(structure, apply(OPS["custom_jvp_call"], [*captured, *flat.leaves], options))


def _typed(what: str, kind: str, t: Any, aval: Aval) -> Any:
    """What a rule gives for a value of a type.

    Errors:
      PL721 for another type.
    """
    if t is None or is_float0(t):
        return Zero(plain(aval))
    if not differentiable(aval):
        if aval_of(t).shape == aval.shape and not _any(t):
            return Zero(plain(aval))
        raise NumericsError("PL721", f"{what} gives a {kind} {aval_of(t)} for a value {aval}, which has none", fix="give None there")
    t = as_array(t)
    if t.shape != aval.shape or t.dtype is not aval.dtype:
        raise NumericsError("PL721", f"{what} gives a {kind} {t.aval} for a value {aval}", fix=f"give it the type {aval}")
    return t


def _any(t: Any) -> bool:
    """Whether a concrete array has an element that is not zero; of a traced one nothing is known, so True."""
    import numpy as np

    from pypto.core.trace import Tracer

    return isinstance(t, Tracer) or bool(np.any(np.asarray(t)))


class custom_vjp(_Custom):  # lower case as in JAX
    """Give a function a way back of its own, as `jax.custom_vjp`. It then has reverse mode only.

    `fwd` returns the value and whatever the way back needs; `bwd` takes that and a cotangent, and returns a tuple with a cotangent for
    each argument that is not in `nondiff_argnums`; None stands for zero, and is what integers have.

    >>> import pypto
    >>> @custom_vjp
    ... def clipped(x):
    ...     return x * x
    >>> clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (pypto.lax.clamp(-1.0, 2.0 * x * ct, 1.0),))
    >>> pypto.grad(clipped)(5.0)
    Array(1., dtype=FP32)
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """The rule: `fwd(*args) -> (value, residuals)`, `bwd(*nondiff, residuals, cotangent) -> cotangents of the arguments`."""
        self.fwd, self.bwd = self._rules = (fwd, bwd)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._positional(args, kwargs)
        if self.fwd is None or self.bwd is None:
            raise self._missing("defvjp(fwd, bwd)")
        if current_trace() is EVAL:
            return self.fun(*given)
        fwd, bwd = self.fwd, self.bwd
        flat = self._flattened(given)
        body, captured = trace_flat(flat, [plain(aval_of(x)) for x in flat.leaves], name_of(self.fun))
        structure, types = flat.structure, [plain(aval_of(x)) for x in flat.leaves]
        name = name_of(self.fun)
        kept: list[tree.Structure] = []

        def flat_fwd(leaves: list[Any]) -> tuple[list[Any], list[Any]]:
            rest = iter(self._tree_of(flat, leaves))
            count = len(given)
            pair = fwd(*(flat.fixed[i] if i in flat.fixed else next(rest) for i in range(count)))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise CallError("PL601", f"fwd of `{name}` returns no pair", fix="return (value, residuals)")
            outs = [as_array(x) for x in tree.flatten_like(structure, pair[0], f"the value fwd of `{name}` returns")]
            for o, want in zip(outs, body.outs, strict=True):
                if o.shape != want.aval.shape or o.dtype is not want.aval.dtype:
                    raise NumericsError("PL721", f"fwd of `{name}` gives {o.aval}, the function itself {want.aval}", fix="the same type")
            residuals, kept_structure = tree.flatten(pair[1])
            kept.append(kept_structure)
            return outs, [as_array(x) for x in residuals]

        def flat_bwd(residuals: list[Any], cotangents: list[Any]) -> list[Any]:
            shown = [ct if differentiable(aval_of(ct)) else None for ct in cotangents]
            made = bwd(*self._nondiff(flat), tree.unflatten(kept[-1], residuals), tree.unflatten(structure, shown))
            if not isinstance(made, tuple | list):
                raise CallError("PL601", f"bwd of `{name}` returns a {type(made).__name__}", fix="a tuple: one cotangent per argument")
            found = tree.prefix_none(flat.inputs.children[0], tuple(made), f"the cotangents bwd of `{name}` returns")
            return [_typed(f"bwd of `{name}`", "cotangent", ct, a) for ct, a in zip(found, types, strict=True)]

        options = {"body": body, "fwd": Rule(name_of(fwd), flat_fwd), "bwd": Rule(name_of(bwd), flat_bwd), "consts": len(captured)}
        return tree.unflatten(structure, apply(OPS["custom_vjp_call"], [*captured, *flat.leaves], options))
