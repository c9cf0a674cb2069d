"""Which names a loop carries, a branch merges and a `with` body lets out.

Classic backward liveness, arranged so that nesting costs nothing. A first walk summarises every block once (which
names it may read before writing them, which it certainly writes, which it may write); a second walk carries the live
set down from the end of the function, stepping over a nested block through its summary. Each statement is visited
exactly twice, however deep it stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pypto.language.grammar import loop_names

_READ = "read:"
"""Prefix of the second fact kept about a name used in `init_values=`: that it is read for any other purpose later."""

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class LoopNames:
    """What a `for` does to names. All tuples are sorted, except `state`, which keeps the written order.

    Attributes:
      target: the index name.
      state: names assigned by the loop head, `for i, (a, b) in ...`.
      carried: names stored in the body (or the index) that the next iteration or the code after the loop may read.
      stale_inits: names given as `init_values=` that the code after the loop still reads.
    """

    target: str
    state: tuple[str, ...]
    carried: tuple[str, ...]
    stale_inits: tuple[str, ...]


@dataclass(frozen=True)
class BranchNames:
    """What an `if` does to names.

    Attributes:
      merged: names stored in an arm that may be read after the `if`.
      stored: every name stored in an arm.
      passed: the stored names an arm needs from outside: those it may read before storing, and those merged.
    """

    merged: tuple[str, ...]
    stored: tuple[str, ...]
    passed: tuple[str, ...]


@dataclass(frozen=True)
class ScopeNames:
    """What a `with` does to names: as `BranchNames`, with one body and an optional `as` name.

    Attributes:
      target: the `as` name; bound by the scope, so never part of `passed`.
      escaping: names stored in the body, or the target, that may be read after it.
      stored: every name stored in the body.
      passed: the stored names the body needs from outside.
    """

    target: str | None
    escaping: tuple[str, ...]
    stored: tuple[str, ...]
    passed: tuple[str, ...]


@dataclass
class _Summary:
    """A statement or block seen from outside."""

    exposed: set[str] = field(default_factory=set)  # may be read before this block stores it
    defined: set[str] = field(default_factory=set)  # certainly stored
    stored: set[str] = field(default_factory=set)  # possibly stored


class Liveness:
    """The annotations of one function's compound statements, keyed by node.

    `normalised` bodies only: one item per `with`, and `return` only as the last statement.
    """

    def __init__(self, body: list[ast.stmt]) -> None:
        self.loops: dict[ast.For, LoopNames] = {}
        self.branches: dict[ast.If, BranchNames] = {}
        self.scopes: dict[ast.With, ScopeNames] = {}
        self.visits = 0
        self._summaries: dict[int, _Summary] = {}
        self._inits = {name for loop in _loops(body) for name in _init_names(loop)}
        self.stored = self._summarise(body).stored
        self._propagate(body, set())

    # The first walk: summaries, bottom-up.

    def _summarise(self, statements: list[ast.stmt]) -> _Summary:
        block = _Summary()
        for statement in reversed(statements):
            self.visits += 1
            summary = self._summaries[id(statement)] = self._statement(statement)
            block.exposed -= summary.defined
            block.exposed -= self._marks(summary.defined)
            block.exposed |= summary.exposed
            block.defined |= summary.defined
            block.stored |= summary.stored
        self._summaries[id(statements)] = block
        return block

    def _statement(self, node: ast.stmt) -> _Summary:
        if isinstance(node, ast.For):
            target, state = loop_names(node.target)
            body = self._summarise(node.body)
            exposed = self._reads(_but_inits(node.iter)) | self._next_iteration(node) | _init_names(node)
            return _Summary(exposed, set(state), body.stored | {target, *state})
        if isinstance(node, ast.If):
            then, orelse = self._summarise(node.body), self._summarise(node.orelse)
            exposed = self._reads([node.test]) | then.exposed | orelse.exposed
            return _Summary(exposed, then.defined & orelse.defined, then.stored | orelse.stored)
        if isinstance(node, ast.With):
            body, bound = self._summarise(node.body), set(_stores(node.items[0].optional_vars))
            inside = body.exposed - bound - self._marks(bound)
            return _Summary(self._reads([node.items[0].context_expr]) | inside, body.defined | bound, body.stored | bound)
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return _Summary()  # a bare `m: T` is dropped, so what it mentions is not read
        stored = set(_stored_by(node))
        exposed = self._reads([node])
        if isinstance(node, ast.AugAssign):
            exposed |= stored | self._marks(stored)
        return _Summary(exposed, stored, set(stored))

    def _next_iteration(self, loop: ast.For) -> set[str]:
        """What an iteration may read of the values left by the one before it: the back edge."""
        target, state = loop_names(loop.target)
        bound = {target, *state}
        return self._summaries[id(loop.body)].exposed - bound - self._marks(bound)

    # The second walk: live sets, from the end of the function down.

    def _propagate(self, statements: list[ast.stmt], live: set[str]) -> None:
        """Annotate `statements`; `live` holds the names that may be read after them, and is consumed."""
        for statement in reversed(statements):
            self.visits += 1
            summary = self._summaries[id(statement)]
            if isinstance(statement, ast.For):
                self._loop(statement, summary, live)
            elif isinstance(statement, ast.If):
                self._branch(statement, summary, live)
            elif isinstance(statement, ast.With):
                self._scope(statement, summary, live)
            live -= summary.defined
            live -= self._marks(summary.defined)
            live |= summary.exposed

    def _loop(self, node: ast.For, summary: _Summary, live: set[str]) -> None:
        target, state = loop_names(node.target)
        inside = self._summaries[id(node.body)].stored
        # Re-reading an initial value in the next turn of an outer loop is not what stale_inits is about: no marks here.
        following = {name for name in self._next_iteration(node) if not name.startswith(_READ)}
        carried = self._carried(inside, target, following, live) - set(state)
        stale = {name for name in _init_names(node) if _READ + name in live} - summary.stored
        self.loops[node] = LoopNames(target, state, _ordered(carried), _ordered(stale))
        self._propagate(node.body, live | following | set(state))

    def _carried(self, inside: set[str], target: str, following: set[str], live: set[str]) -> set[str]:
        """Stored inside and read later; the index itself only if the code after the loop reads it."""
        return (inside & following) | ((inside | {target}) & live)

    def _branch(self, node: ast.If, summary: _Summary, live: set[str]) -> None:
        merged = summary.stored & live
        entering = self._summaries[id(node.body)].exposed | self._summaries[id(node.orelse)].exposed
        passed = summary.stored & (merged | entering)
        self.branches[node] = BranchNames(_ordered(merged), _ordered(summary.stored), _ordered(passed))
        self._propagate(node.body, set(live))
        self._propagate(node.orelse, set(live))

    def _scope(self, node: ast.With, summary: _Summary, live: set[str]) -> None:
        bound = set(_stores(node.items[0].optional_vars))
        escaping = summary.stored & live
        passed = summary.stored & (escaping | self._summaries[id(node.body)].exposed) - bound
        target = next(iter(bound), None)
        self.scopes[node] = ScopeNames(target, _ordered(escaping), _ordered(summary.stored), _ordered(passed))
        self._propagate(node.body, set(live))

    def _reads(self, nodes: Iterable[ast.AST]) -> set[str]:
        names = {name for node in nodes for name in reads(node)}
        return names | self._marks(names)

    def _marks(self, names: Iterable[str]) -> set[str]:
        return {_READ + name for name in self._inits.intersection(names)} if self._inits else set()


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _loops(statements: list[ast.stmt]) -> Iterator[ast.For]:
    for statement in statements:
        if isinstance(statement, ast.For):
            yield statement
        for block in (getattr(statement, "body", None), getattr(statement, "orelse", None)):
            if block:
                yield from _loops(block)


def _inits(loop: ast.For) -> ast.Tuple | ast.List | None:
    if isinstance(loop.iter, ast.Call):
        for keyword in loop.iter.keywords:
            if keyword.arg == "init_values" and isinstance(keyword.value, (ast.Tuple, ast.List)):
                return keyword.value
    return None


def _init_names(loop: ast.For) -> set[str]:
    values = _inits(loop)
    return {value.id for value in values.elts if isinstance(value, ast.Name)} if values else set()


def _but_inits(iterator: ast.expr) -> Iterator[ast.AST]:
    """The parts of a loop's iterator, without the plain names among its `init_values=`."""
    if not isinstance(iterator, ast.Call):
        yield iterator
        return
    yield iterator.func
    yield from iterator.args
    for keyword in iterator.keywords:
        if keyword.arg == "init_values" and isinstance(keyword.value, (ast.Tuple, ast.List)):
            yield from (value for value in keyword.value.elts if not isinstance(value, ast.Name))
        else:
            yield keyword.value


def reads(node: ast.AST | None) -> set[str]:
    """Names read when `node` is evaluated; the variables of a comprehension belong to it alone."""
    found: set[str] = set()
    stack: list[ast.AST] = [node] if node is not None else []
    while stack:
        part = stack.pop()
        if isinstance(part, ast.Name):
            if isinstance(part.ctx, ast.Load):
                found.add(part.id)
        elif isinstance(part, _COMPREHENSIONS):
            first = part.generators[0]
            own = {name for generator in part.generators for name in _stores(generator.target)}
            inner = [child for child in ast.iter_child_nodes(part) if child is not first]
            found |= {name for child in (*inner, first.target, *first.ifs) for name in reads(child)} - own
            stack.append(first.iter)  # evaluated outside, where the comprehension's names do not exist yet
        else:
            stack.extend(ast.iter_child_nodes(part))
    return found


def _stored_by(node: ast.stmt) -> Iterator[str]:
    """Names a simple statement stores."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _stores(target)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        yield from _stores(node.target)


def _stores(target: ast.AST | None) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _stores(element)
    elif isinstance(target, ast.Starred):
        yield from _stores(target.value)
