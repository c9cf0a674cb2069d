"""`pytest --compare-executors`: every kernel that a test calls also runs on the compiled executor, which must do the same.

What it has no code for is counted by reason and shown at the end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pypto.interpreters.reference import Machine
from pypto.interpreters.values import Ref
from pypto.language import passing
from pypto.language.kernel import Kernel
from tests.both import outcome


def difference(kernel: Any, program: Any, call: Any, compiled: Any) -> str:
    """How compiled code differs from the reference executor, both on copies: in outputs or errors. Empty if it does not."""
    device = kernel.undeclared_writes is not None

    def meant() -> list[Any]:
        mine = passing.to_values(call, check=False, undeclared_writes=device)
        Machine(program.bodies, check=False).run(program.orchestration, mine)
        return mine

    def found() -> list[Any]:
        mine = passing.to_compiled_values(call, compiled.parameters, may_fail=True, undeclared_writes=device)
        compiled.run(mine, meant)
        return mine

    with np.errstate(all="ignore"):
        want, got = (outcome(lambda run=run: [v.data for v in run() if isinstance(v, Ref)]) for run in (meant, found))
    return "" if want == got else f"{want!r:.200} and {got!r:.200}"


class Comparison:
    """Compares, and remembers what fell back."""

    def __init__(self) -> None:
        self.same = 0
        self.reasons: Counter[str] = Counter()
        self._run = Kernel._run

    def install(self) -> None:
        """Put the comparison in front of every run."""
        comparison = self

        def run(kernel: Any, program: Any, call: Any) -> Any:
            comparison.compare(kernel, program, call)
            return comparison._run(kernel, program, call)

        Kernel._run = run  # type: ignore[method-assign]

    def compare(self, kernel: Any, program: Any, call: Any) -> None:
        """Run both without checks on copies, and compare outputs, records of writes and errors."""
        compiled = program.compiled
        if compiled.executor != "cpu":
            self.reasons[compiled.reason] += 1
            return
        found = difference(kernel, program, call, compiled)
        assert not found, f"the executors differ: {found}\n{program}"
        self.same += 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compare-executors", action="store_true", help="run every kernel on both executors and compare")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--compare-executors"):
        comparison = config.stash[_KEY] = Comparison()
        comparison.install()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    comparison = config.stash.get(_KEY, None)
    if comparison is not None:
        terminalreporter.write_line(f"executors agree on {comparison.same} runs; {sum(comparison.reasons.values())} have no compiled code")
        for reason, count in comparison.reasons.most_common():
            terminalreporter.write_line(f"  {count:4} {reason}")


_KEY = pytest.StashKey[Comparison]()
