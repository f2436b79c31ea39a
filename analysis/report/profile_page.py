"""The page of one profile, which opens with the answer."""

from __future__ import annotations

import html
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.profile.answer import answer_of
from tprof.analysis.profile.provenance import lead_in_text, source_texts, uncertainty_text, warning_texts

from .embed import INLINE, Parts, clean, embed, write_parts
from .report_sections import built, script

if TYPE_CHECKING:
    import os

    from tprof.analysis.emissions import Rates
    from tprof.analysis.profile import Profile

MOST_WARNINGS = 200


def write_report(
    profile: Profile, path: str | os.PathLike[str], *, plotly: str = INLINE, rates: Rates | None = None
) -> None:
    """Write the report of `profile` to `path`, replacing a file that is there; `plotly` as in `embed.write_parts`.

    With `rates` it says what the joules emitted and cost.

    Raises
    ------
    UsageError
        `plotly` is no place.
    TprofError
        `path` is a directory or cannot be written.
    """
    write_parts(path, parts_of(profile, rates), plotly=plotly)


def render(profile: Profile) -> str:
    """Return the page's HTML."""
    return embed(parts_of(profile))


def parts_of(profile: Profile, rates: Rates | None = None) -> Parts:
    """Return the parts of the page."""
    sections, values, scripts = built(profile)
    return Parts(
        "tprof report",
        "",
        script(["answer", *scripts, "report"]),
        clean(general(profile) | values),
        sections=sections,
        lead=lead_of(profile, rates),
    )


def lead_of(profile: Profile, rates: Rates | None) -> str:
    """Return what stands above the contents: the answer and, if rates are given, carbon and cost."""
    lead = (files(__package__) / "answer.html").read_text("utf-8")
    if rates is None:
        return lead
    return f'{lead}<p id="footprint" class="quiet">{html.escape(profile.footprint(rates).text())}.</p>\n'


def page_data(profile: Profile) -> dict[str, Any]:
    """Return everything the page shows; NaN is None."""
    plain: dict[str, Any] = parts_of(profile).data
    return plain


def general(profile: Profile) -> dict[str, Any]:
    """Return what the page shows above its sections and about the whole recording."""
    info = profile.info
    answer = answer_of(profile)
    keys = ("quality", "model", "complete", "duration_s", "dropped", "lost_threads", "missing")
    warnings = answer.unsaid(warning_texts(info))
    more = len(warnings) - MOST_WARNINGS
    found = {
        "answer": answer.as_plain(),
        "info": {key: info.get(key) for key in keys} | {"warnings": warnings[:MOST_WARNINGS]},
        "more_warnings": max(more, 0),
        "sources": source_texts(profile),
        "measured_j": profile.measured_by_quality,
        "instances_count": profile.sums.rows,
        "lead_in": lead_in_text(info),
        "uncertainty": uncertainty_text(info),
        "left_out": list(info.get("left_out", [])),
        "argv": _command([str(word) for word in info.get("argv", [])]),
    }
    return found if profile.job is None else found | {"job": profile.trace.path.name}


def _command(argv: list[str]) -> list[str]:
    """Return the command without its folder."""
    return [argv[0].rpartition("/")[2], *argv[1:]] if argv else []
