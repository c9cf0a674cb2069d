"""`while`, `break` and `continue` as plain loops and branches, so that nothing behind this pass need know about jumps.

A loop that may be left early gets a hidden name that says whether it goes on; the rest of a turn that may have jumped stands
under an `if`. Statements move into the one arm that goes on to them where there is one; nothing is ever duplicated.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from pypto.errors import BodyError
from pypto.language.grammar import PREFIX, has_break, is_call_of, jumps_of, located, loop_names, place

GOING = PREFIX + "going"
"""`_pypto_going(name)` at the head of a loop body: the loop ends before a turn in which the name is false."""

FOREVER = "forever"
"""The runtime method that gives what a `while` statement stands over."""

_NONE, _SOME, _ALL = range(3)  # how many paths through a block jump


@dataclass
class _Loop:
    """A loop under transformation: the hidden names of its jumps."""

    going: str  # whether there is another turn
    on: str  # whether the rest of this turn runs
    breaks: bool = False
    flagged: bool = False  # whether `on` is needed


class Jumps:
    """Rewrites the loops of one function, innermost first.

    Args:
      runtime: the name of the runtime in the body.
    """

    def __init__(self, file: str, runtime: str) -> None:
        self.file, self.runtime = file, runtime
        self.count = 0

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Statements outside of any loop, or of a loop whose own jumps are lowered later."""
        return [part for statement in statements for part in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.While):
            return self._while(node)
        if isinstance(node, ast.For):
            return self._pl_while(node) if is_call_of(node.iter, "while_") else self._for(node, None)
        for name in ("body", "orelse"):
            inner: list[ast.stmt] | None = getattr(node, name, None)
            if isinstance(inner, list):
                setattr(node, name, self.block(inner))
        return [node]

    # ---- loops ----

    def _while(self, node: ast.While) -> list[ast.stmt]:
        """`while test: body` runs turns until one begins with a false test."""
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if endless and not has_break(node.body):
            raise self.refuse("a `while` loop that nothing ends", "a condition that becomes false, or a `break`", node)
        runtime = located(ast.Name(self.runtime, ast.Load()), node.test)
        forever = located(ast.Call(located(ast.Attribute(runtime, FOREVER, ast.Load()), node.test), [], []), node.test)
        turns = located(ast.For(self._name("turn", node, ast.Store()), forever, node.body, node.orelse), node)
        return self._for(turns, None if endless else node.test)

    def _pl_while(self, node: ast.For) -> list[ast.stmt]:
        """`for (a, b) in pl.while_(init_values=(x, y)):` with `pl.cond(test)` as its first statement."""
        first = node.body[0]
        if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Call) and is_call_of(first.value, "cond")):
            raise self.refuse("a pl.while_ body that does not begin with pl.cond", "pl.cond(test) as its first statement", first)
        if len(first.value.args) != 1 or first.value.keywords:
            raise self.refuse("pl.cond takes one condition", "pl.cond(x < n)", first)
        node.body = node.body[1:] or [located(ast.Pass(), first)]
        if loop_names(node.target)[0]:  # one name without a tuple
            raise BodyError(
                "PL102", "a pl.while_ loop has no index", fix="for (x,) in pl.while_(init_values=(0,)):", at=place(self.file, node.target)
            )
        node.target = located(ast.Tuple([self._name("turn", node, ast.Store()), node.target], ast.Store()), node.target)
        return self._for(node, first.value.args[0])

    def _for(self, node: ast.For, test: ast.expr | None) -> list[ast.stmt]:
        self.count += 1
        loop = _Loop(f"{PREFIX}going_{self.count}", f"{PREFIX}on_{self.count}")
        after: list[ast.stmt] = []
        jumps = jumps_of(node.body)
        if test is not None or jumps:
            after = self._yields_as_names(node)
        body: list[ast.stmt] = self.block(node.body)
        if test is not None:
            leave = located(ast.Break(), test)
            body = [located(ast.If(test, body, [leave]), test)]
        if test is not None or jumps:
            loop.flagged = self._needs_flag(body)
            body, _ = self._lower(body, loop)
            if loop.flagged:
                body.insert(0, self._set(loop.on, True, node))
        orelse, node.orelse, node.body = self.block(node.orelse), [], body
        if not loop.breaks:
            return [node, *after, *orelse]
        going = located(ast.Name(loop.going, ast.Load()), node.iter)
        mark = located(ast.Call(located(ast.Name(GOING, ast.Load()), node.iter), [going], []), node.iter)
        body.insert(0, located(ast.Expr(mark), node.iter))
        if orelse and test is not None:
            # `else` runs when the condition ended the loop, and not after a `break`: the two would need telling apart.
            raise self.refuse("`else` on a `while` loop", "a name that says whether the loop was left by `break`", orelse[0])
        if orelse:
            orelse = [located(ast.If(located(ast.Name(loop.going, ast.Load()), node), orelse, []), node)]
        return [self._set(loop.going, True, node), node, *after, *orelse]

    def _yields_as_names(self, node: ast.For) -> list[ast.stmt]:
        """`t = pl.yield_(v)` in a body that may jump: the state takes the value, the target names it. Returns what follows the loop."""
        state = loop_names(node.target)[1]
        after: list[ast.stmt] = []
        for position, statement in enumerate(node.body):
            value = statement.value if isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign)) else None
            if not isinstance(value, ast.Call) or not is_call_of(value, "yield_"):
                continue
            if len(value.args) != len(state) or any(isinstance(a, ast.Starred) for a in value.args):
                message = f"pl.yield_ gives {len(value.args)} values for {len(state)} state names"
                raise BodyError("PL102", message, fix="one per name of init_values=", at=place(self.file, statement))
            given: ast.expr = value.args[0] if len(state) == 1 else located(ast.Tuple(value.args, ast.Load()), value)
            moved: list[ast.stmt] = [located(ast.Assign([self._names(state, value, ast.Store())], given), statement)]
            for target in _targets(statement):
                moved.append(located(ast.Assign([target], self._names(state, value, ast.Load())), statement))
                after.append(located(ast.Assign([copy.deepcopy(target)], self._names(state, value, ast.Load())), statement))
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                loaded = self._names(state, value, ast.Load())
                moved[-1] = located(ast.AnnAssign(statement.target, statement.annotation, loaded, 1), statement)
            if position + 1 != len(node.body):
                raise BodyError(
                    "PL102", "statements after pl.yield_", fix="yield once, at the end", at=place(self.file, node.body[position + 1])
                )
            node.body = [*node.body[:position], *moved]
            break
        return after

    def _names(self, names: tuple[str, ...], where: ast.AST, context: ast.Load | ast.Store) -> ast.expr:
        parts: list[ast.expr] = [located(ast.Name(name, context), where) for name in names]
        return parts[0] if len(parts) == 1 else located(ast.Tuple(parts, context), where)

    # ---- jumps ----

    def _needs_flag(self, body: list[ast.stmt]) -> bool:
        """Whether statements follow an `if` of which neither arm, or not all of one, goes on to them."""
        for position, node in enumerate(body):
            if isinstance(node, ast.If):
                then, orelse = _paths(node.body), _paths(node.orelse)
                if (position + 1 < len(body) and _SOME in (then, orelse)) or self._needs_flag(node.body) or self._needs_flag(node.orelse):
                    return True
        return False

    def _lower(self, body: list[ast.stmt], loop: _Loop) -> tuple[list[ast.stmt], int]:
        """A block of the loop without its jumps, and how many of its paths jumped."""
        out: list[ast.stmt] = []
        for position, node in enumerate(body):
            if isinstance(node, ast.Break | ast.Continue):
                if isinstance(node, ast.Break):
                    loop.breaks = True
                    out.append(self._set(loop.going, False, node))
                if loop.flagged:
                    out.append(self._set(loop.on, False, node))
                return out or [located(ast.Pass(), node)], _ALL
            if isinstance(node, ast.With) and jumps_of(node.body):
                jump = jumps_of(node.body)[0]
                word = "break" if isinstance(jump, ast.Break) else "continue"
                raise self.refuse(f"`{word}` out of a `with` block", f"end the block first: `{word}` under an `if` behind it", jump)
            if not isinstance(node, ast.If) or not jumps_of([node]):
                out.append(node)
                continue
            rest = body[position + 1 :]
            then, orelse = _paths(node.body), _paths(node.orelse)
            out.append(node)
            if then == _ALL and orelse == _NONE:
                node.orelse, rest = [*node.orelse, *rest], []
            elif orelse == _ALL and then == _NONE:
                node.body, rest = [*node.body, *rest], []
            elif then == _ALL and orelse == _ALL:
                rest = []
            node.body, first = self._lower(node.body, loop)
            node.orelse, second = self._lower(node.orelse, loop)
            if rest:
                rest, _ = self._lower(rest, loop)
                out.append(located(ast.If(located(ast.Name(loop.on, ast.Load()), node), rest, []), rest[0]))
            return out, _ALL if first == second == _ALL else _SOME
        return out, _NONE

    # ---- nodes ----

    def _name(self, what: str, where: ast.AST, context: ast.Store) -> ast.Name:
        self.count += 1
        return located(ast.Name(f"{PREFIX}{what}_{self.count}", context), where)

    def _set(self, name: str, value: bool, where: ast.AST) -> ast.stmt:
        return located(ast.Assign([located(ast.Name(name, ast.Store()), where)], located(ast.Constant(value), where)), where)

    def refuse(self, message: str, fix: str, node: ast.AST) -> BodyError:
        return BodyError("PL101", message, fix=fix, at=place(self.file, node))


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def _paths(body: list[ast.stmt]) -> int:
    """How many paths through a block end in a jump."""
    some = False
    for node in body:
        if isinstance(node, ast.Break | ast.Continue):
            return _ALL
        if isinstance(node, ast.If):
            arms = _paths(node.body), _paths(node.orelse)
            if arms == (_ALL, _ALL):
                return _ALL
            some |= arms != (_NONE, _NONE)
        elif isinstance(node, ast.With):
            some |= bool(jumps_of(node.body))
    return _SOME if some else _NONE
