"""What fails silently elsewhere is loud here: one test per row S1 to S24 of the list of silent failures, named after its row.

S18, S19 and S23 belong to the checker of task graphs, which is not built yet.
"""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from pypto.testing import TensorSpec, check
from tests.refusals import f32, refused, reports, sevens, under_caret, untouched

CORE = pl.Level.CORE_GROUP
V4, V8 = pl.Tensor[[4], pl.FP32], pl.Tensor[[8], pl.FP32]
M44, M34 = pl.Tensor[[4, 4], pl.FP32], pl.Tensor[[3, 4], pl.FP32]
X4 = f32(1, 2, 3, 4)


@pl.jit
def s01(a: V4, b: V4, out: pl.Out[V4]):
    with pl.at(level=CORE):
        out = pl.add(a, b)  # refused


def test_S01_a_result_named_like_an_output_writes_nothing():
    error = untouched("PL201", s01, X4.copy(), X4.copy(), sevens(4), at="out = pl.add(a, b)")
    assert "`out`" in error.message and "unwritten" in error.message
    assert "out[:]" in error.fix and "out[r0:r1, :]" in error.fix


@pl.jit
def s02(b: V4, out: pl.InOut[V4]):
    with pl.at(level=CORE):
        out = pl.add(out, b)  # refused


def test_S02_a_result_that_reads_the_output_still_does_not_write_it():
    untouched("PL201", s02, X4.copy(), sevens(4), at="out = pl.add(out, b)")


@pl.jit
def s03(x: V4, y: V4, out: pl.Out[V4]):
    with pl.at(level=CORE):
        out[:] = x
        y[:] = x  # refused


def test_S03_a_plain_tensor_that_is_written_reads_back_zero():
    error = untouched("PL203", s03, X4.copy(), sevens(4), sevens(4), at="y[:]")
    assert "`y`" in error.message and "pl.Out" in error.fix and "pl.InOut" in error.fix


@pl.jit.inline
def s04_helper(source, target):
    target[:] = source


@pl.jit.incore
def s04_declared(source: V4, target: pl.Out[V4]):
    target[:] = source


@pl.jit
def s04(x: V4, y: V4, out: pl.Out[V4]):
    with pl.at(level=CORE):
        s04_helper(x, out)
    s04_declared(x, y)  # refused


def test_S04_a_direction_on_a_helper_is_honoured():
    error = untouched("PL203", s04, X4.copy(), sevens(4), sevens(4), at="s04_declared(x, y)")
    assert "`target` of s04_declared()" in error.message and "`y`" in error.message


@pl.jit
def s05(x: V4, acc: pl.Out[V4]):
    with pl.at(level=CORE):
        old = acc[:]  # refused
        acc[:] = pl.add(old, x)


@pl.jit
def s05_in_a_loop(x: V8, acc: pl.Out[V4]):
    for i in pl.range(2):
        with pl.at(level=CORE):
            acc[:] = pl.add(acc, x[4 * i : 4 * i + 4])  # refused


@pl.jit
def s05_written_by_an_earlier_turn(x: V8, acc: pl.Out[V4]):
    for i in pl.range(2):
        with pl.at(level=CORE):
            part = x[4 * i : 4 * i + 4]
            if i > 0:
                part = pl.add(part, acc)
            acc[:] = part


@pytest.mark.parametrize(
    ("kernel", "x", "at"), [(s05, X4, "acc[:]"), (s05_in_a_loop, np.ones(8, np.float32), "pl.add(acc, x[4 * i : 4 * i + 4])")]
)
def test_S05_an_output_that_is_read_first_is_an_in_out(kernel, x, at):
    error = untouched("PL210", kernel, x.copy(), sevens(4), at=at)
    assert "`acc`" in error.message and "pl.InOut" in error.fix


def test_S05_an_output_that_an_earlier_turn_wrote_is_not_told():
    assert s05_written_by_an_earlier_turn(np.arange(8, dtype=np.float32)).tolist() == [4, 6, 8, 10]


@pl.jit
def s06(x: V4, n: pl.Scalar[pl.INT32], o1: pl.Out[V4], o2: pl.Out[V4]):
    with pl.at(level=CORE):
        o1[:] = x
        for i in pl.range(n):
            o2[:] = x


def test_S06_a_second_output_that_this_call_did_not_write_is_told_by_name():
    with pytest.raises(PyptoError) as caught:
        s06(X4, 0, sevens(4), sevens(4))
    assert caught.value.code == "PL202" and "`o2`" in caught.value.message and "no element" in caught.value.message
    o1, o2 = sevens(4), sevens(4)
    s06(X4, 1, o1, o2)
    assert o1.tolist() == o2.tolist() == X4.tolist()


@pl.jit
def s07(x: M44, out: pl.Out[M44]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 4], valid_shape=[4, 3])
        u = pl.set_validshape(t, 4, 4)
        out[:] = pl.exp(u)  # refused


@pl.jit
def s07_reduces(x: M44, out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=CORE):
        out[:] = pl.row_max(pl.load(x, [0, 0], [4, 4], valid_shape=[4, 3]))


