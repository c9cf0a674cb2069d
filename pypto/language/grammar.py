"""What a kernel body may contain: tables of statements, targets and expressions, checked once at decoration.

A body is ordinary Python run by CPython; this module only refuses what the rewriter cannot give a meaning to, so
that nothing is silently skipped. Each refusal is one row: a sentence and what to write instead.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from pypto.errors import BodyError, together
from pypto.source import Source

PREFIX = "_pypto_"
"""Names starting like this belong to the rewriter."""

STATEMENTS = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.For, ast.While, ast.Break, ast.Continue, ast.If, ast.With, ast.Return,
    ast.Pass, ast.Assert,
)  # fmt: skip

_HELPER = "define it outside the kernel; decorate it with @pl.jit.inline if it works on tensors or tiles"

REFUSED_STATEMENTS: dict[str, tuple[str, str]] = {
    "FunctionDef": ("a function is defined inside a kernel body", _HELPER),
    "AsyncFunctionDef": ("an async function is defined inside a kernel body", _HELPER),
    "ClassDef": ("a class is defined inside a kernel body", "define it outside the kernel"),
    "AsyncFor": ("`async for` has no meaning on the device", "write a plain `for`"),
    "AsyncWith": ("`async with` has no meaning on the device", "write a plain `with`"),
    "Try": ("`try` cannot catch what happens on the device", "test the condition with `if` before the operation"),
    "TryStar": ("`try` cannot catch what happens on the device", "test the condition with `if` before the operation"),
    "Raise": ("`raise` cannot stop a program on the device", "use `assert` for a condition known when the kernel is traced"),
    "Import": ("`import` inside a kernel body", "import at the top of the file"),
    "ImportFrom": ("`import` inside a kernel body", "import at the top of the file"),
    "Global": ("`global` would let a kernel change a Python variable", "return the value, or write it to an output"),
    "Nonlocal": ("`nonlocal` would let a kernel change a Python variable", "return the value, or write it to an output"),
    "Delete": ("`del` has no meaning for a traced name", "leave the name alone; unused values cost nothing"),
    "Match": ("`match` is not traced", "write `if` / `elif` / `else`"),
    "TypeAlias": ("a type alias is defined inside a kernel body", "define it outside the kernel"),
}

REFUSED_EXPRESSIONS: dict[str, tuple[str, str]] = {
    "NamedExpr": ("`:=` assigns a name in the middle of an expression", "assign the name in a statement of its own first"),
    "Yield": ("`yield` makes the kernel a generator", "use pl.yield_(...) for the values of a loop, `return` for the result"),
    "YieldFrom": ("`yield from` makes the kernel a generator", "use pl.yield_(...) for the values of a loop"),
    "Await": ("`await` has no meaning on the device", "call the function directly"),
    "Lambda": ("a lambda is defined inside a kernel body", _HELPER),
}

_TARGET_FIX = "assign to a name, to a subscript `x[...]`, or to a tuple of those"
_LOOP_TARGET_FIX = "write `for i in ...:`, or `for i, (a, b) in pl.range(n, init_values=(x, y)):`"


@dataclass(frozen=True)
class Problem:
    """One refused construct, ready to be raised."""

    code: str
    message: str
    fix: str
    node: ast.AST

    def error(self, file: str) -> BodyError:
        return BodyError(self.code, self.message, fix=self.fix, at=place(file, self.node))


def shown(name: str) -> str:
    """A name as programs print it: a hidden one without what makes it hidden."""
    return name.removeprefix(PREFIX).rstrip("0123456789").rstrip("_") if name.startswith(PREFIX) else name


def place(file: str, node: ast.AST) -> Source:
    """Where `node` was written. AST columns are UTF-8 bytes; a `Source` counts characters."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
    text = linecache.getline(file, line).encode()
    start = len(text[:column].decode(errors="ignore"))
    stop = len(text[:end].decode(errors="ignore")) if end is not None and end_line == line else 0
    return Source(file, line, start, stop)


