"""Programs over frequencies, numbers of workers and repeats: what `tprof sweep` does.

The names are imported when they are first used: the run of a benchmark begins in this package too, and needs no pandas.
"""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .folder import FILES
    from .order import Order, What
    from .plan import Plan, Point
    from .sweep_runs import Sweep, prepare

__all__ = ["FILES", "Order", "Plan", "Point", "Sweep", "What", "prepare"]

__getattr__ = lazy_names(
    __name__,
    {
        "FILES": "folder", "Order": "order", "What": "order", "Plan": "plan", "Point": "plan", "Sweep": "sweep_runs",
        "prepare": "sweep_runs",
    },
)  # fmt: skip
