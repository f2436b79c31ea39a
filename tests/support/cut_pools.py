"""Cuts the CPU time of a pool whose users' runs are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.analysis.attribution.natives.cuts import Rules, Usage, cut_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.natives.cuts import Clock
    from tprof.analysis.attribution.natives.segments import NativeSegments, Runs


def cut_by(clocks: Sequence[Clock], runs: Runs, *, spins_ns: int = 0) -> NativeSegments:
    """Return the segments of a pool in a whole recording: of its clocks, each with two reads or more."""
    return cut_pool(Usage(clocks), [runs], Rules(spins_ns))
