"""Random kernels of many ops: elementwise chains, broadcasts, casts, reductions, products, sorts, gathers, valid shapes, updates in place.

`tests.tile_nests` has what tiles and names do to control flow; here control flow is small and what is computed is varied. A kernel takes
an FP32, a BF16 and an INT32 tensor [32, 64] and an INT32 scalar, and writes an FP32 and an INT32 one.
"""

from __future__ import annotations

import random

HEADER = """@pl.jit
def kernel(
    x: pl.Tensor[[32, 64], pl.FP32],
    b: pl.Tensor[[32, 64], pl.BF16],
    z: pl.Tensor[[32, 64], pl.INT32],
    p: pl.Scalar[pl.INT32],
    out: pl.Out[pl.Tensor[[32, 64], pl.FP32]],
    codes: pl.Out[pl.Tensor[[32, 64], pl.INT32]],
):"""
WIDE, ROW, COLUMN, SQUARE = "wide", "row", "column", "square"
MODES = ("rint", "round", "floor", "ceil", "trunc")
UNARY = ("abs", "neg", "relu", "exp", "recip")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")


def op_kernel(seed: int) -> str:
    """The source of one kernel; the same seed always gives the same text."""
    return _Writer(random.Random(seed)).kernel()


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.count = rng, 0
        self.lines: list[str] = HEADER.splitlines()
        self.values: dict[tuple[str, str], list[str]] = {}

    def kernel(self) -> str:
        self._write(1, "with pl.at(level=pl.Level.CORE_GROUP):" if self.rng.random() < 0.7 else "for block in pl.spmd(2):")
        at = "16 * block" if "spmd" in self.lines[-1] else "0"
        rows = f"{at} : {at} + 16"
        for shape, dtype, line in (
            (WIDE, "f32", f"x[{rows}, :]"),
            (WIDE, "bf16", f"b[{rows}, :]"),
            (WIDE, "i32", f"z[{rows}, :]"),
            (ROW, "f32", f"x[{rows}, 3:4]"),
            (COLUMN, "f32", f"x[{at} + 1 : {at} + 2, :]"),
            (SQUARE, "f32", f"x[{rows}, 16:32]"),
        ):
            self._keep(2, shape, dtype, line)
        self._block(2, 2, [])
        self._write(2, f"out[{rows}, :] = {self._pick(WIDE, 'f32')}")
        self._write(2, f"out[{rows}, 0:16] = {self._pick(SQUARE, 'f32')}")
        self._write(2, f"codes[{rows}, :] = {self._pick(WIDE, 'i32')}")
        self._write(2, f"codes[{rows}, 0:1] = pl.cast({self._pick(ROW, 'f32')}, pl.INT32, mode='rint')")
        return "\n".join(self.lines) + "\n"

    def _write(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def _pick(self, shape: str, dtype: str) -> str:
        return self.rng.choice(self.values[shape, dtype])

    def _keep(self, indent: int, shape: str, dtype: str, text: str) -> None:
        """Give a value a new name, or one that another value of its kind has."""
        known = self.values.setdefault((shape, dtype), [])
        if len(known) > 1 and (self.rng.random() < 0.4 or indent > 2):
            name = self.rng.choice(known)
        elif indent > 2:
            return  # a name made in a branch or loop is not there after it
        else:
            self.count += 1
            name = f"{dtype}_{shape}{self.count}"
            known.append(name)
        self._write(indent, f"{name} = {text}")

    # ---- statements ----

    def _block(self, indent: int, depth: int, loops: list[str]) -> None:
        for _ in range(self.rng.randint(3, 9) if indent == 2 else self.rng.randint(1, 3)):
            if depth and self.rng.random() < 0.2:
                self.rng.choice([self._loop, self._branch])(indent, depth, loops)
            else:
                kinds = [self._wide, self._wide, self._wide, self._row, self._column, self._square, self._integers, self._cast]
                self.rng.choice([*kinds, self._in_place, self._valid, self._sorted])(indent, loops)
        if indent > 2:  # whatever was drawn, a body is never empty
            name = self._pick(WIDE, "f32")
            self._write(indent, f"{name} = pl.adds({name}, 1.0)")

    def _loop(self, indent: int, depth: int, loops: list[str]) -> None:
        self.count += 1
        self._write(indent, f"for k{self.count} in pl.range({self.rng.choice(['2', '3', 'p', '3, 0, -1'])}):")
        self._block(indent + 1, depth - 1, [*loops, f"k{self.count}"])

    def _branch(self, indent: int, depth: int, loops: list[str]) -> None:
        self._write(indent, f"if {self.rng.choice([*loops, 'p'])} {self.rng.choice(['==', '<', '>='])} {self.rng.choice('012')}:")
        self._block(indent + 1, depth - 1, loops)
        if self.rng.random() < 0.5:
            self._write(indent, "else:")
            self._block(indent + 1, depth - 1, loops)

    def _wide(self, indent: int, loops: list[str]) -> None:
        a, c, row, column = (self._pick(s, "f32") for s in (WIDE, WIDE, ROW, COLUMN))
        self._keep(
            indent,
            WIDE,
            "f32",
            self.rng.choice(
                [
                    f"pl.{self.rng.choice(UNARY)}({a})",
                    f"pl.{self.rng.choice(BINARY)}({a}, {c})",
                    f"pl.muls({a}, {self.rng.choice(['0.5', '-1.25', '1e-3'])})",
                    f"pl.row_expand_{self.rng.choice(['add', 'sub', 'mul', 'div'])}({a}, {row})",
                    f"pl.col_expand_{self.rng.choice(['mul', 'add', 'sub'])}({a}, {column})",
                    f"pl.exp(pl.row_expand_sub({a}, pl.row_max({a})))",
                    f"pl.sqrt(pl.abs({a}))",
                    f"pl.cast({self._pick(WIDE, 'bf16')}, pl.FP32)",
                    f"pl.sel({self._compare(a, c)}, {a}, {self._pick(WIDE, 'f32')})",
                ]
            ),
        )

    def _compare(self, a: str, c: str) -> str:
        return f"pl.tile.cmp(pl.add({a}, 0.0), {c}, cmp_type={self.rng.randint(0, 5)})"

    def _row(self, indent: int, loops: list[str]) -> None:
        a, r = self._pick(WIDE, "f32"), self._pick(ROW, "f32")
        kind = self.rng.choice(["row_sum", "row_max", "row_min", "row_prod"])
        self._keep(indent, ROW, "f32", self.rng.choice([f"pl.{kind}({a})", f"pl.add({r}, pl.{kind}({a}))", f"pl.exp(pl.muls({r}, 0.125))"]))

    def _column(self, indent: int, loops: list[str]) -> None:
        self._keep(indent, COLUMN, "f32", f"pl.{self.rng.choice(['col_sum', 'col_max', 'col_min'])}({self._pick(WIDE, 'f32')})")

    def _square(self, indent: int, loops: list[str]) -> None:
        s = self._pick(SQUARE, "f32")
        kind = self.rng.choice(["f32", "bf16"])
        product = f"pl.matmul({self._pick(WIDE, kind)}, {self._pick(WIDE, kind)}, b_trans=True)"
        half = f"pl.cast({s}, pl.FP16, mode='rint')"
        options = [product, product, f"pl.transpose({s}, 0, 1)", f"pl.add({s}, {product})", f"pl.matmul({half}, {half})"]
        self._keep(indent, SQUARE, "f32", self.rng.choice([*options, f"{self._pick(WIDE, 'f32')}[:, 8:24]"]))

    def _integers(self, indent: int, loops: list[str]) -> None:
        a, c = self._pick(WIDE, "i32"), self._pick(WIDE, "i32")
        mode = self.rng.choice(MODES)
        options = [
            f"pl.{self.rng.choice(['add', 'sub', 'mul', 'maximum'])}({a}, {c})",
            f"pl.cast({self._pick(WIDE, 'f32')}, pl.INT32, mode='{mode}')",
        ]
        self._keep(
            indent, WIDE, "i32", self.rng.choice([*options, f"pl.cast(pl.cast({a}, pl.INT16, mode='trunc'), pl.INT32, mode='trunc')"])
        )

    def _cast(self, indent: int, loops: list[str]) -> None:
        a, mode = self._pick(WIDE, "f32"), self.rng.choice(MODES)
        if self.rng.random() < 0.5:
            self._keep(indent, WIDE, "bf16", f"pl.cast({a}, pl.BF16, mode='{mode}')")
        else:
            self._keep(indent, WIDE, "f32", f"pl.cast(pl.cast({a}, pl.FP16, mode='{mode}'), pl.FP32)")

    def _in_place(self, indent: int, loops: list[str]) -> None:
        target, source = self._pick(WIDE, "f32"), self._pick(WIDE, "f32")
        row = self.rng.choice(["0", "8", *(f"pl.min(pl.max({i}, 0), 8)" for i in (*loops, "p"))])
        texts = [f"{target}[{row} : {row} + 8, 0:32] = {source}[8:16, 32:64]", f"pl.write({target}, [{row}, 5], 2.5)"]
        self._write(indent, self.rng.choice([*texts, f"{target}[:, 0:16] = {self._pick(SQUARE, 'f32')}"]))
        self._write(indent, f"{target} = pl.adds({target}, 0.5)")  # an update that nothing reads is refused

    def _valid(self, indent: int, loops: list[str]) -> None:
        rows = self.rng.choice(["3", "16", *(f"pl.max(pl.min({i}, 16), 1)" for i in (*loops, "p"))])
        columns, pad = self.rng.choice(["64", "17", "40"]), self.rng.choice(["zero", "min", "max"])
        part = f"pl.set_validshape({self._pick(WIDE, 'f32')}, {rows}, {columns})"
        if self.rng.random() < 0.5:
            self._keep(indent, WIDE, "f32", f"pl.fillpad({part}, pad_value=pl.PadValue.{pad})")
        else:
            self._keep(indent, ROW, "f32", f"pl.fillpad(pl.row_{self.rng.choice(['sum', 'max'])}({part}))")

    def _sorted(self, indent: int, loops: list[str]) -> None:
        a = self._pick(WIDE, "f32")
        pairs = f"pl.sort32({a}, {self._pick(WIDE, 'i32')})"
        mask = self.rng.choice(["P0101", "P1010"])
        if mask == "P0101":
            self._keep(indent, WIDE, "f32", f"pl.gather({pairs}, mask_pattern=pl.tile.MaskPattern.{mask})")
        else:
            self._keep(indent, WIDE, "i32", f"pl.gather({pairs}, mask_pattern=pl.tile.MaskPattern.{mask}, output_dtype=pl.INT32)")
