"""From a traced kernel to a tile program: in-core kernels and the orchestration that launches them."""

from pypto.tile.ir import KernelBody, Program
from pypto.tile.pipeline import lower_program, tile_pass
from pypto.tile.verify import verify, verify_jaxpr

__all__ = ["KernelBody", "Program", "lower_program", "tile_pass", "verify", "verify_jaxpr"]
