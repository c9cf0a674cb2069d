"""Turn the statements that matter in a kernel body into calls on a runtime object.

The result is still the user's function: same globals, same closure cells, same file, lines and columns. It takes one
more argument in front, the runtime, and asks it what a loop, a branch, a scope, an assignment to a name, `and` / `or`
/ `not`, a chained comparison and a conditional expression mean. Everything else is left to CPython.
"""

from __future__ import annotations
import __future__

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType
from typing import Any

from pypto.errors import BodyError, InternalError
from pypto.language.grammar import PREFIX, check, located, place
from pypto.language.jumps import GOING, Jumps
from pypto.language.liveness import Liveness
from pypto.language.parsing import definition
from pypto.language.protocol import Names
from pypto.language.returns import RESULT, normalise
from pypto.language.single import check_single_assignment
from pypto.source import Source

RUNTIME = PREFIX + "rt"
"""Name of the first parameter of a rewritten function."""

_FACTORY = PREFIX + "factory"
_FUTURE_FLAGS = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


@dataclass(frozen=True)
class Staged:
    """A rewritten kernel.

    Attributes:
      function: takes a `Runtime`, then the kernel's own parameters (defaults kept). Made from the same globals and the
        same closure cells as the original, so it sees every later change of a captured variable.
      parameters: the kernel's parameter names.
      source: the `def` line.
      places: where each parameter, and the return annotation, is written.
      members: what it reads from `self`, in the order written.
    """

    function: FunctionType
    parameters: Names
    source: Source
    places: dict[str, Source] = field(default_factory=dict)
    members: Names = ()


def rewrite(fn: FunctionType, *, strict_ssa: bool = False) -> Staged:
    """Rewrite a kernel. Done once, at decoration; the cost is linear in the body whatever its nesting.

    Args:
      strict_ssa: whether giving a name a second value is refused.
    Errors:
      PL109 if the source cannot be read; PL101, PL102, PL107, PL108 for what a body may not contain; PL114 with `strict_ssa`.
    """
    node, source = definition(fn)
    try:
        return _staged(fn, node, source, strict_ssa)
    except RecursionError:
        message = f"`{fn.__name__}` nests too deeply for Python to compile it"
        raise BodyError("PL101", message, fix="move the inner part to a function of its own with @pl.jit.inline", at=source) from None


def _staged(fn: FunctionType, node: ast.FunctionDef | ast.AsyncFunctionDef, source: Source, strict_ssa: bool) -> Staged:
    file = source.file
    check(node, file)
    assert isinstance(node, ast.FunctionDef)
    if strict_ssa:
        check_single_assignment(node, file)
    members = _members(node)
    body = Jumps(file, RUNTIME).block(normalise(node, file))
    arguments = node.args
    own = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters = tuple(argument.arg for argument in own)
    places = {argument.arg: place(file, argument) for argument in own}
    if node.returns is not None:
        places["return"] = place(file, node.returns)
    body = _Rewriter(Liveness(body)).function(body, parameters, node)

    for argument in own:
        argument.annotation = None
    # Defaults are objects of the original function; evaluating them again could make different ones.
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    (arguments.posonlyargs or arguments.args).insert(0, located(ast.arg(RUNTIME), node))
    inner = _define(node.name, arguments, body, node)
    code = _compile(inner, fn, file)
    staged = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, _cells(code, fn))
    staged.__kwdefaults__ = dict(fn.__kwdefaults__) if fn.__kwdefaults__ else None  # pyright: ignore[reportAttributeAccessIssue]
    staged.__qualname__, staged.__module__, staged.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    return Staged(staged, parameters, source, places, members)


def _members(function: ast.FunctionDef) -> Names:
    found = [
        (part.lineno, part.col_offset, part.attr)
        for part in ast.walk(function)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"
    ]
    return tuple(name for *_, name in sorted(found))


def _compile(inner: ast.FunctionDef, fn: FunctionType, file: str) -> CodeType:
    """Compile under a factory whose parameters are the free variables, so that they stay free variables."""
    holder: ast.ClassDef | ast.FunctionDef = inner
    owner = fn.__qualname__.split(".")[-2:-1]
    if owner and owner[0].isidentifier():
        holder = located(ast.ClassDef(owner[0], [], [], [inner], []), inner)  # `__name` is mangled as where it was written
    free = [located(ast.arg(name), inner) for name in fn.__code__.co_freevars]
    statements: list[ast.stmt] = [holder]
    if holder.name not in fn.__code__.co_freevars:
        # The name is a global's, which the body may read: it must not become a variable of the factory.
        statements.insert(0, located(ast.Global([holder.name]), inner))
    factory = _define(_FACTORY, _arguments(free), statements, inner)
    flags = fn.__code__.co_flags & _FUTURE_FLAGS
    found = compile(ast.Module([factory], []), file, "exec", flags=flags, dont_inherit=True)
    for name in (_FACTORY, *(owner if holder is not inner else []), inner.name):
        found = next(const for const in found.co_consts if isinstance(const, CodeType) and const.co_name == name)
    return found


