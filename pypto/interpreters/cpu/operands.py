"""How values are passed to functions: what is known while writing is part of the function, the rest are its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pypto.interpreters.cpu.lanes import register_kind
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Ref, Root, Scalar, Value


def key_of(x: Value, roots: Mapping[Root, int]) -> Any:
    """What is known of a value; functions are shared by values of which the same is known."""
    if isinstance(x, Scalar):
        return (x.dtype, x.known)
    assert isinstance(x, Ref)
    layout = tuple(d if isinstance(d, int) else None for d in (*x.shape, *x.strides, *(x.valid or ())))
    classes = None if x.roots is None else tuple(sorted(roots[r] for r in x.roots))
    return (x.dtype, len(x.shape), layout, classes, x.mask is not None, x.certain, x.dense)


def arguments_of(x: Value) -> list[str]:
    """What is passed for an operand, each with its type: what is not known while writing."""
    if isinstance(x, Scalar):
        return [] if x.known is not None else [f"{register_kind(x.dtype)} {x.register}"]
    assert isinstance(x, Ref)
    dynamic = [f"i64 {d}" for d in (*x.shape, *x.strides, *(x.valid or ())) if not isinstance(d, int)]
    return [f"ptr {x.pointer}", *([f"ptr {x.mask}"] if x.mask is not None else []), *dynamic]


def received(x: Value, names: Iterator[str], fresh: Mapping[Root, Root]) -> Value:
    """The value inside the function: the arguments come from `names`, buffers are called what `fresh` says."""
    if isinstance(x, Scalar):
        return x if x.known is not None else Scalar(x.dtype, next(names))
    assert isinstance(x, Ref)
    pointer = next(names)
    mask = next(names) if x.mask is not None else None

    def take(values: Sequence[Int]) -> tuple[Int, ...]:
        return tuple(d if isinstance(d, int) else next(names) for d in values)

    shape, strides = take(x.shape), take(x.strides)
    valid = None if x.valid is None else take(x.valid)
    roots = None if x.roots is None else frozenset(fresh[r] for r in x.roots)
    return Ref(x.dtype, pointer, shape, strides, roots, valid, mask, x.dense, x.certain)
