"""Reads what ran in a window of a recording: the segments of its threads, its instances and pools of native threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tprof.analysis.attribution.instances import InstanceRows, Joined
from tprof.analysis.attribution.load import Activity
from tprof.analysis.attribution.natives.pools import Ran
from tprof.analysis.attribution.segments import by_number
from tprof.analysis.engine.instance_table import INSTANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.blocks import BlockReader
    from tprof.analysis.attribution.natives.pools import CutPool, WindowPool
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window
    from tprof.analysis.engine.instance_table import InstanceTable, Records

    from .recipe import Recipe


class WindowRead(NamedTuple):
    """What ran in a window, and the instances that may run on."""

    window: Window
    activity: Activity
    joined: Joined


def read_window(
    reader: BlockReader, recipe: Recipe, found: Survey, window: Window, pools: Sequence[WindowPool] = ()
) -> WindowRead:
    """Read the next window, or any one if what came before does not matter. Raises TraceError."""
    ran = reader.read(window)
    cuts: list[CutPool] = []
    carried: list[InstanceRows] = []
    of_threads = Ran.of(found, window, by_number(ran, len(found.threads))) if pools else None
    for pool in pools:
        cut = None if of_threads is None else pool.cut(of_threads, len(carried))
        if cut is not None:
            cuts.append(cut)
            carried += cut.carried
    activity = Activity(ran, cuts, found.hidden, recipe.packages)
    place = np.concatenate((ran.parts["row"], _rows_of(reader.instances, carried)))
    return WindowRead(window, activity, Joined(reader.instances.records, place))


def _rows_of(instances: InstanceTable, carried: Sequence[InstanceRows]) -> NDArray[np.int32]:
    """Return the rows of instances that ended before, which are entered if they are not there any more."""
    if not carried:
        return np.empty(0, np.int32)
    ids = np.concatenate([one.instance for one in carried])
    missing = np.unique(ids[instances.find(ids) < 0], return_index=True)[0]
    by_id = {int(one.instance[0]): one for one in carried}
    records = np.zeros(len(missing), INSTANCE)
    for record, instance in zip(records, missing.tolist(), strict=True):
        for name in ("instance", "parent", "task", "cpu", "start_ns", "end_ns", "last_ns", "begun", "failed", "ended"):
            record[name] = getattr(by_id[instance], name)[0]
        package = by_id[instance].package
        record["thread"], record["package"] = by_id[instance].numbers[0], -1 if package is None else package[0]
    if len(missing):
        instances.add(records)
    return instances.find(ids)


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