def check(function: ast.FunctionDef | ast.AsyncFunctionDef, file: str) -> None:
    """Refuse what a kernel body may not contain: everything in `function` that is refused, as one error.

    Errors:
      PL101 statements, PL102 targets and parameter lists, PL108 expressions.
    """
    found = [problem.error(file) for problem in problems(function)]
    if found:
        raise together(found)


def problems(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Problem]:
    """Everything refused in `function`, in source order."""
    if isinstance(function, ast.AsyncFunctionDef):
        yield Problem("PL101", "a kernel cannot be an async function", "write a plain `def`", function)
    arguments = function.args
    for star, extra in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if extra is not None:
            message = f"the parameter `{star}{extra.arg}` has no fixed number of arguments"
            yield Problem("PL102", message, "name every parameter of the kernel", extra)
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield from _reserved(argument.arg, argument)
    yield from _block(function.body)
    yield from _late_attributes(function)


def _late_attributes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Problem]:
    """`pl.func_attr` describes the whole function, so it stands before every other statement."""
    rest = list(function.body)
    if rest and isinstance(rest[0], ast.Expr) and isinstance(rest[0].value, ast.Constant):
        rest.pop(0)  # the docstring
    while rest and isinstance(rest[0], ast.Expr) and is_call_of(rest[0].value, "func_attr"):
        rest.pop(0)
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Expr) and is_call_of(node.value, "func_attr"):
            yield Problem("PL102", "`pl.func_attr` after other statements", "make it the first statement of the body", node.value)
        rest += [*getattr(node, "body", ()), *getattr(node, "orelse", ())]


def is_call_of(node: ast.AST | None, name: str) -> bool:
    """Whether an expression calls something spelled `name` or `module.name`."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    return name == (called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else "")


def _block(statements: list[ast.stmt]) -> Iterator[Problem]:
    for statement in statements:
        yield from _statement(statement)


def _statement(node: ast.stmt) -> Iterator[Problem]:
    kind = type(node).__name__
    if not isinstance(node, STATEMENTS):
        message, fix = REFUSED_STATEMENTS.get(kind, (f"a `{kind}` statement inside a kernel body", "write it outside the kernel"))
        yield Problem("PL101", message, fix, node)
    elif isinstance(node, ast.For):
        yield from _loop_target(node.target, stateful=is_call_of(node.iter, "while_"))
        yield from _expression(node.iter)
        yield from _block(node.body)
        yield from _loop_else(node)
    elif isinstance(node, ast.While):
        yield from _expression(node.test)
        yield from _block(node.body)
        yield from _loop_else(node)
    elif isinstance(node, ast.If):
        yield from _expression(node.test)
        yield from _block(node.body)
        yield from _block(node.orelse)
    elif isinstance(node, ast.With):
        for item in node.items:
            yield from _expression(item.context_expr)
            if isinstance(item.optional_vars, ast.Name):
                yield from _reserved(item.optional_vars.id, item.optional_vars)
            elif item.optional_vars is not None:
                yield Problem("PL102", "`as` must be followed by one name", "write `with ... as name:`", item.optional_vars)
        yield from _block(node.body)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from _target(target)
        if node.value is not None:
            yield from _expression(node.value)
    else:
        yield from _expression(node)


def _loop_else(node: ast.For | ast.While) -> Iterator[Problem]:
    """`else` after a loop runs unless the loop was left by `break`."""
    if node.orelse and not has_break(node.body):
        fix = "write the statements after the loop; without `break` they always run"
        yield Problem("PL101", "`else` on a loop without `break`", fix, node.orelse[0])
    yield from _block(node.orelse)


def jumps_of(body: list[ast.stmt]) -> list[ast.Break | ast.Continue]:
    """The `break` and `continue` statements of the loop that `body` belongs to; those in the `else` of a loop inside are among them."""
    found: list[ast.Break | ast.Continue] = []
    for node in body:
        if isinstance(node, ast.Break | ast.Continue):
            found.append(node)
        elif isinstance(node, ast.If):
            found += jumps_of(node.body) + jumps_of(node.orelse)
        elif isinstance(node, ast.With):
            found += jumps_of(node.body)
        elif isinstance(node, ast.For | ast.While):
            found += jumps_of(node.orelse)
    return found


def has_break(body: list[ast.stmt]) -> bool:
    """Whether a loop's own body leaves it."""
    return any(isinstance(node, ast.Break) for node in jumps_of(body))


