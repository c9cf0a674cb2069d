"""What tests of kernels need: seeded inputs, independent goldens, and a comparison that counts in units of the dtype."""

from pypto.testing.compare import Comparison, Tolerance, compare, same_choice, ulp_distance
from pypto.testing.goldens import jax_golden
from pypto.testing.harness import CheckResult, check
from pypto.testing.specs import ScalarSpec, TensorSpec, round_to

__all__ = [
    "CheckResult",
    "Comparison",
    "ScalarSpec",
    "TensorSpec",
    "Tolerance",
    "check",
    "compare",
    "jax_golden",
    "round_to",
    "same_choice",
    "ulp_distance",
]
