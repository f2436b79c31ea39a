"""Kernels with a known character: what they load, how much of it."""

from .stress_kernels import Caches, Kernel, kernels, read_caches

__all__ = ["Caches", "Kernel", "kernels", "read_caches"]
