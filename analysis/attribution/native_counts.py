"""The modelled power of a native thread where its counters were read together with its clock.

Counters are read at some of the readings of a clock. Between two of these the thread's power per CPU second counts as
constant, so that nothing has to be known of when in between it was counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import computed

from .blocks import NOTHING

if TYPE_CHECKING:
    from tprof.trace import NativeCounts
    from tprof.trace.native import NativeThread

    from .segments import Model

Floats = NDArray[np.float64]


def power_between_readings(one: NativeThread, model: Model) -> Floats | None:
    """Return modelled energy per CPU second between readings of a thread's clock.

    Parameters
    ----------
    one : a thread of n readings
    model : power model

    Returns
    -------
    (n - 1,) float64, NaN where it was not counted or used no CPU time; None without the counters that the model needs
    """
    counts = one.counts
    if counts is None or not model.columns or not set(model.columns) <= set(counts.values) or len(counts.at) < 2:
        return None

    def of_part(part: slice) -> Floats:
        intervals = np.arange(part.start, part.stop)
        between = np.searchsorted(counts.at, intervals, side="right") - 1
        first, last = max(int(between[0]), 0), min(int(between[-1]) + 1, len(counts.at) - 1)
        known = (between >= 0) & (between < len(counts.at) - 1)
        if last <= first or not known.any():
            return np.full(len(intervals), np.nan)
        power = _power(one.cpu_ns, counts, slice(first, last + 1), model)
        return np.where(known, power[np.clip(between - first, 0, len(power) - 1)], np.nan)

    arrays = (one.cpu_ns, counts.at, *counts.values.values())
    return computed(len(one.t_ns) - 1, np.float64, of_part, *arrays)


def _power(cpu_ns: NDArray[np.int64], counts: NativeCounts, part: slice, model: Model) -> Floats:
    """Return modelled energy per CPU second between some of the counts, NaN where no CPU time was used."""
    cpu_s = np.diff(cpu_ns[counts.at[part]]) * 1e-9
    increments = {name: np.diff(values[part]).astype(np.float64) for name, values in counts.values.items()}
    modelled = model.modelled(increments, cpu_s)
    modelled = np.where(modelled > 0, modelled, cpu_s * NOTHING)
    return np.asarray(np.divide(modelled, cpu_s, out=np.full(len(cpu_s), np.nan), where=cpu_s > 0))
