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
from numpy.typing import NDArray
from tprof.analysis.names import shown
from tprof.analysis.profile.stack_shares import added

from .paths import REST, ROOT, TASK
from .tree import NONE_SAMPLED, Stacked, wilson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.stack_samples import StackTable
    from tprof.analysis.profile.stack_shares import StackRows

    from tprof.trace import TaskEntry
    from tprof.trace.stacks import Calls, Function

    from .paths import Paths
    from .tree import Sums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Frame = tuple[str, str, int]
"""Name, file and line of a function."""

FUNCTION = "function"
MODULE = "<module>"
"""What Python calls the code of a module outside functions: every file has one."""
OWN = ("(tprof)", "", 0)
IMPORT = ("(import)", "", 0)
DEEPER = ("(callers that were not recorded)", "", 0)


class NodeStacks:
    """Sampled stacks by node: sums over each node's distinct stacks, which are few."""

    def __init__(self) -> None:
        """Begin without any."""
        self._of_nodes = self._outside = _Sums(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((4, 0)))

    def add(self, rows: StackRows, node: Integers) -> None:
        """Add stacks, those in instances to the nodes of these."""
        inside = rows.instance > 0
        self._of_nodes = self._of_nodes.plus(node[inside], rows.stack[inside], rows.sums[:, inside])
        self._outside = self._outside.plus(rows.thread[~inside], rows.stack[~inside], rows.sums[:, ~inside])

    def below(self, outside: Mapping[int, int]) -> dict[tuple[int, int], list[float]]:
        """Return the sums of each node and stack; `outside` are the nodes of threads outside tasks, by ordinal."""
        node = np.array([outside[ordinal] for ordinal in self._outside.owner.tolist()], np.int64)
        found = self._of_nodes.plus(node, self._outside.stack, self._outside.sums)
        keys = zip(found.owner.tolist(), found.stack.tolist(), strict=True)
        return dict(zip(keys, found.sums.T.tolist(), strict=True))


class _Sums(NamedTuple):
    """(4, n) sums of stacks, by node or thread and stack."""

    owner: Integers
    stack: Integers
    sums: Floats

    def plus(self, owner: Integers, stack: Integers, sums: Floats) -> _Sums:
        keys = np.concatenate((self.owner, owner)), np.concatenate((self.stack, stack))
        (owner, stack), sums = added(keys, np.concatenate((self.sums, sums), axis=1))
        return _Sums(owner, stack, sums)


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


def add_functions(
    paths: Paths,
    sums: Sums,
    stacks: Mapping[tuple[int, int], Sequence[float]],
    table: StackTable,
    entries: Sequence[TaskEntry],
) -> tuple[Sums, Stacked]:
    """Share each node's own figures among the functions that were sampled in it, and add their nodes.

    Parameters
    ----------
    paths : the tree
    sums : of its nodes
    stacks : (4,) sums of each node and stack, as of `StackRows`
    table : of the stacks
    entries : the tasks of the trace

    Returns
    -------
    The sums with the functions' nodes, and what is known of their samples.
    """
    heaps = _heaps(paths, stacks, table, TaskPlaces(entries))
    bare = [node for node in range(len(paths)) if node not in heaps and (sums.own_j[node] > 0 or sums.own_s[node] > 0)]
    below: dict[int, list[tuple[int, list[float]]]] = {}
    for node, heap in heaps.items():
        below[node] = []
        for functions, values in heap.paths.items():
            at = node
            for name, file, line in functions:
                at = paths.folded_child(at, name, FUNCTION, f"{file}:{line}" if file else "")
            below[node].append((at, values))
    unsampled = {node: paths.child(node, NONE_SAMPLED, REST) for node in bare}
    return _shared(paths, sums, heaps, below, unsampled)


def _heaps(
    paths: Paths, stacks: Mapping[tuple[int, int], Sequence[float]], table: StackTable, places: TaskPlaces
) -> dict[int, _Heap]:
    heaps: dict[int, _Heap] = defaultdict(_Heap)
    frames: dict[int, tuple[Frame, ...]] = {}
    names: dict[int, list[str]] = {}
    for (node, stack), sums in stacks.items():
        if stack not in frames:
            frames[stack] = frames_of(*table.find(stack))
        if node not in names:
            names[node] = _names_of_tasks(paths, node)
        path = places.below(names[node], frames[stack]) if names[node] else frames[stack]
        heaps[node].add(path, sums)
    return dict(heaps)


def _names_of_tasks(paths: Paths, node: int) -> list[str]:
    names = []
    while node != ROOT:
        if paths.kinds[node] == TASK:
            names.append(paths.names[node])
        node = paths.parents[node]
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


def _shared(
    paths: Paths,
    sums: Sums,
    heaps: dict[int, _Heap],
    below: dict[int, list[tuple[int, list[float]]]],
    unsampled: dict[int, int],
) -> tuple[Sums, Stacked]:
    whole = sums.grown(len(paths))
    split = sums.grown(len(paths))
    stacked = Stacked.none(len(paths))
    for node, child in unsampled.items():
        for values in (split.own_j, split.own_low_j, split.own_high_j, split.own_s):
            values[child], values[node] = values[node], 0.0
        stacked.low_j[child], stacked.high_j[child] = split.own_low_j[child], split.own_high_j[child]
    for node, heap in heaps.items():
        own = {name: getattr(whole, name)[node] for name in ("own_j", "own_low_j", "own_high_j", "own_s")}
        for name in own:
            getattr(split, name)[node] = 0.0
        inner: dict[int, float] = defaultdict(float)
        for at, weights in below[node]:
            share_j, share_s = heap.shares(weights)
            low, high = wilson(share_j, heap.effective)
            split.own_j[at] += own["own_j"] * share_j
            split.own_s[at] += own["own_s"] * share_s
            split.own_low_j[at] += own["own_low_j"] * low
            split.own_high_j[at] += own["own_high_j"] * high
            stacked.samples[at] = np.nan_to_num(stacked.samples[at]) + weights[2]
            up = at
            while up != node:
                inner[up] += share_j
                up = paths.parents[up]
        for at, share in inner.items():
            low, high = wilson(share, heap.effective)
            stacked.samples[at] = np.nan_to_num(stacked.samples[at])
            stacked.low_j[at], stacked.high_j[at] = own["own_low_j"] * low, own["own_high_j"] * high
    stacked.total = sum(heap.count for heap in heaps.values())
    squares = sum(heap.squares for heap in heaps.values())
    stacked.effective = sum(heap.joules for heap in heaps.values()) ** 2 / squares if squares > 0 else 0.0
    return split, stacked
