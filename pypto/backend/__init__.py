"""Which chip family is compiled for where nothing is said: `from pypto.backend import BackendType, set_backend_type`."""

from pypto.runtime.options import BackendType, get_backend_type, is_backend_configured, reset_for_testing, set_backend_type

__all__ = ["BackendType", "get_backend_type", "is_backend_configured", "reset_for_testing", "set_backend_type"]
