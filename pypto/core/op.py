"""The op object: one op, one object, one place. Its slots hold everything anyone asks of it.

Ops are made by the family decorators of `pypto.lax.families`; nothing else keeps a table by op.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pypto.core.avals import Aval
from pypto.core.index import Index
from pypto.core.whole import whole, wholes
from pypto.dtypes import dtype_of
from pypto.errors import CallError, InternalError, NumericsError


@dataclass(frozen=True)
class No:
    """A rule that does not exist, and why; the reason is the text of the error."""

    reason: str


@dataclass(frozen=True)
class Native:
    """The PTO instruction that is this op; `columns` is the one for the second last axis, where that is another."""

    mnemonic: str
    columns: str | None = None


@dataclass(frozen=True)
class Exact:
    """The result is the contract's, bit for bit; `rule` names the row of `numerics.CONTRACT`."""

    rule: str


@dataclass(frozen=True)
class Ulp:
    """The result is within this many units in the last place of the mathematical value."""

    bound: float


@dataclass(frozen=True)
class Pointwise:
    """Element i of the output needs element i of every operand (after broadcasting): every axis may be cut."""


@dataclass(frozen=True)
class Labels:
    """Axes named by letters, as einsum does: a letter missing from `output` is reduced.

    >>> Labels(("mk", "kn"), "mn").reduced
    frozenset({'k'})
    """

    inputs: tuple[str, ...]
    output: str

    @property
    def reduced(self) -> frozenset[str]:
        return frozenset("".join(self.inputs)) - frozenset(self.output) - {"1"}


@dataclass(frozen=True)
class Moves:
    """Elements are moved, not computed with: what holds for an element moves with it."""


@dataclass(frozen=True)
class Whole:
    """Every element of the output may need every element of the operands along these axes (None: all): they may not be cut.

    With axes, operands and output have the same axes, and the others may be cut freely.
    """

    axes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Structural:
    """Control, memory or metadata: the executors know this op by name."""


@dataclass(frozen=True)
class Fault:
    """Elements of operand `operand` that an op cannot do with: where `mask`, of the operand's shape, is True.

    In `text`, `{value}`, `{where}` and `{name}` stand for the first such element, its position and the operand's name, and
    `{first}` for the name of operand 0.
    """

    operand: int
    mask: Any
    code: str
    text: str
    fix: str


def outside(operand: int, mask: Any, extent: int, what: str) -> Fault:
    """Indices that lie outside 0..extent-1 of `what`."""
    text = f"index {{value}} at {{where}} of {{name}} is outside 0..{extent - 1}, the extent of {what}"
    return Fault(operand, mask, "PL303", text, "mask it before: pl.maximum and pl.minimum keep an index inside, pl.sel replaces it")


Axes = Pointwise | Labels | Moves | Whole | Structural
AxesRule = Axes | Callable[..., Axes]


