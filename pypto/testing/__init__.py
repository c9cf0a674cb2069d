"""What tests of kernels need: seeded inputs, independent goldens, and a comparison that counts in units of the dtype."""

from pypto.testing.closeness import Closely, Closeness, error_distribution, measure
from pypto.testing.compare import Comparison, Tolerance, compare, ulp_distance
from pypto.testing.goldens import jax_golden
from pypto.testing.harness import CheckResult, check
from pypto.testing.rules import ratio_allclose, ratio_reldiff, topk_pair_compare
from pypto.testing.specs import ScalarSpec, TensorSpec, as_library, library_of, round_to

__all__ = [
    "CheckResult",
    "Closely",
    "Closeness",
    "Comparison",
    "ScalarSpec",
    "TensorSpec",
    "Tolerance",
    "as_library",
    "check",
    "compare",
    "error_distribution",
    "jax_golden",
    "library_of",
    "measure",
    "ratio_allclose",
    "ratio_reldiff",
    "round_to",
    "topk_pair_compare",
    "ulp_distance",
]
