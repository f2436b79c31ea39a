"""Joules while a recording runs: new readings and samples are shared by CPU time."""

from __future__ import annotations

from .figures import Energy, TaskEnergy
from .meter import Meter
from .usage import Usage

__all__ = ["Energy", "Meter", "TaskEnergy", "Usage"]
