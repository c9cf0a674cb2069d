"""What tests of kernels need: seeded inputs, independent goldens, and a comparison that counts in units of the dtype."""

from pypto.testing.closeness import Closely, Closeness, error_distribution, measure
from pypto.testing.compare import Comparison, Tolerance, compare, ulp_distance
from pypto.testing.goldens import jax_golden
from pypto.testing.harness import CheckResult, check
from pypto.testing.specs import ScalarSpec, TensorSpec, round_to

__all__ = [
    "CheckResult",
    "Closely",
    "Closeness",
    "Comparison",
    "ScalarSpec",
    "TensorSpec",
    "Tolerance",
    "check",
    "compare",
    "error_distribution",
    "jax_golden",
    "measure",
    "round_to",
    "ulp_distance",
]
