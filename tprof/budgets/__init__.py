"""Energy budgets: for a block of the program, and for each instance of a task."""

from __future__ import annotations

from .block import Budget, budget

__all__ = ["Budget", "budget"]
