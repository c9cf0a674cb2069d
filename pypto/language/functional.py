"""Kernels called in array programs: checked as any call is, run as functions of arrays, and given a loop over examples by `vmap`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import config, dtypes
from pypto.core.allocation import zeros
from pypto.core.array import Array
from pypto.core.avals import ArrayAval, Aval, RefAval, ScalarAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Literal, Var, rename
from pypto.core.once import once
from pypto.core.op import OPS
from pypto.core.trace import EVAL, Tracer, aval_of, current_trace, ended, tracing
from pypto.errors import CallError
from pypto.interpreters.reference import Machine
from pypto.interpreters.tangents import apply
from pypto.interpreters.values import Buffer, Ref, Value
from pypto.language import calls
from pypto.language.calls import OMITTED, Call
from pypto.language.types import INOUT, OUT, TensorType
from pypto.language.unwritten import check_written
from pypto.lax.families import as_dtype, literal
from pypto.platform import Platform, platform_of
from pypto.tile import Program, lower_program
from pypto.tile.passes.cells import promote_cells

if TYPE_CHECKING:
    from pypto.language.calls import Signature
    from pypto.language.kernel import Kernel


@dataclass(eq=False)
class KernelLaunch:
    """A kernel for arguments of some types, without plain Python arguments, which its program holds.

    Attributes:
      name: the function's.
      signature: for errors about its outputs.
      jaxpr: the ref-level program.
    """

    name: str
    signature: Signature
    jaxpr: Jaxpr
    _programs: dict[Platform, Program] = field(default_factory=dict)
    _batched: dict[tuple[int, tuple[bool, ...]], KernelLaunch] = field(default_factory=dict)

    def _directions(self) -> list[str]:
        """Of each parameter: in, out or inout."""
        return [(v.aval.direction or "in") if isinstance(v.aval, RefAval) else "in" for v in self.jaxpr.invars]

    @property
    def results(self) -> tuple[Aval, ...]:
        found = zip(self.jaxpr.invars, self._directions(), strict=True)
        return tuple(ArrayAval(v.aval.static_shape, v.aval.dtype) for v, d in found if d in (OUT, INOUT))

    def keeps(self) -> list[bool]:
        """Of each operand, whether it is a result as well."""
        return [d == INOUT for d in self._directions() if d != OUT]

    # ---- running ----

    def program(self) -> Program:
        """The tile program for the platform of the configuration."""
        name = config.current().platform
        platform = platform_of(name)
        if platform not in self._programs:
            self._programs[platform] = lower_program(self.jaxpr, platform=name)
        return self._programs[platform]

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results. Outputs are checked as those of any call: what nobody wrote is reported."""
        chosen, given = config.current(), iter(arrays)
        values: list[Any] = []
        for v, direction in zip(self.jaxpr.invars, self._directions(), strict=True):
            if not isinstance(v.aval, RefAval):
                values.append(Value(np.asarray(next(given)), ()))
                continue
            shape, storage = v.aval.static_shape, v.aval.dtype.storage
            if direction == OUT:
                data, written = zeros(f"the output `{v.name}`", v.aval.dtype, shape), np.zeros(shape, np.bool_)
            else:
                data, written = np.array(next(given), storage, order="C").reshape(shape), None
            tainted = np.zeros(shape, np.bool_) if chosen.check and direction != "in" else None
            values.append(Ref.whole(Buffer(data, written, tainted, v.name, visible=direction != "in")))
        program = self.program()
        with tracing(EVAL):
            self._execute(program, values, compiled=chosen.executor == "cpu" and not chosen.check, check=bool(chosen.check))
        buffers = [v.buffer for v in values if isinstance(v, Ref)]
        for b in buffers:
            if b.written is not None and b.visible:
                check_written(self.signature.name, self.signature.source, b)
        kinds = [d for v, d in zip(self.jaxpr.invars, self._directions(), strict=True) if isinstance(v.aval, RefAval)]
        return [b.data for b, d in zip(buffers, kinds, strict=True) if d in (OUT, INOUT)]

    @staticmethod
    def _execute(program: Program, values: list[Any], *, compiled: bool, check: bool) -> None:
        if compiled and program.compiled.executor == "cpu":
            copies = [Ref.whole(Buffer(v.data.copy(), None, None, v.buffer.name)) if isinstance(v, Ref) else v for v in values]

            def again() -> None:
                Machine(program.bodies, check=False).run(program.orchestration, copies)

            code: Any = program.compiled
            for v, p in zip(values, code.parameters, strict=True):
                if isinstance(v, Ref) and not p.tracked:
                    v.buffer.written = v.written = None  # compiled code records the writes of what it may leave unwritten only
            code.run(values, again, threads=config.current().threads or 0)
            return
        Machine(program.bodies, check=check).run(program.orchestration, values)

    @once
    def _values(self) -> Jaxpr:
        return promote_cells(self.jaxpr)

    # ---- as values, and for all examples -------------------------------------------------------------------------

    def values(self) -> tuple[Jaxpr, list[int], list[int], list[Aval]]:
        """The program with tiles as values; its operands and its results among the parameters; the types of all."""
        directions = self._directions()
        inputs = [i for i, d in enumerate(directions) if d != OUT]
        outputs = [i for i, d in enumerate(directions) if d in (OUT, INOUT)]
        return self._values, inputs, outputs, [ArrayAval(v.aval.static_shape, v.aval.dtype) for v in self.jaxpr.invars]

    def batched(self, size: int, which: Sequence[bool]) -> KernelLaunch:
        """The kernel for a batch: `which` of the operands hold one value per example. The same one every time."""
        key = (int(size), tuple(which))
        if key not in self._batched:
            self._batched[key] = self._for_examples(*key)
        return self._batched[key]

    def _for_examples(self, size: int, which: Sequence[bool]) -> KernelLaunch:
        flags, directions = iter(which), self._directions()
        own = [True if d == OUT else next(flags) for d in directions]
        index = Var(scalar(dtypes.INDEX), "example")
        invars, eqns, inner = [], [], {}
        for v, batched in zip(self.jaxpr.invars, own, strict=True):
            if not batched:
                invars.append(v_copy := Var(v.aval, v.name))
                inner[v] = v_copy
                continue
            whole, part = self._of_example(v, index, size, eqns)
            invars.append(whole)
            inner[v] = part
        body = rename(self.jaxpr.replace(invars=()), inner, copy=True)
        looped = Jaxpr((index,), (*eqns, *body.eqns), ())
        zero, one, count = (Literal(np.int64(n), scalar(dtypes.INDEX)) for n in (0, 1, size))
        source = next((e.source for e in self.jaxpr.eqns), None)
        loop = Eqn(OPS["loop"], (zero, count, one), (), {"body": looped, "kind": "parallel", "stage": None}, source)
        return KernelLaunch(self.name, self.signature, Jaxpr(tuple(invars), (loop,), (), self.name))

    @staticmethod
    def _of_example(v: Var, index: Var, size: int, eqns: list[Eqn]) -> tuple[Var, Var]:
        """The parameter that holds all examples, and this example's part of it."""
        aval = v.aval
        if isinstance(aval, ScalarAval):
            whole = Var(RefAval((size,), aval.dtype, direction="in"), v.name)
            part = Var(aval, v.name)
            eqns.append(Eqn(OPS["read"], (whole, index), (part,), {}))
            return whole, part
        assert isinstance(aval, RefAval)
        whole = Var(replace(aval, shape=(size, *aval.static_shape)), v.name)
        zero = Literal(np.int64(0), scalar(dtypes.INDEX))
        params = {"sizes": (1, *aval.static_shape), "drop": (0,)}
        part = Var(replace(aval, direction=None), v.name)
        eqns.append(Eqn(OPS["view"], (whole, index, *(zero for _ in aval.shape)), (part,), params))
        return whole, part


