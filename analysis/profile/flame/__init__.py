"""Where the joules went by nested tasks and, with sampled stacks, by Python functions: the data of flame graphs."""

from .build import OF_HOST, flame, job_flame, joined_flames
from .tree import Flame

__all__ = ["OF_HOST", "Flame", "flame", "job_flame", "joined_flames"]
