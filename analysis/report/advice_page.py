"""The page of advice: points measured and predicted with intervals, the front of time and energy, the choice."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.names import shown
from tprof.analysis.operating_points.advice import uncertainty_text

from .embed import Parts, clean, embed
from .embed import write_page as write

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from tprof.analysis.operating_points.advice import Advice

STYLE = "#choices th{white-space:pre-line;vertical-align:bottom}#choices th,#choices td{padding:.4rem;font-size:.86rem}"


def write_page(advices: Sequence[Advice], path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, replacing a file that is there.

    Raises
    ------
    TprofError
        `path` is a directory or cannot be written.
    """
    write(path, render(advices))


def render(advices: Sequence[Advice]) -> str:
    """Return the page's HTML."""
    package = files(__package__)
    body, script = ((package / f"advice.{kind}").read_text("utf-8") for kind in ("html", "js"))
    return embed(Parts("tprof advise", body, script, page_data(advices), STYLE))


def page_data(advices: Sequence[Advice]) -> dict[str, Any]:
    """Return what the page shows, as plain values without NaN."""
    objective = advices[0].objective
    tasks = [
        advice.as_plain()
        | {"name": shown(advice.measured.task) if advice.measured.task else "whole program"}
        | {"over": "workers" if advice.candidates and not advice.candidates.varies_setting else "setting"}
        for advice in advices
    ]
    qualities = sorted({one for advice in advices for one in advice.measured.quality.split(", ")})
    data: dict[str, Any] = clean(
        {"by": objective.by, "max_slowdown": objective.max_slowdown, "max_power_w": objective.max_power_w}
        | {"qualities": qualities, "tasks": tasks, "uncertainty": uncertainty_text(advices)}
    )
    return data
