"""Empty tasks that depend on each other: the order of Floyd and Warshall on the tiles of a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    Position = tuple[int, int]


def steps(side: int) -> Iterator[tuple[Position, Position, Position]]:
    """Yield the three tiles of each task: two it reads, one it updates.

    From the fourth step on earlier tasks updated each of the three, so that the graph has three edges a task and is as
    wide as the grid. Whoever updates in place also has to wait for a tile's readers: two more edges a task on average.
    """
    for step in range(side):
        others = [index for index in range(side) if index != step]
        for row in others:
            for column in others:
                yield (row, step), (step, column), (row, column)


def count(side: int) -> int:
    """Return how many tasks that makes."""
    return side * (side - 1) ** 2


def side_for(tasks: int) -> int:
    """Return the largest grid that makes no more tasks, at least the smallest that makes any."""
    side = 2
    while count(side + 1) <= tasks:
        side += 1
    return side
