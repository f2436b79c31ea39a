"""Builds the tree of a profile: its nested tasks, functions below them from sampled stacks, and levels above them.

An instance nests in the one that its thread ran when it started (`parent`). Recursion is folded: an instance of a task
that is already on the path belongs to that task's node, so no path is longer than there are tasks. Instances of one
task in the same instance are placed at once.

A node's own joules are shared among the stacks that were sampled in it, by their weights, so they are conserved. How
sure a share is follows from the number of stacks (Wilson's interval of a proportion, with the effective number of
weighed samples) and from the interval of the node's joules; both are taken at their ends.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.names import shown

from tprof.errors import UsageError

from .flame_tree import (
    FUNCTION,
    JOULES,
    NONE_SAMPLED,
    OF_HOST,
    OUTSIDE,
    OWN,
    REST,
    ROOT,
    TASK,
    Flame,
    Paths,
    flame_of,
    wilson,
)
from .grouped import bounded, bounds_of, by_task
from .stack_shares import NO_STACK, POOL, SUMS
from .tables import divided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tprof.trace import TaskEntry
    from tprof.trace.stacks import Function

    from .profile import Profile
    from .stack_shares import StackShares

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Frame = tuple[str, str, int]
"""Name, file and line of a function."""
TaskPlaces = dict[str, list[tuple[str, int]]]
"""File and line of the functions of tasks, by name."""

LEVELS = ("host", *OF_HOST)
NAMELESS = "a task without a name"
MODULE = "<module>"
"""What Python calls the code of a module outside functions: every file has one."""
OWN_FRAME = ("(tprof)", "", 0)
IMPORT = ("(import)", "", 0)
DEEPER = ("(callers that were not recorded)", "", 0)


def flame(profile: Profile, by: Sequence[str] = ()) -> Flame:
    """Return the tree of one host's tasks; see `Profile.flame`."""
    levels, paths, quality = levels_of(by), Paths(), str(profile.info["quality"])
    host = str((profile.trace.manifest.get("host") or {}).get("hostname"))
    top_of = partial(_top, paths, paths.child(ROOT, host, "host") if "host" in levels else ROOT, levels)
    (tasks, own_s), stacks = profile.host_instances.kept
    ids: pd.Index[Any] = pd.Index(tasks["instance"])
    task = tasks["task"].cat.set_categories([*dict.fromkeys([*tasks["task"].cat.categories, NAMELESS])])
    task = task.fillna(NAMELESS)
    threads = tasks.groupby(["pid", "tid", "thread"], sort=False, observed=True, dropna=False)
    tops = np.array([top_of(*key) for key in threads.size().index.tolist()], np.int64)[threads.ngroup().to_numpy()]
    node = nodes_of(paths, task, ids.get_indexer(pd.Index(tasks["parent"])), tops)
    own = _own(bounded(tasks, own_s).assign(task=task, node=node), profile.summary())
    outside = _outside(profile, {} if stacks is None else stacks.outside, paths, top_of)
    own = pd.concat([own, outside.set_index("node")])
    own = own.groupby(level=0).sum().reindex(range(len(paths)), fill_value=0.0)
    own = own.assign(task_low_j=own["own_low_j"], task_high_j=own["own_high_j"], samples=0.0)
    if stacks is None:
        return flame_of(paths, own, quality)
    rows = stacks.rows
    of_instances = np.append(node, -1)[ids.get_indexer(pd.Index(rows["instance"]))]
    at = rows["thread"].map(outside["node"]).fillna(pd.Series(of_instances))
    rows = rows.assign(of_pool=rows["thread"] == POOL, node=at.astype(np.int64))[at >= 0]
    rows = rows.groupby(["node", "of_pool", "stack"], as_index=False)[SUMS].sum()
    return _with_functions(paths, own, rows, partial(_leaves, paths, stacks, _places(profile.trace.tasks)), quality)


def levels_of(by: Sequence[str]) -> frozenset[str]:
    """Return the levels above the tasks. Raises UsageError if there is none of some name."""
    unknown = [name for name in by if name not in LEVELS]
    if unknown:
        raise UsageError(f"the top levels of a flame graph are {', '.join(LEVELS)}, got {unknown[0]!r}")
    return frozenset(by)


# Nodes of tasks.


def _top(paths: Paths, top: int, levels: frozenset[str], pid: int, tid: int, name: str) -> int:
    """Return the node of a thread or of its process, the innermost level that is asked for."""
    at = paths.child(top, f"process {pid}", "process") if "process" in levels else top
    if "thread" not in levels:
        return at
    return paths.child(at, f"{name} ({tid})", "thread", "" if "process" in levels else f"process {pid}")


