"""Trace to profile: attribution, power models, reports, exports."""

from .models import TABLE_1, Coefficients
from .profile import Profile, build_profile

__all__ = ["TABLE_1", "Coefficients", "Profile", "build_profile"]
