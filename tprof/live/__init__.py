"""Joules while a recording runs: what its files have gained since the last look, shared out by CPU time."""

from __future__ import annotations

from .figures import Energy, TaskEnergy
from .meter import Meter
from .spent import Spent

__all__ = ["Energy", "Meter", "Spent", "TaskEnergy"]
