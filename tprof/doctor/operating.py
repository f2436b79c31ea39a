"""Findings about operating points: whether sweeps, policies and budgets can set the frequency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.errors import SensorError
from tprof.frequency import find_policies, refusal

from .fact import Fact, State

if TYPE_CHECKING:
    from pathlib import Path

WHAT = "frequency"


def operating_facts(root: Path, machine: str | None = None) -> tuple[Fact, ...]:
    """Return the findings on setting the frequency below `root`; `machine`: the architecture, by default this one's."""
    try:
        policies = find_policies(root, machine)
    except SensorError as error:
        return (Fact(WHAT, State.MISSING, str(error)),)
    why = refusal(policies)
    if why is not None:
        return (Fact(WHAT, State.MISSING, why),)
    low_hz = min(policy.range.lowest_hz for policy in policies)
    high_hz = max(policy.range.highest_hz for policy in policies)
    each = "one each core" if all(len(policy.cpus) == 1 for policy in policies) else "cores share it"
    return (
        Fact(
            WHAT,
            State.OK,
            f"can be set from {low_hz / 1e9:g} to {high_hz / 1e9:g} GHz, {each} (driver {policies[0].driver})",
        ),
    )
