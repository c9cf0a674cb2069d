"""Write `docs/ops`: one page per room of the library, made from the op objects and the language's spellings."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pypto import language, lax
from pypto.core.op import OPS, Op
from pypto.tools.ops import facts

_ENTRY = re.compile(r"  [\w`*]+(, [\w`*]+)*: ")
_NOTICE = "<!-- Made by `python -m pypto ops --write docs/ops` from the objects it describes; edit those. -->"


def _blocks(text: str) -> Iterator[str]:
    """A docstring as Markdown. Its examples stay as they are: the tests of docstrings run them."""
    example: list[str] = []
    for part in doctest.DocTestParser().parse(text):
        if not isinstance(part, str):
            first, *rest = part.source.rstrip("\n").split("\n")
            example += [f">>> {first}", *(f"... {line}" for line in rest), *part.want.rstrip("\n").split("\n")]
        elif part.strip() and example:
            yield _session(example)
            example = []
        if isinstance(part, str):
            yield from _prose(part)
    if example:
        yield _session(example)


def _session(lines: list[str]) -> str:
    return "```pycon\n" + "\n".join(line for line in lines if line) + "\n```"


def _prose(text: str) -> Iterator[str]:
    """Paragraphs; `Args:`-like heads become bold, their indented lines a list."""
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        if not paragraph.strip():
            continue
        out: list[str] = []
        for line in lines:
            if line.endswith(":") and not line.startswith(" "):
                out += [*([""] if out else []), f"**{line[:-1]}**", ""]
            elif line.startswith("  ") and _ENTRY.match(line):
                out.append(f"- {line.strip()}")
            elif line.startswith("  "):
                out[-1] += (" " if out[-1] else "") + line.strip()
            else:
                out.append(line)
        yield "\n".join(out)


def section(name: str, target: Any) -> str:
    """The manual section of one op or spelling."""
    if isinstance(target, Op):
        head, doc = f"## {name}\n\n`{target.name}{_plain(target.signature)}`", target.doc
        table = ["| | |", "|---|---|", *(f"| {label} | {text} |" for label, text in facts(target))]
        return "\n\n".join([head, *_blocks(doc), "\n".join(table)])
    return "\n\n".join([f"## {name}\n\n`{name}{_plain(inspect.signature(target))}`", *_blocks(inspect.getdoc(target) or "")])


def _plain(signature: inspect.Signature) -> str:
    """A signature without annotations: the text says shapes and dtypes."""
    empty = inspect.Parameter.empty
    return str(signature.replace(parameters=[p.replace(annotation=empty) for p in signature.parameters.values()], return_annotation=empty))


def _rooms() -> dict[str, dict[str, Any]]:
    """Page name -> section name -> object."""
    rooms: dict[str, dict[str, Any]] = {}
    for name, op in OPS.items():
        if op.module.startswith("pypto."):
            rooms.setdefault(f"lax-{op.module.rsplit('.', 1)[-1]}", {})[name] = op
    spaces = (
        ("lax", lax),
        ("pl", language),
        ("pl.array", language.array),
        ("pl.prefetch", language.prefetch),
        ("pl.system", language.system),
    )
    for prefix, space in spaces:
        package = prefix.split(".")[0]
        for name, value in vars(space).items():
            module = getattr(value, "__module__", None) or ""
            if inspect.isfunction(value) and module.startswith(f"pypto.{'lax' if package == 'lax' else 'language'}."):
                rooms.setdefault(f"{package}-{module.rsplit('.', 1)[-1]}", {})[f"{prefix}.{name}"] = value
    return rooms


def pages() -> dict[str, str]:
    """File name -> Markdown."""
    result = {}
    for room, members in sorted(_rooms().items()):
        sections = [section(name, members[name]) for name in sorted(members)]
        result[f"{room}.md"] = "\n\n".join([_NOTICE, f"# {room}", *sections]) + "\n"
    index = ["# Operations", "", "| page | operations |", "|---|---|"]
    index += [f"| [{room}]({room}.md) | {', '.join(sorted(members))} |" for room, members in sorted(_rooms().items())]
    result["README.md"] = "\n".join([_NOTICE, "", *index]) + "\n"
    return result


def write(folder: Path) -> int:
    """Write the pages, and remove those of rooms that are gone; returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text)
    return len(made)
