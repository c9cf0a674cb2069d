"""Pytrees: nested tuples, lists, dicts, NamedTuples, dataclasses and None, taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pypto.errors import CallError


@dataclass(frozen=True)
class Structure:
    """The shape of a tree without its leaves; equal and hashable when the trees have the same shape.

    Attributes:
      kind: the container's type, or None for a leaf.
      keys: dict keys or dataclass field names, in order; empty for sequences.
      children: structures of the parts.
    """

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()

    @property
    def leaves(self) -> int:
        """How many leaves the tree has."""
        return 1 if self.kind is None else sum(c.leaves for c in self.children)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        parts = [f"{k}: {c}" for k, c in zip(self.keys, self.children, strict=True)] if self.keys else [str(c) for c in self.children]
        return f"{self.kind.__name__}({', '.join(parts)})"


LEAF = Structure(None)


def _is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(type(x), "_fields")


def _ordered(mapping: dict[Any, Any]) -> tuple[Any, ...]:
    """Keys in an order that does not depend on how the dict was filled, where they have one."""
    try:
        return tuple(sorted(mapping))
    except TypeError:  # keys that do not compare stay in their own order
        return tuple(mapping)


def _parts(x: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Keys and children of a container; None for a leaf."""
    if x is None:
        return (), []
    if _is_namedtuple(x):
        return tuple(x._fields), list(x)
    if type(x) in (tuple, list):
        return (), list(x)
    if type(x) is dict:
        keys = _ordered(x)
        return keys, [x[k] for k in keys]
    if is_dataclass(x) and not isinstance(x, type) and getattr(type(x), "__pypto_tree__", False):
        names = tuple(f.name for f in fields(x))
        return names, [getattr(x, n) for n in names]
    return None


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Leaves from left to right, and the structure that puts them back.

    >>> leaves, structure = flatten({"b": 2, "a": (1, None)})
    >>> leaves, str(structure)
    ([1, 2], 'dict(a: tuple(*, NoneType()), b: *)')
    """
    leaves: list[Any] = []

    def walk(x: Any) -> Structure:
        parts = _parts(x)
        if parts is None:
            leaves.append(x)
            return LEAF
        keys, children = parts
        return Structure(type(x), keys, tuple(walk(c) for c in children))

    return leaves, walk(tree)


def flatten_like(structure: Structure, tree: Any, what: str = "a tree") -> list[Any]:
    """What stands in `tree` where `structure` has its leaves, whatever it is there.

    >>> flatten_like(flatten((1, [2, 3]))[1], (None, ["x", (4, 5)]))
    [None, 'x', (4, 5)]

    Errors:
      PL601 where the trees differ above the leaves.
    """
    found: list[Any] = []

    def walk(s: Structure, x: Any) -> None:
        if s.kind is None:
            found.append(x)
            return
        parts = _parts(x)
        if parts is None or type(x) is not s.kind or parts[0] != s.keys or len(parts[1]) != len(s.children):
            raise CallError("PL601", f"{what}: {flatten(tree)[1]} does not fit {structure}", fix="give a tree of that structure")
        for child, part in zip(s.children, parts[1], strict=True):
            walk(child, part)

    walk(structure, tree)
    return found


def prefix_none(structure: Structure, tree: Any, what: str = "a tree") -> list[Any]:
    """As `flatten_like`, where None may stand for a whole part of the tree: it is then the entry of each leaf below.

    >>> prefix_none(flatten((1, [2, 3]))[1], (4, None))
    [4, None, None]
    """
    if tree is None and structure.kind is not type(None):
        return [None] * structure.leaves
    if structure.kind is None:
        return [tree]
    parts = _parts(tree)
    if parts is None or type(tree) is not structure.kind or parts[0] != structure.keys or len(parts[1]) != len(structure.children):
        raise CallError("PL601", f"{what}: {flatten(tree)[1]} does not fit {structure}", fix="give a tree of that structure")
    return [leaf for child, part in zip(structure.children, parts[1], strict=True) for leaf in prefix_none(child, part, what)]


def prefix_leaves(prefix: Any, structure: Structure, what: str = "a prefix") -> list[Any]:
    """One entry per leaf of `structure`, from a tree that may stop above it: None and numbers stand for all leaves below them.

    >>> prefix_leaves((0, None), flatten(([1, 2], 3))[1])
    [0, 0, None]

    Errors:
      PL601 where the trees differ above the leaves of the prefix.
    """
    if prefix is None or isinstance(prefix, int):
        return [prefix] * structure.leaves
    parts = _parts(prefix)
    children = structure.children
    alike = parts is not None and parts[0] == structure.keys and len(parts[1]) == len(children)
    if not alike or (type(prefix) is not structure.kind and {type(prefix), structure.kind} != {tuple, list}):
        raise CallError("PL601", f"{what}: {prefix!r} does not fit {structure}", fix="a number, None, or a tree that begins like it")
    assert parts is not None
    return [leaf for part, child in zip(parts[1], children, strict=True) for leaf in prefix_leaves(part, child, what)]


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of this structure with these leaves.

    >>> unflatten(flatten({"a": (1, 2)})[1], [3, 4])
    {'a': (3, 4)}

    Errors:
      PL601 when the number of leaves is not the structure's.
    """
    if structure.leaves != len(leaves):
        raise CallError("PL601", f"{len(leaves)} leaves for a tree of {structure.leaves}: {structure}", fix="one per leaf")
    rest = iter(leaves)

    def build(s: Structure) -> Any:
        if s.kind is None:
            return next(rest)
        children = [build(c) for c in s.children]
        if s.kind is type(None):
            return None
        if s.kind is dict:
            return dict(zip(s.keys, children, strict=True))
        if s.keys or s.kind not in (tuple, list):
            return s.kind(**dict(zip(s.keys, children, strict=True)))
        return s.kind(children)

    return build(structure)


def tree_map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `fn` to the leaves of trees of one structure.

    >>> tree_map(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in rest:
        other_leaves, other_structure = flatten(other)
        if other_structure != structure:
            raise CallError("PL601", f"trees differ: {structure} and {other_structure}", fix="give trees of one structure")
        columns.append(other_leaves)
    return unflatten(structure, [fn(*row) for row in zip(*columns, strict=True)])


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, from left to right, as `jax.tree.leaves`.

    >>> leaves({"b": 2, "a": (1, None)})
    [1, 2]
    """
    return flatten(tree)[0]


def structure(tree: Any) -> Structure:
    """The structure of a tree, as `jax.tree.structure`.

    >>> structure((1, [2])) == structure((3, [4]))
    True
    """
    return flatten(tree)[1]


map = tree_map  # JAX's name of it: `tree.map`
