"""Runs one program on both executors: single ops as kernels built from equations, and decorated kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pypto
from pypto import dtypes, numerics
from pypto.core.avals import TILE, RefAval, ScalarAval, TileAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Literal, Var
from pypto.core.op import OPS, Op
from pypto.core.trace import aval_of
from pypto.dtypes import dtype_of
from pypto.errors import PyptoError
from pypto.interpreters.cpu.launch import Compiled, Fallback, compile_program
from pypto.interpreters.reference import Machine
from pypto.interpreters.values import Buffer, Ref, Value
from pypto.lax.tasks import DIRECT


def zeros(rank: int) -> tuple[Literal, ...]:
    return (Literal(np.int64(0), scalar(dtypes.INDEX)),) * rank


def op_program(
    op: Op,
    arrays: Sequence[np.ndarray],
    params: dict[str, Any],
    valids: Sequence[tuple[int, ...] | None] | None = None,
    dynamic: bool = False,
) -> tuple[Jaxpr, dict[str, Jaxpr]]:
    """An orchestration that launches one kernel: load the operands, apply the op, store the valid part of each result.

    Operands of no axes are scalar parameters. `valids` marks what is loaded; `dynamic` passes those extents at run time.
    """
    return launched([application(op, arrays, params, valids, dynamic)])


def launched(applications: Sequence[Jaxpr]) -> tuple[Jaxpr, dict[str, Jaxpr]]:
    """An orchestration that launches one kernel, which does one thing after the other."""
    inputs = [v for a in applications for v in a.invars]
    inner = tuple(Var(v.aval, v.name) for v in inputs)
    call = Eqn(OPS["call"], inner, (), {"kernel": "kernel", "blocks": False, "launch": DIRECT})
    kernel = Jaxpr(tuple(inputs), tuple(e for a in applications for e in a.eqns), (), "kernel")
    return Jaxpr(inner, (call,), (), "program"), {"kernel": kernel}


def application(
    op: Op,
    arrays: Sequence[np.ndarray],
    params: dict[str, Any],
    valids: Sequence[tuple[int, ...] | None] | None = None,
    dynamic: bool = False,
    name: str = "",
) -> Jaxpr:
    """The body of such a kernel; `name` comes before the names of what it takes."""
    marks = list(valids or [None] * len(arrays))
    inputs, eqns, operands = [], [], []
    for i, (array, mark) in enumerate(zip(arrays, marks, strict=True)):
        dtype = dtype_of(array.dtype)
        if array.ndim == 0:
            v = Var(ScalarAval((), dtype), f"{name}s{i}")
            inputs.append(v)
            operands.append(v)
            continue
        ref = Var(RefAval(array.shape, dtype, direction="in"), f"{name}x{i}")
        inputs.append(ref)
        extents: list[Any] = []
        if mark is not None and dynamic:
            extents = [Var(scalar(dtypes.INDEX), f"{name}v{i}_{axis}") for axis in range(array.ndim)]
            inputs += extents
        known = None if mark is None else (None,) * array.ndim if dynamic else mark
        t = Var(TileAval(array.shape, dtype, TILE, None, known), f"t{i}")
        get = {"sizes": array.shape, "drop": (), "valid": known, "level": TILE, "space": None}
        eqns.append(Eqn(OPS["get"], (ref, *zeros(array.ndim), *extents), (t,), get))
        operands.append(t)
    results = tuple(Var(a) for a in op.abstract_eval([o.aval for o in operands], params))
    eqns.append(Eqn(op, tuple(operands), results, params))
    for i, r in enumerate(results):
        shape = r.aval.shape or (1,)
        out = Var(RefAval(shape, r.aval.dtype, direction="out"), f"{name}out{i}")
        inputs.append(out)
        drop = (0,) if isinstance(r.aval, TileAval) and not r.aval.shape else ()
        eqns.append(Eqn(OPS["set"], (out, r, *zeros(len(shape))), (), {"sizes": shape, "drop": drop}))
    return Jaxpr(tuple(inputs), tuple(eqns), (), "kernel")


def run_values(program: Jaxpr, arrays: Sequence[np.ndarray], valids: Sequence[Any] | None, dynamic: bool) -> tuple[list[Any], list[Any]]:
    """Run-time arguments of `op_program` or `application`, and the buffers of the results among them."""
    values: list[Any] = []
    for i, array in enumerate(arrays):
        if array.ndim == 0:
            values.append(Value(array, ()))
            continue
        values.append(Ref.whole(Buffer(np.ascontiguousarray(array), None, None, f"x{i}")))
        mark = valids[i] if valids else None
        if mark is not None and dynamic:
            values += [Value(np.asarray(v, np.int64), ()) for v in mark]
    outs = []
    for v in program.invars[len(values) :]:
        shape = v.aval.static_shape
        outs.append(Buffer(np.zeros(shape, v.aval.dtype.storage), np.zeros(shape, np.bool_), None, v.name))
        values.append(Ref.whole(outs[-1]))
    return values, outs


def bits(x: np.ndarray) -> np.ndarray:
    """The bits of an array, all NaNs alike."""
    raw = np.ascontiguousarray(x)
    words = raw.view(f"u{raw.dtype.itemsize}") if raw.dtype != np.bool_ else raw.view(np.uint8)
    if raw.dtype.kind in "iub":
        return words
    return np.where(np.isnan(numerics.widened(raw)), words.dtype.type(0x7FFF if words.itemsize == 2 else 0x7F), words)


def outcome(run: Any) -> Any:
    """What a run gives: the bits of its results, or its error's code, place and message."""
    try:
        return [bits(np.asarray(x)).tobytes() for x in run()]
    except PyptoError as error:
        return error.code, error.message, error.source and (error.source.file, error.source.line)


