"""Builds the tree of a profile: its nested tasks, functions below them from sampled stacks, and levels above them.

An instance nests in the one that its thread ran when it started (`parent`). Recursion is folded: an instance of a task
that is already on the path belongs to that task's node, so no path is longer than there are tasks. The instances of one
level are numbered at once, and only pairs of node and task are looked up one by one.

A node's own joules are shared among the stacks that were sampled in it, by their weights, so they are conserved. How
sure a share is follows from the number of stacks (Wilson's interval of a proportion, with the effective number of
weighed samples) and from the interval of the node's joules; both are taken at their ends.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.names import shown

from tprof.errors import UsageError

from .flame_tree import FUNCTION, NONE_SAMPLED, OUTSIDE, OWN, REST, ROOT, TASK, Flame, Paths, flame_of, wilson
from .grouped import bounded, bounds_of, by_task
from .stack_shares import NO_STACK, POOL, SUMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tprof.trace import TaskEntry, Thread
    from tprof.trace.stacks import Function

    from .profile import Profile
    from .stack_shares import StackShares

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Frame = tuple[str, str, int]
"""Name, file and line of a function."""
TaskPlaces = dict[str, list[tuple[str, int]]]
"""File and line of the functions of tasks, by name."""

OF_HOST = ("process", "thread")
"""Levels above the tasks of one host."""
LEVELS = ("host", *OF_HOST)
MAX_LEVELS = 1000
"""Instances that nest more deeply count as if their tasks were called at this level."""
JOULES = ["own_j", "own_low_j", "own_high_j"]
GROUP = ["node", "of_pool"]
"""What makes a group of stacks: the node in which they are, and whether a pool works for it."""
NAMELESS = "a task without a name"
MODULE = "<module>"
"""What Python calls the code of a module outside functions: every file has one."""
OWN_FRAME = ("(tprof)", "", 0)
IMPORT = ("(import)", "", 0)
DEEPER = ("(callers that were not recorded)", "", 0)


def flame(profile: Profile, by: Sequence[str] = ()) -> Flame:
    """Return the tree of one host's tasks; see `Profile.flame`."""
    levels, paths = levels_of(by), Paths()
    host = str((profile.trace.manifest.get("host") or {}).get("hostname"))
    top = paths.child(ROOT, host, "host") if "host" in levels else ROOT
    (tasks, own_s), stacks = profile.host_instances.kept
    node = nodes_of(paths, tasks, _tops(paths, top, tasks, levels))
    own, quality = _own(tasks, own_s, node, profile.summary()), profile.info["quality"]
    if stacks is None:
        return flame_of(paths, _by_node(paths, own), quality)
    threads = {one.ordinal: one for one in profile.trace.threads}
    outside = {ordinal: _outside(paths, top, threads[ordinal], levels) for ordinal in stacks.outside}
    figures = pd.DataFrame(list(stacks.outside.values()), list(outside.values()), ["own_j", "own_s"], dtype=float)
    factor = max(profile.watts.idle, profile.watts.busy)
    figures = figures.assign(own_low_j=figures["own_j"] / factor, own_high_j=figures["own_j"] * factor)
    own = _by_node(paths, pd.concat([own, figures]))
    rows = stacks.rows
    of_instances = np.append(node, -1)[_rows_of(tasks["instance"].to_numpy(np.uint64), rows["instance"].to_numpy())]
    node_of = np.where(rows["instance"] == 0, rows["thread"].map(outside).fillna(-1), of_instances).astype(np.int64)
    rows = rows.assign(node=node_of, of_pool=rows["thread"] == POOL)[node_of >= 0]
    rows = rows.groupby([*GROUP, "stack"], as_index=False)[SUMS].sum()
    return _with_functions(paths, own, rows, stacks, _places(profile.trace.tasks), quality)


def _own(tasks: pd.DataFrame, own_s: Floats, node: Integers, summary: pd.DataFrame) -> pd.DataFrame:
    """Return what tasks took themselves by node, given that of each instance.

    The bounds take the errors of a task's energy as common to all its instances, as those of `Profile.by` do; a
    path that only some of them took has their own resolution besides.
    """
    rows = bounded(tasks, own_s).assign(node=node, unresolved=tasks["energy_j"].isna().astype(int))
    rows["task"] = _named(tasks)
    parts = by_task(rows, ["node"]).fillna({"energy_j": 0.0})
    bounds_j = bounds_of(parts, summary)
    ends_j = {f"own_{end}_j": bounds_j[f"energy_{end}_j"] for end in ("low", "high")}
    return parts.rename(columns={"energy_j": "own_j"}).assign(**ends_j).set_index("node")[[*OWN]]


