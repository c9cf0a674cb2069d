"""pypto: tile kernels in the PyPTO language as a functional array library that runs on any CPU, bit for bit as written.

import pypto.language as pl      # kernels
from pypto import lax            # whole-array operations
"""

from pypto import lax, random
from pypto.api import eval_shape, explain_cache, make_jaxpr
from pypto.config import Config, override
from pypto.core.array import Array
from pypto.errors import InternalError, PyptoError, PyptoWarning
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
    "eval_shape",
    "explain_cache",
    "get_log_level",
    "lax",
    "make_jaxpr",
    "notes",
    "override",
    "random",
    "set_log_level",
]
