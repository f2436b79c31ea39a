"""Profiles: the joules of a recording by task, as tables."""

from .build import build_profile
from .profile import Profile

__all__ = ["Profile", "build_profile"]
