"""What all tests share: snapshots of texts, the comparison of executors, and property tests that draw the same examples every time."""

import hypothesis

from tests import executors, snapshots
from tests.snapshots import golden

hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")


def pytest_addoption(parser):
    snapshots.pytest_addoption(parser)
    executors.pytest_addoption(parser)


def pytest_configure(config):
    snapshots.pytest_configure(config)
    executors.pytest_configure(config)


def pytest_terminal_summary(terminalreporter, config):
    executors.pytest_terminal_summary(terminalreporter, config)


__all__ = ["golden"]
