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
    """A docstring as Markdown: doctests become Python blocks followed by what they print."""
    for part in doctest.DocTestParser().parse(text):
        if isinstance(part, str):
            yield from _prose(part)
            continue
        source = part.source.rstrip("\n")
        shown = (
            f"print(repr({source}))" if part.want and "\n" not in source and not source.startswith(("print(", "for ", "with ")) else source
        )
        yield f"```python\n{shown}\n```"
        if part.want:
            yield "```text\n" + part.want.rstrip("\n") + "\n```"


def _prose(text: str) -> Iterator[str]:
    """Paragraphs; `Args:`-like heads become bold, their indented lines a list."""
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        if not paragraph.strip():
            continue
        out: list[str] = []
        for line in lines:
            if line.endswith(":") and not line.startswith(" "):
                out.append(("\n" if out else "") + f"**{line[:-1]}**\n")
                out.append("")
            elif line.startswith("  ") and _ENTRY.match(line):
                out.append(f"- {line.strip()}")
            elif line.startswith("  "):
                out[-1] += ("" if out[-1].endswith("\n") else " ") + line.strip()
            else:
                out.append(line)
        yield "\n".join(out)


def _merged(blocks: Iterator[str]) -> list[str]:
    """Consecutive Python blocks without output in between are one block."""
    out: list[str] = []
    for b in blocks:
        if out and b.startswith("```python") and out[-1].startswith("```python"):
            out[-1] = out[-1].removesuffix("\n```") + b.removeprefix("```python")
        else:
            out.append(b)
    return out


def section(name: str, target: Any) -> str:
    """The manual section of one op or spelling."""
    if isinstance(target, Op):
        head, doc = f"## {name}\n\n`{target.name}{_plain(target.signature)}`", target.doc
        table = ["| | |", "|---|---|", *(f"| {label} | {text} |" for label, text in facts(target))]
        return "\n\n".join([head, *_merged(_blocks(doc)), "\n".join(table)])
    return "\n\n".join([f"## {name}\n\n`{name}{_plain(inspect.signature(target))}`", *_merged(_blocks(inspect.getdoc(target) or ""))])


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
    for prefix, space in (("lax", lax), ("pl", language)):
        for name, value in vars(space).items():
            module = getattr(value, "__module__", None) or ""
            if inspect.isfunction(value) and module.startswith(f"pypto.{'lax' if prefix == 'lax' else 'language'}."):
                rooms.setdefault(f"{prefix}-{module.rsplit('.', 1)[-1]}", {})[f"{prefix}.{name}"] = value
    return rooms


def pages() -> dict[str, str]:
    """File name -> Markdown."""
    result = {}
    for room, members in sorted(_rooms().items()):
        sections = [section(name, members[name]) for name in sorted(members)]
        needs = "```python\nimport numpy as np\n\nimport pypto\nfrom pypto import lax\n```"
        result[f"{room}.md"] = "\n\n".join([_NOTICE, f"# {room}", needs, *sections]) + "\n"
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
