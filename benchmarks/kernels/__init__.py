"""Kernels with a known character: what they load, how much of it."""

from .caches import Caches, read_caches
from .catalogue import Kernel, kernels

__all__ = ["Caches", "Kernel", "kernels", "read_caches"]
