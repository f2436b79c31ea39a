"""Trace to profile: attribution, power models, reports, exports."""

from .build import build_profile
from .models import TABLE_1, Coefficients
from .profile import Profile

__all__ = ["TABLE_1", "Coefficients", "Profile", "build_profile"]
