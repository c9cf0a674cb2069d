"""Bring `return` to the end of a body, so that branches and scopes need not know about it.

`if c: return a` followed by more statements becomes an `if` / `else` that stores a hidden result in each arm; the
hidden name is then merged like any other. Nothing is ever duplicated: where the statements that follow would be needed
in two places, the `return` is refused.
"""

from __future__ import annotations

import ast

from pypto.errors import BodyError
from pypto.language.grammar import PREFIX, located, place

RESULT = PREFIX + "return"
"""The hidden name that holds the result of a kernel with more than one `return`."""


_FIX = "assign the result to a name in every branch and write one `return` at the end"


def normalise(function: ast.FunctionDef, file: str) -> list[ast.stmt]:
    """The body of `function` with one item per `with` and a `return` as its last statement, and nowhere else.

    Errors:
      PL107 for a `return` that is not the last thing its body does.
    """
    body = [part for statement in function.body for part in _one_item_each(statement)]
    returns = _Returns(file)
    returns.scan(body)
    last = body[-1] if body else None
    if isinstance(last, ast.Return) and len(returns.found) == 1:
        return body
    if not any(returns.valued(node) for node in returns.found):
        # Nothing is returned on any path: only the statements after an early `return` have to move.
        body = returns.tail(body, required=False)
        at = returns.found[-1] if returns.found else function
        return [*body, located(ast.Return(located(ast.Constant(None), at)), at)]
    body = returns.tail(body, required=True)
    at = returns.found[-1]
    return [*body, located(ast.Return(located(ast.Name(RESULT, ast.Load()), at)), at)]


def _one_item_each(node: ast.stmt) -> list[ast.stmt]:
    """`with a, b:` as nested `with`s, and the same inside every block of `node`."""
    for name in ("body", "orelse"):
        block: list[ast.stmt] | None = getattr(node, name, None)
        if isinstance(block, list):
            setattr(node, name, [part for statement in block for part in _one_item_each(statement)])
    if isinstance(node, ast.With):
        for item in reversed(node.items[1:]):
            node.body = [located(ast.With([item], node.body), node)]
        node.items = node.items[:1]
    return [node]


class _Returns:
    """The returns of one function: where they are, and the moves that bring them to the end."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[ast.Return] = []
        self._holders: set[int] = set()  # statements with a return somewhere inside, by id
        self._arms: dict[int, tuple[bool, bool]] = {}  # of an `if`, by id: does every path of each arm return?

    def scan(self, block: list[ast.stmt], loop: ast.For | ast.While | None = None) -> tuple[bool, bool]:
        """Find every return and refuse those inside loops.

        Returns:
          Whether `block` has a return, and whether every path through it returns.
        """
        has_any = leaves_any = False
        for node in block:
            has = leaves = False
            if isinstance(node, ast.Return):
                if loop is not None:
                    word = "for" if isinstance(loop, ast.For) else "while"
                    raise self._refuse(f"`return` inside a `{word}` loop would leave a loop that runs on the device", node)
                self.found.append(node)
                has = leaves = True
            elif isinstance(node, ast.If):
                (then_has, then), (else_has, orelse) = self.scan(node.body, loop), self.scan(node.orelse, loop)
                self._arms[id(node)] = (then, orelse)
                has, leaves = then_has or else_has, then and orelse
            elif isinstance(node, ast.With):
                has, leaves = self.scan(node.body, loop)
            elif isinstance(node, ast.For | ast.While):
                self.scan([*node.body, *node.orelse], node)
            if has:
                self._holders.add(id(node))
            has_any, leaves_any = has_any or has, leaves_any or leaves
        return has_any, leaves_any

    def tail(self, block: list[ast.stmt], required: bool, at: ast.AST | None = None) -> list[ast.stmt]:
        """`block`, in tail position, with its returns turned into stores of the hidden name.

        Args:
          required: whether every path must return: some other path returns a value.
          at: what to point at if this block does not return.
        """
        for position, node in enumerate(block):
            if id(node) not in self._holders:
                continue
            before, rest = block[:position], block[position + 1 :]
            if isinstance(node, ast.If):
                self._place_rest(node, rest)
                node.body = self.tail(node.body, required, node) or [located(ast.Pass(), node)]
                node.orelse = self.tail(node.orelse, required, node)
                return [*before, node]
            if rest:
                raise self._refuse("statements follow a `return` that is not inside an `if`", node)
            if isinstance(node, ast.With):
                node.body = self.tail(node.body, required, node)
                return [*before, node]
            assert isinstance(node, ast.Return)
            store = located(ast.Name(RESULT, ast.Store()), node)
            value = node.value or located(ast.Constant(None), node)
            return [*before, located(ast.Assign([store], value), node) if required else located(ast.Pass(), node)]
        if required:
            where = at or (block[-1] if block else self.found[-1])
            raise self._refuse("one path returns a value and another path ends without `return`", where)
        return block

    def _place_rest(self, node: ast.If, rest: list[ast.stmt]) -> None:
        """Move the statements after `node` into the one arm that goes on to them."""
        if not rest:
            return
        then, orelse = self._arms[id(node)]
        if then and orelse:
            raise self._refuse("statements follow an `if` whose arms both return", rest[0])
        if not then and not orelse:
            inner = next(found for found in self.found if any(found is part for part in ast.walk(node)))
            raise self._refuse("`return` leaves the kernel from a branch that may also go on", inner)
        if then:
            node.orelse = [*node.orelse, *rest]
        else:
            node.body = [*node.body, *rest]

    @staticmethod
    def valued(node: ast.Return) -> bool:
        return node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None)

    def _refuse(self, message: str, node: ast.AST) -> BodyError:
        return BodyError("PL107", message, fix=_FIX, at=place(self.file, node))
