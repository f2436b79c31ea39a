"""Trace to profile: attribution, power models, reports, exports.

The names are imported when they are first used: live figures and policies import parts of this package into a program
that does not load pandas.
"""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .models import TABLE_1, Coefficients
    from .profile import Profile, build_profile

__all__ = ["TABLE_1", "Coefficients", "Profile", "build_profile"]

__getattr__ = lazy_names(
    __name__,
    {
        "TABLE_1": "models",
        "Coefficients": "models",
        "Profile": "profile",
        "build_profile": "profile",
    },
)
