"""Where the joules of a recording went so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskEnergy:
    """Joules that a task's instances took so far, nested tasks left out, and how many have begun."""

    energy_j: float
    instances: int


@dataclass(frozen=True, slots=True)
class Energy:
    """Where the joules of a running recording went, from the begin of its block to `until_s`.

    Attributes
    ----------
    tasks : by name
    tasks_j, runtime_j, other_j, idle_j, spin_j, unidentified_j : as the accounts of a profile; they sum to
        `measured_j`. The energy of GPUs is in `runtime_j` until a profile is made
    measured_j : of the counted domains; NaN where nothing is measured
    quality : `measured`, `estimated`, …, that of the least trustworthy domain; `none` without any
    until_s : seconds from the begin of the block up to which the joules are shared out
    """

    tasks: dict[str, TaskEnergy]
    tasks_j: float
    runtime_j: float
    other_j: float
    idle_j: float
    measured_j: float
    quality: str
    until_s: float
    spin_j: float = 0.0
    unidentified_j: float = 0.0
