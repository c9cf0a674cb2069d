"""The PyPTO language: `import pypto.language as pl`."""

from types import SimpleNamespace as _Namespace

from pypto import lax as _lax
from pypto.core.op import OPS as _OPS
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
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    TASK_ID,
    UINT4,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)
from pypto.dtypes import DType as DataType
from pypto.language import arrays as _arrays
from pypto.language import levels as _levels
from pypto.language import prefetch as _prefetch
from pypto.language import system as _system
from pypto.language.arithmetic import (
    addc,
    addsc,
    ands,
    fmods,
    ors,
    prelu,
    rem,
    rems,
    rsqrt,
    shls,
    shrs,
    subc,
    subsc,
    xor,
    xors,
)
from pypto.language.atomics import AtomicType
from pypto.language.broadcasts import (
    col_expand,
    col_expand_add,
    col_expand_div,
    col_expand_expdif,
    col_expand_max,
    col_expand_min,
    col_expand_mul,
    col_expand_sub,
    row_expand,
    row_expand_add,
    row_expand_div,
    row_expand_expdif,
    row_expand_max,
    row_expand_min,
    row_expand_mul,
    row_expand_sub,
)
from pypto.language.creating import arange, ci, create_l1, create_tensor, create_tile, expand_clone, expands, full, random, tri
from pypto.language.cube import batch_matmul, batch_matmul_acc, gemv, gemv_acc, gemv_bias, matmul, matmul_acc, matmul_bias
from pypto.language.declaration import FunctionType, Role
from pypto.language.decorators import Kernel, function, inline, jit
from pypto.language.directives import func_attr, static_assert, static_print
from pypto.language.gathering import MaskPattern as _MaskPattern
from pypto.language.gathering import gather, gather_compare, gather_mask, gather_row, gatherb, mgather, paged_gather
from pypto.language.lanes import aic_gather, aiv_shard
from pypto.language.layouts import DN, ND, NZ, TensorLayout, TensorView
from pypto.language.levels import spelled_at as _spelled_at
from pypto.language.moving import (
    assemble,
    concat,
    load,
    read,
    reinterpret_view,
    reshape,
    slice,
    store,
    transpose,
    write,
)
from pypto.language.moving import view as _view
from pypto.language.optimizations import SplitMode, auto_chunk, cross_core_slot, split
from pypto.language.padding import PadValue, fillpad, fillpad_expand, fillpad_inplace, set_validshape
from pypto.language.placing import extract, move
from pypto.language.placing import transpose_view as _transpose_view
from pypto.language.programs import KernelProgram, program
from pypto.language.reducing import (
    col_argmax,
    col_argmin,
    col_max,
    col_min,
    col_prod,
    col_sum,
    row_argmax,
    row_argmin,
    row_max,
    row_min,
    row_prod,
    row_sum,
)
from pypto.language.scattering import mscatter, scatter, scatter_mask, scatter_update
from pypto.language.scopes import (
    Level,
    ScopeMode,
    at,
    cluster,
    cond,
    manual_scope,
    parallel,
    pipeline,
    scope,
    split_aiv,
    spmd,
    unroll,
    while_,
)
from pypto.language.scopes import range_ as range
from pypto.language.sorting import mrgsort, sort32
from pypto.language.spelled import (
    CmpType,
    adds,
    cast,
    cmp,
    cmps,
    const,
    divs,
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
from pypto.language.system import (
    SyncAllMode,
)
from pypto.language.system import (
    get_subblock_idx as _get_subblock_idx,
)
from pypto.language.tasks import dump_tag, no_dep, spmd_submit, submit
from pypto.language.types import RUNTIME, Array, InOut, Out, Scalar, TaskId, Tensor, Tile, Tuple, dynamic
from pypto.lax import (
    abs,
    add,
    and_,
    cos,
    div,
    exp,
    fmod,
    log,
    lrelu,
    maximum,
    minimum,
    mul,
    neg,
    not_,
    or_,
    part_add,
    part_max,
    part_min,
    part_mul,
    recip,
    relu,
    shl,
    shr,
    sin,
    sqrt,
    sub,
)
from pypto.platform import Space as MemorySpace

Mem = MemorySpace
_MODULES = tuple(
    f"pypto.language.{m}"
    for m in (
        "spelled",
        "arithmetic",
        "broadcasts",
        "moving",
        "creating",
        "cube",
        "padding",
        "reducing",
        "gathering",
        "scattering",
        "sorting",
        "placing",
    )
)
_BOTH = {
    n: v
    for n, v in list(globals().items())
    if (not n.startswith("_") and callable(v) and getattr(v, "__module__", "") in _MODULES) or isinstance(v, type(_lax.add))
}
tensor = _Namespace(
    **{n: _spelled_at(v, "tensor") for n, v in _BOTH.items() if n not in _levels.TILE_ONLY},
    create=create_tensor,
    dim=_dim,
    view=_view,
    dump_tag=dump_tag,
)
tile = _Namespace(
    **{n: _spelled_at(v, "tile") for n, v in _BOTH.items() if n not in _levels.TENSOR_ONLY},
    create=create_tile,
    get_block_idx=_get_block_idx,
    get_block_num=_get_block_num,
    get_subblock_idx=_get_subblock_idx,
    aiv_shard=aiv_shard,
    aic_gather=aic_gather,
    transpose_view=_transpose_view,
    MaskPattern=_MaskPattern,
)
array = _Namespace(create=_arrays.create, get_element=_arrays.get_element, update_element=_arrays.update_element)
prefetch = _Namespace(
    async_prefetch=_prefetch.async_prefetch, make_context=_prefetch.make_context, session=_prefetch.session, wait=_prefetch.wait
)
system = _Namespace(
    available_aiv_count=_system.available_aiv_count,
    available_cluster_count=_system.available_cluster_count,
    cacheinvalid=_system.cacheinvalid,
    syncall=_system.syncall,
    task_dummy=_system.task_dummy,
    task_invalid=_system.task_invalid,
    task_is_valid=_system.task_is_valid,
)


def _spell() -> None:
    """Let the text of programs spell an op that the language has under its own name as the language does."""
    for space, names in (("pl", globals()), ("pl.tile", vars(tile))):
        for name in names:
            op = _OPS.get(name)
            if op is not None and op.source is None and callable(names[name]):
                op.source = f"{space}.{name}"


_spell()

import pypto.runtime.compiling as _compiling  # noqa: E402  # gives kernels their compile()
