"""How a tensor lies in memory: layouts, and views with strides of their own."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto.errors import CallError


class TensorLayout(enum.Enum):
    """Layouts of the language. A tensor here is ND: row-major, with strides where it is a window of a larger one."""

    ND = "ND"
    DN = "DN"
    NZ = "NZ"
    MX_A_ZZ = "MX_A_ZZ"
    MX_B_NN = "MX_B_NN"


ND, DN, NZ = TensorLayout.ND, TensorLayout.DN, TensorLayout.NZ


@dataclass(frozen=True, kw_only=True)
class TensorView:
    """The third part of a tensor annotation: strides other than row-major, and how much of the tensor holds data.

    Attributes:
      stride: elements between neighbours along each axis; an argument must have exactly these.
      layout: pl.ND.
      valid_shape: the leading extents that hold data; the rest reads as padding.
    Errors:
      PL602 without a layout, for one that is not ND, and for `pad`, which a tensor does not have.

    >>> TensorView(stride=[1024, 1], layout=TensorLayout.ND, valid_shape=[16, 64])
    pl.TensorView(stride=[1024, 1], layout=pl.ND, valid_shape=[16, 64])
    """

    stride: Sequence[int] | None = None
    layout: TensorLayout | None = None
    valid_shape: Sequence[int] | None = None
    pad: Any = None

    def __post_init__(self) -> None:
        if self.layout is not TensorLayout.ND:
            found = "no layout" if self.layout is None else f"layout={self.layout!r}"
            raise CallError("PL602", f"pl.TensorView with {found}", fix="layout=pl.ND: tensors are row-major, with strides of their own")
        if self.pad is not None:
            raise CallError("PL602", "pl.TensorView: pad says what padding holds, which a tensor does not", fix="pl.fillpad(tile, pad)")
        object.__setattr__(self, "stride", _extents("stride", self.stride))
        object.__setattr__(self, "valid_shape", _extents("valid_shape", self.valid_shape))

    def __repr__(self) -> str:
        stride = "" if self.stride is None else f"stride={list(self.stride)}, "
        valid = "" if self.valid_shape is None else f", valid_shape={list(self.valid_shape)}"
        return f"pl.TensorView({stride}layout=pl.ND{valid})"


def _extents(name: str, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value):
        raise CallError("PL602", f"pl.TensorView: {name}={value!r}", fix=f"{name}=[...], one non-negative integer per axis")
    return tuple(value)
