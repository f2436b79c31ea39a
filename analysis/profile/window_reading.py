"""Reads what ran in a window of a recording: the segments of its threads, its instances and pools of native threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tprof.analysis.attribution.instances import Joined
from tprof.analysis.attribution.load import Activity

if TYPE_CHECKING:
    from tprof.analysis.attribution.blocks import BlockReader
    from tprof.analysis.attribution.natives.pools import StreamedPools
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window


class WindowRead(NamedTuple):
    """What ran in a window, and the instances that may run on."""

    window: Window
    activity: Activity
    joined: Joined


def read_window(reader: BlockReader, found: Survey, window: Window, pools: StreamedPools | None = None) -> WindowRead:
    """Read the next window, or any one if what came before does not matter. Raises TraceError."""
    ran = reader.read(window)
    cuts = [] if pools is None else pools.between(window, reader.instances)
    activity = Activity(ran, cuts, found.hidden, found.packages)
    return WindowRead(window, activity, Joined(reader.instances.records, ran.parts["row"]))
