"""Profiles: the joules of a recording by task, as tables."""

from .build import build_profile
from .cluster import ClusterProfile, build_cluster_profile
from .profile import Profile
from .sums_profile import SumsProfile

__all__ = ["ClusterProfile", "Profile", "SumsProfile", "build_cluster_profile", "build_profile"]
