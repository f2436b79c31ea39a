"""Trace to profile: attribution, power models, tables, reports, exports."""

from .build import build_profile
from .models import Coefficients
from .profile import Profile

__all__ = ["Coefficients", "Profile", "build_profile"]
