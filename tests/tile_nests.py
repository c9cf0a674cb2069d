"""Random kernels of the value model: tiles updated in place under several names, buffers that are carried and swapped,
values that outlive their region, partly valid tiles, scalars that start as Python numbers.

`tests.nests` has what names do to control flow; here control flow is small and what names stand for is varied. A kernel
is a function of a [4, 64] FP32 tensor `x`, an INT32 scalar `p` and the output; `tests.tile_model` says what it means.
"""

from __future__ import annotations

import random

HEADER = """@pl.jit.inline
def patch(t, u):
    t[0:2, :] = u[2:4, :]


@pl.jit.inline
def mix(t, u):
    v = t + u
    v[1:2, :] = t[0:1, :]
    return v


@pl.jit.inline
def mark(t, u, i, s):
    t = pl.assemble(t, u[0:1, 0:32], [i, 32])
    pl.write(t, [i, 0], s)
    return t


@pl.jit
def kernel(x: pl.Tensor[[4, 64], pl.FP32], p: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 64], pl.FP32]]):"""
AT = "with pl.at(level=pl.Level.CORE_GROUP):"
START = ("a = x[:, :]", "b = x[:, :] * 0.5", "c = x[:, :] - 1.0", "g[:, :] = a", "h[:, :] = b + 2.0")


