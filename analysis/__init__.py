"""Trace to profile: attribution, power models, reports, exports.

The names are imported when they are first used: a policy imports parts of this package into a program that does not
load pandas.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .models import TABLE_1, Coefficients
    from .profile import Profile, build_profile

__all__ = ["TABLE_1", "Coefficients", "Profile", "build_profile"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from . import models, profile  # noqa: PLC0415 - they import pandas

    return getattr(profile if hasattr(profile, name) else models, name)
