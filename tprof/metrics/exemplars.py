"""The latest span of each task that is a span of OpenTelemetry, so that a point of a graph leads to a trace."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tprof.otel.energy import LatestSpan


def exemplar_of(task: str) -> LatestSpan | None:
    """Return the latest span of this task that ended in this process; None where spans are no tasks."""
    energy = sys.modules.get("tprof.otel.energy")
    return None if energy is None else energy.span_energy.latest(task)
