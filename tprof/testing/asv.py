"""Joules as benchmarks of asv, which tracks what functions called track_… return.

In a file of benchmarks:

    from tprof.testing.asv import track_joules
    from shop import blur, picture

    track_blur_joules = track_joules(blur, picture)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .joules import LEAST_S, joules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UNIT = "J"


def track_joules(
    function: Callable[..., Any],
    *arguments: Any,
    seconds: float = LEAST_S,
    energy: str | Sequence[str] = "auto",
    **options: Any,
) -> Callable[[], float]:
    """Return a function for asv's `track_` benchmarks: the mean joules of a call.

    Parameters
    ----------
    function, *arguments, **options : what is called
    seconds, energy : as for `tprof.testing.joules`

    Returns
    -------
    callable
        Without parameters; its `unit` is ``"J"``, which asv keeps and shows in its pages. It returns NaN, which asv
        takes as missing, where no sensor knows joules. asv calls it track_NAME_joules after the function; several of
        one function stand as static methods in a class, where asv takes the attribute's name.
    """

    def track() -> float:
        return joules(function, *arguments, seconds=seconds, energy=energy, **options).energy_j

    track.unit = UNIT  # type: ignore[attr-defined]
    track.__name__ = f"track_{getattr(function, '__name__', 'call')}_joules"
    return track


# asv takes every function of a file whose name begins with track_, what is imported there too.
track_joules.skip_benchmark = True  # type: ignore[attr-defined]
