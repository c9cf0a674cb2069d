"""Turns that may run at the same time: their body as a function of its own, which the runtime's threads call; and looking at signals.

Whether turns are independent is `facts`' business, and whether it is worth waking threads the runtime's: it knows how many turns there
are. One after the other, on the caller's thread, is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pypto.core.ir import Eqn
from pypto.interpreters.cpu.operands import arguments_of, received
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Ref, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

_WORTH = 20_000  # nanoseconds below which no thread is woken, as in pool.ll
_CLOCK = 48  # the word of a thread's record that counts down to the next look at signals, as in native.py


def start(w: Writer, kernel: str, operands: Sequence[Value], block: Sequence[str]) -> None:
    """Call a kernel; where it fails, so does the caller."""
    target, arguments = w.module.kernel(kernel, operands, w.packed, blocks=bool(block))
    _checked(w, f"call i64 @{target}({', '.join(['ptr %arena', 'ptr %err', *w.module.shared, *block, *arguments])})")


def _checked(w: Writer, text: str) -> None:
    fn = w.fn
    status = fn.let(text)
    n = fn.number()
    fn.do(f"br i1 {fn.let(f'icmp eq i64 {status}, 0')}, label %went{n}, label %failed{n}")
    fn.cold += [f"failed{n}:", f"  ret i64 {status}"]
    fn.start(f"went{n}")


def turn(w: Writer) -> None:
    """Before an update that others may make as well: wait for the blocks before this one, where the launch asks for that."""
    if any(w.module.facts.independent.values()):
        _checked(w, "call i64 @pypto_turn(ptr %err)")


def poll(w: Writer, cost: int) -> None:
    """Count time; every now and then, let the runtime look at signals."""
    fn = w.fn
    n = fn.number()
    clock = fn.at("%err", _CLOCK, 8)
    left = fn.let(f"sub i64 {fn.load('i64', clock, 8)}, {cost}")
    fn.store("i64", left, clock, 8)
    fn.do(f"br i1 {fn.let(f'icmp slt i64 {left}, 0')}, label %poll{n}, label %polled{n}")
    fn.cold += [
        f"poll{n}:",
        f"  %asked{n} = call i64 @pypto_poll(ptr %err)",
        f"  %calm{n} = icmp eq i64 %asked{n}, 0",
        f"  br i1 %calm{n}, label %polled{n}, label %halt{n}",
        f"halt{n}:",
        f"  ret i64 %asked{n}",
    ]
    fn.start(f"polled{n}")


def turns(
    w: Writer,
    eqn: Eqn,
    count: Int,
    straight: int,
    cost: int,
    captured: Sequence[Value],
    body: Callable[[Writer, Sequence[Value], str], None],
) -> None:
    """Run `body(writer, captured values, index)` for every index below `count`, at the same time where `facts` allows it.

    Args:
      straight, cost: nanoseconds of one turn without and with its loops.
    """
    ordered = w.module.facts.independent.get(id(eqn))
    little = isinstance(count, int) and (count < 2 or count * cost < _WORTH)
    if ordered is None or little or not w.orchestration:
        with w.fn.loop(0, count) as index:
            body(w, captured, index)
            poll(w, straight)
        return
    spread(w, count, straight, cost, ordered, captured, body)


def spread(
    w: Writer,
    count: Int,
    straight: int,
    cost: int,
    ordered: bool,
    captured: Sequence[Value],
    body: Callable[[Writer, Sequence[Value], str], None],
) -> None:
    """The same for turns that are known to be independent; `ordered`: their updates are made in the order of the turns."""
    context, room = _packed(w, captured), w.fn.load("i64", "@room", 8)
    function = _function(w, straight, captured, body)
    arguments = f"ptr @{function}, ptr {context}, i64 {count}, i64 {cost}, i64 {int(ordered)}, ptr %arena, ptr %err, i64 {room}"
    _checked(w, f"call i64 @pypto_parallel({arguments})")


def phases(
    w: Writer,
    count: Int,
    straight: int,
    captured: Sequence[Value],
    body: Callable[[Writer, Sequence[Value], str], None],
) -> None:
    """As `turns`, for turns that wait for each other: on this thread, each with a stack of its own (`phases.ll`)."""
    context, room = _packed(w, captured), w.fn.load("i64", "@room", 8)
    function = _function(w, straight, captured, body)
    _checked(w, f"call i64 @pypto_phases(ptr @{function}, ptr {context}, i64 {count}, ptr %err, i64 {room})")


def _packed(w: Writer, captured: Sequence[Value]) -> str:
    arguments = [*w.module.shared, *(a for x in captured for a in arguments_of(x))]
    context = w.fn.slot(f"[{max(1, len(arguments))} x i64]")
    for i, a in enumerate(arguments):
        kind, value = a.split(" ", 1)
        w.fn.store(kind, value, w.fn.at(context, i, 8), 8)
    return context


def _function(w: Writer, straight: int, captured: Sequence[Value], body: Callable[[Writer, Sequence[Value], str], None]) -> str:
    """The body as a function of (context, arena, record, index), with memory of its own that goes when it ends."""
    from pypto.interpreters.cpu.writer import Writer

    module, name = w.module, f"turn{len(w.module.functions)}"
    module.functions[name] = ""
    common = [("ptr", "context"), ("ptr", "arena"), ("ptr", "err")]
    fn = module.function(f"{name}_body", [*common, ("ptr", "heap"), ("i64", "index")])
    inner = Writer(module, fn, orchestration=True)
    inner.packed = w.packed
    if module.shared:
        fn.do("%shared = load ptr, ptr %context, align 8")
    kinds = [a.split(" ", 1)[0] for x in captured for a in arguments_of(x)]
    names = iter([fn.load(kind, fn.at("%context", i, 8), 8) for i, kind in enumerate(kinds, len(module.shared))])
    roots = {r: r for x in captured if isinstance(x, Ref) for r in x.roots or ()}
    poll(inner, straight)
    body(inner, [received(x, names, roots) for x in captured], "%index")
    fn.do("ret i64 0")
    outer = module.function(name, [*common, ("i64", "index")])
    outer.slots.append("  %heap = alloca ptr, align 8")
    outer.store("ptr", "null", "%heap", 8)
    status = outer.let(f"call i64 @{name}_body(ptr %context, ptr %arena, ptr %err, ptr %heap, i64 %index)")
    outer.do("call void @pypto_free(ptr %heap, ptr null)")
    outer.do(f"ret i64 {status}")
    module.functions[name] = fn.text() + outer.text()
    return name
