"""Cuts the CPU time of a pool whose users' runs are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.natives.cuts import EVER, Rules, Usage
from tprof.analysis.attribution.natives.passes import Block, Facts, PoolPass
from tprof.analysis.attribution.natives.segments import NativeSegments, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.natives.segments import Clock


def cut_pool(clocks: Sequence[Clock], runs: Runs, *, spins_ns: int = 0) -> NativeSegments:
    """Return the segments of a pool in a whole recording: of its clocks, each with two reads or more."""
    facts = Facts(0, grid_ns=np.empty(0, np.int64), begins_ns=np.zeros(1, np.int64))
    cut = PoolPass(Usage.of(clocks), lambda _: (runs, Runs.none()), Rules(spins_ns), facts)
    cut.add(Block(EVER, []))
    found = cut.finish().between(*EVER)
    assert found is not None
    return found