def differs(
    op: Op, arrays: Sequence[np.ndarray], params: dict[str, Any], valids: Any = None, *, dynamic: bool = False, target: Any = None
) -> str:
    """How the executors disagree about one application of an op; empty if they do not. `fallback: ...` where there is no code."""
    program, kernels = op_program(op, arrays, params, valids, dynamic)
    compiled: Compiled | Fallback = compile_program(program, kernels, target)
    if isinstance(compiled, Fallback):
        return f"fallback: {compiled.reason}"

    def meant() -> list[Any]:
        """Run the meaning; an equation without a place makes this line the place of its errors."""
        values, outs = run_values(program, arrays, valids, dynamic)
        Machine(kernels, check=False).run(program, values)
        return outs

    def reference() -> list[np.ndarray]:
        return [x for o in meant() for x in (o.data, o.written)]

    def cpu() -> list[np.ndarray]:
        values, outs = run_values(program, arrays, valids, dynamic)
        compiled.run(values, meant)
        # of an output that every run writes completely no record is kept
        full = {p.name for p in compiled.parameters if p.full}
        return [x for o in outs for x in (o.data, o.written | (o.name in full))]

    want, got = outcome(reference), outcome(cpu)
    return "" if want == got else f"{op.name} {params} {[(a.dtype, a.shape) for a in arrays]} {valids}: {want!r:.300} != {got!r:.300}"


Application = tuple[Op, list[np.ndarray], dict[str, Any], Any, bool]
"""An op, its operands and params, what is valid of them, and whether that is passed at run time."""

_TOGETHER = 24  # applications in one kernel: compiling has a price of its own


def disagreements(applications: Sequence[Application], target: Any = None) -> list[str]:
    """`differs` of many applications, most of them compiled together; `fallback: ...` for those without code."""
    found: list[str] = []
    calm: list[tuple[Application, Jaxpr, list[Any]]] = []
    for a in applications:
        body = application(*a, name=f"a{len(calm)}_")

        def meant(body: Jaxpr = body, a: Application = a) -> list[Any]:
            values, outs = run_values(body, a[1], a[3], a[4])
            Machine(check=False).run(body, values)
            return [x for o in outs for x in (o.data, o.written)]

        want = outcome(meant)
        if isinstance(want, list):
            calm.append((a, body, want))
        else:
            found.append(differs(*a[:4], dynamic=a[4], target=target))
    for start in range(0, len(calm), _TOGETHER):
        found += _together(calm[start : start + _TOGETHER], target)
    return [f for f in found if f]


def _together(calm: Sequence[tuple[Application, Jaxpr, list[Any]]], target: Any) -> list[str]:
    compiled = compile_program(*launched([body for _, body, _ in calm]), target)
    if isinstance(compiled, Fallback):
        if len(calm) > 1:
            return [f for one in calm for f in _together([one], target)]
        return [f"fallback: {compiled.reason}"]
    parts = [run_values(body, a[1], a[3], a[4]) for a, body, _ in calm]
    compiled.run([v for values, _ in parts for v in values], lambda: None)
    full = {p.name for p in compiled.parameters if p.full}
    found = []
    for (a, _, want), (_, outs) in zip(calm, parts, strict=True):
        got = [bits(np.asarray(x)).tobytes() for o in outs for x in (o.data, o.written | (o.name in full))]
        if got != want:
            found.append(f"{a[0].name} {a[2]} {[(x.dtype, x.shape) for x in a[1]]} {a[3]}: {want!r:.300} != {got!r:.300}")
    return found


def samples_of(op: Op) -> list[tuple[list[np.ndarray], dict[str, Any]]]:
    """An op's samples as arrays and normal params."""
    found = []
    for args, params in op.samples():
        arrays = [np.asarray(a) for a in args]
        if op.normal is not None:
            params = op.normal(*map(aval_of, arrays), **params)
        found.append((arrays, params))
    return found


def same(kernel: Any, make: Any) -> bool:
    """Whether a decorated kernel does the same on both executors; `make` gives fresh arguments, outputs included."""

    def run(executor: str) -> Any:
        def go() -> list[Any]:
            arguments = make()
            with pypto.override(check=False, executor=executor):
                result = kernel(*arguments)
            results = result if isinstance(result, tuple) else () if result is None else (result,)
            return [*(a for a in arguments if isinstance(a, np.ndarray)), *results]

        return outcome(go)

    return run("reference") == run("cpu")
