"""Counters that each sample carries: hardware events where there are any, else the kernel's own."""

from .choose import CounterPlan, choose
from .events import BY_NAME, Event

__all__ = ["BY_NAME", "CounterPlan", "Event", "choose"]
