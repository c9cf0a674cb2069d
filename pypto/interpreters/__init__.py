"""Interpreters of the IR: they know op slots, and by name only the structural ops."""