def _cells(code: CodeType, fn: FunctionType) -> tuple[CellType, ...] | None:
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    missing = set(code.co_freevars) - set(cells)
    if missing:
        raise InternalError("PL901", f"the rewritten `{fn.__name__}` lost the free variables {sorted(missing)}")
    return tuple(cells[name] for name in code.co_freevars) or None


# Node builders. Every node gets the place of the user's text it stands for: tracebacks and carets point there.


def _load(name: str, where: ast.AST) -> ast.Name:
    return located(ast.Name(name, ast.Load()), where)


def _store(name: str, where: ast.AST) -> ast.Name:
    return located(ast.Name(name, ast.Store()), where)


def _constant(value: Any, where: ast.AST) -> ast.Constant:
    return located(ast.Constant(value), where)


def _tuple(elements: Iterable[ast.expr], where: ast.AST) -> ast.Tuple:
    return located(ast.Tuple(list(elements), ast.Load()), where)


def _call(method: str, arguments: list[ast.expr], where: ast.AST) -> ast.Call:
    return located(ast.Call(located(ast.Attribute(_load(RUNTIME, where), method, ast.Load()), where), arguments, []), where)


def _arguments(names: list[ast.arg]) -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])


def _define(name: str, arguments: ast.arguments, body: list[ast.stmt], where: ast.AST) -> ast.FunctionDef:
    return located(ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[]), where)


def _thunk(value: ast.expr) -> ast.Lambda:
    return located(ast.Lambda(_arguments([]), value), value)


