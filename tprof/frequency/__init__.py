"""The processor's frequency through the kernel's cpufreq: available ones, setting, and restoring."""

from .guard import Guard
from .policy import Bounds, Policy, find_policies, read_bounds
from .setting import hold, refusal

__all__ = ["Bounds", "Guard", "Policy", "find_policies", "hold", "read_bounds", "refusal"]
