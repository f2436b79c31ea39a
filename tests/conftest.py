"""Shared set-up: tests run on the installed wheel, never on the checkout."""

import os
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _ROOT]
os.environ["PYTHONSAFEPATH"] = "1"


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep what programs keep out of the user's cache folder, for children too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
