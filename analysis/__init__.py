"""Trace to profile: attribution, power models, reports, exports.

The names are imported when they are first used: live figures and policies import parts of this package into a program
that does not load pandas.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .models import TABLE_1, Coefficients
    from .profile import Profile, build_profile

__all__ = ["TABLE_1", "Coefficients", "Profile", "build_profile"]

_FILES = {"TABLE_1": "models", "Coefficients": "models", "Profile": "profile", "build_profile": "profile"}


def __getattr__(name: str) -> object:
    """Load what makes a profile at first use."""
    if name not in _FILES:
        message = f"module 'tprof.analysis' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module  # noqa: PLC0415 - see above

    value = getattr(import_module(f"tprof.analysis.{_FILES[name]}"), name)
    globals()[name] = value
    return value
