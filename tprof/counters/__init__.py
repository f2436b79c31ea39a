"""Counters in each sample: hardware events if available, else the kernel's software events."""

from .groups import BY_NAME, CounterPlan, Event, choose

__all__ = ["BY_NAME", "CounterPlan", "Event", "choose"]
