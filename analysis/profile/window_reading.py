"""Reads what ran in a window of a recording: the segments of its threads, its instances and pools of native threads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.instances import join_rows
from tprof.analysis.attribution.load import Activity
from tprof.analysis.attribution.native_around import Ran
from tprof.analysis.attribution.segments import by_number
from tprof.analysis.attribution.windows import read_window

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tprof.analysis.attribution.instances import InstanceRows, Joined
    from tprof.analysis.attribution.native_stream import CutPool, WindowPool
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window

    from tprof.trace import Thread, Trace

    from .recipe import Recipe


def read_activity_of(
    trace: Trace, recipe: Recipe, found: Survey, window: Window, columns: Collection[str] | None = None
) -> tuple[Activity, Joined]:
    """Read what ran in a window, and the instances of all threads in it, with the counts of columns, by default all.

    Native threads are left out. Raises DisorderedError, TraceError.
    """
    return read_window_of(trace, recipe, found, window, columns)[:2]


def read_window_of(
    trace: Trace,
    recipe: Recipe,
    found: Survey,
    window: Window,
    columns: Collection[str] | None,
    pools: Sequence[WindowPool] = (),
) -> tuple[Activity, Joined, list[CutPool]]:
    """Read the same with pools of native threads. Raises DisorderedError, TraceError."""
    names = counters_of([one.thread for one in found.threads]) if columns is None else []
    groups = read_groups_of(trace, recipe, found, window, columns)
    cuts: list[CutPool] = []
    carried: list[InstanceRows] = []
    ran = Ran.of(found, window, by_number(groups, len(found.threads))) if pools else None
    for pool in pools:
        cut = None if ran is None else pool.cut(ran, len(carried))
        if cut is not None:
            cuts.append(cut)
            carried += [replace(one, counts={name: np.zeros(1) for name in names}) for one in cut.carried]
    activity = Activity(groups, [one.pool for one in cuts], found.hidden, recipe.packages)
    return activity, join_rows([*(one.rows for one in groups), *carried]), cuts


def read_groups_of(
    trace: Trace, recipe: Recipe, found: Survey, window: Window, columns: Collection[str] | None = None
) -> list[JoinedSegments]:
    """Read the segments of threads in a window, with the counts of columns. Raises DisorderedError, TraceError."""
    groups = read_window(
        trace, found.threads, window, recipe.model, packages=len(recipe.packages) > 1, columns=columns,
        cut_off=found.cut_off, means=found.open_powers,
    )  # fmt: skip
    names = counters_of([one.thread for one in found.threads]) if columns is None else ()
    for one in groups:
        if not one.counted:
            one.modelled = one.modelled * found.means.uncounted
        absent = np.broadcast_to(np.nan, len(one.rows))
        one.rows.counts = {name: one.rows.counts.get(name, absent) for name in names}
    return groups


def counters_of(threads: Sequence[Thread]) -> list[str]:
    """Return the counters of threads in the order of a table of instances."""
    names = dict.fromkeys(name for one in threads for name in one.columns)
    return [name for name in names if name not in ("energy_uj", "cpu_ns")]
