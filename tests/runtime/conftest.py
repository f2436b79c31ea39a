"""A runtime that hangs, hangs the thread that would report it: such a test ends the whole run, with all stacks."""

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_DEADLINE_S = 600
"""The longest test took 65 s beside 15 other processes on two cores; who is ended too early seems to have crashed."""


def pytest_collection_modifyitems(items):
    """Give each test of this folder a deadline that needs no cooperation."""
    for item in items:
        if _HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_DEADLINE_S, method="thread"))
