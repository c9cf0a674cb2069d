"""Control flow of array programs, with JAX's names: `cond`, `switch`, `while_loop`, `fori_loop`, `scan`, `map`.

Functions are traced once, whatever runs then. They may use values from around them, and take and give trees of arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pypto import dtypes, tree
from pypto.core.array import Array
from pypto.core.avals import ArrayAval, Aval, scalar
from pypto.core.ir import Jaxpr
from pypto.core.op import OPS
from pypto.core.trace import Tracer, aval_of, current_trace
from pypto.core.whole import whole
from pypto.errors import BodyError, CallError, OutputError, ShapeError
from pypto.interpreters.batching import batch, repeated, reshaped
from pypto.interpreters.partial_eval import joined, trace_flat
from pypto.interpreters.tangents import apply, plain
from pypto.lax.families import as_dtype


@dataclass(frozen=True)
class Traced:
    """A function as a program: of the values it uses from around it, which are `captured`, then of its own arguments."""

    program: Jaxpr
    captured: list[Any]
    structure: tree.Structure

    @property
    def outs(self) -> list[Aval]:
        return [plain(o.aval) for o in self.program.outs]


def name_of(fn: Any) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__


def traced(fn: Callable[..., Any], avals: Sequence[Aval], structure: tree.Structure) -> Traced:
    """The program of `fn` on arguments of these types, which make a tuple of this structure."""
    if current_trace().strict:
        raise BodyError("PL112", f"`{name_of(fn)}` given to array control flow in a kernel", fix="a pl.range loop or an `if` statement")
    made: list[tree.Structure] = []

    def flat(*leaves: Any) -> list[Any]:
        outs, result = tree.flatten(fn(*tree.unflatten(structure, leaves)))
        made.append(result)
        return [Array(o) if isinstance(o, bool | int | float) else o for o in outs]

    program, captured = trace_flat(flat, avals, name_of(fn))
    return Traced(program, list(captured), made[0])


def leaves_of(value: Any) -> tuple[list[Any], tree.Structure, list[bool]]:
    """The arrays of a tree, its structure, and which of them were numbers."""
    leaves, structure = tree.flatten(value)
    weak = [isinstance(x, bool | int | float) for x in leaves]
    return [x if isinstance(x, Tracer | Array) else Array(x) for x in leaves], structure, weak


def _shown(structure: tree.Structure, avals: Sequence[Aval]) -> Any:
    return tree.unflatten(structure, [str(a) for a in avals])


def _check_same(what: str, first: Any, second: Any) -> None:
    (a, a_types), (b, b_types) = first, second
    if a != b or [(t.shape, t.dtype) for t in a_types] != [(t.shape, t.dtype) for t in b_types]:
        raise OutputError(
            "PL206", f"{what}: {_shown(a, a_types)} and {_shown(b, b_types)}", fix="make both the same tree of shapes and dtypes"
        )


# ---- branches ----------------------------------------------------------------------------------------------------


class _NotGiven:
    """No operand; None would be one."""

    def __repr__(self) -> str:
        return "not given"


_NOT_GIVEN = _NotGiven()


def _operands(operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    """One operand given by name is the only one."""
    if operand is _NOT_GIVEN:
        return operands
    if operands:
        raise CallError("PL601", "operand= beside positional operands", fix="one or the other")
    return (operand,)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _NOT_GIVEN) -> Any:
    """Apply one of several functions, as `jax.lax.switch`.

    Args:
      index: an integer scalar; outside 0..n-1 it takes the first or the last.
      branches: functions of the operands that give the same tree of shapes and dtypes.
      operand: the only operand, by name.
    Errors:
      PL206 when they do not, PL302 for an index that is no integer scalar.

    >>> switch(1, [lambda x: x, lambda x: x * 2.0], 3.0)
    Array(6., dtype=FP32)
    """
    kind = aval_of(index)
    if kind.shape != () or not kind.dtype.is_integer:
        raise ShapeError("PL302", f"switch: the index is {kind}", fix="an integer scalar")
    if not branches:
        raise CallError("PL601", "switch without branches", fix="one function or more")
    leaves, structure, _ = leaves_of(_operands(operands, operand))
    avals = [plain(aval_of(x)) for x in leaves]
    each = [traced(b, avals, structure) for b in branches]
    for b, t in zip(branches[1:], each[1:], strict=True):
        what = f"the branches `{name_of(branches[0])}` and `{name_of(b)}` give"
        _check_same(what, (each[0].structure, each[0].outs), (t.structure, t.outs))
    programs, shared = joined([(t.program, t.captured) for t in each])
    at = as_dtype(index, kind, dtypes.INT32)
    return tree.unflatten(each[0].structure, apply(OPS["switch"], [at, *shared, *leaves], {"branches": tuple(programs)}))


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any, operand: Any = _NOT_GIVEN) -> Any:
    """Apply `true_fun` where `pred` holds, `false_fun` otherwise, as `jax.lax.cond`. Only one of them runs; its derivative likewise.

    Args:
      pred: a truth value or number without axes.
      true_fun, false_fun: functions of the operands that give the same tree of shapes and dtypes.
      operand: the only operand, by name.
    Errors:
      PL206 when they do not, PL302 for a `pred` with axes.

    >>> cond(True, lambda x: x + 1.0, lambda x: x, 2.0)
    Array(3., dtype=FP32)
    """
    kind = aval_of(pred)
    if kind.shape != ():
        raise ShapeError("PL302", f"cond: the condition is {kind}", fix="one truth value; lax.select chooses element by element")
    truth = pred if kind.dtype is dtypes.BOOL else OPS["ne"](pred, 0)
    index = OPS["convert"](truth, dtype=dtypes.INT32) if not isinstance(truth, bool) else int(truth)
    return switch(index, (false_fun, true_fun), *_operands(operands, operand))


# ---- loops -------------------------------------------------------------------------------------------------------


Part = Callable[[Traced], tuple[tree.Structure, list[Aval]]]
"""The structure and the types of what a body gives to be carried."""


def _carried(
    what: str, fn: Callable[..., Any], init: Any, extra: Sequence[Aval], arguments: Callable[[tree.Structure], tree.Structure], part: Part
) -> tuple[list[Any], tree.Structure, Traced]:
    """A loop body with the values it carries; numbers to begin with take the dtype the body gives them."""
    leaves, structure, weak = leaves_of(init)
    avals: list[Aval] = [plain(aval_of(x)) for x in leaves]
    if any(weak):  # once with numbers as numbers, to see what they meet
        guess = traced(fn, [*(scalar(a.dtype, w) if w else a for a, w in zip(avals, weak, strict=True)), *extra], arguments(structure))
        new, types = part(guess)
        if new == structure:
            wanted = [t.dtype if w and not t.shape else a.dtype for a, t, w in zip(avals, types, weak, strict=True)]
            leaves = [as_dtype(x, aval_of(x), d) for x, d in zip(leaves, wanted, strict=True)]
            avals = [plain(aval_of(x)) for x in leaves]
    body = traced(fn, [*avals, *extra], arguments(structure))
    new, types = part(body)
    _check_same(f"{what} `{name_of(fn)}` is given and returns, to be carried,", (structure, avals), (new, types))
    return leaves, structure, body


def scan(
    f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False, unroll: int | bool = 1
) -> tuple[Any, Any]:
    """Carry values through a function, once per element of the leading axes, as `jax.lax.scan`.

    Args:
      f: `(carry, x) -> (carry, y)`.
      init: the first carry, a tree of arrays.
      xs: a tree of arrays with one leading extent; turn i gets element i of each. None: nothing.
      length: how many turns, where `xs` does not say it.
      reverse: begin with the last element; results stay at the place of their element.
      unroll: how many turns one run of the body does when the program runs; True for all of them. No bit depends on it, also on the
        way back.
    Returns:
      The last carry, and the ys stacked along a new leading axis.
    Errors:
      PL206 when the carry changes its tree, a shape or a dtype; PL301 for leading extents that differ; PL601 for no length, a
      function that does not return a pair, or an `unroll` below 1.

    >>> import numpy as np
    >>> scan(lambda total, x: (total + x, total), 0, np.int32([1, 2, 3]))
    (Array(6, dtype=INT32), Array([0, 1, 3], dtype=INT32))
    """
    given, given_structure, _ = leaves_of(xs)
    lengths = {aval_of(x).static_shape[0] if aval_of(x).rank else None for x in given}
    if length is not None:
        lengths.add(whole("scan: length", length))
    if len(lengths) != 1 or None in lengths:
        found = f"leading extents {sorted(map(str, lengths))}" if lengths else "neither xs nor a length"
        code = ("PL301", "one leading extent for all of xs") if lengths else ("PL601", "length=")
        raise (ShapeError if lengths else CallError)(code[0], f"scan: {found}", fix=code[1])
    (turns,) = lengths
    assert turns is not None
    if turns < 0:
        raise CallError("PL601", f"scan: length={turns}", fix="0 or more")
    slices = [ArrayAval(aval_of(x).static_shape[1:], aval_of(x).dtype) for x in given]

    def part(body: Traced) -> tuple[tree.Structure, list[Aval]]:
        if body.structure.kind is not tuple or len(body.structure.children) != 2:
            raise CallError("PL601", f"scan: `{name_of(f)}` returns {body.structure}, not a pair", fix="return (carry, y); y may be None")
        carry = body.structure.children[0]
        return carry, body.outs[: carry.leaves]

    leaves, structure, body = _carried("scan:", f, init, slices, lambda s: tree.Structure(tuple, (), (s, given_structure)), part)
    options = {"body": body.program, "length": turns, "reverse": bool(reverse), "consts": len(body.captured), "carries": len(leaves)}
    together = unrolled(unroll, turns)
    if together > 1:
        options["unroll"] = together
    outs = apply(OPS["scan"], [*body.captured, *leaves, *given], options) if body.program.outs else []
    return tree.unflatten(structure, outs[: len(leaves)]), tree.unflatten(body.structure.children[1], outs[len(leaves) :])


def unrolled(unroll: int | bool | None, turns: int) -> int:
    """How many turns are done together.

    Errors:
      PL601 for less than one.
    """
    if unroll is True:
        return max(turns, 1)
    asked = 1 if unroll is None or unroll is False else whole("unroll", unroll)
    if asked < 1:
        raise CallError("PL601", f"unroll={unroll!r}: a run of the body does at least one turn", fix="1 or more, True for all, or False")
    return min(asked, max(turns, 1))


def while_loop(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any) -> Any:
    """Apply `body_fun` as long as `cond_fun` holds, as `jax.lax.while_loop`. It has forward-mode derivatives only.

    Args:
      cond_fun: of the carried value, a BOOL scalar.
      body_fun: of the carried value, the next one.
      init_val: a tree of arrays.
    Errors:
      PL206 when the carried value changes its tree, a shape or a dtype; PL302 for a test that is no truth value.

    >>> while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=INT32)
    """
    leaves, structure, body = _carried(
        "while_loop:", body_fun, init_val, [], lambda s: tree.Structure(tuple, (), (s,)), lambda body: (body.structure, body.outs)
    )
    test = traced(cond_fun, [plain(aval_of(x)) for x in leaves], tree.Structure(tuple, (), (structure,)))
    if [(a.shape, a.dtype) for a in test.outs] != [((), dtypes.BOOL)]:
        raise ShapeError("PL302", f"while_loop: `{name_of(cond_fun)}` gives {_shown(test.structure, test.outs)}", fix="one BOOL scalar")
    options = {"test": test.program, "body": body.program, "tests": len(test.captured), "consts": len(body.captured)}
    outs = apply(OPS["while"], [*test.captured, *body.captured, *leaves], options) if leaves else []
    return tree.unflatten(structure, outs)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any, *, unroll: int | bool | None = None) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`, as `jax.lax.fori_loop`.

    With constant bounds it is a `scan` and has reverse-mode derivatives; with traced ones it is a `while_loop`.

    Args:
      unroll: as in `scan`; the bounds must be constants then.
    Errors:
      PL206 when the carried value changes its tree, a shape or a dtype; PL302 for bounds that are no integer scalars; PL601 for
      `unroll` with bounds that are traced.

    >>> fori_loop(0, 4, lambda i, total: total + i, 0)
    Array(6, dtype=INT32)
    """
    for bound in (lower, upper):
        kind = aval_of(bound)
        if kind.shape != () or not kind.dtype.is_integer:
            raise ShapeError("PL302", f"fori_loop: a bound is {kind}", fix="integer scalars")
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        if unroll is not None and unroll is not False and unroll != 1:
            raise CallError("PL601", f"fori_loop: unroll={unroll!r} and a bound that is traced", fix="bounds that are constants")
        first, last = (x if isinstance(x, Tracer) else Array(x) for x in (lower, upper))
        kind = max((first.dtype, last.dtype), key=lambda d: d.bits)
        first, last = (as_dtype(x, x.aval, kind) for x in (first, last))
        made = while_loop(lambda s: s[0] < s[1], lambda s: (s[0] + 1, s[1], body_fun(s[0], s[2])), (first, last, init_val))
        return made[2]
    turns = max(operator.index(upper) - operator.index(lower), 0)
    start = operator.index(lower)
    return scan(_counting(body_fun), (start, init_val), None, turns, unroll=1 if unroll is None else unroll)[0][1]