def _target(node: ast.expr) -> Iterator[Problem]:
    if isinstance(node, ast.Name):
        yield from _reserved(node.id, node)
    elif isinstance(node, ast.Subscript):
        yield from _expression(node)
    elif isinstance(node, (ast.Tuple, ast.List)):
        for element in node.elts:
            yield from _target(element)
    elif isinstance(node, ast.Starred):
        yield Problem("PL108", "a starred target takes an unknown number of values", "name every value", node)
    elif isinstance(node, ast.Attribute):
        message = f"`{ast.unparse(node)} = ...` would change a Python object while the kernel is traced"
        yield Problem("PL102", message, _TARGET_FIX, node)
    else:
        yield Problem("PL102", f"`{ast.unparse(node)}` cannot be assigned in a kernel body", _TARGET_FIX, node)


def _loop_target(node: ast.expr, stateful: bool) -> Iterator[Problem]:
    if stateful:  # `for (x,) in pl.while_(...)`: names of the state, no index
        fits = isinstance(node, ast.Tuple | ast.List) and all(isinstance(part, ast.Name) for part in node.elts)
        names = [part for part in ast.walk(node) if isinstance(part, ast.Name)] if fits else None
    else:
        names = [node] if isinstance(node, ast.Name) else _state_form(node)
    if names is None:
        fix = "write `for (x,) in pl.while_(init_values=(0,)):`" if stateful else _LOOP_TARGET_FIX
        yield Problem("PL102", f"`{ast.unparse(node)}` is not a loop target", fix, node)
        return
    seen: set[str] = set()
    for name in names:
        if name.id in seen:
            yield Problem("PL102", f"`{name.id}` appears twice in one loop target", "give every value a name of its own", name)
        seen.add(name.id)
        yield from _reserved(name.id, name)


def _state_form(node: ast.expr) -> list[ast.Name] | None:
    """The index and state names of `i, (a, b)`; None if `node` is something else."""
    if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
        return None
    index, state = node.elts
    if not isinstance(index, ast.Name) or not isinstance(state, (ast.Tuple, ast.List)):
        return None
    names = [element for element in state.elts if isinstance(element, ast.Name)]
    return [index, *names] if len(names) == len(state.elts) else None


def loop_names(target: ast.expr) -> tuple[str, tuple[str, ...]]:
    """The index name and the state names of a checked `for` target."""
    names = [target] if isinstance(target, ast.Name) else _state_form(target)
    if names is None:  # `for (a, b) in pl.while_(...)`: no index
        return "", tuple(name.id for name in ast.walk(target) if isinstance(name, ast.Name))
    return names[0].id, tuple(name.id for name in names[1:])


def _expression(root: ast.AST) -> Iterator[Problem]:
    # An explicit stack: generators nested as deep as an expression would cost its size times its depth.
    stack: list[ast.AST] = [root]
    while stack:
        node = stack.pop()
        refused = REFUSED_EXPRESSIONS.get(type(node).__name__)
        if refused is not None:
            yield Problem("PL108", *refused, node)
        elif isinstance(node, ast.Name):
            yield from _reserved(node.id, node)
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _reserved(name: str, node: ast.AST) -> Iterator[Problem]:
    if name.startswith(PREFIX):
        yield Problem("PL102", f"names starting with `{PREFIX}` are reserved", f"rename `{name}`", node)


_Node = TypeVar("_Node", bound=ast.AST)


def located(node: _Node, where: ast.AST) -> _Node:
    """A node that was made, at the place of the user's text it stands for: tracebacks and carets point there."""
    return ast.copy_location(node, where)
