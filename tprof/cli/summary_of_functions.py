"""The functions that take most energy themselves, by sampled stacks, where the tasks do not say where it went."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from tprof.trace.plain_values import counted

from .render import Column, clean, filled, interval, lines_of, percent, quantity

if TYPE_CHECKING:
    import pandas as pd

    from tprof.analysis import Profile

MOST = 8
_LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|python3\.\d+t?)/")


def function_lines(profile: Profile, width: int | None) -> list[str]:
    """Return the table of the functions with most joules of their own; no lines where the tasks say enough."""
    table = _functions(profile)
    if table is None:
        return []
    rows = table.to_dict("records")
    names = [_named(str(row["name"]), str(row["place"]), str(row["kind"])) for row in rows]
    energies = tuple(_energy(*(float(row[name]) for name in ("own_j", "own_low_j", "own_high_j"))) for row in rows)
    columns = [
        Column("own energy (95 %)", energies, 3),
        Column("share", tuple(percent(float(row["share"])) for row in rows), 2),
        Column("stacks", tuple(f"{int(row['samples']):,}" for row in rows), 1),
    ]
    heading = (
        f"Functions by energy of their own, without what they call ({profile.info['quality']}; shares come from "
        f"{profile.flame().sampled:,} sampled stacks)"
    )
    return [filled(heading, width), *lines_of("function", names, columns, width)]


def functions_as_plain(profile: Profile) -> dict[str, Any]:
    """Return the same rows as plain values for JSON, with the number of stacks; nothing where there are none."""
    table = _functions(profile)
    if table is None:
        return {}
    return {"functions": table.to_dict("records"), "stacks": profile.flame().sampled}


def _functions(profile: Profile) -> pd.DataFrame | None:
    """Return the functions with most joules, if stacks were sampled and no tasks but one nearly whole say where."""
    from tprof.analysis.profile.remedies import ALL_IN_ONE

    summary = profile.summary()
    if not profile.has_stacks or summary.empty:
        return None
    if not (profile.trace.names_no_task or summary["share"].iloc[0] >= ALL_IN_ONE):
        return None
    table = profile.flame().functions()
    return None if table.empty else _shortened(table)


def _shortened(table: pd.DataFrame) -> pd.DataFrame:
    """Return the first rows, and one of all others, so that their joules are those of the tasks."""
    import pandas as pd

    further = table.iloc[MOST:]
    if len(further) < 2:
        return table
    sums = {name: further[name].sum() for name in ("own_j", "share", "samples")}
    rest = {"name": f"({counted(len(further), 'further function')})", "place": "", "kind": "rest", **sums}
    return pd.concat([table.head(MOST), pd.DataFrame([rest])], ignore_index=True)


def _energy(own_j: float, low_j: float, high_j: float) -> str:
    return interval(own_j, low_j, high_j, "J") if math.isfinite(low_j) else quantity(own_j, "J")


def _named(name: str, place: str, kind: str) -> str:
    """Return a function with its place, a library's without the folder where it is installed."""
    if kind == "task":
        return clean(f"{name}, its own function")
    return clean(f"{name} ({_LIBRARY.sub('', place)})" if place else name)
