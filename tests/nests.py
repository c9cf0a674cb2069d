"""Random kernels: nests of loops, branches and assignments over a few names that are rebound all over the place.

Every kernel is a plain Python function of `x` and `out` that also reads `pl`; what `pl` is decides who runs it. It has
one outer `with pl.at(level=pl.Level.CORE_GROUP):`, works on whole [4, 64] FP32 tiles and Python integers inside, and
writes `out[:, :]` once, as its last statement. `Value` lets CPython run it with the meaning tiles have.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

HEADER = "def kernel(x, out):"
TILES: tuple[str, ...] = ("a", "b", "c")
LATE: tuple[str, ...] = ("d", "e")
INTEGERS: tuple[str, ...] = ("m", "n")


class Value:
    """An FP32 array whose slices and results are copies, and which has no in-place operators."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> Value:
        return Value(self.array[index].copy())

    def __setitem__(self, index: Any, value: Value) -> None:
        self.array[index] = value.array

    def _apply(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        if not isinstance(other, (Value, int, float)):
            return NotImplemented  # whatever stands for an unset name says so itself
        return Value(function(self.array, other.array if isinstance(other, Value) else np.float32(other)))

    def __add__(self, other: Any) -> Value:
        return self._apply(np.add, other)

    def __sub__(self, other: Any) -> Value:
        return self._apply(np.subtract, other)

    def __mul__(self, other: Any) -> Value:
        return self._apply(np.multiply, other)


def random_kernel(
    seed: int,
    *,
    depth: int = 3,
    state: bool = True,
    scopes: bool = False,
    unset: bool = True,
    choices: bool = True,
    indices: bool = True,
    zero_trips: bool = True,
    jumps: bool = False,
    header: str = HEADER,
) -> str:
    """The source of one kernel; the same seed and options always give the same text.

    Args:
      depth: how deep loops, branches and scopes nest inside the outer region.
      state: use `for i, (s, t) in pl.range(n, init_values=(a, b)):` with `pl.yield_`.
      scopes: nest `with pl.at(...)` inside the region too.
      unset: use names first assigned in a loop or branch, so that some runs read an unset name (a NameError).
      choices: use conditional expressions between tiles.
      indices: read a loop's index after the loop, and loop over the integer names.
      zero_trips: include loops that never run.
      jumps: `while` loops, `break` and `continue` under conditions, `else` on loops that are left.
      header: the `def` line, and decorators if any.
    """
    writer = _Jumping if jumps else _Writer
    return writer(random.Random(seed), state, scopes, unset, choices, indices, zero_trips).kernel(header, depth)


class _Writer:
    def __init__(self, rng: random.Random, state: bool, scopes: bool, unset: bool, choices: bool, indices: bool, zero_trips: bool) -> None:
        self.rng, self.state, self.scopes, self.choices = rng, state, scopes, choices
        self.indices, self.zero_trips = indices, zero_trips
        self.tiles = list(TILES)
        self.late = list(LATE) if unset else []  # join `tiles` once something has stored them
        self.integers = list(INTEGERS)
        self.lines: list[str] = []

    def kernel(self, header: str, depth: int) -> str:
        self.lines = [header, "    with pl.at(level=pl.Level.CORE_GROUP):"]
        for line in ("a = x[:, :]", "b = x[:, :] * 0.5", "c = x[:, :] - 1.0", "m = 1", "n = 2"):
            self._write(2, line)
        self._block(2, depth, [])
        self._write(2, f"if {self._test([])}:")
        self._write(3, f"a = a + {self._tile([])}")
        late = [name for name in LATE if name in self.tiles and self.rng.random() < 0.3]
        self._write(2, f"out[:, :] = {' + '.join(['a - b', 'c * 0.25', *late])}")
        return "\n".join(self.lines) + "\n"

    def _write(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def _block(self, indent: int, depth: int, loops: list[str]) -> None:
        simple = [self._assign, self._assign, self._augment, self._swap, self._integer]
        nested = [self._loop, self._loop, self._branch, self._branch]
        nested += [self._stateful] if self.state else []
        nested += [self._scope] if self.scopes else []
        for _ in range(self.rng.randint(1, 3)):
            make = self.rng.choice(nested if depth and self.rng.random() < 0.5 else simple)
            make(indent, depth, loops)

    # Names and expressions.

    def _store(self) -> str:
        if self.late and self.rng.random() < 0.2:
            name = self.late.pop()
            self.tiles.append(name)
            return name
        return self.rng.choice(self.tiles)

    def _tile(self, loops: list[str]) -> str:
        states = [name for loop in loops if loop.startswith("k") for name in (f"s{loop[1:]}", f"t{loop[1:]}")]
        return self.rng.choice([*self.tiles, *self.tiles, *states, *states, "x[:, :]"])

    def _value(self, loops: list[str]) -> str:
        draw = self.rng.random()
        if draw < 0.1:
            return self._tile(loops)
        if draw < 0.2 and self.choices:
            return f"{self._tile(loops)} if {self._test(loops)} else {self._tile(loops)}"
        if draw < 0.25:
            return f"{self._tile(loops)} * {self._tile(loops)}"
        if draw < 0.5:
            return f"{self._tile(loops)} * {self.rng.choice(['0.5', '0.75', '1.5'])}"
        other = self._tile(loops) if self.rng.random() < 0.7 else f"{self.rng.randint(1, 4)}.0"
        return f"{self._tile(loops)} {self.rng.choice('+-')} {other}"

    def _scalar(self, loops: list[str]) -> str:
        return self.rng.choice([*self.integers, *loops, *loops])

    def _comparison(self, loops: list[str]) -> str:
        left, right = self._scalar(loops), self.rng.choice([str(self.rng.randint(0, 3)), self._scalar(loops)])
        operator = self.rng.choice(["<", "<=", ">", "==", "!="])
        if self.rng.random() < 0.25:
            return f"{self.rng.randint(0, 1)} <= {left} {operator} {right}"
        return f"{left} {operator} {right}"

    def _test(self, loops: list[str]) -> str:
        draw = self.rng.random()
        if draw < 0.55:
            return self._comparison(loops)
        if draw < 0.7:
            return f"not ({self._comparison(loops)})"
        parts = [self._comparison(loops) for _ in range(self.rng.randint(2, 3))]
        return self.rng.choice([" and ", " or "]).join(parts)

    # Simple statements.

    def _assign(self, indent: int, depth: int, loops: list[str]) -> None:
        value = self._value(loops)  # before the target: a name is never read by the statement that introduces it
        self._write(indent, f"{self._store()} = {value}")

    def _augment(self, indent: int, depth: int, loops: list[str]) -> None:
        self._write(indent, f"{self.rng.choice(self.tiles)} {self.rng.choice(['+=', '-='])} {self._tile(loops)}")

    def _swap(self, indent: int, depth: int, loops: list[str]) -> None:
        first, second = self.rng.sample(self.tiles, 2)
        values = (second, first) if self.rng.random() < 0.5 else (self._value(loops), first)
        self._write(indent, f"{first}, {second} = {', '.join(values)}")

    def _integer(self, indent: int, depth: int, loops: list[str]) -> None:
        name, step = self.rng.choice(INTEGERS), self.rng.choice([*loops, "1", "2"])
        self._write(indent, f"{name} = {self.rng.choice([step, f'{name} + {step}', f'{self._scalar(loops)} - {step}'])}")

    # Nests.

    def _bounds(self, always: bool = False) -> str:
        least = 0 if self.zero_trips and not always and self.rng.random() < 0.2 else 1
        count = self.rng.randint(least, 3)
        return self.rng.choice([str(count), f"1, {count + 1}", f"{count}, 0, -1"])

    def _loop(self, indent: int, depth: int, loops: list[str]) -> None:
        reuse = self.indices and self.rng.random() < 0.15
        target = self.rng.choice(INTEGERS) if reuse else f"i{len(loops)}"
        self._write(indent, f"for {target} in pl.{self.rng.choice(['range', 'range', 'unroll'])}({self._bounds()}):")
        self._block(indent + 1, depth - 1, [*loops, target])
        if self.indices and self.rng.random() < 0.2 and target not in self.integers:
            self.integers.append(target)

    def _stateful(self, indent: int, depth: int, loops: list[str]) -> None:
        index = f"k{len(loops)}"
        inits = f"({self._tile(loops)}, {self._tile(loops)})"
        names = f"s{index[1:]}, t{index[1:]}"
        self._write(indent, f"for {index}, ({names}) in pl.range({self._bounds(always=True)}, init_values={inits}):")
        inside = [*loops, index]
        self._block(indent + 1, depth - 1, inside)
        if self.rng.random() < 0.4:
            self._write(indent + 1, f"s{index[1:]} = {self._value(inside)}")
        results = self.rng.sample(self.tiles, 2)
        values = ", ".join(self._value(inside) for _ in range(2))
        self._write(indent + 1, f"{', '.join(results)} = pl.yield_({values})")

    def _branch(self, indent: int, depth: int, loops: list[str]) -> None:
        self._write(indent, f"if {self._test(loops)}:")
        self._block(indent + 1, depth - 1, loops)
        while self.rng.random() < 0.25:
            self._write(indent, f"elif {self._test(loops)}:")
            self._block(indent + 1, depth - 1, loops)
        if self.rng.random() < 0.5:
            self._write(indent, "else:")
            self._block(indent + 1, depth - 1, loops)

    def _scope(self, indent: int, depth: int, loops: list[str]) -> None:
        self._write(indent, "with pl.at(level=pl.Level.CORE_GROUP):")
        self._block(indent + 1, depth - 1, loops)


class _Jumping(_Writer):
    """Also loops that are left, and turns that are cut short."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.open: list[str] = []  # what encloses the current line: "loop" where a jump may stand, "closed" where not
        self.breaks = 0

    def _block(self, indent: int, depth: int, loops: list[str]) -> None:
        super()._block(indent, depth, loops)
        while self.open and self.open[-1] == "loop" and self.rng.random() < 0.35:
            word = self.rng.choice(["break", "continue"])
            self.breaks += word == "break"
            self._write(indent, f"if {self._test(loops)}:")
            if self.rng.random() < 0.5:
                self._assign(indent + 1, 0, loops)
            self._write(indent + 1, word)
            if self.rng.random() < 0.3:
                self._write(indent, "else:")
                self._assign(indent + 1, 0, loops)
            self._assign(indent, 0, loops)

    def _loop(self, indent: int, depth: int, loops: list[str]) -> None:
        if self.rng.random() < 0.3:
            return self._while(indent, depth, loops)
        before, self.breaks = self.breaks, 0
        self.open.append("loop")
        super()._loop(indent, depth, loops)
        self.open.pop()
        if self.breaks and self.rng.random() < 0.3:
            self._write(indent, "else:")
            self._assign(indent + 1, 0, loops)
        self.breaks = before
        return None

    def _while(self, indent: int, depth: int, loops: list[str]) -> None:
        turns = f"w{len(self.lines)}"
        self._write(indent, f"{turns} = 0")
        test = "" if self.rng.random() < 0.5 else f" and ({self._test(loops)})"
        self._write(indent, f"while {turns} < {self.rng.randint(0, 3)}{test}:")
        self._write(indent + 1, f"{turns} = {turns} + 1")
        before = self.breaks
        self.open.append("loop")
        self._block(indent + 1, depth - 1, [*loops, turns])
        self.open.pop()
        self.breaks = before

    def _stateful(self, indent: int, depth: int, loops: list[str]) -> None:
        self.open.append("closed")
        super()._stateful(indent, depth, loops)
        self.open.pop()

    def _scope(self, indent: int, depth: int, loops: list[str]) -> None:
        self.open.append("closed")
        super()._scope(indent, depth, loops)
        self.open.pop()
