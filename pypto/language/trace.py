"""The trace of a kernel body: where one stands, what buffers handles lead to, what index scalars equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pypto import dtypes, lax
from pypto.core.avals import Aval, RefAval, ScalarAval, TileAval, scalar
from pypto.core.index import Dim, Index
from pypto.core.ir import Atom, Jaxpr, Literal, Var
from pypto.core.op import Op, Structural
from pypto.core.trace import JaxprTrace, Scope, aval_of
from pypto.dtypes import DType
from pypto.errors import BodyError, PyptoError, ShapeError
from pypto.language.grammar import shown
from pypto.language.recovery import broken_among, recover
from pypto.language.types import Symbol
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset, Unusable, Value
from pypto.lax.families import as_dtype
from pypto.source import Frame, Source

if TYPE_CHECKING:
    from pypto.language.kernel import Kernel


class PlTrace(JaxprTrace):
    """Traces a kernel body into the ref level of the IR. Nothing promotes; handles used as values are loaded."""

    strict = True
    concrete = False

    def __init__(self, *, in_core: bool = False, undeclared_writes: bool = False) -> None:
        super().__init__()
        self.in_region = in_core
        self.in_core_function = in_core
        self.spmd = False
        self.undeclared_writes = undeclared_writes
        self.device_writes: dict[str, Frame | Source | None] = {}
        self.errors: list[PyptoError] = []
        self.polynomials: dict[Var, Index] = {}
        self.base: dict[Var, Var] = {}
        self.views: dict[Var, tuple[RefValue, Op, dict[str, Any]]] = {}  # what each handle was made from, and how
        self.strides: dict[Var, Sequence[int]] = {}  # of parameters that are not row-major
        self.aliases: dict[Var, Atom] = {}
        self.symbols: dict[Symbol, tuple[RefValue, int]] = {}
        self.yields: list[list[Any]] = []
        self.callers: list[Kernel] = []
        self.attributes: list[dict[str, Any]] = []  # what pl.func_attr says of each of them
        self.device: Any = None
        self.created: set[Var] = set()
        self.escaped: dict[Var, str] = {}
        self.defaulted: set[Var] = set()
        self.block_reads = 0
        self.block_index: ScalarValue | None = None
        self.block_count: Any = None
        self.scopes: list[str] = []  # the runtime scopes and clusters around
        self.no_dep: list[RefValue] = []  # arguments of this region's task that no dependency is derived from
        self.chunked = False  # whether a region's parallel loops are cut into tasks
        self.lane: tuple[int, Any] | None = None  # the vector lane whose body this is, and how the lanes divide the work

    @property
    def in_cluster(self) -> bool:
        """Whether dispatches here are grouped."""
        return "cluster" in self.scopes

    # ---- variables and tracers ----

    def new(self, aval: Aval, name: str = "") -> Any:
        return super().new(aval, shown(name))

    def wrap(self, var: Var) -> Any:
        kind = RefValue if isinstance(var.aval, RefAval) else ScalarValue if isinstance(var.aval, ScalarAval) else TileValue
        return kind(self, var, self.scope)

    def polynomial(self, var: Var) -> Index | None:
        """The polynomial of an integer scalar; a fresh unknown the first time it is asked for."""
        if not var.aval.dtype.is_integer:
            return None
        found = self.polynomials.get(var)
        if found is None:
            found = self.polynomials[var] = Index.fresh(var.name or "?")
        return found

    def resolved(self, var: Var) -> Var:
        """The variable behind carries that turned out to be no carries."""
        while var in self.aliases:
            target = self.aliases[var]
            if not isinstance(target, Var):  # a number
                return var
            var = target
        return var

    def base_of(self, x: RefValue) -> Var:
        """The buffer a handle is a window of, as far as that is known while tracing."""
        var = self.resolved(x.var)
        while var in self.base:
            var = self.resolved(self.base[var])
        return var

    def parameter_of(self, x: RefValue) -> Var | None:
        """The parameter a handle is a window of."""
        base = self.base_of(x)
        return base if isinstance(base.aval, RefAval) and base.aval.direction is not None else None

    def derive(self, x: RefValue, op: Op, ins: Sequence[Any], params: dict[str, Any], shape: Sequence[Dim]) -> RefValue:
        """A handle made from another one. `shape` is the rule's, with what is known of its run-time extents."""
        atoms = [self.atom(a) for a in ins]
        (aval,) = op.abstract_eval([a.aval for a in atoms], params)
        (out,) = self.emit(op, atoms, params, [replace(aval, shape=tuple(shape))])
        self.base[out] = x.var
        self.views[out] = (x, op, params)
        return self.wrap(out)

    def symbol(self, s: Symbol) -> Any:
        """The run-time extent a symbol stands for."""
        if s not in self.symbols:
            raise ShapeError(
                "PL304", f"{s!r} names no extent of this kernel's parameters", fix="use it in an annotation, or pl.tensor.dim(x, axis)"
            )
        x, axis = self.symbols[s]
        return self.dimension(x, axis)

    def dimension(self, x: RefValue, axis: int) -> Any:
        """The extent of an axis, as a scalar (an int when it is static)."""
        extent = x.shape[axis]
        if isinstance(extent, int):
            return extent
        result = super().process(lax.dim, [x], {"axis": axis})
        self.polynomials[result.var] = extent
        return result

    # ---- operations ----

    def bind(self, op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        broken = broken_among(operands)
        return broken if broken is not None else recover(self, lambda: super(PlTrace, self).bind(op, operands, params))

    def operands(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(a if i in op.refs else self.value(a, op.name) for i, a in enumerate(args))

    def value(self, x: Any, what: str, *, shares: bool = False) -> Any:
        """An operand that is used as a value: handles are loaded here.

        `shares`: not because the author uses it, but because a loop or branch gives it one name with a tile.
        """
        if isinstance(x, RefValue):
            from pypto.language import access

            if not self.in_region:
                raise access.outside(f"`{what}` on {access.called(x)}")
            return access.load_whole(self, x, shares=shares)
        if isinstance(x, Unusable):
            raise x.error()
        if isinstance(x, Value | bool | int | float | Literal):
            return x
        if isinstance(x, Symbol):
            return self.symbol(x)
        raise BodyError("PL106", f"`{what}` got {type(x).__name__} {x!r}", fix="tensors, tiles, scalars and numbers can be traced")

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        bodies = (p[0] if isinstance(p, tuple) and p else p for p in params.values())
        if not isinstance(op.axes, Structural) and any(isinstance(p, Jaxpr) for p in bodies):
            raise BodyError(
                "PL112", f"`{op.name}` of array functions in a kernel", fix="write the loop, the branch or the computation as statements"
            )
        ins = [self.atom(a) for a in args]
        outs = self.emit(op, ins, params)
        if not self.in_region and any(isinstance(o.aval, TileAval) for o in outs):
            from pypto.language import access

            raise access.outside(f"`{op.name}`")
        return self.wrap(outs[0]) if len(outs) == 1 else tuple(map(self.wrap, outs))

    def atom(self, x: Any) -> Atom:
        if isinstance(x, Unusable):
            raise x.error()
        if isinstance(x, bool | int) and not isinstance(x, Value):
            dtype = dtypes.BOOL if isinstance(x, bool) else dtypes.INDEX
            return Literal(dtype.storage.type(x), scalar(dtype))
        return super().atom(x)

    def scalar_for(self, x: Any, dtype: DType, what: str) -> Any:
        """A number or scalar as a scalar of this dtype."""
        if dtype is dtypes.TASK_ID:
            from pypto.language.tasks import as_task

            return as_task(self, x, what)
        aval = aval_of(x)
        if isinstance(x, ScalarValue) and x.dtype is not dtype:
            if x.dtype.is_float and not dtype.is_float:
                raise ShapeError(
                    "PL302", f"{what}: a {x.dtype.name} scalar into {dtype.name}", fix=f"pl.cast(x, pl.{dtype.name}) says how to round"
                )
            if x.dtype.is_integer and dtype.is_integer:  # an index or count goes into any integer tensor that holds it
                holds = dtype.min_value <= x.dtype.min_value and x.dtype.max_value <= dtype.max_value
                return lax.convert.bind(x, dtype=dtype, mode="rint", overflow="wrap" if holds else "fits")
        if isinstance(x, float) and not dtype.is_float:
            raise ShapeError("PL302", f"{what}: the float {x!r} into {dtype.name}", fix="write an integer")
        return as_dtype(x, aval, dtype)

    # ---- where one stands ----

    @contextmanager
    def calling(self, kernel: Kernel, device: Any = None, symbols: dict[Symbol, tuple[RefValue, int]] | None = None) -> Iterator[None]:
        """Trace the body of `kernel`: the entry, or what is called inside it. `device`: where a host entry runs it."""
        before = (self.device, self.symbols)
        self.callers.append(kernel)
        self.attributes.append({})
        self.device = self.device if device is None else device
        self.symbols = {**self.symbols, **(symbols or {})}
        try:
            yield
        finally:
            kernel.attributes = self.attributes.pop()
            self.callers.pop()
            self.device, self.symbols = before

    def region_options(self, own: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
        """What a region keeps: its own options, its device, and what the in-core function it is says of itself."""
        device = () if self.device is None else (("device", self.device if isinstance(self.device, int) else str(self.device.index)),)
        said = self.attributes[-1].items() if self.in_core_function and self.attributes else ()
        return (*own, *device, *said)

    @property
    def auto_scope(self) -> bool:
        """Whether the function whose body is traced leaves the placing of scopes to the library."""
        return not self.callers or self.callers[-1].declared.auto_scope

    @contextmanager
    def region(self, kind: str, *, spmd: bool = False, index: ScalarValue | None = None, count: Any = None) -> Iterator[Scope]:
        """Trace a region body."""
        before = (self.in_region, self.spmd, self.block_index, self.block_count, self.no_dep)
        with self.inside("region") as scope:
            self.in_region, self.spmd, self.block_index, self.block_count, self.no_dep = True, spmd, index, count, []
            try:
                yield scope
            finally:
                self.in_region, self.spmd, self.block_index, self.block_count, self.no_dep = before

    def sources(self, scope: Scope) -> dict[Var, Frame | Any]:
        """Where each variable made directly in a scope was written."""
        return {v: e.source for e in scope.eqns for v in e.outs}


class Reopened:
    """Emit into a scope that is not the current one."""

    def __init__(self, trace: PlTrace, scope: Scope, *, keep: bool = False) -> None:
        self.trace, self.scope, self.keep = trace, scope, keep

    def __enter__(self) -> None:
        self.outer = self.trace.scope
        self.trace.scope, self.scope.open = self.scope, True

    def __exit__(self, *_: Any) -> None:
        self.trace.scope = self.outer
        self.scope.open = self.keep


def fetch(name: str, thunk: Callable[[], Any]) -> Any:
    """The value of a name, or the poison of an unset one."""
    try:
        return thunk()
    except NameError:
        return Unset(name)
