"""`checkpoint`: memory for time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto import tree
from pypto.api.flat import Flattened, is_static, name_of, named_after, static_positions
from pypto.core.op import OPS
from pypto.core.trace import EVAL, aval_of, current_trace
from pypto.interpreters.partial_eval import trace_flat
from pypto.interpreters.tangents import apply, plain


def checkpoint(fun: Callable[..., Any], *, static_argnums: int | Sequence[int] = ()) -> Callable[..., Any]:
    """A function with the same values, of which reverse mode keeps the arguments only and computes the rest again on the way back.

    As `jax.checkpoint`, which is also called `jax.remat`. The gradient has the same bits.

    >>> import pypto
    >>> pypto.grad(checkpoint(lambda x: x * x * x))(2.0)
    Array(12., dtype=FP32)
    """
    chosen = static_positions(static_argnums)

    def made(*args: Any, **kwargs: Any) -> Any:
        if current_trace() is EVAL:
            return fun(*args, **kwargs)
        flat = Flattened(fun, args, kwargs, lambda i: is_static(i, chosen, len(args)))
        body, captured = trace_flat(flat, [plain(aval_of(x)) for x in flat.leaves], name_of(fun))
        outs = apply(OPS["remat"], [*captured, *flat.leaves], {"body": body}) if body.outs else []
        return tree.unflatten(flat.structure, outs)

    return named_after(fun, made)
