"""pypto: tile kernels in the PyPTO language as a functional array library that runs on any CPU, bit for bit as written.

import pypto.language as pl      # kernels
from pypto import lax            # whole-array operations
"""

from pypto import lax, random
from pypto.api import eval_shape, make_jaxpr
from pypto.config import Config, override
from pypto.core.array import Array
from pypto.errors import PyptoError, PyptoWarning

__version__ = "0.1.0"
__all__ = ["Array", "Config", "PyptoError", "PyptoWarning", "eval_shape", "lax", "make_jaxpr", "override", "random"]
