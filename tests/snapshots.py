"""Snapshots: texts kept under `tests/goldens/<test file>/`, one for each test that asks for one.

`pytest --update-golden` writes them. A snapshot that no test reads any more fails the run, once all tests of its file have run.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "goldens"


class Snapshots:
    """Which snapshots a run has read, and which tests could have read one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: set[Path] = set()
        self.complete: set[str] = set()
        self.unread: list[Path] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Note the files of which every test runs: those given without a test's name, none of whose tests were deselected."""
        partial = {Path(a.split("::")[0]).stem for a in session.config.args if "::" in a} | getattr(self, "deselected", set())
        self.complete = {item.path.stem for item in items} - partial

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.deselected = {item.path.stem for item in items}
        self.complete -= self.deselected

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            return  # a test that failed may not have come to its snapshot
        kept = [p for p in sorted(self.folder.glob("*/*")) if p.parent.name in self.complete or not _tests_of(self.folder, p).exists()]
        self.unread = [p for p in kept if p not in self.read]
        if self.unread:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for path in self.unread:
            terminalreporter.write_line(f"no test reads {path.relative_to(self.folder.parent)}: delete it", red=True)


def _tests_of(folder: Path, snapshot: Path) -> Path:
    return folder.parent / f"{snapshot.parent.name}.py"


class Golden:
    """The snapshot of one test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.snapshots: Snapshots = request.config.stash[_KEY]
        self.update = bool(request.config.getoption("--update-golden"))
        name = re.sub(r"[^\w.-]+", "-", request.node.name.removeprefix("test_")).strip("-")
        self.path = self.snapshots.folder / request.path.stem / f"{name}.txt"

    def check(self, text: str, why: str = "") -> None:
        """Compare a text with the snapshot, or write the snapshot; `why` is what to know before rewriting it."""
        self.snapshots.read.add(self.path)
        if self.update:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(text + "\n")
        if not self.path.exists():
            pytest.fail(f"there is no snapshot {self.path.name}: pytest --update-golden writes it")
        want = self.path.read_text().removesuffix("\n")
        if text != want:
            changes = difflib.unified_diff(want.splitlines(), text.splitlines(), str(self.path.name), "this run", lineterm="")
            pytest.fail("\n".join(filter(None, [*changes, why, "pytest --update-golden rewrites the snapshot"])), pytrace=False)


_KEY = pytest.StashKey[Snapshots]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the snapshots under tests/goldens instead of comparing")
    parser.addoption("--goldens", default=str(FOLDER), help="where the snapshots are")


def pytest_configure(config: pytest.Config) -> None:
    snapshots = config.stash[_KEY] = Snapshots(Path(config.getoption("--goldens")))
    config.pluginmanager.register(snapshots, "snapshots")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The snapshot of the test that asks: `golden.check(text)`."""
    return Golden(request)
