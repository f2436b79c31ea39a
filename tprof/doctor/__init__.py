"""What a recording on this machine would read, what keeps it from more, and what would change that."""

from .examine import examine, what_is_recorded
from .fact import Fact, Group, State

__all__ = ["Fact", "Group", "State", "examine", "what_is_recorded"]
