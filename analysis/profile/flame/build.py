"""Builds the tree of a profile, with hosts, processes or threads as its top levels if they are asked for."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.names import shown
from tprof.analysis.profile.stack_rows import StackRows

from tprof.errors import UsageError
from tprof.trace.long_sorts import Places

from .functions import add_functions
from .parts import NestedParts
from .paths import REST, ROOT, Paths
from .tree import OUTSIDE, Flame, flame_of, joined, node_parts, sums_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pandas as pd
    from tprof.analysis.attribution.stack_samples import StackTable
    from tprof.analysis.profile.cluster import Job
    from tprof.analysis.profile.part_tables import PartTables
    from tprof.analysis.profile.profile import Profile

    from tprof.trace import Thread

    from .tree import Sums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OF_HOST = ("process", "thread")
"""Levels above the tasks of one host."""
LEVELS = ("host", *OF_HOST)
NAMELESS = "a task without a name"
_COLUMNS = (
    "task", "instance", "parent", "pid", "tid", "thread", "start_s", "duration_s", "energy_j", "energy_low_j",
    "energy_high_j",
)  # fmt: skip


def flame(profile: Profile, by: Sequence[str] = ()) -> Flame:
    """Return the tree of one host's tasks; see `Profile.flame`."""
    levels = _levels(by)
    host = str((profile.trace.manifest.get("host") or {}).get("hostname"))
    paths, names = Paths(), list(dict.fromkeys([*profile.sums.names, NAMELESS]))
    nested = NestedParts(paths, names, lambda tasks: _tops(paths, tasks, levels, host))
    parts: pd.DataFrame | None = None
    stacks, waiting = StackRows.none(), []
    for (tasks, own_s), rows in profile.host_instances.with_stacks(_COLUMNS):
        before = nested.nodes(rows.instance)
        task = tasks["task"].cat.set_categories(names).fillna(NAMELESS)
        parts = node_parts(parts, *nested.add(tasks.assign(own_s=own_s, task=task)))
        node = np.where(before >= 0, before, nested.nodes(rows.instance))
        known = (node >= 0) | (rows.instance == 0)
        stacks = stacks.plus(rows.taken(known).of_nodes(node[known]))
        if not known.all():
            waiting.append(rows.taken(~known))
    last, node = nested.rest()
    if waiting:
        places = Places(last["instance"].to_numpy(np.uint64))
        stacks = reduce(StackRows.plus, (rows.of_nodes(node[places.rows(rows.instance)]) for rows in waiting), stacks)
    sums = sums_of(node_parts(parts, last, node), profile.summary(), len(paths))
    stored = profile.host_instances.stored.stacks
    if stored is None:
        return flame_of(paths, sums, profile.info["quality"])
    return _with_functions(profile, paths, sums, stacks, stored.sampled.table, stored.outside, levels, host)


def _with_functions(
    profile: Profile,
    paths: Paths,
    sums: Sums,
    stacks: StackRows,
    table: StackTable,
    outside: Mapping[int, Floats],
    levels: frozenset[str],
    host: str,
) -> Flame:
    """Return a tree with functions below the tasks; `sums` are of its nodes."""
    threads = {one.ordinal: one for one in profile.trace.threads}
    nodes = {ordinal: _outside(paths, threads[ordinal], levels, host) for ordinal in outside}
    sums = sums.grown(len(paths))
    least, most = 1 / max(profile.watts.idle, profile.watts.busy), max(profile.watts.idle, profile.watts.busy)
    for ordinal, (joules, seconds) in outside.items():
        at = nodes[ordinal]
        sums.own_j[at] += joules
        sums.own_low_j[at] += joules * least
        sums.own_high_j[at] += joules * most
        sums.own_s[at] += seconds
    split, stacked = add_functions(paths, sums, stacks, nodes, (table, profile.trace.tasks))
    return flame_of(paths, split, profile.info["quality"], of_tasks=sums, stacked=stacked)


def _outside(paths: Paths, thread: Thread, levels: frozenset[str], host: str) -> int:
    """Return the node of a thread's time outside tasks."""
    top = paths.child(ROOT, host, "host") if "host" in levels else ROOT
    name = shown(thread.name) or f"thread-{thread.ordinal}"
    return paths.child(_top(paths, top, levels, (thread.pid, thread.tid, name)), OUTSIDE, REST)


def job_flame(job: Job, by: Sequence[str] = ()) -> Flame:
    """Return the tree of a job's tasks; see `Profile.flame`. Parts whose trees do not say it are read again."""
    levels = _levels(by)
    if not job.has_tables:
        return joined_flames(list(job.again(_part_flame)), levels)
    return joined_flames([(one, one.flame) for one in job.parts if one.flame is not None], levels)


def joined_flames(flames: Sequence[tuple[PartTables, Flame]], levels: Collection[str]) -> Flame:
    """Return the tree of some parts of a job."""
    trees = [(part.host, str(part.info["quality"]), one) for part, one in flames]
    return joined(trees, frozenset(levels))


def _part_flame(_: str, profile: Profile) -> Flame:
    return profile.flame(*OF_HOST)


def _levels(by: Sequence[str]) -> frozenset[str]:
    unknown = [name for name in by if name not in LEVELS]
    if unknown:
        raise UsageError(f"the top levels of a flame graph are {', '.join(LEVELS)}, got {unknown[0]!r}")
    return frozenset(by)


def _tops(paths: Paths, tasks: pd.DataFrame, levels: frozenset[str], host: str) -> Integers:
    """Return the node of each instance's host, process or thread, the innermost level that is asked for."""
    top = paths.child(ROOT, host, "host") if "host" in levels else ROOT
    groups = tasks.groupby(["pid", "tid", "thread"], sort=False, observed=True, dropna=False)
    found = [_top(paths, top, levels, key) for key in groups.size().index.tolist()]
    return np.array(found, np.int64)[groups.ngroup().to_numpy()]


def _top(paths: Paths, host: int, levels: frozenset[str], key: Sequence[object]) -> int:
    """Return the node of a process, or of a thread in it, given its process's number, its own and its name."""
    pid = key[0]
    at = paths.child(host, f"process {pid}", "process") if "process" in levels else host
    if "thread" not in levels:
        return at
    return paths.child(at, f"{key[2]} ({key[1]})", "thread", "" if "process" in levels else f"process {pid}")