def _counting(body_fun: Callable[..., Any]) -> Callable[..., Any]:
    def body(carry: Any, _: Any) -> Any:
        i, value = carry
        return (i + 1, body_fun(i, value)), None

    body.__name__ = name_of(body_fun)
    return body


def map_(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply a function to each element of the leading axes, one after the other, as `jax.lax.map`; `pypto.vmap` does all at once.

    Args:
      xs: a tree of arrays with one leading extent.
      batch_size: so many elements at once, by `vmap`; those that are left over make a smaller batch. Each gets the bits it gets alone.
    Errors:
      PL301 for leading extents that differ; PL601 for a `batch_size` below 1.

    >>> import numpy as np
    >>> map_(lambda x: x * x, np.int32([1, 2, 3]))
    Array([1, 4, 9], dtype=INT32)
    """

    def body(carry: Any, x: Any) -> Any:
        return carry, f(x)

    body.__name__ = name_of(f)
    if batch_size is None:
        return scan(body, None, xs)[1]
    together = whole("map: batch_size", batch_size)
    if together < 1:
        raise CallError("PL601", f"map: batch_size={batch_size}", fix="1 or more")
    return _in_batches(f, xs, together)


def _in_batches(f: Callable[..., Any], xs: Any, size: int) -> Any:
    """Whole batches in a `scan`, then what is left."""
    leaves, structure, _ = leaves_of(xs)
    extents = {aval_of(x).static_shape[0] if aval_of(x).rank else None for x in leaves}
    if len(extents) != 1 or None in extents:
        return map_(f, xs)  # says what is wrong with them
    (count,) = extents
    assert count is not None

    def all_of(batch_of: Any) -> Any:
        given, made = tree.flatten(batch_of)[0], list[tree.Structure]()

        def flat(*each: Any) -> list[Any]:
            outs, result = tree.flatten(f(tree.unflatten(structure, each)))
            made.append(result)
            return [Array(o) if isinstance(o, bool | int | float) else o for o in outs]

        extent = aval_of(given[0]).static_shape[0]
        outs, which = batch(flat, extent, given, [True] * len(given), name_of(f))
        return tree.unflatten(made[-1], [x if b else repeated(x, extent) for x, b in zip(outs, which, strict=True)])

    whole = count - count % size
    parts = []
    if whole:
        cut = [reshaped(leading(x, 0, whole), (whole // size, size, *aval_of(x).static_shape[1:])) for x in leaves]
        made = map_(all_of, tree.unflatten(structure, cut))
        parts.append(tree.tree_map(lambda y: reshaped(y, (whole, *aval_of(y).static_shape[2:])), made))
    if whole < count:
        parts.append(all_of(tree.unflatten(structure, [leading(x, whole, count) for x in leaves])))
    if not parts:
        return map_(f, xs)
    return parts[0] if len(parts) == 1 else tree.tree_map(lambda a, b: OPS["concatenate"](a, b, axis=0), *parts)


def leading(x: Any, start: int, stop: int) -> Any:
    """Elements start..stop-1 along the first axis."""
    shape = aval_of(x).static_shape
    if (start, stop) == (0, shape[0]):
        return x
    zero = (0,) * (len(shape) - 1)
    return OPS["strided_slice"](x, start_indices=(start, *zero), limit_indices=(stop, *shape[1:]), strides=(1,) * len(shape))


__all__ = ["cond", "fori_loop", "map_", "scan", "switch", "traced", "while_loop"]