@dataclass(eq=False)
class Op:
    """One operation.

    Attributes:
      name: unique; what the printer shows.
      abstract: `(*avals, **params) -> aval or tuple of avals`.
      meaning: `(*arrays, **params) -> array` on NumPy.
      decomposition: the definition in other ops, for an op that is no instruction; its meaning runs exactly that.
      axes: how each axis may be cut, or a function of `(*avals, **params)` that says so.
      valid: `(*valid shapes, **params) -> valid shape`; None for ops without tile results.
      reads, writes: positions of operands read or written through (refs, or tiles updated in place).
      refs: positions of operands that are handles; a handle at any other position is loaded first.
      prepare: brings the arguments of a call to operands (dtypes, literals); None keeps them.
      normal: `(*avals, **params) -> params`: the options as equations hold them (axes counted from 0, defaults filled in).
      crops: the meaning sees the valid region only: of all operands (True), and its result is put back into the full shape;
        or of the operands at these positions.
      sees_valid: the meaning takes the valid shape of its first operand as keyword `valid`, unless the call gives one.
      taint: how shadow bits pass through, where the axes do not say it: `(taints, arrays, params)` -> bool array or None.
      hazard: `(*arrays) -> (text, mask)`: elements for which the contract calls the op an error in checked runs.
      faults: `(*arrays, **params) -> Fault or None`: elements of the valid region of an operand that are an error in checked runs.
      index: positions of operands that choose an address: an element nobody wrote may not reach them.
      addresses: how an op that goes through the handle at position 0 finds its elements: `(*arrays, **params) ->` their row-major
        positions in the buffer, -1 for none. What it reads is the result; what it writes is operand 1, in row-major order.
      by_values: for an op that goes through a buffer at computed places, `(the whole array, operands, **options) -> the result`, or the
        array afterwards if it writes: that function of values is what is differentiated.
      keep: it stays although nobody uses its results: an effect that is no write to memory.
      mark: it stays, and executors pass over it: what it says is for whoever prints, watches or places the program.
      stays: a tile result is where the first operand is: the same elements looked at or changed in part, in the same memory space.
      unit: which unit runs it: vector, cube, move, scalar or control.
      accepts: dtypes of the data operands; None when `abstract` decides.
      on: per chip family, the dtypes its instruction takes; None where the chip takes whatever the op does.
      on_columns: the same for the form along axes before the last one, where that is another instruction (`Native.columns`).
      options_on: the chip families that have an option, for options not every chip has.
      jvp, transpose, batching, cpu, pto: the rule, or `No(reason)`; `pypto.interpreters` says what a rule is given and gives.
      linearize: a rule like `jvp` for ops with bodies, which reverse mode takes apart into values and a linear part; None: by `jvp`.
      unfold: for an op that stands for a linear program, `(operands, **options) -> (the program, the values of its first inputs)`; the
        others are the last operands. Reverse mode goes on in that program, so that sums have the order they have without the op.
      exact: `Exact(rule)` or `Ulp(bound)`.
      golden: dotted name of the JAX function that computes the same, or None.
      show: `(eqn, atom) -> text`: how the printer writes an application, where name, options, operands is no good reading.
      source: how the language spells an application: a function's name, or `(eqn, atom) -> text`.
      samples: makes `(args, params)` pairs that tests run.
      module: where it is defined.
    """

    name: str
    abstract: Callable[..., Any]
    meaning: Callable[..., Any]
    axes: AxesRule
    samples: Callable[[], list[tuple[tuple[Any, ...], dict[str, Any]]]]
    doc: str
    signature: inspect.Signature
    module: str = ""
    decomposition: Callable[..., Any] | None = None
    valid: Callable[..., Any] | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    refs: tuple[int, ...] = ()
    prepare: Callable[[Op, tuple[Any, ...]], tuple[Any, ...]] | None = None
    normal: Callable[..., dict[str, Any]] | None = None
    crops: bool | tuple[int, ...] = False
    sees_valid: bool = False
    taint: Callable[..., Any] | None = None
    hazard: Callable[..., Any] | None = None
    faults: Callable[..., Fault | None] | None = None
    index: tuple[int, ...] = ()
    addresses: Callable[..., Any] | None = None
    by_values: Callable[..., Any] | None = None
    keep: bool = False
    mark: bool = False
    stays: bool = False
    unit: str = "vector"
    accepts: frozenset[Any] | None = None
    on: dict[str, frozenset[Any]] | None = None
    on_columns: dict[str, frozenset[Any]] | None = None
    options_on: dict[str, frozenset[str]] = field(default_factory=dict)
    jvp: Any = field(default_factory=lambda: No("nothing is known about its derivative"))
    linearize: Any = None
    unfold: Callable[..., tuple[Any, Sequence[Any]]] | None = None
    transpose: Any = field(default_factory=lambda: No("it is not linear: reverse mode goes through the operations of its jvp rule"))
    batching: Any = field(default_factory=lambda: No("nothing is known about its axes"))
    cpu: Any = field(default_factory=lambda: No("it has no rule for the compiled executor"))
    pto: Native | No = field(default_factory=lambda: No("it has no PTO instruction of its own"))
    exact: Exact | Ulp = field(default_factory=lambda: Exact("movement"))
    golden: str | None = None
    show: Callable[[Any, Callable[[Any], str]], str] | None = None
    source: str | Callable[[Any, Callable[[Any], str]], str] | None = None

    def __post_init__(self) -> None:
        if self.name in OPS:
            raise InternalError("PL901", f"there are two ops called {self.name}")
        if not self.doc:
            raise InternalError("PL901", f"op {self.name} has no docstring: it is the manual page")
        OPS[self.name] = self
        self.__doc__ = self.doc
        self.__name__ = self.name
        kinds = self.signature.parameters.values()
        self.operands = tuple(p.name for p in kinds if p.kind is not inspect.Parameter.KEYWORD_ONLY)
        self.options = tuple(p.name for p in kinds if p.kind is inspect.Parameter.KEYWORD_ONLY)
        self.defaults = {p.name: p.default for p in kinds if p.default is not inspect.Parameter.empty}
        # a valid rule may ask for the physical shape of the first operand, as `old`, or of all of them, as `shapes`
        asked = inspect.signature(self.valid).parameters if self.valid is not None else {}
        self.valid_sees_shape, self.valid_sees_shapes = "old" in asked, "shapes" in asked
        self.variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in kinds)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply to operands, then options by position or by keyword.

        Errors:
          PL601, which is a TypeError too, for arguments that do not fit the signature.
        """
        if self.variadic:
            operands = args
        else:
            operands, extra = args[: len(self.operands)], args[len(self.operands) :]
            params = self._options(extra, params)
            for name in self.operands[len(operands) :]:
                if name not in params:
                    raise self._misused(f"misses `{name}`")
                operands = (*operands, params.pop(name))
        for name, default in self.defaults.items():
            params.setdefault(name, default)
        unknown = params.keys() - set(self.options)
        if unknown:
            raise self._misused(f"has no option `{sorted(unknown)[0]}`")
        for name in self.options:
            if name not in params:
                raise self._misused(f"misses the option `{name}`")
        return self.bind(*operands, **{name: self._option(name, value) for name, value in params.items()})

    def _options(self, extra: Sequence[Any], params: dict[str, Any]) -> dict[str, Any]:
        if len(extra) > len(self.options):
            raise self._misused(f"takes {len(self.operands) + len(self.options)} arguments")
        for name, value in zip(self.options, extra, strict=False):
            if name in params:
                raise self._misused(f"got `{name}` twice")
            params[name] = value
        return params

    def _option(self, name: str, value: Any) -> Any:
        """An option as equations hold it: sequences as tuples, dtypes as rows of the table.

        Errors:
          PL308 for what is no whole number, where the signature asks for one.
        """
        kind = self.signature.parameters[name].annotation
        if kind == "int" and type(value) is not int:
            whole(f"{self.name}: {name}", value)
        if kind in _WHOLES and not (type(value) is tuple and all(type(v) in _DIMS for v in value)):
            return wholes(f"{self.name}: {name}", value)
        if isinstance(value, list):
            return tuple(value)
        return dtype_of(value) if name.endswith("dtype") and value is not None else value

    def _misused(self, how: str) -> CallError:
        return CallError("PL601", f"{self.name}() {how}", fix=f"{self.name}{self.signature}")

    def bind(self, *operands: Any, **params: Any) -> Any:
        """Hand the call to the current trace, which decides what it becomes."""
        from pypto.core.trace import current_trace

        return current_trace().bind(self, operands, params)

    def abstract_eval(self, avals: Sequence[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
        """The abstract results, always as a tuple."""
        result = self.abstract(*avals, **params)
        return result if isinstance(result, tuple) else (result,)

    def form(self, avals: Sequence[Aval], params: dict[str, Any]) -> tuple[dict[str, frozenset[Any]], str]:
        """The dtypes per chip family of the instruction one application is, and the word for its form: of rows, of columns, or empty."""
        if self.on_columns is None:
            return self.on or {}, ""
        axes = params["axes"] if "axes" in params else (params["axis"],)
        return (self.on or {}, "row") if avals[0].rank - 1 in axes else (self.on_columns, "column")

    def axes_of(self, avals: Sequence[Aval], params: dict[str, Any]) -> Axes:
        """How the axes of one application may be cut."""
        return self.axes(*avals, **params) if callable(self.axes) else self.axes

    def rule(self, slot: str, where: str = "") -> Callable[..., Any]:
        """The rule in a slot; `where` says in an error which application it is.

        Errors:
          PL703 with the reason when there is none.
        """
        value = getattr(self, slot)
        if isinstance(value, No):
            fix = f"write it with operations that have a {slot} rule, or give the function around it one: pypto.custom_vjp"
            raise NumericsError("PL703", f"{self.name}{where} has no {slot} rule: {value.reason}", fix=fix)
        return value


_WHOLES = ("tuple[int, ...]", "Sequence[int]")
_DIMS = (int, Index)
OPS: dict[str, Op] = {}
"""Every op, by name. Filled by the decorators when `pypto.lax` is imported; read-only afterwards."""
