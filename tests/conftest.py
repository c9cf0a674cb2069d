"""What all tests share: snapshots of texts, and property tests that draw the same examples every time."""

import hypothesis

from tests.snapshots import golden, pytest_addoption, pytest_configure

hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")

__all__ = ["golden", "pytest_addoption", "pytest_configure"]
