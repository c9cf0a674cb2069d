"""`python -m pypto show file.py:kernel`: a kernel as text that reads like the language, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto import config
from pypto.dtypes import DTYPES, DType
from pypto.errors import CallError
from pypto.tile.source import function_text
from pypto.tools.loading import loaded

STAGES = ("ref", "tile", "placed")
"""ref: as traced, regions in place; tile: the program, regions outlined into kernels; placed: with addresses."""

_SHAPE = re.compile(r"(\w+)=(\d+(?:x\d+)*):(\w+)")
_VALUE = re.compile(r"(\w+)=(.+)")


@dataclass(frozen=True)
class Sample:
    """The shape and dtype of an argument there is no array for."""

    shape: tuple[int, ...]
    dtype: DType


def sample(text: str) -> tuple[str, Any]:
    """One `--arg`: `x=64x128:FP32` for a tensor, `n=4` for a plain Python value.

    Errors:
      PL601 for anything else.

    >>> sample("x=64x128:BF16")[1].shape, sample("causal=True")
    ((64, 128), ('causal', True))
    """
    found = _SHAPE.fullmatch(text)
    if found is not None and found[3].upper() in DTYPES:
        return found[1], Sample(tuple(map(int, found[2].split("x"))), DTYPES[found[3].upper()])
    plain = _VALUE.fullmatch(text)
    if found is None and plain is not None:
        try:
            return plain[1], ast.literal_eval(plain[2])
        except (ValueError, SyntaxError):
            pass  # not a Python literal: the error below says what to write
    raise CallError("PL601", f"--arg {text}", fix="--arg x=64x128:FP32 for a tensor, --arg n=4 for a Python value")


def show(target: str, stage: str = "tile", samples: Sequence[str] = (), platform: str | None = None, lines: bool = False) -> str:
    """A kernel as text.

    Args:
      target: `file.py:kernel`.
      stage: one of `STAGES`.
      samples: shapes and dtypes of arguments whose annotations say too little, and values of plain Python ones; see `sample`.
      platform: the platform it is lowered for; the configured one if left out.
      lines: append the user's file and line to every statement.
    Errors:
      PL606 for another stage, and for `placed`: this version plans no addresses. Otherwise whatever tracing and lowering raise.
    """
    if stage not in STAGES:
        raise CallError("PL606", f"there is no stage {stage!r}", fix=f"one of {', '.join(STAGES)}")
    if stage == "placed":
        raise CallError("PL606", "stage placed: this version plans no addresses", fix="--stage tile is the last one there is")
    given = dict(map(sample, samples))
    with loaded(target) as (_, kernel), config.override(**({} if platform is None else {"platform": platform})):
        if stage == "ref":
            return function_text(kernel.trace(**given), lines=lines)
        return kernel.lower(**given).as_text(lines=lines)
