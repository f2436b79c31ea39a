"""Energy in tools that test and benchmark: pytest and pytest-benchmark."""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .joules import Joules, joules

__all__ = ["Joules", "joules"]

__getattr__ = lazy_names(__name__, {"Joules": "joules", "joules": "joules"})
