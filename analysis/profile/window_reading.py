"""Reads what ran in a window of a recording: the segments of its threads, its instances and pools of native threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tprof.analysis.attribution.instances import InstanceRows, Joined
from tprof.analysis.attribution.load import Activity

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis.attribution.blocks import BlockReader
    from tprof.analysis.attribution.natives.pools import StreamedPools
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window
    from tprof.analysis.engine.instance_table import Records

    from .recipe import Recipe


class WindowRead(NamedTuple):
    """What ran in a window, and the instances that may run on."""

    window: Window
    activity: Activity
    joined: Joined


def read_window(
    reader: BlockReader, recipe: Recipe, found: Survey, window: Window, pools: StreamedPools | None = None
) -> WindowRead:
    """Read the next window, or any one if what came before does not matter. Raises TraceError."""
    ran = reader.read(window)
    cuts = [] if pools is None else pools.between(window, reader.instances)
    activity = Activity(ran, cuts, found.hidden, recipe.packages)
    return WindowRead(window, activity, Joined(reader.instances.records, ran.parts["row"]))


def rows_of(reader: BlockReader, records: Records, counts: NDArray[np.float64] | None) -> InstanceRows:
    """Return instances as columns, which are views but for seconds, with counts if they are given."""
    of = {name: records[name] for name in records.dtype.names or () if name}
    of |= {name: np.ascontiguousarray(records[name]) for name in ("own_s", "cpu_s")}
    of_names = {} if counts is None else dict(zip(reader.names, np.ascontiguousarray(counts.T), strict=True))
    return InstanceRows(
        of["instance"], of["parent"], of["task"], of["cpu"], of["start_ns"], of["end_ns"], of["failed"], of["own_s"],
        of["cpu_s"], of_names, of["begun"], of["ended"], of["last_ns"],
        package=of["package"] if reader.packages else None, thread=of["thread"],
    )  # fmt: skip
