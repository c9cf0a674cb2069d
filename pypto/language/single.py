"""`strict_ssa=True`: every name gets one value, so that nothing is shadowed by accident."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from pypto.errors import BodyError
from pypto.language.grammar import is_call_of, loop_names, place

_FIX = "give the new value a name of its own, or drop strict_ssa"


def check_single_assignment(function: ast.FunctionDef, file: str) -> None:
    """Refuse the first name that is given a second value on some path.

    A body of a loop or branch has names of its own, which another body may have too; what its last `pl.yield_` names is
    known after it. `x[...] = v` is refused with it: it stands for `x = pl.assemble(x, v, ...)`.

    Errors:
      PL114 at the second value.
    """
    arguments = function.args
    known = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    _Check(file).block(function.body, known)


class _Check:
    def __init__(self, file: str) -> None:
        self.file = file

    def block(self, statements: Iterable[ast.stmt], known: set[str]) -> set[str]:
        """Check a block; `known` gains the names it stores. Returns those that its `pl.yield_` names."""
        yielded: set[str] = set()
        for node in statements:
            if isinstance(node, ast.For):
                index, state = loop_names(node.target)
                inner = set(known)
                self.store([*([index] if index else []), *state], node.target, inner)
                known |= self.block(node.body, inner)
                self.block(node.orelse, set(known))
            elif isinstance(node, ast.While):
                known |= self.block(node.body, set(known))
                self.block(node.orelse, set(known))
            elif isinstance(node, ast.If):
                arms = [self.block(arm, set(known)) for arm in (node.body, node.orelse)]
                self.store(sorted(arms[0] | arms[1]), node, known)
            elif isinstance(node, ast.With):
                for item in node.items:
                    self.store(_names(item.optional_vars), item.context_expr, known)
                self.block(node.body, known)
            elif isinstance(node, ast.AugAssign):
                self.refuse(ast.unparse(node.target), node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                if isinstance(node, ast.AnnAssign) and node.value is None:
                    continue
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    names = list(_names(target))
                    self.store(names, target, known)
                    if is_call_of(node.value, "yield_"):
                        yielded |= set(names)
        return yielded

    def store(self, names: Iterable[str], where: ast.AST, known: set[str]) -> None:
        for name in names:
            if name in known:
                self.refuse(name, where)
            known.add(name)

    def refuse(self, what: str, where: ast.AST) -> None:
        raise BodyError("PL114", f"`{what}` already has a value, and strict_ssa=True allows one", fix=_FIX, at=place(self.file, where))


def _names(target: ast.expr | None) -> Iterator[str]:
    """The names a target stores; a subscript stores the name it starts from."""
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _names(part)
    elif isinstance(target, ast.Subscript):
        yield from _names(target.value)
    elif isinstance(target, ast.Name):
        yield target.id
