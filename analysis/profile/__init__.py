"""Profiles: the joules of a recording by task, as tables."""

from .build import build_profile
from .cluster import profile_of_job
from .kept_sums import profile_of_sums
from .profile import Profile

__all__ = ["Profile", "build_profile", "profile_of_job", "profile_of_sums"]
