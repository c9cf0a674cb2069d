"""What a program depends on outside its arguments: Python values its function reads, as a key that changes when one of them does."""

from pypto.captures.guard import Guard, captures, chains

__all__ = ["Guard", "captures", "chains"]
