"""Findings on this machine: what a recording would read, what is missing, and the remedies."""

from .examine import examine, what_is_recorded
from .fact import Fact, Group, State

__all__ = ["Fact", "Group", "State", "examine", "what_is_recorded"]