def _going(body: list[ast.stmt]) -> tuple[str | None, list[ast.stmt]]:
    """The hidden name that says whether a loop goes on, if it may be left early, and the body without its mark."""
    mark = body[0].value if isinstance(body[0], ast.Expr) else None
    if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == GOING:
        (going,) = mark.args
        assert isinstance(going, ast.Name)
        return going.id, body[1:]
    return None, body


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function. Statements give lists of statements, expressions give expressions."""

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._count = 0

    def function(self, body: list[ast.stmt], parameters: Names, where: ast.AST) -> list[ast.stmt]:
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
            body = body[1:]  # the docstring
        out = self._block(body)
        local = sorted(self._liveness.stored - set(parameters))
        if local:
            # A name stored only inside a loop or branch is a local of the whole function in Python. This store never
            # runs; without it, reading such a name elsewhere would find a global that happens to be spelled the same.
            store = located(ast.Assign([_store(name, where) for name in local], _constant(None, where)), where)
            out.insert(0, located(ast.If(_constant(False, where), [store], []), where))
        return out

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in statements:
            done = self.visit(statement)
            out.extend(done if isinstance(done, list) else [done])
        return out

    def _fresh(self, what: str) -> str:
        self._count += 1
        return f"{PREFIX}{what}_{self._count}"

    # Loops, branches, scopes: the block becomes a function, its results are stored by name.

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        names = self._liveness.loops[node]
        results = names.state + names.carried
        exits, statements = _going(node.body)
        index, body = names.target, self._block(statements)
        if index in names.carried:  # the index is read after the loop: it is also one of the carried parameters
            index = self._fresh("index")
            body.insert(0, located(ast.Assign([_store(names.target, node.target)], _load(index, node.target)), node.target))
        function = self._body("for", (index, *results), body, results, node)
        call = [
            self.visit(node.iter),
            _load(function.name, node.iter),
            _constant(names.target, node.iter),
            _constant(names.carried, node.iter),
            self._thunks(names.carried, node.iter),
            _constant(names.state, node.iter),
            _constant(names.stale_inits, node.iter),
            _constant(exits, node.iter),
        ]
        return [function, self._results(results, _call("for_", call, node.iter))]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        names = self._liveness.branches[node]
        then = self._body("then", names.passed, self._block(node.body), names.merged, node)
        orelse = self._body("else", names.passed, self._block(node.orelse), names.merged, node)
        call = [
            self.visit(node.test),
            _load(then.name, node.test),
            _load(orelse.name, node.test),
            _constant(names.merged, node.test),
            _constant(names.passed, node.test),
            self._thunks(names.passed, node.test),
        ]
        return [then, orelse, self._results(names.merged, _call("if_", call, node.test))]

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        names, context = self._liveness.scopes[node], node.items[0].context_expr
        parameters = (names.target, *names.passed) if names.target is not None else names.passed
        function = self._body("with", parameters, self._block(node.body), names.escaping, node)
        call = [
            self.visit(context),
            _load(function.name, context),
            _constant(names.target, context),
            _constant(names.escaping, context),
            _constant(names.passed, context),
            self._thunks(names.passed, context),
        ]
        return [function, self._results(names.escaping, _call("with_", call, context))]

    def _body(self, what: str, parameters: Names, body: list[ast.stmt], results: Names, where: ast.AST) -> ast.FunctionDef:
        arguments = _arguments([located(ast.arg(name), where) for name in parameters])
        result = located(ast.Return(_tuple((_load(name, where) for name in results), where)), where)
        return _define(self._fresh(what), arguments, [*body, result], where)

    def _thunks(self, names: Names, where: ast.AST) -> ast.Tuple:
        return _tuple((_thunk(_load(name, where)) for name in names), where)

    def _results(self, names: Names, call: ast.Call) -> ast.stmt:
        if not names:
            return located(ast.Expr(call), call)
        target = located(ast.Tuple([_store(name, call) for name in names], ast.Store()), call)
        return located(ast.Assign([target], call), call)

    # Assignments.

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = self.visit(node.value)
        if len(node.targets) == 1 and not isinstance(node.targets[0], (ast.Tuple, ast.List)):
            return [self._assign(node.targets[0], value, node)]
        once = self._fresh("value")
        out: list[ast.stmt] = [located(ast.Assign([_store(once, node)], value), node)]
        for target in node.targets:
            if not isinstance(target, (ast.Tuple, ast.List)):
                out.append(self._assign(target, _load(once, node), node))
                continue
            # Python takes the value apart; then every name is assigned in the order written.
            parts: list[ast.stmt] = []
            out.append(located(ast.Assign([self._take_apart(target, parts)], _load(once, target)), target))
            out.extend(parts)
        return out

    def _take_apart(self, target: ast.expr, parts: list[ast.stmt]) -> ast.expr:
        if isinstance(target, (ast.Tuple, ast.List)):
            return located(ast.Tuple([self._take_apart(part, parts) for part in target.elts], ast.Store()), target)
        part = self._fresh("part")
        parts.append(self._assign(target, _load(part, target), target))
        return _store(part, target)

    def _assign(self, target: ast.expr, value: ast.expr, where: ast.AST) -> ast.stmt:
        if not isinstance(target, ast.Name):
            return located(ast.Assign([self.visit(target)], value), where)
        if target.id != RESULT:
            value = _call("assign", [_constant(target.id, where), value], where)
        return located(ast.Assign([target], value), where)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return [located(ast.Pass(), node)]
        value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            value = _call("annotate", [_constant(node.target.id, node), _thunk(node.annotation), value], node)
        return [self._assign(node.target, value, node)]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        # `a += b` is a rebind: Python would call __iadd__, and change the value under every other name it has.
        out: list[ast.stmt] = []
        target = node.target
        if isinstance(target, ast.Name):
            before: ast.expr = _load(target.id, target)
        else:
            assert isinstance(target, ast.Subscript)
            base, index = self._once(target.value, out), self._index_once(target.slice, out)
            before = located(ast.Subscript(base, index, ast.Load()), target)
            target = located(ast.Subscript(base, index, ast.Store()), target)
        value = located(ast.BinOp(before, node.op, self.visit(node.value)), node)
        if isinstance(target, ast.Name):
            return [self._assign(target, value, node)]
        return [*out, located(ast.Assign([target], value), node)]

    def _index_once(self, index: ast.expr, out: list[ast.stmt]) -> ast.expr:
        if isinstance(index, ast.Tuple):
            return _tuple((self._index_once(part, out) for part in index.elts), index)
        if isinstance(index, ast.Slice):
            ends = (end and self._once(end, out) for end in (index.lower, index.upper, index.step))
            return located(ast.Slice(*ends), index)
        if isinstance(index, ast.Starred):
            return located(ast.Starred(self._once(index.value, out), ast.Load()), index)
        return self._once(index, out)

    def _once(self, value: ast.expr, out: list[ast.stmt]) -> ast.expr:
        """`value` evaluated into a hidden name, unless evaluating it twice cannot be told apart."""
        if isinstance(value, ast.Constant):
            return value
        name = self._fresh("once")
        out.append(located(ast.Assign([_store(name, value)], self.visit(value)), value))
        return _load(name, value)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        # Python drops asserts under -O; those of a kernel hold however Python was started.
        message = _constant(None, node) if node.msg is None else self.visit(node.msg)
        return located(ast.Expr(_call("assert_", [self.visit(node.test), _thunk(message)], node)), node)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        value = self.visit(node.value) if node.value is not None else _constant(None, node)
        return located(ast.Return(_call("return_", [value], node)), node)

    # Expressions.

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        first, *rest = (self.visit(value) for value in node.values)
        return _call("and_" if isinstance(node.op, ast.And) else "or_", [first, *map(_thunk, rest)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        operators = _constant(tuple(_COMPARISONS[type(op)] for op in node.ops), node)
        return _call("compare", [node.left, operators, *map(_thunk, node.comparators)], node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return _call("choose", [node.test, _thunk(node.body), _thunk(node.orelse)], node)
