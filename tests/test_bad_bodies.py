"""Bodies that cannot be what was meant: each is refused at the user's line, and no array of the caller changes."""

import textwrap

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import BodyError
from tests.refusals import f32, refused, sevens, untouched

V4 = pl.Tensor[[4], pl.FP32]
X = f32(1, 2, 3, 4)
FOUR = range(4)
python_range = range


# A `for` statement over Python's range, however it is spelled.


@pl.jit
def loops_over_range(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in range(4):  # refused
            out[i] = 0.0


@pl.jit
def loops_over_an_alias(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in python_range(4):  # refused
            out[i] = 0.0


@pl.jit
def loops_over_a_local_alias(x: V4, out: pl.Out[V4]):
    r = range
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in r(1, 4):  # refused
            out[i] = 0.0


@pl.jit
def loops_over_a_global(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in FOUR:  # refused
            out[i] = 0.0


@pl.jit
def loops_over_a_variable(x: V4, out: pl.Out[V4]):
    turns = range(0, 4, 2)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in turns:  # refused
            out[i] = 0.0


@pl.jit.inline
def clears(out, turns):
    for i in turns:  # refused
        out[i] = 0.0


@pl.jit
def passes_a_range_to_an_inline(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        clears(out, range(4))


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (loops_over_range, "range(4)"),
        (loops_over_an_alias, "python_range(4)"),
        (loops_over_a_local_alias, "r(1, 4)"),
        (loops_over_a_global, "FOUR"),
        (loops_over_a_variable, "turns"),
        (passes_a_range_to_an_inline, "turns"),
    ],
)
def test_a_for_statement_over_a_plain_range_is_refused(kernel, at):
    untouched("PL103", kernel, X.copy(), sevens(4), at=at)
    untouched("PL103", kernel.eager, X.copy(), sevens(4), at=at)


@pl.jit
def comprehends_over_range(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        parts = [pl.read(x, [i]) for i in range(4)]
        for i in pl.unroll(4):
            out[i] = parts[3 - i]


def test_a_comprehension_over_range_is_python():
    assert comprehends_over_range(X).tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize("over", [[0, 1], (0, 1), enumerate([0]), np.arange(2), zip([0], [1])], ids=lambda v: type(v).__name__)
def test_a_for_statement_over_anything_else_is_refused(over):
    items = [over]

    @pl.jit
    def loops_over_something(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
            for i in items[0]:  # refused
                out[0] = 0.0

    refused("PL104", loops_over_something.trace, at="items[0]")


@pl.jit
def enters_something_else(x: V4, out: pl.Out[V4]):
    with open:  # refused
        out[:] = x


def test_a_with_statement_over_anything_else_is_refused():
    untouched("PL104", enters_something_else, X.copy(), sevens(4), at="open")


# Statements a body may not contain are refused when the function is decorated.

STATEMENTS = {
    "while": ("PL101", "while True:", "    pass"),
    "break out of a scope": ("PL101", "for i in pl.range(2):", "    with pl.at():", "        break"),
    "continue out of a scope": ("PL101", "for i in pl.range(2):", "    with pl.at():", "        continue"),
    "try": ("PL101", "try:", "    pass", "except ValueError:", "    pass"),
    "raise": ("PL101", "raise ValueError"),
    "nested def": ("PL101", "def inner():", "    pass"),
    "nested class": ("PL101", "class Inner:", "    pass"),
    "import": ("PL101", "import math"),
    "from import": ("PL101", "from math import pi"),
    "global": ("PL101", "global X"),
    "del": ("PL101", "del x"),
    "match": ("PL101", "match 1:", "    case _:", "        pass"),
    "for else": ("PL101", "for i in pl.range(2):", "    pass", "else:", "    out[:] = x"),
    "lambda": ("PL108", "f = lambda: 0"),
    "walrus": ("PL108", "(n := 3)"),
    "yield": ("PL108", "yield x"),
    "starred target": ("PL108", "a, *b = 1, 2, 3"),
    "attribute target": ("PL102", "x.name = 3"),
    "loop target": ("PL102", "for i, j in pl.range(2):", "    pass"),
    "reserved name": ("PL102", "_pypto_rt = 3"),
    "return in a loop": ("PL107", "for i in pl.range(2):", "    return out"),
    "return before the end": ("PL107", "return out", "out[:] = x"),
}
FAULTY = {
    "while": ("while True:", 0),
    "break out of a scope": ("break", 2),
    "continue out of a scope": ("continue", 2),
    "for else": ("out[:] = x", 3),
    "starred target": ("*b", 0),
    "attribute target": ("x.name", 0),
    "loop target": ("i, j", 0),
    "walrus": ("n := 3", 0),
    "lambda": ("lambda: 0", 0),
    "reserved name": ("_pypto_rt", 0),
    "return in a loop": ("return out", 1),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_without_a_meaning_is_refused_at_decoration(name, tmp_path):
    code, *lines = STATEMENTS[name]
    at, line = FAULTY.get(name, (lines[0], 0))
    lines[line] += "  # refused"
    path = tmp_path / f"kernel_{name.replace(' ', '_')}.py"
    body = textwrap.indent("\n".join(lines), "    ")
    path.write_text(f"import pypto.language as pl\n\n@pl.jit\ndef kernel(x, out):\n    out[:] = x\n{body}\n")
    source = compile(path.read_text(), str(path), "exec")
    error = refused(code, exec, source, {"X": 1, "__name__": "kernel_file"}, at=at)
    assert isinstance(error, BodyError)
    assert error.source is not None and error.source.file == str(path)
    assert error.source.line == 6 + line


def test_a_kernel_without_readable_source_is_refused():
    def decorates():
        exec("@pl.jit\ndef kernel(x):\n    return x\n", {"pl": pl})

    with pytest.raises(BodyError) as caught:
        decorates()
    assert caught.value.code == "PL109"
    assert caught.value.fix


def test_only_functions_can_be_decorated():
    refused("PL109", lambda: pl.jit(3), at="pl.jit(3)")  # refused
    refused("PL109", lambda: pl.jit(len), at="pl.jit(len)")  # refused


# Ops where they may not stand.

M24 = pl.Tensor[[2, 4], pl.FP32]


@pl.jit
def adds_outside(x: M24, out: pl.Out[M24]):
    t = pl.add(x, x)  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = t


@pl.jit
def adds_an_operator_outside(x: M24, out: pl.Out[M24]):
    t = x + 1.0  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = t


@pl.jit
def fills_outside(x: M24, out: pl.Out[M24]):
    t = pl.full([2, 4], dtype=pl.FP32, value=0)  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = t


@pl.jit
def exponentiates_outside(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    pl.exp(x)  # refused


@pl.jit
def loads_outside(x: M24, out: pl.Out[M24]):
    t = pl.load(x, [0, 0], [2, 4])  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = t


@pl.jit
def stores_a_number_into_a_window_outside(x: M24, out: pl.Out[M24]):
    out[0:1, :] = 0.0  # refused


@pl.jit
def multiplies_outside_in_a_loop(x: M24, out: pl.Out[M24]):
    for i in pl.parallel(2):
        t = pl.matmul(x, x, b_trans=True)  # refused
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, :] = x[i : i + 1, :]


@pl.jit
def creates_a_tile_outside(x: M24, out: pl.Out[M24]):
    t = pl.create_tile([2, 4], dtype=pl.FP32)  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (adds_outside, "pl.add(x, x)"),
        (adds_an_operator_outside, "x + 1.0"),
        (fills_outside, "pl.full([2, 4], dtype=pl.FP32, value=0)"),
        (exponentiates_outside, "pl.exp(x)"),
        (loads_outside, "pl.load(x, [0, 0], [2, 4])"),
        (stores_a_number_into_a_window_outside, "out[0:1, :]"),
        (multiplies_outside_in_a_loop, "pl.matmul(x, x, b_trans=True)"),
        (creates_a_tile_outside, "pl.create_tile([2, 4], dtype=pl.FP32)"),
    ],
)
def test_an_operation_on_data_outside_a_region_is_refused(kernel, at):
    untouched("PL501", kernel, f32([1, 2, 3, 4], [5, 6, 7, 8]), sevens(2, 4), at=at)
    untouched("PL501", kernel.eager, f32([1, 2, 3, 4], [5, 6, 7, 8]), sevens(2, 4), at=at)


# What Python would do with a value that has no number yet.


@pl.jit
def branches_on_a_tile(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if x[0:2]:  # refused
            out[0] = 0.0


@pl.jit
def branches_on_a_number_that_is_traced(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        if pl.read(x, [0]):  # refused
            out[0] = 0.0


@pl.jit
def converts_to_int(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = int(pl.read(x, [0]))  # refused
        out[:] = x


@pl.jit
def converts_to_numpy(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = np.asarray(x)  # refused
        out[:] = x


@pl.jit
def iterates_over_a_tensor(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = [v for v in x]  # noqa: C416 # refused
        out[:] = x


@pl.jit
def indexes_a_list_with_a_loop_index(x: V4, out: pl.Out[V4]):
    values = [1.0, 2.0, 3.0, 4.0]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            out[i] = values[i]  # refused


@pl.jit
def unrolls_a_run_time_number_of_times(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        for i in pl.unroll(n):  # refused
            out[i] = 0.0


@pl.jit
def takes_a_string_for_a_tile(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, "1")  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (branches_on_a_tile, "x[0:2]"),
        (branches_on_a_number_that_is_traced, "pl.read(x, [0])"),
        (converts_to_int, "int(pl.read(x, [0]))"),
        (iterates_over_a_tensor, "[v for v in x]"),
        (converts_to_numpy, "np.asarray(x)"),
        (indexes_a_list_with_a_loop_index, "values[i]"),
        (takes_a_string_for_a_tile, 'pl.add(x, "1")'),
    ],
)
def test_a_traced_value_where_python_needs_a_plain_one_is_refused(kernel, at):
    untouched("PL106", kernel, X.copy(), sevens(4), at=at)


def test_a_run_time_bound_cannot_be_unrolled():
    untouched("PL106", unrolls_a_run_time_number_of_times, X.copy(), 2, sevens(4), at="pl.unroll(n)")
