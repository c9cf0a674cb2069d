"""What names stand for in a kernel body: handles on GM tensors, tiles, and scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pypto.core.avals import RefAval, ScalarAval, TileAval
from pypto.core.index import Index
from pypto.core.op import OPS
from pypto.core.trace import VarTracer
from pypto.errors import BodyError, ShapeError

if TYPE_CHECKING:
    from pypto.language.trace import PlTrace


class Value(VarTracer):
    """Base of the three kinds; operators and subscripts go through the trace."""

    __slots__ = ()
    trace: PlTrace  # type: ignore[assignment]


class RefValue(Value):
    """A GM tensor, or a window of one. Outside a region a subscript is a view, inside it is a load."""

    __slots__ = ()
    aval: RefAval  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        from pypto.language import access
        from pypto.language.recovery import recover

        return recover(self.trace, lambda: access.subscript(self.trace, self, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        from pypto.language import access
        from pypto.language.recovery import recover

        recover(self.trace, lambda: access.store_subscript(self.trace, self, index, value))

    def bind_dynamic(self, axis: int, symbol: Any) -> None:
        """Say which symbol an axis is; the annotation must already say so."""
        from pypto.language import access

        access.bind_dynamic(self, axis, symbol)


class TileValue(Value):
    """An on-chip tile: a cell. Subscript stores update it in place, for every name it has."""

    __slots__ = ()
    aval: TileAval  # type: ignore[assignment]

    __getitem__ = RefValue.__getitem__
    __setitem__ = RefValue.__setitem__


def _index_op(name: str, combine: Callable[[Index, Index], Index], reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: ScalarValue, other: Any) -> Any:
        if isinstance(other, TileValue | RefValue):
            return NotImplemented
        if not isinstance(other, ScalarValue | bool | int | float):
            return NotImplemented
        args = (other, self) if reflected else (self, other)
        result = OPS[name](*args)
        if isinstance(result, ScalarValue) and result.dtype.is_integer:
            a, b = index_of(args[0]), index_of(args[1])
            if a is not None and b is not None:
                self.trace.polynomials[result.var] = combine(a, b)
        return result

    return method


class ScalarValue(Value):
    """A scalar. Integer scalars are also polynomials, so that window extents are known while tracing."""

    __slots__ = ()
    aval: ScalarAval  # type: ignore[assignment]

    @property
    def index(self) -> Index | None:
        """The polynomial this is, for integers."""
        return self.trace.polynomial(self.var)

    __add__ = _index_op("add", lambda a, b: a + b)
    __radd__ = _index_op("add", lambda a, b: a + b, reflected=True)
    __sub__ = _index_op("sub", lambda a, b: a - b)
    __rsub__ = _index_op("sub", lambda a, b: a - b, reflected=True)
    __mul__ = _index_op("mul", lambda a, b: a * b)
    __rmul__ = _index_op("mul", lambda a, b: a * b, reflected=True)
    __floordiv__ = _index_op("floor_div", lambda a, b: a // b)
    __rfloordiv__ = _index_op("floor_div", lambda a, b: a // b, reflected=True)
    __mod__ = _index_op("floor_mod", lambda a, b: a % b)
    __rmod__ = _index_op("floor_mod", lambda a, b: a % b, reflected=True)

    def __neg__(self) -> Any:
        return 0 - self

    def __truediv__(self, other: Any) -> Any:
        return _true_division(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _true_division(other, self)


def _true_division(a: Any, b: Any) -> Any:
    for x in (a, b):
        if isinstance(x, ScalarValue) and not x.dtype.is_float:
            raise ShapeError("PL305", f"`/` on a {x.dtype.name} scalar", fix="`//` for integers, or pl.cast(x, pl.FP32) first")
    return OPS["div"](a, b)


def index_of(x: Any) -> Index | None:
    """The polynomial of an integer operand; None for anything else."""
    if isinstance(x, bool):
        return Index.constant(int(x))
    if isinstance(x, int):
        return Index.constant(x)
    if isinstance(x, ScalarValue):
        return x.index
    return None


COMPUTING = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "and", "rand", "or",
    "ror", "xor", "rxor", "lshift", "rlshift", "rshift", "rrshift", "pow", "rpow", "invert", "neg", "abs", "pos", "lt", "le", "gt", "ge",
    "eq", "ne", "getitem", "matmul", "rmatmul",
)  # fmt: skip
"""The special methods that make a value of a value."""

_FORBIDDEN = (*COMPUTING, "bool", "int", "float", "index", "len", "iter", "setitem", "call", "contains")


class Unusable:
    """What can be passed along but not used: whatever is done with it is the error that `error` makes."""

    def error(self) -> Exception:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.error()


class Unset(Unusable):
    """A name without a value on some path.

    Attributes:
      held: a name may be given it.
    """

    held = False

    def __init__(self, name: str, why: str = "") -> None:
        self.name = name
        self.why = why

    def error(self) -> BodyError:
        return BodyError(
            "PL111",
            f"`{self.name}` may be used before it has a value{': ' + self.why if self.why else ''}",
            fix=f"give `{self.name}` a value before the loop or branch, or in every arm",
        )


def _forbid(name: str) -> None:
    def method(self: Unusable, *_: Any) -> Any:
        raise self.error()

    setattr(Unusable, f"__{name}__", method)


for _name in _FORBIDDEN:
    _forbid(_name)
