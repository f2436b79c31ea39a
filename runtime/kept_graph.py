"""The graph of a program's tasks, as DOT or for networkx."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import networkx as nx


@dataclass(frozen=True)
class Graph:
    """The spawned tasks and their dependences.

    An edge means that a task had to wait for another. A task that had already ended is not waited for and has no edge.

    Attributes
    ----------
    names : each task's name by its number, in the order of spawning.
    edges : pairs of numbers; the second task waited for the first.
    parents : the number of each nested task's parent, by the task's number.
    """

    names: dict[int, str]
    edges: tuple[tuple[int, int], ...]
    parents: dict[int, int]

    @classmethod
    def of(cls, nodes: Iterable[tuple[int, str, int, tuple[int, ...]]]) -> Graph:
        """Make a graph from (number, name, parent's number or 0, predecessors' numbers)."""
        names: dict[int, str] = {}
        parents: dict[int, int] = {}
        edges: list[tuple[int, int]] = []
        for number, name, parent, predecessors in sorted(nodes):
            names[number] = name
            edges.extend((predecessor, number) for predecessor in predecessors)
            if parent:
                parents[number] = parent
        return cls(names, tuple(edges), parents)

    def to_dot(self, path: str | os.PathLike[str]) -> None:
        """Write it for Graphviz: solid arrows to tasks that waited, dotted ones to spawned tasks."""
        lines = ["digraph tasks {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
        for number, name in self.names.items():
            label = name.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'  {number} [label="{label}\\n#{number}"];')
        lines += [f"  {before} -> {after};" for before, after in self.edges]
        lines += [f"  {parent} -> {child} [style=dotted];" for child, parent in self.parents.items()]
        Path(path).write_text("\n".join([*lines, "}", ""]), encoding="utf-8")

    def to_networkx(self) -> nx.DiGraph[Any]:
        """Return it as a `networkx.DiGraph`; nodes have ``name``, edges ``kind`` (``"data"`` or ``"spawn"``).

        Raises
        ------
        UsageError
            If networkx is not installed.
        """
        try:
            import networkx as nx  # noqa: PLC0415 - few need it
        except ImportError:
            raise UsageError(
                "to_networkx() needs networkx, which is not installed: install it, or use to_dot()"
            ) from None
        graph: nx.DiGraph[Any] = nx.DiGraph()
        graph.add_nodes_from((number, {"name": name}) for number, name in self.names.items())
        graph.add_edges_from(((parent, child) for child, parent in self.parents.items()), kind="spawn")
        graph.add_edges_from(self.edges, kind="data")
        return graph
