"""Programs over frequencies, numbers of workers and repeats: what `tprof sweep` does."""

from .folder import FILES
from .order import Order, What
from .plan import Plan, Point
from .prepare import prepare
from .run import Sweep

__all__ = ["FILES", "Order", "Plan", "Point", "Sweep", "What", "prepare"]
