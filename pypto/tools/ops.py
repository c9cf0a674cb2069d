"""Manual pages of the operations, made from the op objects: for the terminal and for `docs/ops`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pypto import language, lax
from pypto.core.op import OPS, Exact, Native, No, Op, Ulp
from pypto.errors import CallError
from pypto.language.levels import TENSOR_ONLY, TILE_ONLY
from pypto.numerics import CONTRACT
from pypto.tools.language_ops import FAMILIES


def lookup(name: str) -> Any:
    """What a name of the language stands for; None when there is nothing."""
    target: Any = language
    for part in name.split("."):
        target = getattr(target, part, None)
    return target


def missing() -> Iterator[tuple[str, str, str]]:
    """(family, name, why) for every operation of the language that is not here."""
    for family in FAMILIES:
        for name in family.names:
            for spelled in (name, *(_at_levels(name) if family.at_levels else ())):
                if lookup(spelled) is None:
                    yield family.title, spelled, family.later or "not built"


def _at_levels(name: str) -> Iterator[str]:
    """The spellings of an operation that say its level."""
    if "." not in name and name not in TENSOR_ONLY:
        yield f"tile.{name}"
    if "." not in name and name not in TILE_ONLY:
        yield f"tensor.{name}"


def _names(op: Op) -> list[str]:
    """How users spell an op."""
    spelled = [f"pl.{n}" for n, v in vars(language).items() if v is op]
    return [*spelled, *(f"lax.{n}" for n, v in vars(lax).items() if v is op)]


def facts(op: Op) -> list[tuple[str, str]]:
    """What the slots of an op say, as (label, text)."""
    rows = [("spelled", ", ".join(_names(op)) or "inside kernels, by other spellings")]
    if op.accepts is not None:
        rows.append(("dtypes", ", ".join(sorted(d.name for d in op.accepts))))
    for chip, kinds in (op.on or {}).items():
        rows.append((f"dtypes on {chip}" + (", of rows" if op.on_columns else ""), ", ".join(sorted(d.name for d in kinds))))
    for chip, kinds in (op.on_columns or {}).items():
        rows.append((f"dtypes on {chip}, of columns", ", ".join(sorted(d.name for d in kinds)) or "none"))
    for option, chips in op.options_on.items():
        rows.append((f"chips with {option}", ", ".join(sorted(chips))))
    rows.append(("instruction", op.pto.mnemonic if isinstance(op.pto, Native) else f"none: {op.pto.reason}"))
    if isinstance(op.exact, Exact):
        rows.append(("numerics", f"exact, by the contract's row “{op.exact.rule}”: {CONTRACT[op.exact.rule]}"))
    elif isinstance(op.exact, Ulp):
        rows.append(("numerics", f"within {op.exact.bound} ulp in FP32; its bits are those of its decomposition"))
    if op.golden:
        rows.append(("JAX", op.golden))
    for slot in ("jvp", "transpose", "batching"):
        value = getattr(op, slot)
        if isinstance(value, No):
            rows.append((slot, f"none: {value.reason}"))
    return rows


def page(name: str) -> str:
    """The manual page of an op or of a spelling of the language.

    Errors:
      PL606 when there is no such operation, with the names that look like it.
    """
    target = OPS.get(name) or lookup(name) or getattr(lax, name, None)
    if target is None or not callable(target):
        raise CallError("PL606", f"there is no operation {name!r}", fix=f"python -m pypto ops lists them; {_similar(name)}")
    if isinstance(target, Op):
        head = f"{target.name}{target.signature}"
        rows = "\n".join(f"  {label}: {text}" for label, text in facts(target))
        return f"{head}\n\n{target.doc}\n\n{rows}\n"
    return f"pl.{name}{inspect.signature(target)}\n\n{inspect.getdoc(target) or ''}\n"


def _similar(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, [*OPS, *(n for f in FAMILIES for n in f.names)], n=3)
    return f"close to it: {', '.join(near)}" if near else "search with python -m pypto ops --search WORD"


def search(word: str) -> list[str]:
    """Names of ops and spellings whose name or manual page mentions a word."""
    spelled = {n: inspect.getdoc(v) or "" for n, v in vars(language).items() if callable(v) and not n.startswith("_")}
    pages = {**spelled, **{n: op.doc for n, op in OPS.items()}}
    return sorted(n for n, text in pages.items() if word.lower() in n.lower() or word.lower() in text.lower())
