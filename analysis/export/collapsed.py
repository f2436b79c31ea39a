"""Collapsed stacks: a line for each path of nested tasks, with its own energy, as flamegraph.pl and its kin read them.

A line is the names of the path with `;` between them, a space, and whole microjoules. What a path took less than half a
microjoule of itself has no line, so sums are right to half a microjoule a path.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .tables import safe_cell
from .whole_file import written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from tprof.analysis.profile import ClusterProfile, Profile
    from tprof.analysis.profile.flame import Flame

    from .formats import Progress

UJ = 1e6


def write_collapsed(
    profile: Profile | ClusterProfile,
    path: str | os.PathLike[str],
    *,
    by: Sequence[str] = (),
    progress: Progress | None = None,
) -> None:
    """Write the own energy of each path of nested tasks, and of Python functions if stacks were sampled.

    Parameters
    ----------
    profile : of a session or a job
    path : of the file
    by : top levels above the tasks, as for `Profile.flame`
    progress : not called: one file is written

    Raises
    ------
    TprofError
        The file cannot be written.
    """
    del progress
    text = "".join(f"{line}\n" for line in collapsed_lines(profile.flame(*by)))
    with written(path) as file:
        file.write(text.encode())


def collapsed_lines(flame: Flame) -> Iterator[str]:
    """Yield the lines."""
    own_j = flame.nodes["own_j"].tolist()
    for row, names in flame.paths():
        value_uj = own_j[row] * UJ
        if math.isfinite(value_uj) and round(value_uj) > 0:
            yield f"{';'.join(map(_plain, names))} {round(value_uj)}"


def _plain(name: str) -> str:
    """Return a name without what ends a name or a line in this format."""
    return safe_cell(name).removeprefix("'").replace(";", ":").replace("\n", " ") or "-"