def _outside(
    profile: Profile, known: dict[int, Floats], paths: Paths, top_of: Callable[[int, int, str], int]
) -> pd.DataFrame:
    """Return what threads took outside tasks, by ordinal, and its node."""
    nodes = {
        one.ordinal: paths.child(top_of(one.pid, one.tid, shown(one.name) or f"thread-{one.ordinal}"), OUTSIDE, REST)
        for one in profile.trace.threads
        if one.ordinal in known
    }
    found = pd.DataFrame.from_dict(known, "index", dtype=float, columns=["own_j", "own_s"])
    factor = max(profile.watts.idle, profile.watts.busy)
    ends_j = {"own_low_j": found["own_j"] / factor, "own_high_j": found["own_j"] * factor}
    return found.assign(**ends_j, node=pd.Series(nodes, dtype=np.int64))


def nodes_of(paths: Paths, task: pd.Series[Any], parent: Integers, top: Integers) -> Integers:
    """Return the node of each instance, and add the nodes that are missing.

    Parameters
    ----------
    paths : the tree
    task : (n,) categorical, of each instance
    parent : (n,) the place of the instance in which each nests; -1: none
    top : (n,) node below which an instance is that nests in no other one
    """
    names = task.cat.categories
    # Instances of one task in the same instance, or at the same top, have one node.
    within = np.where(parent < 0, -1 - top, parent) * len(names) + task.cat.codes.to_numpy()
    place, pairs = pd.factorize(within)
    above, code = (part.tolist() for part in np.divmod(pairs, len(names)))
    node, pair_of = [-1] * len(pairs), place.data
    for at in range(len(pairs)):
        open_pairs = []
        while at >= 0 and node[at] < 0:
            node[at] = ROOT
            open_pairs.append(at)
            at = pair_of[above[at]] if above[at] >= 0 else above[at]  # noqa: PLW2901 - goes up
        is_circle = at >= 0 and node[at] == ROOT
        below = node[at] if at >= 0 else -1 - at
        for one in reversed(open_pairs):
            node[one] = paths.folded_child(below, names[code[one]], TASK)
            below = ROOT if is_circle else node[one]
    return np.array(node, np.int64)[place]


