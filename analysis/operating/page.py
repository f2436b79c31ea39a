"""The page of advice: points measured and predicted with intervals, the front of time and energy, the choice."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.names import shown
from tprof.analysis.report.embed import Parts, clean, embed
from tprof.analysis.report.embed import write_page as write

from .advice import doubt_text

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from .advice import Advice


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
    body, script, style = ((package / f"advice.{kind}").read_text("utf-8") for kind in ("html", "js", "css"))
    return embed(Parts("tprof advise", body, script, page_data(advices), style))


def page_data(advices: Sequence[Advice]) -> dict[str, Any]:
    """Return what the page shows, as plain values without NaN."""
    wish = advices[0].wish
    tasks = [
        advice.as_plain()
        | {"name": shown(advice.measured.task) if advice.measured.task else "whole program"}
        | {"over": "workers" if advice.candidates and not advice.candidates.varies_setting else "setting"}
        for advice in advices
    ]
    qualities = sorted({one for advice in advices for one in advice.measured.quality.split(", ")})
    data: dict[str, Any] = clean(
        {"by": wish.by, "max_slowdown": wish.max_slowdown, "max_power_w": wish.max_power_w}
        | {"qualities": qualities, "tasks": tasks, "doubt": doubt_text(advices)}
    )
    return data
