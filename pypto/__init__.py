"""pypto: tile kernels in the PyPTO language as a functional array library that runs on any CPU, bit for bit as written.

import pypto.language as pl      # kernels
from pypto import lax            # whole-array operations
"""

from pypto import lax, random
from pypto.api import (
    ShapeDtypeStruct,
    checkpoint,
    custom_jvp,
    custom_vjp,
    eval_shape,
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
from pypto.config import Config, override
from pypto.core.array import Array
from pypto.errors import PyptoError, PyptoWarning

__version__ = "0.1.0"
__all__ = [
    "Array",
    "Config",
    "PyptoError",
    "PyptoWarning",
    "ShapeDtypeStruct",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "eval_shape",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linearize",
    "make_jaxpr",
    "override",
    "random",
    "value_and_grad",
    "vjp",
    "vmap",
]
