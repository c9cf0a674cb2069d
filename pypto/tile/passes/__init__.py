"""One pass a file."""
