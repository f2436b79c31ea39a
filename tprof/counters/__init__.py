"""Counters in each sample: hardware events if available, else the kernel's software events."""

from .groups import BY_NAME, CounterPlan, Event, choose
from .pmus import processor_pmus, read_pmus

__all__ = ["BY_NAME", "CounterPlan", "Event", "choose", "processor_pmus", "read_pmus"]
