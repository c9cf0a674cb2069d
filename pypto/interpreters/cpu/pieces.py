"""Long functions are cut into pieces, and equal pieces are written once: LLVM's time grows faster than the length of a function.

A piece is what one equation became. It is a function of the registers it uses; the registers it makes for others it leaves in memory.
Names are given anew, site numbers and offsets become arguments: so the thousandth `exp` of tiles of one shape is a call.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module
    from pypto.interpreters.cpu.text import Function

LONG = 2500
"""Lines of a function that is cut."""

MANY = 2500
"""Lines of all kernels together, from which on further ones are shared."""

_SHORT = 16  # lines that are not worth a call
_TOGETHER = 128  # lines of neighbours that are, taken together
_WHOLE = 1200  # lines of a piece that is cut itself, where it is a loop or a branch

_MOST_CONSTANTS = 4  # numbers of a type that become arguments of a piece; where there are more, they are those of a polynomial

_NAME = re.compile(r"%[A-Za-z_][\w.]*")
_TOKEN = re.compile(r"%[A-Za-z_][\w.]*|^(\w+)(?=:$)", re.MULTILINE)
_MADE = re.compile(r"^  (%[\w.]+) = ", re.MULTILINE)
_STARTS = re.compile(r"^(\w+):$", re.MULTILINE)
_LABEL = re.compile(r"label (%[\w.]+)|\[ [^,\]\n]+, (%[\w.]+) \]")
_TYPE = r"(<[^>]+>|\w+)"
_OFFSET = re.compile(r"(getelementptr i8, ptr %[\w.]+, i64 )(\d+)$", re.MULTILINE)
_SPLAT = re.compile(r"splat \((\w+) ([\w.+-]+)\)")
_WIDE = re.compile(r"<(\d+) x \w+>")
_RETURN = re.compile(r"^  ret i64 (\d+)$", re.MULTILINE)
_SAME = re.compile(
    rf"(?:add|sub|mul|[su]div|[su]rem|f?neg|fadd|fsub|fmul|fdiv|frem|and|or|xor|shl|lshr|ashr)(?: nsw| nuw| exact)* {_TYPE} "
)
_FIRST = re.compile(rf"(?:load|phi|call|insertelement|freeze) {_TYPE}[ ,]")
_COMPARED = re.compile(r"[if]cmp \w+ (?:<(\d+) x [^>]+>|\w+) ")
_CHOSEN = re.compile(rf"select (?:<[^>]+>|i1) [^,]+, {_TYPE} ")
_TAKEN = re.compile(r"extractelement <\d+ x (\w+)> ")
_SHUFFLED = re.compile(r"shufflevector <\d+ x (\w+)> .*, <(\d+) x i32> ")
_TURNED = re.compile(rf"(?:zext|sext|trunc|bitcast|fptosi|fptoui|sitofp|uitofp|fpext|fptrunc|ptrtoint) .* to {_TYPE}$")


def kind_of(text: str) -> str | None:
    """The type of what an instruction makes; None where this does not know."""
    if text.startswith(("getelementptr ", "alloca ", "inttoptr ")):
        return "ptr"
    for pattern in (_SAME, _FIRST, _CHOSEN, _TAKEN, _TURNED):
        if found := pattern.match(text):
            return found[1]
    if found := _COMPARED.match(text):
        return f"<{found[1]} x i1>" if found[1] else "i1"
    if found := _SHUFFLED.match(text):
        return f"<{found[2]} x {found[1]}>"
    return None


def _labels(text: str) -> set[str]:
    return {a or b for a, b in _LABEL.findall(text)}


def _used(text: str, made: Collection[str]) -> dict[str, None]:
    """The registers a text uses and does not make, in order."""
    names = dict.fromkeys(_NAME.findall(text))
    for name in (*made, *_labels(text)):
        names.pop(name, None)
    return names


@dataclass
class _Piece:
    """Lines `first` up to `last` and the cold lines they lead to, as texts; the registers these make, and use of others."""

    first: int
    last: int
    text: str
    cold: str
    groups: list[str]
    made: set[str]
    used: dict[str, None]
    slots: dict[str, str] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> list[str]:
        return [n for n in self.used if n not in self.slots]


def _worthwhile(marks: list[int]) -> Iterator[tuple[int, int]]:
    """What lies between two marks, if it is long enough for a call; of short stretches, many that follow each other."""
    begin = marks[0]
    for a, b in pairwise(marks):
        if b - a >= _SHORT:
            yield a, b
            begin = b
        elif b - begin >= _TOGETHER:
            yield begin, b
            begin = b


class _Cut:
    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.cold: dict[str, str] = {}
        label = ""
        for line in fn.cold:
            label = f"%{line[:-1]}" if line.endswith(":") else label
            self.cold[label] = f"{self.cold[label]}\n{line}" if label in self.cold else line
        self.slots = {_NAME.findall(line)[0]: line for line in fn.slots}
        self.kinds: dict[str, str | None] = {f"%{name}": kind for kind, name in fn.parameters}
        self.kinds.update(dict.fromkeys(self.slots, "ptr"))

    def pieces(self) -> list[_Piece]:
        """The pieces, in order; none inside another."""
        spans: dict[int, list[int]] = defaultdict(list)
        for position, block in self.fn.marks:
            spans[block].append(position)
        pairs = [pair for marks in spans.values() for pair in _worthwhile(marks)]
        found: list[_Piece] = []
        pairs.sort(key=lambda p: (p[0], -p[1]))
        for i, (a, b) in enumerate(pairs):
            if found and a < found[-1].last:
                continue
            contains = i + 1 < len(pairs) and pairs[i + 1][1] <= b
            if not (contains and b - a > _WHOLE) and (piece := self._piece(a, b)) is not None:
                found.append(piece)
        return found

    def _piece(self, a: int, b: int) -> _Piece | None:
        """Lines as a piece, if control enters at its first and leaves at its last."""
        text = "\n".join(self.fn.lines[a:b])
        starts = {f"%{x}" for x in _STARTS.findall(text)}
        groups: list[str] = []
        wanted = sorted(_labels(text))
        while wanted:
            label = wanted.pop()
            if label in starts or label in groups:
                continue
            if label not in self.cold:
                return None
            groups.append(label)
            wanted += sorted(_labels(self.cold[label]))
        cold = "\n".join(self.cold[label] for label in self.cold if label in groups)
        made = set(_MADE.findall(f"{text}\n{cold}"))
        return _Piece(a, b, text, cold, groups, made, _used(f"{text}\n{cold}", made))

    def connect(self, pieces: list[_Piece]) -> list[_Piece]:
        """Find what goes in and out of each piece; give up those for which that cannot be said."""
        inside: dict[str, list[int]] = defaultdict(list)
        for i, p in enumerate(pieces):
            for name in p.used:
                inside[name].append(i)
        rest, at = [], 0
        for p in pieces:
            rest += self.fn.lines[at : p.first]
            at = p.last
        groups = {label for p in pieces for label in p.groups}
        rest += [*self.fn.lines[at:], *(text for label, text in self.cold.items() if label not in groups)]
        outside = _used("\n".join(rest), ())
        for p in pieces:
            p.slots = {}
        for name, slot in self.slots.items():
            if len(inside[name]) == 1 and name not in outside and " alloca " in slot:
                pieces[inside[name][0]].slots[name] = slot
        for p in pieces:
            p.outputs = sorted((p.made & outside.keys()) | (p.made & inside.keys()))
            for name in p.outputs:
                self.kinds[name] = _kind_in(p.text, name)
        makers = [n for p in pieces for n in p.inputs if n not in self.kinds]
        if makers:
            lines = "\n".join(rest)
            self.kinds.update((n, _kind_in(lines, n)) for n in dict.fromkeys(makers))
        return [p for p in pieces if all(self.kinds[n] for n in (*p.inputs, *p.outputs))]


def _kind_in(text: str, name: str) -> str | None:
    start = text.find(f"  {name} = ")
    if start < 0:
        return None
    start += len(name) + 5
    end = text.find("\n", start)
    return kind_of(text[start:] if end < 0 else text[start:end])


def cut(module: Module, fn: Function, *, exported: bool = False) -> str:
    """The function, and before it the pieces that no other function has had written."""
    work = _Cut(fn)
    pieces = work.connect(work.connect(work.pieces()))  # twice: what is given up uses and makes registers, too
    taken = {name for p in pieces for name in p.slots}
    moved = {label for p in pieces for label in p.groups}
    cold = [text for label, text in work.cold.items() if label not in moved]
    lines: list[str] = []
    at = 0
    for n, p in enumerate(pieces):
        called, more = _call(module, work, p, n)
        lines += [*fn.lines[at : p.first], *called]
        cold += more
        at = p.last
    lines += fn.lines[at:]
    slots = [text for name, text in work.slots.items() if name not in taken]
    room = max((len(p.outputs) for p in pieces), default=0)
    if room:
        slots.append(f"  %piece_outputs = alloca [{64 * room} x i8], align 64")
    fn.lines, fn.slots, fn.cold = lines, slots, cold
    return fn.text(exported=exported)


def shared(module: Module, fn: Function) -> tuple[str, list[str]]:
    """The name of a function that does what this one does, and what else it is to be called with: equal ones are written once."""
    given: list[tuple[str, str]] = []

    def constant(kind: str, value: str) -> str:
        given.append((kind, value))
        return f"%constant{len(given) - 1}"

    head, text = _numbers("\n".join([*fn.slots, *fn.lines]), constant)
    text = _OFFSET.sub(lambda m: m[1] + constant("i64", m[2]), text)
    cold = _RETURN.sub(lambda m: f"  ret i64 {constant('i64', m[1])}", "\n".join(fn.cold))
    signature = [f"{kind} %{name}" for kind, name in fn.parameters] + [f"{kind} %constant{i}" for i, (kind, _) in enumerate(given)]
    return _shared(module, signature, [*head, text, *([cold] if cold else [])]), [f"{kind} {value}" for kind, value in given]


def _call(module: Module, work: _Cut, p: _Piece, n: int) -> tuple[list[str], list[str]]:
    """The lines that call a piece, and those for when it fails."""
    constants: list[tuple[str, str]] = []

    def constant(kind: str, value: str) -> str:
        constants.append((kind, value))
        return f"%constant{len(constants) - 1}"

    head, text = _numbers(p.text, constant)
    text = _OFFSET.sub(lambda m: m[1] + constant("i64", m[2]), text)
    cold = _RETURN.sub(lambda m: f"  ret i64 {constant('i64', m[1])}", p.cold)
    texts = [*p.slots.values(), *head, text]
    for i, name in enumerate(p.outputs):
        texts.append(f"  %place{i} = getelementptr i8, ptr %outputs, i64 {64 * i}")
        texts.append(f"  store {work.kinds[name]} {name}, ptr %place{i}, align 1")
    texts += ["  ret i64 0", *([cold] if cold else [])]
    signature = [f"{work.kinds[name]} {name}" for name in p.inputs]
    given = [*signature, *(f"{kind} {value}" for kind, value in constants), *(["ptr %piece_outputs"] if p.outputs else [])]
    signature += [f"{kind} %constant{i}" for i, (kind, _) in enumerate(constants)] + (["ptr %outputs"] if p.outputs else [])
    call = f"call i64 @{_shared(module, signature, texts)}({', '.join(given)})"
    lines, more = [f"  {call}"], []
    if "ret i64" in cold:
        lines = [
            f"  %piece{n} = {call}",
            f"  %piece_fine{n} = icmp eq i64 %piece{n}, 0",
            f"  br i1 %piece_fine{n}, label %piece_went{n}, label %piece_failed{n}",
            f"piece_went{n}:",
        ]
        more = [f"piece_failed{n}:", f"  ret i64 %piece{n}"]
    for i, name in enumerate(p.outputs):
        lines += [
            f"  %piece{n}_place{i} = getelementptr i8, ptr %piece_outputs, i64 {64 * i}",
            f"  {name} = load {work.kinds[name]}, ptr %piece{n}_place{i}, align 1",
        ]
    return lines, more


def _numbers(text: str, constant: Callable[[str, str], str]) -> tuple[list[str], str]:
    """Vectors of one number as arguments, if there are few of that type: lines that make them, and the text that uses them."""
    every = dict.fromkeys((m[1], m[2], w[1]) for m in _SPLAT.finditer(text) if (w := _last_wide(text, m.start())))
    of_kind = Counter(kind for kind, _, _ in every)
    found = [number for number in every if of_kind[number[0]] <= _MOST_CONSTANTS]
    if not found:
        return [], text
    head, names = [], {}
    for i, (kind, value, width) in enumerate(found):
        names[kind, value, width] = f"%number{i}"
        head.append(f"  %single{i} = insertelement <{width} x {kind}> poison, {kind} {constant(kind, value)}, i64 0")
        head.append(
            f"  %number{i} = shufflevector <{width} x {kind}> %single{i}, <{width} x {kind}> poison, <{width} x i32> zeroinitializer"
        )

    def named(m: re.Match[str]) -> str:
        wide = _last_wide(text, m.start())
        return names.get((m[1], m[2], wide[1]), m[0]) if wide else m[0]

    return head, _SPLAT.sub(named, text)


def _last_wide(text: str, position: int) -> re.Match[str] | None:
    """The vector type that an operand at this position has: the one named last before it, in its line."""
    return max(_WIDE.finditer(text, text.rfind("\n", 0, position) + 1, position), key=lambda m: m.start(), default=None)


def _shared(module: Module, signature: list[str], texts: list[str]) -> str:
    """The name of a function of this body; names inside do not matter."""
    names: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        if found[1]:  # a label in a line of its own
            return found[0] if found[1] == "entry" else names.setdefault(f"%{found[1]}", f"%r{len(names)}")[1:]
        return names.setdefault(found[0], f"%r{len(names)}")

    whole = _TOKEN.sub(rename, "({}) #0 {{\nentry:\n{}\n}}\n".format(", ".join(signature), "\n".join(texts)))
    if whole not in module.pieces:
        module.pieces[whole] = name = f"piece{len(module.pieces)}"
        module.functions[name] = f"define internal i64 @{name}{whole}"
    return module.pieces[whole]