@pytest.mark.checked
def test_S07_a_padded_lane_does_not_count_in_a_reduction_and_may_not_reach_an_output():
    x = -np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    x[:, 3] = 100
    assert s07_reduces(x).tolist() == [[-1], [-5], [-9], [-13]]
    error = untouched("PL306", s07, x.copy(), sevens(4, 4), at="out[:]")
    assert "[0, 3]" in error.message and "pl.fillpad" in error.fix
    assert f"`t` was loaded at line {s07.staged.source.line + 2} with valid_shape=[4, 3]" in error.message


@pl.jit
def s08(x: M34, out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
    with pl.at(level=CORE):
        out[:] = pl.load(x, [2, 0], [2, 4])  # refused


def test_S08_a_window_past_the_tensor_is_told_with_its_rows():
    error = untouched("PL303", s08, np.zeros((3, 4), np.float32), sevens(2, 4), at="pl.load(x, [2, 0], [2, 4])")
    assert "2:4" in error.message and "3" in error.message and "`x`" in error.message and "valid_shape=" in error.fix


N = pl.dynamic("N")


@pl.jit
def s09(x: pl.Tensor[[N, 4], pl.FP32], out: pl.Out[pl.Tensor[[N, 4], pl.FP32]]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [pl.tensor.dim(x, 0), 4])  # refused
        pl.store(t, [0, 0], out)


def test_S09_a_run_time_size_of_a_tile_is_told_at_its_line():
    error = refused("PL304", s09.lower, at="pl.load(x, [0, 0], [pl.tensor.dim(x, 0), 4])")
    assert "N" in error.message and "valid_shape" in error.fix


@pl.jit
def s10(x: pl.Tensor[[N, 4], pl.FP32], y: pl.Tensor[[N, 4], pl.FP32], out: pl.Out[pl.Tensor[[N, 4], pl.FP32]]):
    for i in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=CORE):
            out[i : i + 1, :] = pl.add(x[i : i + 1, :], y[i : i + 1, :])


def test_S10_a_symbolic_axis_is_noted_once_and_two_extents_of_one_symbol_are_refused():
    x = np.ones((2, 4), np.float32)
    with pypto.notes() as found:
        s10(x, x)
        s10(np.ones((3, 4), np.float32), np.ones((3, 4), np.float32))  # the same program: nothing is traced
    told = [n.message for n in found if n.code == "PL309"]
    assert len(told) == 3 and "axis 0 of `x` is the symbol N" in told[0]
    assert all(n.source is not None and n.source.line == s10.staged.source.line for n in found)
    with pytest.raises(PyptoError) as caught:
        s10(x, np.ones((3, 4), np.float32))
    assert caught.value.code == "PL602"
    assert all(part in caught.value.message for part in ("N", "2", "`x`", "3", "`y`"))


