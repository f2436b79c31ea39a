"""Counters in each sample: hardware events if available, and the kernel's own events if they are named."""

from .groups import BY_NAME, CounterPlan, Event, choose
from .pmus import processor_pmus, read_pmus

__all__ = ["BY_NAME", "CounterPlan", "Event", "choose", "processor_pmus", "read_pmus"]
