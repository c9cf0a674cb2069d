"""Valid regions and padding: fillpad in its three forms, set_validshape, and every option of slice and load."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.core.avals import TileAval
from pypto.errors import LevelError, PyptoError
from tests.bits import identical
from tests.refusals import f32, refused, reports, sevens, untouched

BF16 = ml_dtypes.bfloat16
PADS = {
    "FP32": (0, np.inf, -np.inf),
    "FP16": (0, np.inf, -np.inf),
    "BF16": (0, np.inf, -np.inf),
    "FP8E5M2": (0, np.inf, -np.inf),
    "FP8E4M3FN": (0, 448, -448),
    **{f"INT{n}": (0, 2 ** (n - 1) - 1, -(2 ** (n - 1))) for n in (8, 16, 32, 64)},
    **{f"UINT{n}": (0, 2**n - 1, 0) for n in (8, 16, 32, 64)},
}
GIVEN = {"zero": [pl.PadValue.zero, 0, 0.0, -0.0, np.float32(0)], "max": [pl.PadValue.max, np.inf], "min": [pl.PadValue.min, -np.inf]}
X = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
M48 = pl.Tensor[[4, 8], pl.FP32]


def both(kernel, *args):
    """Traced and eager; what they leave in their arguments must be the same bits."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    with pypto.override(platform="cpu", verify=True):
        kernel(*args)
    kernel.eager(*copies)
    assert all(identical(a, b) for a, b in zip(args, copies, strict=True) if isinstance(a, np.ndarray))
    return args[-1]


def applying(change, shape=(4, 8)):
    """A kernel that loads a window with a valid shape, changes the tile and stores it."""

    @pl.jit
    def applies(x: pl.Tensor, rows: pl.Scalar[pl.INT32], columns: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], shape, valid_shape=[rows, columns])
            out[:] = change(t)  # refused

    return applies


def framed(x, shape, rows, columns, value):
    want = np.full(shape, value).astype(x.dtype)
    want[:rows, :columns] = x[:rows, :columns]
    return want


# ---- fillpad -------------------------------------------------------------------------------------------------------

FORMS = {
    "fillpad": (lambda t, pad: pl.fillpad(t, pad_value=pad), (4, 8)),
    "fillpad_inplace": (lambda t, pad: pl.fillpad_inplace(t, pad), (4, 8)),
    "fillpad_expand": (lambda t, pad: pl.fillpad_expand(t, [5, 16], pad_value=pad), (5, 16)),
    "tile.fillpad_expand": (lambda t, pad: pl.tile.fillpad_expand(t, [4, 8], pad), (4, 8)),
}


@pytest.mark.parametrize("dtype", PADS)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_valid_holds_the_pad_value_of_the_dtype(form, dtype):
    change, shape = FORMS[form]
    x = (X % 30).astype(getattr(dtypes, dtype).storage)
    for kind, value in zip(("zero", "max", "min"), PADS[dtype], strict=True):
        for rows, columns in ((2, 3), (4, 8), (1, 8), (4, 1), (0, 5)):
            kernel = applying(lambda t, pad=GIVEN[kind][0]: change(t, pad))
            out = np.ones(shape, x.dtype)
            assert identical(both(kernel, x, rows, columns, out), framed(x, shape, rows, columns, value)), (kind, rows, columns)


@pytest.mark.parametrize("kind", GIVEN)
def test_a_pad_value_may_be_given_as_a_number(kind):
    want = framed(X, (4, 8), 2, 3, dict(zip(("zero", "max", "min"), PADS["FP32"], strict=True))[kind])
    for pad in GIVEN[kind]:
        assert identical(both(applying(lambda t, pad=pad: pl.fillpad(t, pad)), X, 2, 3, sevens(4, 8)), want)


