"""The page of a recording that kept sums: its tasks, and power and energy over time. It has no instances."""

from __future__ import annotations

import html
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.profile.provenance import uncertainty_text
from tprof.analysis.quantities import mean_energy

from .embed import INLINE, Parts, Section, clean, write_parts
from .profile_data import SUMMARIZED, TIME_BINS, power

if TYPE_CHECKING:
    import os

    from tprof.analysis.emissions import Rates
    from tprof.analysis.profile import SumsProfile

DRAWN_TASKS = 7
"""Tasks with a line of their own over time; the others are one."""
COLUMNS = ("task", "instances", "energy_j", "share", "duration_mean_s", "power_w", "quality")
SECTIONS = (
    Section("tasks-section", "Tasks", ""),
    Section("over-time", "Power of the tasks over time", '<div id="tasks-over-time" class="plot"></div>'),
    Section("power-section", "Power of the domains over time", '<div id="power" class="plot"></div>'),
)


def write_sums_report(
    profile: SumsProfile, path: str | os.PathLike[str], *, plotly: str = INLINE, rates: Rates | None = None
) -> None:
    """Write the page to `path`, replacing a file that is there; the parameters are those of `write_report`.

    Raises
    ------
    UsageError
        `plotly` is no place.
    TprofError
        `path` is a directory or cannot be written.
    """
    script = (files(__package__) / "sums.js").read_text("utf-8")
    parts = Parts("tprof report", "", script, clean(page_data(profile)), sections=SECTIONS, lead=_lead(profile, rates))
    write_parts(path, parts, plotly=plotly)


def page_data(profile: SumsProfile) -> dict[str, Any]:
    """Return what the page shows, of bounded size for a recording of any length."""
    rows = profile.summary().head(SUMMARIZED).reset_index()[list(COLUMNS)]
    means = map(mean_energy, profile.summary().head(SUMMARIZED).to_dict("records"))
    tasks = [{**row, "mean": mean} for row, mean in zip(rows.to_dict("records"), means, strict=True)]
    return {
        "info": {
            name: profile.info[name] for name in ("quality", "sensor", "model", "model_why", "duration_s", "warnings")
        },
        "tasks": tasks,
        "power": power(profile.power.drop(columns="quality")),
        "over_time": _over_time(profile),
    }


def _over_time(profile: SumsProfile) -> dict[str, Any]:
    """Return the mean watts of the tasks of most energy, and of the others, in at most `TIME_BINS` slices."""
    spans = profile.spans
    if spans.empty:
        return {"x": [], "watts": {}}
    first_s, last_s = float(spans["time_s"].min()), float(spans["time_s"].max())
    step_s = float(spans["span_s"].iloc[0]) * max(np.ceil((last_s - first_s) / spans["span_s"].iloc[0] / TIME_BINS), 1)
    most = list(profile.summary().head(DRAWN_TASKS).index)
    task = spans["task"].astype(object).where(spans["task"].isin(most), "others")
    place = ((spans["time_s"] - first_s) / step_s + 1e-9).astype(int)
    joules = spans["energy_j"].groupby([place, task]).sum().unstack(fill_value=0)
    joules = joules.reindex(range(int(place.max()) + 1), fill_value=0.0)
    edges_s = first_s + step_s * np.arange(len(joules) + 1)
    if edges_s[-2] < profile.info["duration_s"] < edges_s[-1]:
        edges_s[-1] = profile.info["duration_s"]  # the last span is as long as the recording
    drawn = [name for name in [*most, "others"] if name in joules and (name in most or joules[name].any())]
    watts = {str(name): (joules[name] / np.diff(edges_s)).tolist() for name in drawn}
    return {"x": edges_s.tolist(), "watts": watts}


def _lead(profile: SumsProfile, rates: Rates | None) -> str:
    info = profile.info
    by = "task, thread" if profile.keeps_threads else "task, process"
    kept = f"Only sums were kept, by {by} and {info['span_s']:g} s: no instances, no timeline, no flame graph."
    texts = [
        f"{profile.measured_j:.4g} J ({info['quality']}) in {info['duration_s']:.4g} s. {kept}",
        f"{info['sensor']}; {info['model_why']}.",
        *filter(None, [uncertainty_text(info)]),
        *(f"Warning: {text}" for text in info["warnings"]),
        *([] if rates is None else [f"{profile.footprint(rates).text()}."]),
    ]
    return "".join(f'<p class="quiet">{html.escape(text)}</p>\n' for text in texts)
