"""The sensors of examples/sensors as if they were installed: pytest has the folder on its path."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from . import added_sensor

if TYPE_CHECKING:
    import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "sensors"
ENTRIES: dict[str, str] = tomllib.loads((FOLDER / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"][
    "tprof.sensors"
]
"""Name of each sensor, and `module:Class`."""


def install(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a distribution with their entry points on the path."""
    added_sensor.install(place / "packages", monkeypatch, **ENTRIES)