def _own(rows: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """Return what tasks took themselves by node, given that of each instance.

    The bounds take the errors of a task's energy as common to all its instances, as those of `Profile.by` do; a
    path that only some of them took has their own resolution besides.
    """
    parts = by_task(rows.assign(unresolved=rows["energy_j"].isna().astype(int)), ["node"]).fillna({"energy_j": 0.0})
    ends_j = {f"own_{name.removeprefix('energy_')}": ends_j for name, ends_j in bounds_of(parts, summary).items()}
    return parts.rename(columns={"energy_j": "own_j"}).assign(**ends_j).set_index("node")[[*OWN]]


# Functions below the tasks.


def _with_functions(
    paths: Paths, own: pd.DataFrame, rows: pd.DataFrame, leaves_of: Callable[[pd.DataFrame], list[int]], quality: str
) -> Flame:
    """Share each node's own figures among the functions that were sampled in it, and add their nodes.

    What a node's own threads took is a group, and what threads without samples took that work for it is another one:
    the numbers n and n + `len(own)` of node n.

    Parameters
    ----------
    paths, own : the tree, and what its nodes took themselves, as of `flame_of`
    rows : sums of sampled stacks by node, `of_pool` and stack
    leaves_of : returns the nodes in which stacks end
    quality : of the tree
    """
    nodes, is_whole = len(own), rows["stack"] == NO_STACK
    pool_j = np.bincount(rows["node"][is_whole], rows["joules"][is_whole], nodes)
    part = np.minimum(divided(pool_j, own["own_j"].to_numpy(), 0.0), 1.0)
    group_j = np.concatenate([own[JOULES].mul(one, axis=0) for one in (1 - part, part)])
    group_s, has_joules = np.append(own["own_s"], np.zeros(nodes)), group_j[:, 0] > 0
    rows = rows.assign(group=rows["node"] + nodes * rows["of_pool"])[~is_whole]
    joules, seconds, squares, count = (np.bincount(rows["group"], rows[name], 2 * nodes) for name in SUMS)
    is_sampled = (count > 0) & (has_joules & (joules > 0) | (np.arange(2 * nodes) < nodes))
    effective = np.where(is_sampled, np.where(squares > 0, divided(joules**2, squares), count), np.inf)

    def joules_of(shares: pd.DataFrame) -> pd.DataFrame:
        """Return the joules of shares of groups by node, and their bounds."""
        ends = np.column_stack((shares["share"], *wilson(shares["share"].to_numpy(), effective[shares["group"]])))
        return pd.DataFrame(group_j[shares["group"]] * ends, shares["node"], JOULES).groupby(level=0).sum()

    rows = rows[is_sampled[rows["group"]]]
    group, none = rows["group"].to_numpy(), np.flatnonzero(~is_sampled & (has_joules | (group_s > 0)))
    # Of a figure that is not known the shares are those of the other one.
    share_s = divided(rows["seconds"].to_numpy(), seconds[group], 0.0)
    share = np.where(joules[group] > 0, divided(rows["joules"].to_numpy(), joules[group]), share_s)
    columns = {"share": share, "own_s": share_s * group_s[group], "samples": rows["count"]}
    unknown = [paths.child(one, NONE_SAMPLED, REST) for one in (none % nodes).tolist()]
    shares = pd.concat([
        pd.DataFrame({"group": group, "node": leaves_of(rows), **columns}),
        pd.DataFrame({"group": none, "node": unknown, "share": 1.0, "own_s": group_s[none], "samples": 0.0}),
    ]).astype({"node": np.int64}).groupby(["group", "node"], as_index=False).sum()  # fmt: skip
    own.loc[np.unique(shares["group"] % nodes), [*JOULES, "own_s"]] = 0.0
    own = pd.concat([own, joules_of(shares), shares.set_index("node")[["own_s", "samples"]]])
    # Pools' stacks are weighed by CPU time.
    scale = np.append(np.ones(nodes), divided(pool_j, joules[nodes:], 0.0))
    all_j, all_squares = ((one * is_sampled).sum() for one in (joules * scale, squares * scale**2))
    effective_of_all = float(all_j**2 / all_squares) if all_squares > 0 else 0.0
    inner = joules_of(_with_callees(paths, shares, nodes))
    return flame_of(paths, own, quality, inner, int(count[is_sampled].sum()), effective_of_all)


def _with_callees(paths: Paths, shares: pd.DataFrame, nodes: int) -> pd.DataFrame:
    """Return the share of its group that each function has with what it calls, given those without."""
    parents = np.array([one.parent for one in paths.nodes])
    up, found = shares, [shares.head(0)]
    while len(up := up[up["node"] != up["group"] % nodes]):
        found.append(up)
        up = up.assign(node=parents[up["node"]])
    return pd.concat(found).groupby(["group", "node"], as_index=False)[["share"]].sum()


def _leaves(paths: Paths, stacks: StackShares, places: TaskPlaces, rows: pd.DataFrame) -> list[int]:
    """Return the node in which each stack ends, without what called its task."""
    frames = {stack: frames_of(stacks.functions(stack)) for stack in rows["stack"].unique().tolist()}
    found = []
    for at, stack, of_pool in rows[["node", "stack", "of_pool"]].itertuples(index=False):
        for name, file, line in frames[stack] if of_pool else _below(places, _tasks_of(paths, at), frames[stack]):
            at = paths.folded_child(at, name, FUNCTION, f"{file}:{line}" if file else "")  # noqa: PLW2901 - goes down
        found.append(at)
    return found


def _tasks_of(paths: Paths, node: int) -> Iterator[str]:
    """Yield the tasks of a node's path, the innermost first."""
    while node != ROOT:
        if paths.nodes[node].kind == TASK:
            yield paths.nodes[node].name
        node = paths.nodes[node].parent


def _places(entries: Iterable[TaskEntry]) -> TaskPlaces:
    """Return where the functions of tasks begin; tasks of whole threads have no place."""
    found: TaskPlaces = defaultdict(list)
    for entry in entries:
        if entry.file is not None and entry.line is not None and not entry.is_default:
            found[shown(entry.name)].append((entry.file, entry.line))
    return found


def _below(places: TaskPlaces, tasks: Iterable[str], path: Sequence[Frame]) -> Sequence[Frame]:
    """Return the functions that the first of some tasks called whose own is in a stack.

    A region lies in a function that begins above its line.
    """
    for task in tasks:
        found = [
            (of - line, -at)
            for at, (_, file, line) in enumerate(path)
            for place, of in places[task]
            if file == place and line <= of
        ]
        if found:
            return path[1 - min(found)[1] :]
    return path


def frames_of(functions: Sequence[Function]) -> tuple[Frame, ...]:
    """Return the functions of a stack; those of tprof and of Python's import only where it ends in them."""
    frames = [_frame(one) for one in functions]
    return *(one for one in frames[:-1] if one not in (OWN_FRAME, IMPORT)), *frames[-1:]


def _frame(one: Function) -> Frame:
    if one.is_own or one.file.startswith("<frozen importlib._bootstrap"):
        return OWN_FRAME if one.is_own else IMPORT  # tracebacks leave out Python's import too
    if one.is_cut:
        return DEEPER
    name, file = shown(one.name), shown(one.file)
    return (f"module {_short(file)}" if name == MODULE else name), file, one.line


def _short(file: str) -> str:
    """Return the last part of a path, of a package with its folder."""
    folder, _, name = file.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{name}" if name in ("__init__.py", "__main__.py") else name
