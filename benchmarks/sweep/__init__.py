"""Programs over frequencies, numbers of workers and repeats: what `tprof sweep` does."""

from .order import Order, What
from .output import FILES
from .plan import Plan, Point
from .run import Sweep, prepare

__all__ = ["FILES", "Order", "Plan", "Point", "Sweep", "What", "prepare"]
