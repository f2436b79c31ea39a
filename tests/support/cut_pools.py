"""Cuts the CPU time of a pool whose users' runs are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.natives.cuts import EVER, Parts, PoolCut, Rules, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.natives.cuts import Clock
    from tprof.analysis.attribution.natives.segments import NativeSegments, Runs


def cut_pool(clocks: Sequence[Clock], runs: Runs, *, spins_ns: int = 0) -> NativeSegments:
    """Return the segments of a pool in a whole recording: of its clocks, each with two reads or more."""
    parts = Parts(np.zeros(1, np.int64), None, 0, np.empty(0, np.int64))
    found = PoolCut(Usage(clocks), lambda *_: runs, Rules(spins_ns), parts).between(*EVER)
    assert found is not None
    return found