@pytest.mark.parametrize("pad", [np.nan, 1, -1, 3.5, True, False, None, "zero", 448], ids=repr)
@pytest.mark.parametrize("name", ["fillpad", "fillpad_inplace", "fillpad_expand", "slice"])
def test_any_other_pad_value_is_refused(name, pad):
    changes = {
        "fillpad": lambda t: pl.fillpad(t, pad),
        "fillpad_inplace": lambda t: pl.fillpad_inplace(t, pad),
        "fillpad_expand": lambda t: pl.fillpad_expand(t, [8, 8], pad),
        "slice": lambda t: pl.slice(t, [4, 8], [0, 0], pad_value=pad),
    }
    if name == "slice" and pad is None:
        return  # nothing is given
    with pytest.raises(PyptoError) as caught:
        applying(changes[name])(X, 2, 3, sevens(4, 8))
    assert caught.value.code == "PL308" and f"pl.{name}" in caught.value.source.text


def test_fillpad_expand_does_not_shrink():
    for shape in ([3, 8], [4, 7], [4, 8, 1]):
        with pytest.raises(PyptoError) as caught:
            applying(lambda t, shape=shape: pl.fillpad_expand(t, shape))(X, 2, 3, sevens(4, 8))
        assert caught.value.code == "PL301"


# ---- fillpad_inplace: the cell ---------------------------------------------------------------------------------------


@pl.jit
def fills_under_another_name(x: M48, out: pl.Out[M48]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8], valid_shape=[2, 3])
        other = t
        pl.fillpad_inplace(other, pl.PadValue.min)
        out[:] = pl.set_validshape(t, 4, 8)


@pl.jit
def fills_in_a_loop(x: M48, n: pl.Scalar[pl.INT32], out: pl.Out[M48]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8], valid_shape=[2, n])
        for _ in pl.range(2):
            u = pl.fillpad_inplace(t, 0)
            t[0:1, 0:1] = u[0:1, 7:8] + 1.0
        out[:] = pl.set_validshape(t, 4, 8)


@pl.jit
def fills_and_keeps_the_region(x: M48, out: pl.Out[M48]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8], valid_shape=[2, 3])
        pl.fillpad_inplace(t, 0)
        out[:] = t


