"""`checkpoint`: memory for time, and the policies that say what is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pypto import tree
from pypto.api.flat import Flattened, is_static, name_of, named_after, positions_of, static_positions
from pypto.core.op import OPS, Op
from pypto.core.trace import EVAL, aval_of, current_trace
from pypto.errors import CallError
from pypto.interpreters.partial_eval import trace_flat
from pypto.interpreters.tangents import apply, plain
from pypto.lax.remat import Policy


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[..., Any]:
    """A function with the same values, of which reverse mode keeps the arguments only and computes the rest again on the way back.

    As `jax.checkpoint`, which is also called `jax.remat`. The gradient has the same bits, whatever is kept;
    the gradient of that gradient adds up the same terms in another order.

    Args:
      policy: what is kept as well: one of `pypto.checkpoint_policies`, or a function `(op, *types of the operands, **options) -> bool`.
      static_argnums, static_argnames: arguments that are passed on as they are.
    Errors:
      PL601 for a policy that is no function, or a name that is no parameter.

    >>> import pypto
    >>> pypto.grad(checkpoint(lambda x: x * x * x))(2.0)
    Array(12., dtype=FP32)
    """
    if policy is not None and not callable(policy):
        raise CallError("PL601", f"checkpoint: policy={policy!r}", fix="one of pypto.checkpoint_policies, or a function")
    if fun is None:
        return lambda f: checkpoint(f, policy=policy, static_argnums=static_argnums, static_argnames=static_argnames)
    chosen = static_positions(static_argnums) | positions_of(fun, static_argnames)
    names = frozenset((static_argnames,) if isinstance(static_argnames, str) else static_argnames)

    def made(*args: Any, **kwargs: Any) -> Any:
        if current_trace() is EVAL:
            return fun(*args, **kwargs)
        fixed = {k: v for k, v in kwargs.items() if k in names}
        moving = {k: v for k, v in kwargs.items() if k not in names}
        inner = named_after(fun, lambda *xs, **more: fun(*xs, **fixed, **more)) if fixed else fun
        flat = Flattened(inner, args, moving, lambda i: is_static(i, chosen, len(args)))
        body, captured = trace_flat(flat, [plain(aval_of(x)) for x in flat.leaves], name_of(fun))
        outs = apply(OPS["remat"], [*captured, *flat.leaves], {"body": body, "policy": policy}) if body.outs else []
        return tree.unflatten(flat.structure, outs)

    return named_after(fun, made)


def _everything(op: Op, *operands: Any, **options: Any) -> bool:
    return True


def _nothing(op: Op, *operands: Any, **options: Any) -> bool:
    return False


def _dots(op: Op, *operands: Any, **options: Any) -> bool:
    return op.unit == "cube"


def _dots_without_batch(op: Op, *operands: Any, **options: Any) -> bool:
    return op.unit == "cube" and all(a.rank <= 2 for a in operands)


@dataclass(frozen=True)
class _Names:
    """What has one of these names, or everything but that; values without a name are as `others` says."""

    names: frozenset[str]
    inside: bool
    others: bool

    def __call__(self, op: Op, *operands: Any, **options: Any) -> bool:
        if op is not OPS["checkpoint_name"]:
            return self.others
        return (options["name"] in self.names) is self.inside


def _named(names: Sequence[str], *, inside: bool, others: bool) -> Policy:
    for name in names:
        if not isinstance(name, str):
            raise CallError("PL601", f"{name!r} is no name for checkpoint_name", fix="strings, each an argument of its own")
    return _Names(frozenset(names), inside, others)


class checkpoint_policies:  # lower case as in JAX
    """What `checkpoint` keeps for the way back, by JAX's names.

    >>> import pypto
    >>> keep = pypto.checkpoint_policies.save_only_these_names("h")
    >>> f = pypto.checkpoint(lambda x: pypto.checkpoint_name(x * x, "h") * x, policy=keep)
    >>> pypto.grad(f)(2.0)
    Array(12., dtype=FP32)
    """

    everything_saveable: Policy = staticmethod(_everything)
    nothing_saveable: Policy = staticmethod(_nothing)
    dots_saveable: Policy = staticmethod(_dots)
    checkpoint_dots: Policy = staticmethod(_dots)
    dots_with_no_batch_dims_saveable: Policy = staticmethod(_dots_without_batch)
    checkpoint_dots_with_no_batch_dims: Policy = staticmethod(_dots_without_batch)

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """Keep what `checkpoint_name` gave one of these names."""
        return _named(names, inside=True, others=False)

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """Keep what has a name, but for these."""
        return _named(names, inside=False, others=False)

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        """Keep everything, but for what has one of these names."""
        return _named(names, inside=False, others=True)

    @staticmethod
    def save_from_both_policies(first: Policy, second: Policy) -> Policy:
        """Keep what either policy keeps."""
        return lambda op, *operands, **options: first(op, *operands, **options) or second(op, *operands, **options)
