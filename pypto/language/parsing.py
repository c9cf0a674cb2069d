"""From a function object to the tree of its definition, at the user's own lines and columns."""

from __future__ import annotations

import ast
import inspect
import linecache
from types import FunctionType

from pypto.errors import BodyError
from pypto.language.grammar import place
from pypto.source import Source

_READABLE = "define the kernel in a file (or a notebook cell); code made by exec or typed at a prompt has no source to read"


def definition(fn: FunctionType) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, Source]:
    """The `def` statement of `fn`, without its decorators, and where it stands.

    Errors:
      PL109 if the source cannot be read, is not a `def`, or is not what was imported.
    """
    code = fn.__code__
    file, first = code.co_filename, code.co_firstlineno
    here = Source(file, first)
    if not isinstance(fn, FunctionType) or code.co_name == "<lambda>":
        raise BodyError("PL109", "a lambda cannot be a kernel", fix="write it as a `def`", at=here)
    linecache.checkcache(file)
    lines = linecache.getlines(file, fn.__globals__)
    if len(lines) < first:
        raise BodyError("PL109", f"the source of `{code.co_name}` cannot be read from {file}", fix=_READABLE, at=here)
    block = inspect.getblock(lines[first - 1 :])
    try:
        node = _parse(block, first)
    except SyntaxError:
        node = None
    if node is None or node.name != code.co_name or _parameters(node) != _code_parameters(fn):
        message = f"the text at {file}:{first} is no longer the function `{code.co_name}` that was imported"
        raise BodyError("PL109", message, fix="the file was edited while Python was running: import it again", at=here)
    node.decorator_list = []
    # Up to the end of the line: the span of a `def` statement is its whole body.
    return node, Source(file, node.lineno, place(file, node).column)


def _parse(block: list[str], first: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    # An indented definition is put under an `if` instead of being dedented: dedenting would move the columns, and
    # would change the text of multi-line strings.
    indented = block[0][:1].isspace()
    text = "".join(["if 1:\n", *block] if indented else block)
    statement = ast.parse(text).body[0]
    if indented:
        assert isinstance(statement, ast.If)
        statement = statement.body[0]
    ast.increment_lineno(statement, first - 2 if indented else first - 1)
    return statement if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    found = node.args
    stars = [star.arg for star in (found.vararg, found.kwarg) if star is not None]
    return [argument.arg for argument in (*found.posonlyargs, *found.args, *found.kwonlyargs)] + stars


def _code_parameters(fn: FunctionType) -> list[str]:
    code = fn.__code__
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags])
