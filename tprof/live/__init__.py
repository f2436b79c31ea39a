"""Joules while a recording runs: `tprof.analysis.attribution` in steps, on what the recorder has committed so far.

It reads the files of the session, like any reader, so the recording threads do no extra work.
"""

from __future__ import annotations

from .meter import Energy, Meter, TaskEnergy
from .sharing import Block
from .usage import Usage

__all__ = ["Block", "Energy", "Meter", "TaskEnergy", "Usage"]
