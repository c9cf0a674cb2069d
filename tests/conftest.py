"""What all tests share: snapshots of texts, property tests that draw the same examples every time, and tiles of any shape.

A kernel is held to the limits of its platform, whose rows are 32 bytes and whose matrices are 16 by 16. Most tests are about
something else and say it in four numbers: they run on the default chip with these limits taken away (its instructions, dtypes, casts
and memory stay). A test or module marked `limits` runs on the chip as it is, and so does every test that names a platform.
"""

import os
from dataclasses import replace

import hypothesis
import pytest

import pypto
from pypto.platform import PLATFORMS
from tests import executors, snapshots
from tests.snapshots import golden

hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")

__all__ = ["golden"]


def pytest_addoption(parser):
    snapshots.pytest_addoption(parser)
    executors.pytest_addoption(parser)
    parser.addoption(
        "--executor",
        choices=("cpu", "reference"),
        help="what runs kernels where a test does not say: compiled code, or the checked reference executor; by default, what users get",
    )


def pytest_configure(config):
    snapshots.pytest_configure(config)
    executors.pytest_configure(config)


def pytest_terminal_summary(terminalreporter, config):
    executors.pytest_terminal_summary(terminalreporter, config)


TILES_OF_ANY_SHAPE = replace(PLATFORMS["a2a3sim"], row_align=1, fractal=1)


@pytest.fixture(autouse=True)
def _executor(request):
    """Tests marked `checked` are about what only checked runs report; all others hold on either executor."""
    asked = {None: {}, "cpu": {"check": False, "executor": "cpu"}, "reference": {"check": True, "executor": "reference"}}
    checked = request.node.get_closest_marker("checked") is not None
    with pypto.override(**({"check": True} if checked else asked[request.config.getoption("--executor")])):
        yield


@pytest.fixture(autouse=True, scope="session")
def _machine_code_of_tests(request, tmp_path_factory):
    """Keep what tests compile out of the user's cache: processes that tests start, and other workers of pytest, look there, too."""
    before = os.environ.get("XDG_CACHE_HOME")
    kept = getattr(request.config, "cache", None)  # there is none with `-p no:cacheprovider`
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("machine-code") if kept is None else kept.mkdir("machine-code"))
    yield
    os.environ.pop("XDG_CACHE_HOME")
    if before is not None:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(autouse=True)
def _tiles_of_any_shape(request, monkeypatch):
    if request.node.get_closest_marker("limits") is None:
        monkeypatch.setitem(PLATFORMS, "a2a3sim", TILES_OF_ANY_SHAPE)