def tile_kernel(seed: int) -> str:
    """The source of one kernel; the same seed always gives the same text."""
    return _Writer(random.Random(seed)).kernel()


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = HEADER.splitlines()
        self.tiles = ["a", "b", "c"]
        self.late = ["d", "e"]
        self.count = 0

    def kernel(self) -> str:
        for line in ("g = pl.create_tensor([4, 64], dtype=pl.FP32)", "h = pl.create_tensor([4, 64], dtype=pl.FP32)"):
            self._write(1, line)
        for line in ("m = 1", "n = 2", "f = 0.5", AT):
            self._write(1, line)
        for line in START:
            self._write(2, line)
        if self.rng.random() < 0.7:
            self._inner(2, 3, [])
        self._outer(1, 2, [])
        self._write(1, AT)
        self._write(2, f"out[:, :] = pl.fillpad(a) + pl.fillpad(b) * 0.5 - pl.fillpad({self._tile()}) * {self.rng.choice('gh')}")
        return "\n".join(self.lines) + "\n"

    def _write(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def _fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # ---- outside regions ----

    def _outer(self, indent: int, depth: int, loops: list[str]) -> None:
        simple = [
            self._region,
            self._region,
            self._region,
            self._handles,
            self._ping_pong,
            self._view,
            self._blocks,
            self._scalar,
            self._share,
        ]
        for _ in range(self.rng.randint(1, 3)):
            if depth and self.rng.random() < 0.35:
                self.rng.choice([self._outer_loop, self._outer_branch])(indent, depth, loops)
            else:
                self.rng.choice(simple)(indent, loops)

    def _outer_loop(self, indent: int, depth: int, loops: list[str]) -> None:
        index = self._fresh("i")
        bounds = self._bounds()
        kind = self.rng.choice(["range", "range", "parallel"] if "p" in bounds else ["range", "parallel", "unroll"])
        self._write(indent, f"for {index} in pl.{kind}({bounds}):")
        self._outer(indent + 1, depth - 1, [*loops, index])

    def _outer_branch(self, indent: int, depth: int, loops: list[str]) -> None:
        self._write(indent, f"if {self._test(loops)}:")
        self._outer(indent + 1, depth - 1, loops)
        if self.rng.random() < 0.5:
            self._write(indent, "else:")
            self._outer(indent + 1, depth - 1, loops)

    def _region(self, indent: int, loops: list[str]) -> None:
        self._write(indent, AT)
        for name in self.tiles[:3]:
            if self.rng.random() < 0.3:  # a tile of this region, and no buffer any more
                self._write(
                    indent + 1, self.rng.choice([f"{name} = {name}[:, :]", f"{name} = pl.fillpad({name})", f"{name} = {name} + 1.0"])
                )
        self._inner(indent + 1, 3, loops)

    def _handles(self, indent: int, loops: list[str]) -> None:
        self._write(indent, self.rng.choice(["g, h = h, g", "g = h", "g[0:2, :] = h[2:4, :]", "h[:, 0:32] = x[:, 32:64]"]))

    def _ping_pong(self, indent: int, loops: list[str]) -> None:
        name, source = self._fresh("t"), self.rng.choice("gh")
        self._write(indent, f"{name} = pl.create_tensor([4, 64], dtype=pl.FP32)")
        self._write(indent, AT)
        self._write(indent + 1, f"{name}[:, :] = {source} * 0.5 {self.rng.choice('+-')} {self.rng.choice(['x', 'g', 'h'])}")
        self._write(indent, f"{self.rng.choice('gh')} = {name}")

    def _view(self, indent: int, loops: list[str]) -> None:
        name, of = self._fresh("v"), self.rng.choice(["g", "h", *self.tiles[:3]])
        flat = self.rng.random() < 0.4 and of in "gh"
        self._write(indent, f"{name} = pl.reshape({of}, [8, 32])" if flat else f"{name} = {of}[1:3, :]")
        self._write(indent, AT)
        self._write(indent + 1, f"{name}[0:1, :] = {name}[1:2, :] * 2.0")
        if self.rng.random() < 0.5:
            self._write(indent + 1, f"{name}[0:2, 0:32] = x[0:2, 0:32]")

    def _blocks(self, indent: int, loops: list[str]) -> None:
        index, target, source = self._fresh("q"), self.rng.choice("gh"), self.rng.choice(["g", "h", "x", "a"])
        self._write(indent, f"for {index} in pl.spmd(4):")
        row = f"{index} : {index} + 1"
        self._write(indent + 1, f"{target}[{row}, :] = {source}[{row}, :] + x[{row}, :]")

    def _share(self, indent: int, loops: list[str]) -> None:
        first, second = self.rng.sample(self.tiles[:3], 2)
        self._write(indent, AT)
        self._write(indent + 1, f"{first} = {second} + 1.0")
        self._write(indent + 1, f"{second} = {first}")
        self._write(indent, AT)
        self._write(indent + 1, f"patch({first}, x)")

    # ---- inside regions ----

    def _inner(self, indent: int, depth: int, loops: list[str]) -> None:
        simple = [self._assign, self._in_place, self._in_place, self._alias, self._call, self._valid, self._scalar, self._store]
        for _ in range(self.rng.randint(1, 3)):
            if depth and self.rng.random() < 0.4:
                self.rng.choice([self._loop, self._loop, self._branch, self._branch, self._stateful])(indent, depth, loops)
            else:
                self.rng.choice(simple)(indent, loops)

    def _tile(self) -> str:
        return self.rng.choice(self.tiles)

    def _target(self) -> str:
        if self.late and self.rng.random() < 0.1:
            self.tiles.append(self.late.pop())
            return self.tiles[-1]
        return self._tile()

    def _value(self) -> str:
        first, second = self._tile(), self.rng.choice([self._tile(), self._tile(), "x", "g", "h", "f", "1.5"])
        return self.rng.choice(
            [
                f"{first} {self.rng.choice('+-*')} {second}",
                f"pl.maximum({first}, {second if second not in ('f', '1.5') else '0.25'})",
                f"pl.neg({first})",
                f"pl.row_expand_add({first}, pl.row_max({self._tile()}))",
                f"{self._tile()}[:, :]",
            ]
        )

    def _assign(self, indent: int, loops: list[str]) -> None:
        value = self._value()
        self._write(indent, f"{self._target()} = {value}")

    def _alias(self, indent: int, loops: list[str]) -> None:
        if self.rng.random() < 0.4:  # most programs with many names for one tile are refused
            return self._assign(indent, loops)
        first, second = self.rng.sample(self.tiles, 2)
        return self._write(indent, self.rng.choice([f"{first} = {second}", f"{first}, {second} = {second}, {first}"]))

    def _row(self, loops: list[str]) -> str:
        return self.rng.choice(["0", "1", "3", *(f"pl.min(pl.max({i}, 0), 3)" for i in (*loops, "m", "n", "p"))])

    def _in_place(self, indent: int, loops: list[str]) -> None:
        target, source = self._tile(), self._tile()
        row = self._row(loops)
        self._write(
            indent,
            self.rng.choice(
                [
                    f"{target}[0:2, :] = {source}[2:4, :]",
                    f"{target}[{row} : {row} + 1, 0:32] = {source}[1:2, 32:64] * 0.5",
                    f"{target}[{row} : {row} + 1, :] = {source}[0:1, :] + 1.0",
                    f"{target}[:, 8:16] = {self.rng.choice(['f', '3.0'])}",
                    f"{target}[:, :] = {source}",
                    f"pl.write({target}, [{row}, 5], {self.rng.choice(['f', '2.5'])})",
                    f"pl.assemble({target}, {source}[0:2, 0:8], [2, 56])",
                    f"{target} = pl.assemble({target}, {source}[0:1, 0:16], [{row}, 16])",
                ]
            ),
        )

    def _call(self, indent: int, loops: list[str]) -> None:
        first, second, row = self._tile(), self._tile(), self._row(loops)
        self._write(
            indent,
            self.rng.choice(
                [
                    f"patch({first}, {second})",
                    f"{self._tile()} = mix({first}, {second})",
                    f"mark({first}, {second}, {row}, f)",
                    f"{self._tile()} = mark({first}, {second}, {row}, 4.0)",
                ]
            ),
        )

    def _valid(self, indent: int, loops: list[str]) -> None:
        rows = self.rng.choice(["2", "4", *(f"pl.max(pl.min({i}, 4), 1)" for i in (*loops, "m", "n"))])
        columns = self.rng.choice(["64", "16", "40"])
        target = self._target()
        self._write(
            indent,
            self.rng.choice(
                [
                    f"{target} = pl.set_validshape({self._tile()}, {rows}, {columns})",
                    f"{target} = pl.slice(x, [4, 64], [0, 0], valid_shape=[{rows}, {columns}])",
                    f"{target} = pl.fillpad({self._tile()})",
                    f"{target} = pl.fillpad({self._tile()})",
                ]
            ),
        )

    def _store(self, indent: int, loops: list[str]) -> None:
        handle, row = self.rng.choice("gh"), self._row(loops)
        window = self.rng.choice([":", f"{row} : {row} + 1", "0:2"])
        rows = {":": ":", "0:2": "2:4"}.get(window, "1:2")
        self._write(indent, f"{handle}[{window}, :] = {self._tile()}[{rows}, :]")

    def _scalar(self, indent: int, loops: list[str]) -> None:
        name, step = self.rng.choice("mn"), self.rng.choice([*loops, "1", "p"])
        read = f"f = f + pl.read(x, [{self._row(loops)}, {self.rng.randint(0, 63)}])"
        self._write(indent, self.rng.choice([f"{name} = {name} + {step}", f"{name} = {step}", "f = f * 0.5", read, read]))

    # ---- control flow ----

    def _bounds(self) -> str:
        return self.rng.choice(["2", "3", "1, 3", "3, 0, -1", "0", "p"]) if self.rng.random() < 0.8 else "1"

    def _test(self, loops: list[str]) -> str:
        left = self.rng.choice(["m", "n", "p", *loops])
        plain = f"{left} {self.rng.choice(['<', '==', '>=', '!='])} {self.rng.choice(['0', '1', '2', *loops])}"
        return self.rng.choice([plain, plain, f"{plain} and f < 4.0", f"{plain} or 0 <= m < 2"])

    def _loop(self, indent: int, depth: int, loops: list[str]) -> None:
        index, bounds = self._fresh("k"), self._bounds()
        kind = self.rng.choice(["range", "range", "pipeline"] if "p" in bounds else ["range", "pipeline", "unroll"])
        stage = ", stage=2" if kind == "pipeline" else ""
        self._write(indent, f"for {index} in pl.{kind}({bounds}{stage}):")
        self._inner(indent + 1, depth - 1, [*loops, index])

    def _stateful(self, indent: int, depth: int, loops: list[str]) -> None:
        index, state = self._fresh("k"), self._fresh("s")
        self._write(indent, f"for {index}, ({state},) in pl.range({self.rng.choice(['2', '3'])}, init_values=({self._tile()},)):")
        self._inner(indent + 1, depth - 1, [*loops, index])
        self._write(indent + 1, f"{self._tile()} = pl.yield_({state} + {self._tile()})")

    def _branch(self, indent: int, depth: int, loops: list[str]) -> None:
        self._write(indent, f"if {self._test(loops)}:")
        self._inner(indent + 1, depth - 1, loops)
        if self.rng.random() < 0.5:
            self._write(indent, "else:")
            self._inner(indent + 1, depth - 1, loops)
