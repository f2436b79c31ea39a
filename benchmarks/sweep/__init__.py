"""Programs over frequencies, numbers of workers and repeats: what `tprof sweep` does."""

from .folder import FILES
from .order import Order, What
from .plan import Plan, Point
from .sweep_runs import Sweep, prepare

__all__ = ["FILES", "Order", "Plan", "Point", "Sweep", "What", "prepare"]
