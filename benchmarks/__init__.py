"""Task-parallel programs and micro-benchmarks; `PROGRAMS` names the programs.

The names are imported when they are first used: the processes of a sweep and of a simulated machine need none of them.
"""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .programs.catalogue import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program"]

__getattr__ = lazy_names(__name__, {"PROGRAMS": "programs.catalogue", "Program": "programs.catalogue"})
