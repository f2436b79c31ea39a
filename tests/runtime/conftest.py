"""A runtime that hangs, hangs the thread that would report it: such a test ends the whole run, with all stacks."""

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_DEADLINE_S = 120


def pytest_collection_modifyitems(items):
    """Give each test of this folder a deadline that needs no cooperation."""
    for item in items:
        if _HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_DEADLINE_S, method="thread"))
