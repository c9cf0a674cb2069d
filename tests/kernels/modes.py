"""A kernel file as its users write one: specs for two modes, a golden of the dict convention."""

import pypto.language as pl
from pypto.testing import ScalarSpec, TensorSpec

T_DYN = pl.dynamic("T_DYN")
D = 32
MODES = {"decode": (2, 8), "prefill": {"batch": 1, "length": 64}}


@pl.jit
def scale_tokens(
    x: pl.Tensor[[T_DYN, D], pl.FP32],
    factor: pl.Scalar[pl.FP32],
    bias: pl.Tensor[[1, D], pl.FP32],
    out: pl.Out[pl.Tensor[[T_DYN, D], pl.FP32]],
):
    x.bind_dynamic(0, T_DYN)
    for block in pl.spmd(pl.tensor.dim(x, 0) // 8, name_hint="scale"):
        rows = x[block * 8 : block * 8 + 8, :]
        out[block * 8 : block * 8 + 8, :] = pl.add(pl.muls(rows, factor), pl.col_expand(rows, bias))
    return out


def build_tensor_specs(batch, length):
    return [
        TensorSpec("x", [batch * length, D], pl.FP32),
        ScalarSpec("factor", pl.FP32, 0.5),
        TensorSpec("bias", [1, D], pl.FP32),
        TensorSpec("out", [batch * length, D], pl.FP32, is_output=True),
    ]


def golden_scale_tokens(values):
    values["out"][:] = values["x"] * values["factor"] + values["bias"]


def golden_wrong(x, factor, bias):
    return x * factor
