"""The page of a job: its hosts, their power on one clock, the tasks over all hosts, and a timeline of all threads."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.profile.answer import job_answer
from tprof.analysis.profile.flame import joined_flames

from .embed import INLINE, Parts, clean, write_parts
from .flame import flame_data
from .job_timeline import joined_longest, joined_timeline, lanes_of
from .profile_page import lead_of
from .report_sections import fragment, script

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import pandas as pd
    from tprof.analysis.emissions import Rates
    from tprof.analysis.profile import ClusterProfile
    from tprof.analysis.profile.flame import Flame

    from .job_timeline import PartLanes

SCRIPTS = ("answer", "lanes", "timeline", "explore", "flame", "task_table", "job")
TIME_BINS = 400
MOST_HOSTS_DRAWN = 256
MOST_WARNINGS = 200
MOST_LINKS = 200


def write_job_report(
    profile: ClusterProfile, path: str | os.PathLike[str], *, plotly: str = INLINE, rates: Rates | None = None
) -> None:
    """Write the report of a job to `path`, replacing a file that is there; the rest as in `write_report`.

    Raises
    ------
    UsageError
        `plotly` is no place.
    TprofError
        `path` is a directory or cannot be written.
    """
    body = (files(__package__) / "job.html").read_text("utf-8")
    for mark, section in (("@TIMELINE@", "timeline-section"), ("@FLAME@", "flame-section")):
        body = body.replace(mark, fragment(section))
    parts = Parts("tprof report", body, script(SCRIPTS), page_data(profile), lead=lead_of(profile, rates))
    write_parts(path, parts, plotly=plotly)


def page_data(profile: ClusterProfile) -> dict[str, Any]:
    """Return everything the page shows; NaN is None."""
    parts = lanes_of(profile)
    places: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        for name, found in part.places.items():
            places.setdefault(name, found)
    info = profile.info
    data = {
        "answer": job_answer(profile).as_plain(),
        "job": profile.trace.path.name,
        "info": {key: info[key] for key in ("quality", "engine", "model", "duration_s", "missing")},
        "warnings": info["warnings"][:MOST_WARNINGS],
        "more_warnings": max(len(info["warnings"]) - MOST_WARNINGS, 0),
        "measured_j": profile.measured_j,
        "hosts": _records(profile.hosts.reset_index()),
        "accounts": _records(profile.accounts.reset_index()),
        "summary": [row | {"places": places.get(str(row["task"]), [])} for row in _rows(profile.summary())],
        "by_host": _records(profile.by_host().reset_index()),
        "offsets": _offsets(profile),
        "power": power_data(profile),
        "flame": flame_data(_flame(profile, parts)),
        "timeline": joined_timeline(parts, float(info["duration_s"])),
        "longest": joined_longest(parts),
        "path": path_data(profile),
    }
    plain: dict[str, Any] = clean(data)
    return plain


def _flame(profile: ClusterProfile, lanes: Sequence[PartLanes]) -> Flame:
    """Return the tree of all hosts, which came with their lanes."""
    read = {one.host: one.flame for one in lanes}
    known = [(one, one.flame or read.get(one.part)) for one in profile.parts if one.figures is not None]
    return joined_flames([(part, one) for part, one in known if one is not None], {"host"})


def power_data(profile: ClusterProfile) -> dict[str, Any]:
    """Return the mean watts of each host in even slices of the job's time; None where it was not recorded."""
    edges_s = np.linspace(0.0, max(float(profile.info["duration_s"]), 1e-9), TIME_BINS + 1)
    rows = []
    for part in [one for one in profile.parts if one.power is not None][:MOST_HOSTS_DRAWN]:
        power = part.power
        assert power is not None  # noqa: S101 - the parts above have it
        rows.append({"host": part.host, "watts": _sliced(power, profile.late_s(part), edges_s)})
    return {"x": ((edges_s[1:] + edges_s[:-1]) / 2).tolist(), "hosts": rows}


def path_data(profile: ClusterProfile) -> dict[str, Any] | None:
    """Return the longest chain over all hosts: its figures, its sums and its first links; None without dependences."""
    if all(one.instances is None for one in profile.parts):
        return None  # the tasks of dask are too many
    path = profile.critical_path()
    return {
        "facts": path.facts(),
        "quality": path.quality,
        "host_changes": path.host_changes,
        "chain": _records(path.chain_columns.by("host", "task").head(MOST_LINKS).reset_index()),
        "links": _records(path.chain_columns.head(MOST_LINKS)),
        "links_left_out": max(len(path.chain_columns) - MOST_LINKS, 0),
    }


def _sliced(power: pd.DataFrame, late_s: float, edges_s: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """Return the mean power of slices; NaN outside of what was read and where a part of it is not known."""
    if power.empty:
        return [float("nan")] * (len(edges_s) - 1)
    begin_s, length_s, watts = (power[name].to_numpy(float) for name in ("time_s", "duration_s", "power_w"))
    times_s = np.append(begin_s, begin_s[-1] + length_s[-1]) + late_s
    energy_j = np.concatenate(([0.0], np.cumsum(np.nan_to_num(watts) * length_s)))
    unknown_s = np.concatenate(([0.0], np.cumsum(np.isnan(watts) * length_s)))
    known = (edges_s[1:] > times_s[0]) & (edges_s[:-1] < times_s[-1])
    covered_s = np.diff(np.clip(edges_s, times_s[0], times_s[-1]))
    means_w = np.diff(np.interp(edges_s, times_s, energy_j)) / np.where(covered_s > 0, covered_s, np.nan)
    lost = np.diff(np.interp(edges_s, times_s, unknown_s)) > 0
    return [float(value) for value in np.where(known & ~lost, means_w, np.nan)]


def _offsets(profile: ClusterProfile) -> list[str]:
    """Return how clocks of hosts were compared, a sentence each."""
    by: dict[str, list[str]] = {}
    for host in profile.trace.hosts:
        if host.path is not None:
            if host.offset is None:
                how = "no clock"
            elif host.offset.uncertainty_ns is None:
                how = f"its {host.offset.by}, whose error is not known"
            else:
                how = f"{host.offset.by}, within {host.offset.uncertainty_ns / 1e6:.3g} ms"
            by.setdefault(how, []).append(host.name)
    return [f"{', '.join(hosts[:8])}{' and more' if len(hosts) > 8 else ''}: {how}" for how, hosts in by.items()]


def _rows(summary: pd.DataFrame) -> list[dict[str, Any]]:
    return _records(summary.reset_index())


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]
