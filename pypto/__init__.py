"""pypto: tile kernels in the PyPTO language as a functional array library that runs on any CPU, bit for bit as written.

import pypto.language as pl      # kernels
from pypto import lax            # whole-array operations
"""

from pypto import lax, random, tree
from pypto.api import (
    ShapeDtypeStruct,
    checkpoint,
    checkpoint_policies,
    custom_jvp,
    custom_vjp,
    eval_shape,
    explain_cache,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jit,
    jvp,
    linearize,
    make_jaxpr,
    value_and_grad,
    vjp,
    vmap,
)
from pypto.api import checkpoint as remat
from pypto.config import Config, override
from pypto.core.array import Array
from pypto.errors import InternalError, PyptoError, PyptoWarning
from pypto.lax.remat import checkpoint_name
from pypto.logs import LogLevel, get_log_level, set_log_level
from pypto.noted import Note, notes
from pypto.version import VERSION

__version__ = VERSION
Error = PyptoError
__all__ = [
    "Array",
    "Config",
    "Error",
    "InternalError",
    "LogLevel",
    "Note",
    "PyptoError",
    "PyptoWarning",
    "ShapeDtypeStruct",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "custom_jvp",
    "custom_vjp",
    "eval_shape",
    "explain_cache",
    "get_log_level",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linearize",
    "make_jaxpr",
    "notes",
    "override",
    "random",
    "remat",
    "set_log_level",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
]
