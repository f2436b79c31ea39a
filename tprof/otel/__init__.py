"""Spans of OpenTelemetry as tasks, and their energy as attributes and as a metric."""

from __future__ import annotations

from .energy import MOST_NAMES
from .spans import OTHERS, SpanTasks, follow_all_spans

__all__ = ["MOST_NAMES", "OTHERS", "SpanTasks", "follow_all_spans"]