def _by_node(paths: Paths, parts: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of parts by node, with the other columns of `flame_of`, as they are without functions."""
    own = parts.groupby(level=0).sum().rename_axis(None).reindex(range(len(paths)), fill_value=0.0)
    own = own.assign(task_low_j=own["own_low_j"], task_high_j=own["own_high_j"], samples=0.0)
    return own.assign(low_j=np.nan, high_j=np.nan)


def levels_of(by: Sequence[str]) -> frozenset[str]:
    """Return the levels above the tasks. Raises UsageError if there is none of some name."""
    unknown = [name for name in by if name not in LEVELS]
    if unknown:
        raise UsageError(f"the top levels of a flame graph are {', '.join(LEVELS)}, got {unknown[0]!r}")
    return frozenset(by)


# Nodes of tasks.


def _tops(paths: Paths, top: int, tasks: pd.DataFrame, levels: frozenset[str]) -> Integers:
    """Return the node of each instance's process or thread, the innermost level that is asked for."""
    groups = tasks.groupby(["pid", "tid", "thread"], sort=False, observed=True, dropna=False)
    found = [_top(paths, top, levels, *key) for key in groups.size().index.tolist()]
    return np.array(found, np.int64)[groups.ngroup().to_numpy()]


def _top(paths: Paths, top: int, levels: frozenset[str], pid: int, tid: int, name: str) -> int:
    """Return the node of a process, or of a thread in it."""
    at = paths.child(top, f"process {pid}", "process") if "process" in levels else top
    if "thread" not in levels:
        return at
    return paths.child(at, f"{name} ({tid})", "thread", "" if "process" in levels else f"process {pid}")


def _outside(paths: Paths, top: int, thread: Thread, levels: frozenset[str]) -> int:
    """Return the node of a thread's time outside tasks."""
    name = shown(thread.name) or f"thread-{thread.ordinal}"
    return paths.child(_top(paths, top, levels, thread.pid, thread.tid, name), OUTSIDE, REST)


def nodes_of(paths: Paths, tasks: pd.DataFrame, top: Integers) -> Integers:
    """Return the node of each instance, and add the nodes that are missing.

    Parameters
    ----------
    paths : the tree
    tasks : a row for each instance, by id
    top : (n,) node below which an instance is that nests in no other one
    """
    task = _named(tasks).cat
    code, names = task.codes.to_numpy().astype(np.int64), task.categories

    def numbered(above: Integers, code: Integers) -> Integers:
        """Return the node of each pair of a node above and a task."""
        place, pairs = pd.factorize(above * len(names) + code, sort=True)
        found = [paths.folded_child(pair // len(names), names[pair % len(names)], TASK) for pair in pairs.tolist()]
        return np.array(found, np.int64)[place]

    parent = _rows_of(tasks["instance"].to_numpy(np.uint64), tasks["parent"].to_numpy(np.uint64))
    node, left = np.full(len(tasks), -1), np.arange(len(tasks))
    for _ in range(MAX_LEVELS):
        above = np.where(parent[left] < 0, top[left], node[parent[left]])
        placed = above >= 0
        if not placed.any():
            break
        node[left[placed]] = numbered(above[placed], code[left[placed]])
        left = left[~placed]
    if len(left):
        # Those that nest more deeply are below the nearest one that has a node, those in a circle at the top.
        nearest = np.where(node >= 0, np.arange(len(node)), parent)
        for _ in range(64):
            nearest = np.where(nearest >= 0, nearest[nearest], -1)
        node[left] = numbered(np.where(node[nearest[left]] >= 0, node[nearest[left]], ROOT), code[left])
    return node


def _named(tasks: pd.DataFrame) -> pd.Series[Any]:
    """Return the task of each instance, with a name for those without."""
    names = [*dict.fromkeys([*tasks["task"].cat.categories, NAMELESS])]
    return tasks["task"].cat.set_categories(names).fillna(NAMELESS)


def _rows_of(ids: NDArray[np.uint64], sought: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return where each of some ids is among increasing ones; -1 if it is 0 or not there."""
    at = np.searchsorted(ids, sought)
    return np.where((np.append(ids, np.uint64(0))[at] == sought) & (sought != 0), at, -1)


# Functions below the tasks.


def _with_functions(
    paths: Paths, own: pd.DataFrame, rows: pd.DataFrame, stacks: StackShares, places: TaskPlaces, quality: str
) -> Flame:
    """Share each node's own figures among the functions that were sampled in it, and add their nodes.

    What a node's own threads took, and what threads without samples took that work for it, are groups of their own.

    Parameters
    ----------
    paths, own : the tree, and what its nodes took themselves, as of `flame_of`
    rows : sums of sampled stacks by group
    stacks : which they are
    places : where tasks begin
    quality : of the tree
    """
    of_stacks, nodes = rows[rows["stack"] != NO_STACK], pd.RangeIndex(len(paths))
    pool_j = rows[rows["stack"] == NO_STACK].groupby("node")["joules"].sum().reindex(nodes, fill_value=0.0)
    part = (pool_j / own["own_j"].where(own["own_j"] > 0)).fillna(0.0).clip(upper=1.0)
    groups = pd.concat([
        own[JOULES].mul(1 - part, axis=0).assign(node=nodes, of_pool=False, own_s=own["own_s"], scale=1.0),
        own[JOULES].mul(part, axis=0).assign(node=nodes, of_pool=True, own_s=0.0, scale=pool_j),
    ])  # fmt: skip
    sums = of_stacks.groupby(GROUP)[SUMS].sum().reset_index()
    groups = groups.merge(sums[~sums["of_pool"] | (sums["joules"] > 0)], "left", GROUP)
    was_sampled = groups["count"].notna() & ~groups["of_pool"]
    groups = groups[was_sampled | (groups["own_j"] > 0) | (groups["own_s"] > 0)]
    effective = (groups["joules"] ** 2 / groups["squares"]).where(groups["squares"] > 0, groups["count"])
    groups = groups.assign(effective=effective.fillna(np.inf))
    leaves = _shares(paths, of_stacks.assign(leaf=_leaves(paths, of_stacks, stacks, places)), groups)
    split = _bounded(leaves).assign(own_s=leaves["own_s"] * leaves["share_s"], samples=leaves["count"])
    split = split.groupby(leaves["leaf"]).sum()
    names = [*JOULES, "own_s", "samples"]
    own.loc[groups["node"].unique(), names] = 0.0
    own = own.reindex(range(len(paths)))
    own = own.fillna({name: 0.0 for name in own if name not in ("low_j", "high_j")})
    own[names] += split.reindex(own.index, fill_value=0.0)[names]
    own[["low_j", "high_j"]] = _inner_bounds(paths, leaves)
    # Pools' stacks are weighed by CPU time.
    scale = (groups["scale"] / groups["joules"]).where(groups["of_pool"], 1.0)
    joules, squares = (groups["joules"] * scale).sum(), (groups["squares"] * scale**2).sum()
    all_effective = float(joules**2 / squares) if squares > 0 else 0.0
    return flame_of(paths, own, quality, int(groups["count"].sum()), all_effective)


def _shares(paths: Paths, stacks: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """Return each node in which a group's stacks end, `leaf`, with the shares of its joules and seconds that it has.

    Of a figure that is not known they are those of the other one. A group without stacks is in a node that says so.
    """
    leaves = stacks.groupby([*GROUP, "leaf"], sort=False)[SUMS].sum().reset_index()
    leaves = leaves.merge(groups, on=GROUP, suffixes=("", "_of_all"))
    share_s = (leaves["seconds"] / leaves["seconds_of_all"]).where(leaves["seconds_of_all"] > 0, 0.0)
    share_j = (leaves["joules"] / leaves["joules_of_all"]).where(leaves["joules_of_all"] > 0, share_s)
    none = groups[groups["count"].isna()]
    leaf = np.array([paths.child(node, NONE_SAMPLED, REST) for node in none["node"]], np.int64)
    none = none.assign(leaf=leaf, share_j=1.0, share_s=1.0, count=0.0)
    return pd.concat([leaves.assign(share_j=share_j, share_s=share_s), none])


def _bounded(shares: pd.DataFrame) -> pd.DataFrame:
    """Return the joules of shares of groups, and their bounds."""
    low, high = wilson(shares["share_j"].to_numpy(), shares["effective"].to_numpy())
    return shares[JOULES] * np.column_stack((shares["share_j"], low, high))


def _inner_bounds(paths: Paths, leaves: pd.DataFrame) -> pd.DataFrame:
    """Return the bounds of the joules of each function with what it calls."""
    parents = np.array([one.parent for one in paths.nodes])
    up, found = leaves.assign(at=leaves["leaf"]), [leaves.head(0).assign(at=0)]
    while len(up := up[up["at"] != up["node"]]):
        found.append(up)
        up = up.assign(at=parents[up["at"]])
    of_group = dict.fromkeys(("effective", *JOULES), "first")
    inner = pd.concat(found).groupby([*GROUP, "at"]).agg({"share_j": "sum", **of_group})
    return _bounded(inner)[JOULES[1:]].groupby("at").sum()


def _leaves(paths: Paths, rows: pd.DataFrame, stacks: StackShares, places: TaskPlaces) -> Integers:
    """Return the node in which each stack ends, without what called its task."""
    frames = {stack: frames_of(stacks.functions(stack)) for stack in rows["stack"].unique().tolist()}
    names = {node: _names_of_tasks(paths, node) for node in rows["node"].unique().tolist()}
    found = []
    for at, stack, of_pool in rows[["node", "stack", "of_pool"]].itertuples(index=False):
        for name, file, line in frames[stack] if of_pool else _below(places, names[at], frames[stack]):
            at = paths.folded_child(at, name, FUNCTION, f"{file}:{line}" if file else "")  # noqa: PLW2901 - goes down
        found.append(at)
    return np.array(found, np.int64)


def _names_of_tasks(paths: Paths, node: int) -> list[str]:
    """Return the tasks of a node's path, the innermost first."""
    names = []
    while node != ROOT:
        if paths.nodes[node].kind == TASK:
            names.append(paths.nodes[node].name)
        node = paths.nodes[node].parent
    return names


def _places(entries: Iterable[TaskEntry]) -> TaskPlaces:
    """Return where the functions of tasks begin; tasks of whole threads have no place."""
    found: TaskPlaces = defaultdict(list)
    for entry in entries:
        if entry.file is not None and entry.line is not None and not entry.is_default:
            found[shown(entry.name)].append((entry.file, entry.line))
    return found


def _below(places: TaskPlaces, names: Sequence[str], path: Sequence[Frame]) -> Sequence[Frame]:
    """Return the functions that the first of some tasks called whose own is in a stack."""
    for name in names:
        exact = [at for at, (_, *place) in enumerate(path) if tuple(place) in places[name]]
        if exact:
            return path[exact[-1] + 1 :]
        # A region lies in a function that begins above its line.
        around = [
            (line, at)
            for at, (_, file, line) in enumerate(path)
            if any(file == place and line <= of for place, of in places[name])
        ]
        if around:
            return path[max(around)[1] + 1 :]
    return path


def frames_of(functions: Sequence[Function]) -> tuple[Frame, ...]:
    """Return the functions of a stack; those of tprof and of Python's import only where it ends in them."""
    found = [_frame(one) for one in functions if not (one.is_own or _imports(one))]
    if functions and (functions[-1].is_own or _imports(functions[-1])):
        found.append(OWN_FRAME if functions[-1].is_own else IMPORT)
    return tuple(found)


def _frame(one: Function) -> Frame:
    if one.is_cut:
        return DEEPER
    name, file = shown(one.name), shown(one.file)
    return (f"module {_short(file)}" if name == MODULE else name), file, one.line


def _short(file: str) -> str:
    """Return the last part of a path, of a package with its folder."""
    folder, _, name = file.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{name}" if name in ("__init__.py", "__main__.py") else name


def _imports(one: Function) -> bool:
    """Return whether a function is part of Python's import, which tracebacks leave out too."""
    return one.file.startswith("<frozen importlib._bootstrap")
