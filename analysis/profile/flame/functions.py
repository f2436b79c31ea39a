"""Python functions below the tasks of a tree, from sampled stacks.

A node's own joules are shared among the stacks that were sampled in it, by their weights, so they are conserved. How
sure a share is follows from the number of stacks (Wilson's interval of a proportion, with the effective number of
weighed samples) and from the interval of the node's joules; both are taken at their ends.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tprof.analysis.names import shown
from tprof.analysis.profile.stack_rows import NO_STACK, POOL, StackRows

from .paths import REST, ROOT, TASK
from .tree import NONE_SAMPLED, Stacked, wilson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.stack_samples import StackTable

    from tprof.trace import TaskEntry
    from tprof.trace.stacks import Calls, Function

    from .paths import Paths
    from .tree import Sums

Frame = tuple[str, str, int]
"""Name, file and line of a function."""
StackSums = dict[tuple[int, int], list[float]]
"""(4,) sums of each node and stack, as of `StackRows`."""

FUNCTION = "function"
MODULE = "<module>"
"""What Python calls the code of a module outside functions: every file has one."""
_FIGURES = ("own_j", "own_low_j", "own_high_j", "own_s")
OWN = ("(tprof)", "", 0)
IMPORT = ("(import)", "", 0)
DEEPER = ("(callers that were not recorded)", "", 0)


@dataclass
class _Heap:
    """The sampled stacks of one node: by their functions, the sums of their weights."""

    joules: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    count: int = 0
    paths: dict[tuple[Frame, ...], list[float]] = field(default_factory=dict)

    def add(self, path: tuple[Frame, ...], sums: Sequence[float]) -> None:
        """Add the same stacks."""
        joules, seconds, squares, count = sums
        self.joules += joules
        self.seconds += seconds
        self.squares += squares
        self.count += int(count)
        found = self.paths.setdefault(path, [0.0, 0.0, 0.0])
        for place, value in enumerate((joules, seconds, count)):
            found[place] += value

    def shares(self, sums: Sequence[float]) -> tuple[float, float]:
        """Return the shares of joules and of seconds; by the other figure where one is not known."""
        joules, seconds, _ = sums
        of_s = seconds / self.seconds if self.seconds > 0 else 0.0
        return (joules / self.joules if self.joules > 0 else of_s), of_s

    def scaled(self, factor: float) -> _Heap:
        """Return it with all joules times a factor."""
        paths = {path: [sums[0] * factor, *sums[1:]] for path, sums in self.paths.items()}
        return _Heap(self.joules * factor, self.seconds, self.squares * factor**2, self.count, paths)

    @property
    def effective(self) -> float:
        """How many samples of equal weight would be as sure."""
        return self.joules**2 / self.squares if self.squares > 0 else float(self.count)


class TaskPlaces:
    """Where the functions of tasks begin, to leave out of a stack what called the task."""

    def __init__(self, entries: Sequence[TaskEntry]) -> None:
        """Collect the places by name; tasks of whole threads have none."""
        self._by_name: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for entry in entries:
            if entry.file is not None and entry.line is not None and not entry.is_default:
                self._by_name[shown(entry.name)].append((entry.file, entry.line))

    def below(self, names: Sequence[str], path: Sequence[Frame]) -> tuple[Frame, ...]:
        """Return the functions that the innermost of nested tasks called, as far as its own is in the stack."""
        for name in reversed(names):
            at = self._found(name, path)
            if at is not None:
                return tuple(path[at + 1 :])
        return tuple(path)

    def _found(self, name: str, path: Sequence[Frame]) -> int | None:
        places = self._by_name.get(name, [])
        exact = [at for at, (_, file, line) in enumerate(path) if (file, line) in places]
        if exact:
            return exact[-1]
        # A region lies in a function that begins above its line.
        around = [
            (line, at)
            for at, (_, file, line) in enumerate(path)
            if any(file == place and line <= of for place, of in places)
        ]
        return max(around)[1] if around else None


class _Group(NamedTuple):
    """The stacks of a node's own threads, or of those without samples that work for it.

    Attributes
    ----------
    node, heap : the node, and its stacks; None: none was sampled
    part_j, part_s : of the node's own joules and seconds
    """

    node: int
    heap: _Heap | None
    part_j: float
    part_s: float


def add_functions(
    paths: Paths,
    sums: Sums,
    stacks: StackRows,
    outside: Mapping[int, int],
    known: tuple[StackTable, Sequence[TaskEntry]],
) -> tuple[Sums, Stacked]:
    """Share each node's own figures among the functions that were sampled in it, and add their nodes.

    Parameters
    ----------
    paths : the tree
    sums : of its nodes
    stacks : by node, in the place of the instance; `ROOT`: of threads outside tasks
    outside : the nodes of threads outside tasks, by ordinal
    known : the stacks' functions, and the tasks of the trace

    Returns
    -------
    The sums with the functions' nodes, and what is known of their samples.
    """
    table, places = known[0], TaskPlaces(known[1])
    owner, is_outside = stacks.instance.copy(), stacks.instance == ROOT
    owner[is_outside] = [outside[ordinal] for ordinal in stacks.thread[is_outside].tolist()]
    stacks = StackRows.of(owner, *stacks[1:])
    of_pool, has_stack = stacks.thread == POOL, stacks.stack != NO_STACK
    own, pools = (_by_key(stacks.taken(has_stack & one)) for one in (~of_pool, of_pool))
    pool_j = {node: values[0] for (node, _), values in _by_key(stacks.taken(~has_stack)).items()}
    heaps, of_pools = _heaps(paths, own, table, places), _heaps(paths, pools, table, None)
    groups: list[_Group] = []
    for node in range(len(paths)):
        own_j = float(sums.own_j[node])
        part = min(pool_j.get(node, 0.0) / own_j, 1.0) if own_j > 0 else 0.0
        if node in heaps or own_j * (1 - part) > 0 or sums.own_s[node] > 0:
            groups.append(_Group(node, heaps.get(node), 1 - part, 1.0))
        if part > 0:
            heap = of_pools.get(node, _Heap())
            scaled = heap.scaled(pool_j[node] / heap.joules) if heap.joules > 0 else None
            groups.append(_Group(node, scaled, part, 0.0))
    return _shared(paths, sums, groups)


def _by_key(rows: StackRows) -> StackSums:
    keys = zip(rows.instance.tolist(), rows.stack.tolist(), strict=True)
    return dict(zip(keys, rows.sums.T.tolist(), strict=True))


def _heaps(paths: Paths, stacks: StackSums, table: StackTable, places: TaskPlaces | None) -> dict[int, _Heap]:
    """Return the stacks of each node, without what called its task if the places of tasks are given."""
    heaps: dict[int, _Heap] = defaultdict(_Heap)
    frames: dict[int, tuple[Frame, ...]] = {}
    names: dict[int, list[str]] = {}
    for (node, stack), sums in stacks.items():
        if stack not in frames:
            frames[stack] = frames_of(*table.find(stack))
        path = frames[stack]
        if places is not None:
            if node not in names:
                names[node] = _names_of_tasks(paths, node)
            path = places.below(names[node], path) if names[node] else path
        heaps[node].add(path, sums)
    return dict(heaps)


def _names_of_tasks(paths: Paths, node: int) -> list[str]:
    names = []
    while node != ROOT:
        if paths.nodes[node].kind == TASK:
            names.append(paths.nodes[node].name)
        node = paths.nodes[node].parent
    return names[::-1]


def frames_of(calls: Calls, stack: int) -> tuple[Frame, ...]:
    """Return the functions of a stack; those of tprof and of Python's import only where it ends in them."""
    functions = [calls.functions[index] for index in calls.path(stack)]
    found = [_frame(one) for one in functions if not (one.is_own or _imports(one))]
    if functions and (functions[-1].is_own or _imports(functions[-1])):
        found.append(OWN if functions[-1].is_own else IMPORT)
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


