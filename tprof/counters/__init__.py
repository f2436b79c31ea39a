"""Counters in each sample: hardware events if available, else the kernel's software events."""

from .choose import CounterPlan, choose
from .events import BY_NAME, Event

__all__ = ["BY_NAME", "CounterPlan", "Event", "choose"]
