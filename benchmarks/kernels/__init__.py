"""Kernels with a known character: what they load, how much of it.

The names are imported when they are first used: who takes a loop of `_stress` alone does without NumPy.
"""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .stress_kernels import Caches, Kernel, kernels, read_caches

__all__ = ["Caches", "Kernel", "kernels", "read_caches"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "stress_kernels"))