@pl.jit
def s11(x: pl.Tensor[[1, 8], pl.FP32], idx: pl.Tensor[[1, 8], pl.INT32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    with pl.at(level=CORE):
        index = pl.load(idx, [0, 0], [1, 8])
        out[:] = pl.gather(x, 1, index)


def test_S11_a_gather_takes_a_loaded_index():
    order = np.int32([[7, 6, 5, 4, 3, 2, 1, 0]])
    assert s11(np.arange(8, dtype=np.float32)[None], order).tolist() == [[7, 6, 5, 4, 3, 2, 1, 0]]


@pl.jit
def s12(x: pl.Tensor[[1, 3], pl.FP32], idx: pl.Tensor[[1, 2], pl.INT32], out: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
    with pl.at(level=CORE):
        out[:] = pl.gather(x, 1, idx)  # refused


@pytest.mark.checked
def test_S12_an_index_outside_the_extent_is_told_with_its_value_and_place():
    error = untouched("PL303", s12, f32([[10, 20, 30]]), np.int32([[0, 5]]), sevens(1, 2), at="pl.gather(x, 1, idx)")
    assert all(part in error.message for part in ("index 5", "[0, 1]", "0..2"))


@pl.jit
def s13(x: pl.Tensor[[16, 16], pl.BF16], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=CORE):
        a = pl.load(x, [0, 0], [16, 16])
        out[:] = pl.matmul(a, a, b_trans=True)  # refused


def test_S13_a_keyword_of_the_other_level_is_refused_by_name():
    error = refused("PL307", s13.lower, at="pl.matmul(a, a, b_trans=True)")
    assert "`b_trans`" in error.message and isinstance(error, TypeError)


def test_S14_a_compile_option_is_no_argument_of_a_kernel():
    with pytest.raises(TypeError) as caught:
        s01(X4, X4, sevens(4), skip_ptoas=True)  # refused
    error = caught.value
    assert isinstance(error, PyptoError) and error.code == "PL601"
    assert "`skip_ptoas`" in error.message and "`s01`" in error.message and "config=" in error.fix
    assert under_caret(error) == "s01(X4, X4, sevens(4), skip_ptoas=True)"


@pl.jit
def s15(out: pl.Out[V4]):
    with pl.at(level=CORE):
        init = pl.full([4], dtype=pl.FP32, value=0)
        for i, (total,) in pl.range(4, init_values=(init,)):
            total = total + 1.0
        pl.store(init, [0], out)


def test_S15_the_initial_value_read_after_its_loop_is_a_warning():
    with reports("PL208") as found:
        s15()
    assert "`init`" in found[0] and "`total`" in found[0]


@pl.jit
def s16(x: pl.Tensor[[1, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.INT32]]):
    with pl.at(level=CORE):
        out[:] = pl.reinterpret_view(x[:, :], pl.INT32, shape=[16, 16])  # refused


def test_S16_bytes_and_elements_are_not_mixed_up():
    error = refused("PL301", s16.lower, at="pl.reinterpret_view(x[:, :], pl.INT32, shape=[16, 16])")
    assert "1024 bytes" in error.message and "256" in error.message


@pl.jit
def s17(x: V4, out: pl.Out[V4]):
    ping = pl.create_tensor([4], dtype=pl.FP32)
    pong = pl.create_tensor([4], dtype=pl.FP32)
    pign = pl.create_tensor([4], dtype=pl.FP32)  # the line the warning names
    with pl.at(level=CORE):
        ping[:] = x
        pong[:] = pl.exp(ping)
        pign[:] = pl.exp(pong)
    with pl.at(level=CORE):
        out[:] = ping


def test_S17_a_misspelled_buffer_is_a_warning():
    with reports("PL211") as found:
        s17.lower()
    assert "`pign`" in found[0] and "`ping`" in found[0] and "# the line the warning names" in found[0]
    assert f"line {s17.staged.source.line + 1}" in found[0]


@pl.jit
def s20(x: pl.Tensor[[1, 16], pl.FP32], out: pl.Out[pl.Tensor[[1, 16], pl.BF16]]):
    with pl.at(level=CORE):
        out[:] = pl.cast(x, pl.BF16)


@pytest.mark.checked
def test_S20_a_cast_that_rounds_ties_another_way_than_jax_is_noted():
    x = np.ones((1, 16), np.float32)
    x[0, 3], x[0, 5] = 1.01953125, 1 + 2**-8
    with pypto.notes() as found:
        s20(x)
    (tie,) = [n for n in found if n.code == "PL706"]
    assert "2 of 16" in tie.message and 'mode="rint"' in tie.fix
    assert tie.source is not None and tie.source.text.strip() == "out[:] = pl.cast(x, pl.BF16)"


@pytest.mark.checked
def test_S20_the_report_of_a_check_against_a_golden_says_so():
    x = np.full((1, 16), 1.01953125, np.float32)
    specs = [TensorSpec("x", [1, 16], np.float32, init=x), TensorSpec("out", [1, 16], ml_dtypes.bfloat16, output=True)]
    result = check(s20, lambda x: x.astype(ml_dtypes.bfloat16), specs, raises=False)
    assert not result.passed and "PL706" in result.report() and "16 of 16" in result.report()


@pl.jit
def s21(out: pl.Out[V4]):
    with pl.at(level=CORE):
        out[:] = pl.full([4], dtype=pl.FP32, value=1)
        pl.write(out, [0], 9.0)


@pl.jit
def s21_adds(x: V4, out: pl.InOut[V4]):
    with pl.at(level=CORE):
        pl.assemble(out, x, [0], atomic=pl.AtomicType.Add)


@pl.jit
def s21_stores(out: pl.InOut[V4]):
    with pl.at(level=CORE):
        out[:] = pl.full([4], dtype=pl.FP32, value=5)


def test_S21_bulk_and_scalar_stores_keep_their_order_and_no_mode_sticks():
    assert s21().tolist() == [9, 1, 1, 1]
    s21_adds(X4, np.zeros(4, np.float32))
    for _ in range(2):
        out = np.full(4, 100, np.float32)
        s21_stores(out)
        assert out.tolist() == [5, 5, 5, 5]


@pl.jit
def s22(x: V4, out: pl.InOut[V4]):
    t = pl.create_tensor([4], dtype=pl.FP32, init_value=1.0)
    for i in pl.range(3):
        out = pl.assemble(out, t, [0], atomic=pl.AtomicType.Add)  # refused


def test_S22_an_accumulating_store_in_orchestration_is_refused():
    refused("PL501", s22.lower, at="pl.assemble(out, t, [0], atomic=pl.AtomicType.Add)")


@pl.jit
def s24(x: M34, out: pl.Out[M34]):
    for r in pl.range(3 // 2):
        with pl.at(level=CORE):
            out[2 * r : 2 * r + 2, :] = x[2 * r : 2 * r + 2, :]


def test_S24_rows_that_a_floor_division_left_out_are_told():
    with reports("PL204") as found:
        s24(np.ones((3, 4), np.float32), sevens(3, 4))
    assert "`out[2, 0:4]`" in found[0] and "range(n // T)" in found[0] and "4 of 12" in found[0]


def test_every_row_but_those_of_the_task_graph_has_its_test():
    rows = {int(n) for n in re.findall(r"^def test_S(\d\d)_", Path(__file__).read_text(), re.MULTILINE)}
    assert rows == set(range(1, 25)) - {18, 19, 23}