def _shared(paths: Paths, sums: Sums, groups: Sequence[_Group]) -> tuple[Sums, Stacked]:
    below = [_below(paths, one) for one in groups]
    whole, split, stacked = sums.grown(len(paths)), sums.grown(len(paths)), Stacked.none(len(paths))
    for name in _FIGURES:
        getattr(split, name)[[one.node for one in groups]] = 0.0
    for group, functions in zip(groups, below, strict=True):
        own = {name: getattr(whole, name)[group.node] * group.part_j for name in _FIGURES}
        own["own_s"] = whole.own_s[group.node] * group.part_s
        _share(group, functions, own, (split, stacked), paths)
    heaps = [one.heap for one in groups if one.heap is not None]
    stacked.total = sum(heap.count for heap in heaps)
    squares = sum(heap.squares for heap in heaps)
    stacked.effective = sum(heap.joules for heap in heaps) ** 2 / squares if squares > 0 else 0.0
    return split, stacked


def _below(paths: Paths, group: _Group) -> list[tuple[int, list[float]]]:
    """Return the nodes of a group's functions, with the sums of their stacks."""
    if group.heap is None:
        return [(paths.child(group.node, NONE_SAMPLED, REST), [])]
    found = []
    for functions, values in group.heap.paths.items():
        at = group.node
        for name, file, line in functions:
            at = paths.folded_child(at, name, FUNCTION, f"{file}:{line}" if file else "")
        found.append((at, values))
    return found


def _share(
    group: _Group,
    functions: Sequence[tuple[int, list[float]]],
    own: Mapping[str, float],
    found: tuple[Sums, Stacked],
    paths: Paths,
) -> None:
    """Add a group's own figures to the nodes of its functions, and bounds to those around them."""
    split, stacked = found
    inner: dict[int, float] = defaultdict(float)
    effective = 0.0 if group.heap is None else group.heap.effective
    for at, weights in functions:
        share_j, share_s = (1.0, 1.0) if group.heap is None else group.heap.shares(weights)
        low, high = (1.0, 1.0) if group.heap is None else wilson(share_j, effective)
        for name, share in zip(_FIGURES, (share_j, low, high, share_s), strict=True):
            getattr(split, name)[at] += own[name] * share
        if group.heap is not None:
            stacked.samples[at] += weights[2]
        up = at
        while up != group.node:
            inner[up] += share_j
            up = paths.nodes[up].parent
    for at, share in inner.items():
        low, high = (1.0, 1.0) if group.heap is None else wilson(share, effective)
        stacked.low_j[at] = np.nan_to_num(stacked.low_j[at]) + own["own_low_j"] * low
        stacked.high_j[at] = np.nan_to_num(stacked.high_j[at]) + own["own_high_j"] * high