@pl.jit
def fills_a_tensor(x: M48, out: pl.Out[M48]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad_inplace(x)  # refused


def test_filling_in_place_is_seen_under_every_name_of_the_tile():
    assert identical(both(fills_under_another_name, X, sevens(4, 8)), framed(X, (4, 8), 2, 3, -np.inf))


def test_filling_in_place_in_a_loop_updates_the_tile():
    want = framed(X, (4, 8), 2, 3, 0)
    want[0, 0] = 1
    assert identical(both(fills_in_a_loop, X, 3, sevens(4, 8)), want)


def test_a_tile_filled_in_place_keeps_its_valid_region_under_its_old_name():
    out = sevens(4, 8)
    with reports("PL204"):
        fills_and_keeps_the_region(X, out)
    assert identical(out, framed(X, (4, 8), 2, 3, -7))


def test_a_tensor_in_global_memory_is_not_filled_in_place():
    refused("PL307", fills_a_tensor, X, sevens(4, 8), at="pl.fillpad_inplace(x)")


# ---- set_validshape --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", [pl.set_validshape, pl.tensor.set_validshape, pl.tile.set_validshape])
def test_a_valid_shape_set_at_run_time_bounds_what_follows(spelled):
    @pl.jit
    def marks(x: M48, rows: pl.Scalar[pl.INT32], out: pl.Out[M48]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.fillpad(spelled(x[:], rows, rows + 1), pl.PadValue.max)

    for rows in (0, 1, 3):
        assert identical(both(marks, X, rows, sevens(4, 8)), framed(X, (4, 8), rows, rows + 1, np.inf))


@pytest.mark.parametrize(("rows", "columns"), [(5, 8), (4, 9), (-1, 8)])
def test_a_valid_shape_past_the_tile_is_refused_also_at_run_time(rows, columns):
    with pytest.raises(PyptoError) as caught:
        applying(lambda t: pl.set_validshape(t, rows, columns)).trace(X, 4, 8, sevens(4, 8))
    assert caught.value.code == "PL303"

    @pl.jit
    def marks(x: M48, a: pl.Scalar[pl.INT32], b: pl.Scalar[pl.INT32], out: pl.Out[M48]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.fillpad(pl.set_validshape(x, a, b))  # refused

    untouched("PL303", marks, X, rows, columns, sevens(4, 8), at="pl.set_validshape(x, a, b)")


# ---- slice and load --------------------------------------------------------------------------------------------------


@pl.jit
def slices_with_a_pad(x: M48, out: pl.Out[M48]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [4, 8], [0, 0], valid_shape=[2, 3], pad_value=pl.PadValue.min)
        out[:] = pl.set_validshape(t, [4, 8])


@pl.jit
def slices_with_a_pad_of_zero(x: pl.Tensor[[1, 16], pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [1, 256], [0, 0], valid_shape=[1, 16], pad_value=0.0)
        out[:] = pl.row_sum(pl.set_validshape(t, [1, 256]))


@pl.jit
def slices_a_partly_valid_tile(x: M48, n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 8], valid_shape=[3, n])
        part = pl.slice(t, [2, 4], [2, 1], valid_shape=[2, 4])
        out[:] = pl.fillpad(part, pl.PadValue.max)


def test_a_pad_value_fills_the_padding_and_leaves_the_region():
    assert identical(both(slices_with_a_pad, X, sevens(4, 8)), framed(X, (4, 8), 2, 3, -np.inf))


def test_a_pad_value_of_zero_is_a_value():  # C88
    assert both(slices_with_a_pad_of_zero, np.ones((1, 16), np.float32), sevens(1, 1)).tolist() == [[16]]


def test_the_valid_region_of_a_slice_is_never_wider_than_its_source():
    want = np.full((2, 4), np.inf, np.float32)
    want[0, :3] = X[2, 1:4]
    assert identical(both(slices_a_partly_valid_tile, X, 4, sevens(2, 4)), want)


def clamping(load):
    @pl.jit
    def clamps(x: pl.Tensor, start: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1, 5], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = load(x, start)
            out[:] = pl.fillpad(t, pl.PadValue.min)  # refused

    return clamps


CLAMPED = {
    "slice": lambda x, s: pl.slice(x, [1, 5], [0, s], clamp=True),
    "tensor.slice": lambda x, s: pl.tensor.slice(x, [1, 5], [0, s], clamp=True),
    "load": lambda x, s: pl.load(x, [0, s], [1, 5], clamp=True),
    "slice a part": lambda x, s: pl.slice(x, [1, 5], [0, s], valid_shape=[1, 5], clamp=True),
}


@pytest.mark.parametrize("name", CLAMPED)
@pytest.mark.parametrize("start", [0, 1, 3, 4, 5, 9])
def test_a_clamped_window_past_the_end_is_masked_and_not_shifted(name, start):  # C55
    x = f32([[0, 1, 2, 3, 4]])
    want = [*range(start, 5), *[-np.inf] * 5][:5]
    assert both(clamping(CLAMPED[name]), x, start, sevens(1, 5)).tolist() == [want]
    fixed = clamping(lambda x, s: CLAMPED[name](x, start))
    assert both(fixed, x, 0, sevens(1, 5)).tolist() == [want]


def test_a_valid_shape_cuts_a_clamped_window_further():
    kernel = clamping(lambda x, s: pl.slice(x, [1, 5], [0, s], valid_shape=[1, 1], clamp=True))
    assert both(kernel, f32([[0, 1, 2, 3, 4]]), 3, sevens(1, 5)).tolist() == [[3] + [-np.inf] * 4]


def test_without_clamp_a_window_past_the_end_is_refused():
    kernel = clamping(lambda x, s: pl.slice(x, [1, 5], [0, s]))
    with pytest.raises(PyptoError) as caught:
        kernel(f32([[0, 1, 2, 3, 4]]), 3, sevens(1, 5))
    assert caught.value.code == "PL303" and "pl.slice(x, [1, 5], [0, s])" in caught.value.source.text


@pytest.mark.parametrize("spelled", [pl.slice, pl.tile.slice])
def test_a_tile_has_nothing_that_clamps(spelled):
    with pytest.raises(TypeError) as caught:
        applying(lambda t: spelled(t, [4, 8], [0, 0], clamp=True))(X, 4, 8, sevens(4, 8))
    assert isinstance(caught.value, LevelError) and caught.value.code == "PL307"


DROPS = {
    "one axis": (lambda x, i: pl.slice(x, [1, 4, 8], [i, 0, 0], drop_dims=[0]), lambda x, i: x[i]),
    "from the end": (lambda x, i: pl.slice(x, [3, 4, 1], [0, 0, i], drop_dims=[-1]), lambda x, i: x[:, :, i]),
    "two axes": (lambda x, i: pl.slice(x, [1, 1, 8], [i, i + 1, 0], drop_dims=[1, 0]), lambda x, i: x[i, i + 1]),
    "none": (lambda x, i: pl.slice(x, [1, 4, 8], [i, 0, 0], drop_dims=[]), lambda x, i: x[i : i + 1]),
    "of a tile": (lambda x, i: pl.slice(pl.load(x, [0, 0, 0], [3, 4, 8]), [1, 4, 8], [i, 0, 0], drop_dims=[0]), lambda x, i: x[i]),
}


@pytest.mark.parametrize("name", DROPS)
@pytest.mark.parametrize("i", [0, 2])
def test_dropped_axes_are_not_in_the_result(name, i):
    take, reference = DROPS[name]

    @pl.jit
    def drops(x: pl.Tensor, i: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = take(x, i)

    x = np.arange(96, dtype=np.float32).reshape(3, 4, 8)
    want = reference(x, i).copy()
    assert identical(both(drops, x, i, np.ones_like(want)), want)


def test_a_view_outside_a_region_drops_axes_too():
    @pl.jit
    def views(x: pl.Tensor[[3, 4, 8], pl.FP32], out: pl.Out[M48]):
        row = pl.slice(x, [1, 4, 8], [1, 0, 0], drop_dims=[0])
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = row

    x = np.arange(96, dtype=np.float32).reshape(3, 4, 8)
    assert identical(both(views, x, sevens(4, 8)), x[1].copy())


@pytest.mark.parametrize(
    ("code", "take"),
    [
        ("PL308", lambda x: pl.slice(x, [2, 4], [0, 0], drop_dims=[0])),
        ("PL308", lambda x: pl.slice(x, [1, 4], [0, 0], drop_dims=[2])),
        ("PL308", lambda x: pl.slice(x, [1, 1], [0, 0], drop_dims=[0, 1])),
        ("PL308", lambda x: pl.slice(x, [1, 4], [0, 0], valid_shape=[0, 4], drop_dims=[0])),
        ("PL301", lambda x: pl.slice(x, [1, 4, 1], [0, 0])),
        ("PL303", lambda x: pl.slice(x, [2, 4], [0, 0], valid_shape=[3, 4])),
        ("PL401", lambda x: pl.load(x, [0, 0], [4, 8], target_memory=pl.Mem.LEFT)),
    ],
)
def test_a_slice_that_cannot_be_is_refused(code, take):
    @pl.jit
    def slices(x: M48, out: pl.Out[M48]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = take(x)

    with pytest.raises(PyptoError) as caught:
        slices(X, sevens(4, 8))
    assert caught.value.code == code and "lambda x" in caught.value.source.text


@pytest.mark.parametrize("options", [{"valid_shape": [2, 8]}, {"pad_value": 0}, {"clamp": True}], ids=str)
def test_outside_a_region_nothing_is_padded(options):
    @pl.jit
    def pads_a_view(x: M48, out: pl.Out[M48]):
        row = pl.slice(x, [4, 8], [0, 0], **options)  # refused
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = row

    untouched("PL307", pads_a_view, X, sevens(4, 8), at="pl.slice(x, [4, 8], [0, 0], **options)")


def test_pads_of_arrays_are_told_their_region():
    assert lax.fillpad(np.int8([[1, 2], [3, 4]]), pad="max", valid=(1, 1)).tolist() == [[1, 127], [127, 127]]
    assert lax.fillpad_expand(np.array([[1.5]], BF16), shape=(1, 2), pad="min").tolist() == [[1.5, -np.inf]]


def test_a_padded_tile_is_traced_as_valid_everywhere():
    jaxpr = applying(lambda t: pl.fillpad_expand(t, [8, 8])).trace(X, 2, 3, sevens(8, 8))
    (made,) = [e.outs[0].aval for e in jaxpr.walk() if e.op is lax.fillpad_expand]
    assert isinstance(made, TileAval) and made.valid is None
