"""What a program depends on outside its arguments: Python values its function reads, as a key that changes when one of them does."""

from pypto.captures.freezing import Freezer, Key, difference
from pypto.captures.guard import Guard, captures, chains, function_reads

__all__ = ["Freezer", "Guard", "Key", "captures", "chains", "difference", "function_reads"]
