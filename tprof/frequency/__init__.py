"""The processor's frequency through the kernel's cpufreq: available ones, setting, and restoring."""

from .cpufreq import Bounds, Policy, find_policies, hold, read_bounds, refusal
from .guard import Guard

__all__ = ["Bounds", "Guard", "Policy", "find_policies", "hold", "read_bounds", "refusal"]