def call_in_program(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A kernel called while an array program is traced, differentiated or batched: one equation.

    Errors:
      What the call itself would raise; PL604 for an output that is passed in, as nothing is written in place here.
    """
    given = kernel.signature.bind(args, kwargs)
    stands: list[Any] = []
    for p, x in zip(kernel.signature.parameters, given, strict=True):
        if isinstance(p.type, TensorType) and p.type.direction == OUT and x is not OMITTED:
            raise CallError(
                "PL604",
                f"`{p.name}` of {kernel.signature.name}() is an output: in an array program nothing is written in place",
                fix=f"leave `{p.name}` out; the call returns it",
            )
        if isinstance(p.type, TensorType) and p.type.direction == INOUT and isinstance(x, np.ndarray):
            x = np.array(x)  # it is an operand: it may be read-only, and stays as it is
        stands.append(_stand_in(x) if isinstance(x, Tracer | Array) else x)
    call = calls.prepare(kernel.signature, stands, kernel.guard.key)
    operands = [_value(x, a) for x, a in zip(given, call.arguments, strict=True) if a.aval is not None and x is not OMITTED]
    launch = _launch(kernel, call)
    if current_trace() is EVAL:
        for x in operands:
            if isinstance(x, Tracer):
                raise ended(x)
    made = apply(OPS["kernel"], operands, {"launch": launch})
    return made[0] if len(made) == 1 else tuple(made)


def _stand_in(x: Any) -> Any:
    """An array of the same type, for the checks of a call: they look at no element. A scalar's is a number."""
    aval = aval_of(x)
    zero = np.zeros(aval.static_shape, aval.dtype.storage)
    return zero if aval.shape else zero.item()


def _value(x: Any, argument: Any) -> Any:
    """An operand in the dtype of its parameter."""
    if isinstance(argument.aval, ScalarAval):
        dtype = argument.aval.dtype
        return literal(x, dtype) if isinstance(x, bool | int | float) else as_dtype(x, aval_of(x), dtype)
    return x if isinstance(x, Tracer | Array) else Array(argument.array)


def _launch(kernel: Kernel, call: Call) -> KernelLaunch:
    """The kernel for these types; the same one as long as nothing it depends on changes."""
    avals = [
        replace(a.aval, shape=a.array.shape) if isinstance(a.aval, RefAval) and a.array is not None else a.aval for a in call.arguments
    ]
    key = (tuple(avals), call.key, kernel.snapshot(), platform_of(config.current().platform))
    launch = kernel.functions.get(key)
    if launch is None:
        jaxpr = kernel.traced([a if a is not None else arg.static for a, arg in zip(avals, call.arguments, strict=True)])
        launch = kernel.functions[key] = KernelLaunch(kernel.fn.__name__, kernel.signature, jaxpr)
    return launch
