"""The PyPTO language: `import pypto.language as pl`."""

from types import SimpleNamespace

from pypto import lax as _lax
from pypto.dtypes import (
    BF16,
    BOOL,
    FP4,
    FP8E4M3FN,
    FP8E5M2,
    FP8E8M0,
    FP16,
    FP32,
    HF4,
    HF8,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    TASK_ID,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)
from pypto.dtypes import DType as DataType
from pypto.language.broadcasts import (
    col_expand,
    col_expand_add,
    col_expand_div,
    col_expand_max,
    col_expand_min,
    col_expand_mul,
    col_expand_sub,
    col_max,
    col_min,
    col_sum,
    row_expand,
    row_expand_add,
    row_expand_div,
    row_expand_max,
    row_expand_min,
    row_expand_mul,
    row_expand_sub,
    row_max,
    row_min,
    row_sum,
)
from pypto.language.decorators import Kernel, jit
from pypto.language.moving import (
    PadValue,
    arange,
    assemble,
    concat,
    create_tensor,
    create_tile,
    fillpad,
    full,
    load,
    read,
    reshape,
    set_validshape,
    slice,
    store,
    transpose,
    write,
)
from pypto.language.scopes import Level, SplitMode, at, parallel, pipeline, split, spmd, unroll
from pypto.language.scopes import range_ as range
from pypto.language.spelled import (
    CmpType,
    adds,
    cast,
    cmp,
    cmps,
    const,
    divs,
    matmul,
    matmul_acc,
    max,
    maximums,
    maxs,
    min,
    minimums,
    mins,
    muls,
    sel,
    sels,
    subs,
    yield_,
)
from pypto.language.spelled import (
    dim as _dim,
)
from pypto.language.spelled import (
    get_block_idx as _get_block_idx,
)
from pypto.language.spelled import (
    get_block_num as _get_block_num,
)
from pypto.language.types import InOut, Out, Scalar, Tensor, Tile, dynamic
from pypto.lax import abs, add, div, exp, log, maximum, minimum, mul, neg, recip, rsqrt, sqrt, sub
from pypto.platform import Space as MemorySpace

Mem = MemorySpace
_BOTH = {
    n: v
    for n, v in list(globals().items())
    if (
        callable(v)
        and not n.startswith("_")
        and getattr(v, "__module__", "") in ("pypto.language.spelled", "pypto.language.broadcasts", "pypto.language.moving")
    )
    or isinstance(v, type(_lax.add))
}
tensor = SimpleNamespace(**{n: v for n, v in _BOTH.items() if n not in ("load", "store", "create_tile")}, dim=_dim, create=create_tensor)
tile = SimpleNamespace(
    **{n: v for n, v in _BOTH.items() if n != "create_tensor"},
    create=create_tile,
    get_block_idx=_get_block_idx,
    get_block_num=_get_block_num,
)
