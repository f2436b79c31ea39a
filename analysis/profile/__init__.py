"""Profiles: the joules of a recording by task, as tables."""

from .build import build_profile
from .cluster import ClusterProfile, build_cluster_profile
from .profile import Profile

__all__ = ["ClusterProfile", "Profile", "build_cluster_profile", "build_profile"]
