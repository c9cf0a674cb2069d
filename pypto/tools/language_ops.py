"""The operations of the original language, by family: what `python -m pypto ops --missing` compares with.

Names with a dot exist in that namespace only. A family with a reason is not built in this version.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """Operations that belong together.

    Attributes:
      later: why a family is not built yet.
      at_levels: they are spelled `pl.X`, `pl.tensor.X` and `pl.tile.X`, but for what one level has alone.
    """

    title: str
    names: tuple[str, ...]
    later: str = ""
    at_levels: bool = False


def _family(title: str, names: str, later: str = "") -> Family:
    return Family(title, tuple(names.split()), later)


def _at_levels(title: str, names: str) -> Family:
    return Family(title, tuple(names.split()), at_levels=True)


FAMILIES: tuple[Family, ...] = (
    _at_levels(
        "creation", "create_tensor tensor.create tile.create create_tile create_l1 full arange ci tri random const expands expand_clone"
    ),
    _at_levels(
        "shape and view", "tensor.dim read write slice reshape reinterpret_view tensor.view transpose tile.transpose_view concat extract"
    ),
    _at_levels("valid region", "set_validshape fillpad fillpad_inplace fillpad_expand"),
    _at_levels("data movement", "load store move assemble gather_row tensor.paged_gather mgather mscatter"),
    _at_levels("arithmetic", "add sub mul div adds subs muls divs neg abs maximum minimum maximums minimums maxs mins max min"),
    _at_levels("remainders", "rem rems fmod fmods"),
    _at_levels("carry and partial", "addc subc addsc subsc part_add part_mul part_max part_min"),
    _at_levels("functions", "exp log sqrt rsqrt recip sin cos cast"),
    _at_levels("activations", "relu lrelu prelu"),
    _at_levels("bitwise", "and_ or_ xor not_ ands ors xors shl shr shls shrs"),
    _at_levels("comparison", "cmp cmps sel sels"),
    _at_levels(
        "reductions",
        "row_sum row_max row_min row_prod row_argmax row_argmin col_sum col_max col_min col_prod col_argmax col_argmin",
    ),
    _at_levels(
        "broadcast",
        "row_expand col_expand row_expand_add row_expand_sub row_expand_mul row_expand_div row_expand_max row_expand_min"
        " row_expand_expdif col_expand_add col_expand_sub col_expand_mul col_expand_div col_expand_max col_expand_min col_expand_expdif",
    ),
    _at_levels("cube", "matmul matmul_acc matmul_bias batch_matmul batch_matmul_acc gemv gemv_acc gemv_bias"),
    _at_levels(
        "gather and scatter", "gather gatherb tensor.scatter tile.scatter tile.gather scatter_update tile.scatter_mask tile.gather_mask"
    ),
    _family("compare gather", "tile.gather_compare"),
    _at_levels("sort", "sort32 mrgsort"),
    _family("prefetch", "prefetch.make_context prefetch.async_prefetch prefetch.session prefetch.wait"),
    _family("blocks", "tile.get_block_idx tile.get_block_num"),
    _family(
        "cross-core",
        "tpush_to_aiv tpush_to_aic tpop_from_aic tpop_from_aiv tfree_to_aic tfree_to_aiv aic_initialize_pipe aiv_initialize_pipe"
        " reserve_buffer import_peer_buffer sync_set sync_wait sync_src sync_dst bar_v bar_m bar_all fence set_ffts",
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
        " distributed.remote_load distributed.remote_store distributed.put distributed.get distributed.get_comm_ctx distributed.defer_wait"
        " distributed.alloc_window_buffer distributed.window distributed.all_to_all_v",
        later="ranks come with pypto.language.distributed",
    ),
    _family(
        "MX formats",
        "matmul_mx matmul_mx_acc matmul_mx_bias",
        later="MX formats exist on a5 only and come last",
    ),
)
