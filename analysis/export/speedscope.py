"""A profile for speedscope.app: one profile with the energy of each path of nested tasks, one with its time.

The file has the form that https://www.speedscope.app/file-format-schema.json describes. Speedscope has no unit of
energy, so the weights of the first profile have none, and are microjoules: it shows three digits after the point.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from .whole_file import written

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.flame_tree import Flame

    from .formats import Progress

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UJ = 1e6


def write_speedscope(
    profile: Profile,
    path: str | os.PathLike[str],
    *,
    by: Sequence[str] = (),
    progress: Progress | None = None,
) -> None:
    """Write energy and time of nested tasks, and of Python functions if stacks were sampled.

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
    data = speedscope_data(profile.flame(*by), profile.trace.path.name)
    with written(path) as file:
        file.write((json.dumps(data, separators=(",", ":")) + "\n").encode())


def speedscope_data(flame: Flame, name: str) -> dict[str, Any]:
    """Return the file's content."""
    numbers: dict[tuple[str, str], int] = {}
    stacks: list[list[int]] = [[]]
    columns = (flame.nodes[column].tolist() for column in ("parent", "name", "place"))
    for parent, frame, place in list(zip(*columns, strict=True))[1:]:
        stacks.append([*stacks[parent], numbers.setdefault((frame, place), len(numbers))])
    joules, seconds = flame.nodes["own_j"].tolist(), flame.nodes["own_s"].tolist()
    return {
        "$schema": SCHEMA,
        "exporter": "tprof",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(*one) for one in numbers]},
        "profiles": [
            _profile(f"energy in µJ ({flame.quality})", "none", stacks, [UJ * one for one in joules]),
            _profile("time", "seconds", stacks, seconds),
        ],
    }


def _frame(name: str, place: str) -> dict[str, Any]:
    file, _, line = place.rpartition(":")
    known = {"file": file, "line": int(line)} if file and line.isdecimal() else {"file": place} if place else {}
    return {"name": name, **known}


def _profile(name: str, unit: str, stacks: Sequence[list[int]], weights: Sequence[float]) -> dict[str, Any]:
    kept = [(stack, one) for stack, one in zip(stacks, weights, strict=True) if math.isfinite(one) and one > 0]
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": 0,
        "endValue": math.fsum(one for _, one in kept),
        "samples": [stack for stack, _ in kept],
        "weights": [one for _, one in kept],
    }
