"""The operations of the original language, by family: what `python -m pypto ops --missing` compares with.

Names with a dot exist in that namespace only. A family with a reason is not built in this version.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """Operations that belong together; `later` says why a family is not built yet."""

    title: str
    names: tuple[str, ...]
    later: str = ""


def _family(title: str, names: str, later: str = "") -> Family:
    return Family(title, tuple(names.split()), later)


FAMILIES: tuple[Family, ...] = (
    _family(
        "creation", "create_tensor tensor.create tile.create create_tile create_l1 full arange ci tri random const expands expand_clone"
    ),
    _family(
        "shape and view", "tensor.dim read write slice reshape reinterpret_view tensor.view transpose tile.transpose_view concat extract"
    ),
    _family("valid region", "set_validshape fillpad fillpad_inplace fillpad_expand"),
    _family("data movement", "load store move assemble gather_row tensor.paged_gather mgather mscatter"),
    _family("arithmetic", "add sub mul div adds subs muls divs neg abs maximum minimum maximums minimums maxs mins max min"),
    _family("remainders", "rem rems fmod fmods"),
    _family("carry and partial", "addc subc addsc subsc part_add part_mul part_max part_min"),
    _family("functions", "exp log sqrt rsqrt recip sin cos cast"),
    _family("activations", "relu lrelu prelu"),
    _family("bitwise", "and_ or_ xor not_ ands ors xors shl shr shls shrs"),
    _family("comparison", "cmp cmps sel sels"),
    _family(
        "reductions",
        "row_sum row_max row_min row_prod row_argmax row_argmin col_sum col_max col_min col_prod col_argmax col_argmin",
    ),
    _family(
        "broadcast",
        "row_expand col_expand row_expand_add row_expand_sub row_expand_mul row_expand_div row_expand_max row_expand_min"
        " row_expand_expdif col_expand_add col_expand_sub col_expand_mul col_expand_div col_expand_max col_expand_min col_expand_expdif",
    ),
    _family("cube", "matmul matmul_acc matmul_bias batch_matmul batch_matmul_acc gemv gemv_acc gemv_bias"),
    _family(
        "gather and scatter", "gather gatherb tensor.scatter tile.scatter tile.gather scatter_update tile.scatter_mask tile.gather_mask"
    ),
    _family("compare gather", "tile.gather_compare"),
    _family("sort", "sort32 mrgsort"),
    _family("blocks", "tile.get_block_idx tile.get_block_num"),
    _family(
        "cross-core",
        "tpush_to_aiv tpush_to_aic tpop_from_aic tpop_from_aiv tfree_to_aic tfree_to_aiv aic_initialize_pipe aiv_initialize_pipe"
        " reserve_buffer import_peer_buffer sync_set sync_wait bar_v bar_m bar_all fence set_ffts",
        later="cross-core queues and barriers come with the mixed-kernel split",
    ),
    _family(
        "tasks",
        "system.task_dummy system.task_invalid system.task_is_valid system.available_cluster_count system.available_aiv_count"
        " array.create array.get_element array.update_element submit spmd_submit no_dep scope manual_scope",
    ),
    _family(
        "lanes and barriers", "split_aiv aiv_shard aic_gather tile.aiv_shard tile.aic_gather tile.get_subblock_idx system.syncall cluster"
    ),
    _family(
        "caches and dumps",
        "tensor.dump_tag system.cacheinvalid",
    ),
    _family(
        "distributed",
        "distributed.world_size distributed.rank distributed.nranks distributed.notify distributed.wait distributed.allreduce"
        " distributed.barrier distributed.broadcast distributed.allgather distributed.reduce_scatter distributed.all_to_all"
        " distributed.remote_load distributed.remote_store distributed.put distributed.get",
        later="ranks come with pypto.language.distributed",
    ),
    _family(
        "MX formats",
        "matmul_mx matmul_mx_acc matmul_mx_bias",
        later="MX formats exist on a5 only and come last",
    ),
)
