"""Run array programs: every op's meaning on NumPy, each value dropped after its last use."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pypto.core.allocation import explain_memory
from pypto.core.ir import Jaxpr, Literal, Var
from pypto.errors import InternalError, PyptoError

_dying: WeakKeyDictionary[Jaxpr, tuple[tuple[Var, ...], ...]] = WeakKeyDictionary()
"""For each equation of a program that has run, the values nobody needs after it: a fact of the program, kept as long as it is."""


def last_uses(jaxpr: Jaxpr) -> tuple[tuple[Var, ...], ...]:
    """For each equation, the values that are not used after it."""
    found = _dying.get(jaxpr)
    if found is None:
        seen = {o for o in jaxpr.outs if isinstance(o, Var)}
        steps = []
        for eqn in reversed(jaxpr.eqns):
            dying = tuple({a: None for a in (*eqn.ins, *eqn.outs) if isinstance(a, Var) and a not in seen})
            seen.update(dying)
            steps.append(dying)
        found = _dying[jaxpr] = tuple(reversed(steps))
    return found


def evaluate(jaxpr: Jaxpr, args: list[Any]) -> list[np.ndarray]:
    """The results of a closed array program. The list of arguments is emptied, so that their memory can be freed as well."""
    env: dict[Any, np.ndarray] = dict(zip(jaxpr.invars, args, strict=True))
    args.clear()
    with np.errstate(all="ignore"):
        return _run(jaxpr, env)


def _run(jaxpr: Jaxpr, env: dict[Any, np.ndarray]) -> list[np.ndarray]:
    for eqn, dying in zip(jaxpr.eqns, last_uses(jaxpr), strict=True):
        ins = [np.asarray(a.value) if isinstance(a, Literal) else env[a] for a in eqn.ins]
        for v in dying:
            env.pop(v, None)
        try:
            made = eqn.op.meaning(*ins, **eqn.params)
        except PyptoError as error:
            raise error.at(eqn.source) from None
        except (MemoryError, ValueError) as error:
            explain_memory(error, eqn.op.name, [v.aval for v in eqn.outs], eqn.source)
            raise
        del ins
        outs = made if isinstance(made, tuple) else (made,)
        for v, out in zip(eqn.outs, outs, strict=True):
            result = np.asarray(out)
            if result.dtype != v.aval.dtype.storage or result.shape != v.aval.shape:
                found = f"{result.dtype}{list(result.shape)}"
                raise InternalError("PL901", f"{eqn.op.name} computed {found}, its abstract rule says {v.aval}", at=eqn.source)
            if v not in dying:
                env[v] = result
        del made, outs
    return [np.asarray(a.value) if isinstance(a, Literal) else env[a] for a in jaxpr.outs]
