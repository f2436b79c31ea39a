"""The sections of a profile's page, in their order.

A section is added here: an id, a title, a function that takes the profile and returns what its scripts need, and the
scripts. Its HTML is `sections/<id>.html`. The function returns keys and values of the page's data (`drawing.data` in
the scripts), or None where the profile has nothing for it: the page then lacks the section, and its scripts must not
fail. A script draws within `drawing.section("<id>", draw)`: `draw` is called when the section is first open, and again
after the theme or the width of the page changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.profile.provenance import finding_texts

from . import profile_data as data
from .density import COLUMNS, instances
from .embed import Section
from .flame import flame_data
from .timeline import timeline_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.profile import Profile


@dataclass(frozen=True)
class ReportSection:
    """A section of a profile's page.

    Attributes
    ----------
    id : of the section; letters, digits and hyphens
    title : its heading
    data : returns keys and values of the page's data, None where the profile has nothing for the section
    scripts : names of JavaScript files of this folder, without their ending; a file named twice is taken once
    folded : whether a reader has to open it
    """

    id: str
    title: str
    data: Callable[[Profile], Mapping[str, Any] | None]
    scripts: tuple[str, ...] = ()
    folded: bool = False


def _unless_none(key: str, value: object) -> dict[str, Any] | None:
    return None if value is None else {key: value}


SECTIONS: tuple[ReportSection, ...] = (
    ReportSection("cost", "What the run cost", lambda profile: {"accounts": data.accounts(profile)}),
    ReportSection(
        "tasks-section",
        "Tasks",
        lambda profile: {
            "summary": data.summary(profile),
            "left_out_tasks": data.left_out(profile),
            "native": data.native(profile),
        },
        ("task_table", "task_filter"),
    ),
    ReportSection(
        "flame-section",
        "Where the energy went, by nested tasks",
        lambda profile: _unless_none("flame", flame_data(profile.flame())),
        ("flame",),
    ),
    ReportSection(
        "timeline-section",
        "Timeline",
        lambda profile: {"timeline": timeline_data(profile), "longest": data.longest(profile)},
        ("lanes", "timeline", "explore"),
    ),
    ReportSection(
        "power-section",
        "Power over the run's time",
        lambda profile: {"power": data.power(profile.power_steps(data.TIME_BINS))},
    ),
    ReportSection(
        "runtime",
        "Runtime",
        lambda profile: _unless_none("runtime", data.runtime_data(profile)),
        ("runtime_sections",),
    ),
    ReportSection(
        "operating",
        "Operating points",
        lambda profile: _unless_none("operating", data.operating_data(profile)),
        ("runtime_sections",),
    ),
    ReportSection(
        "found-section",
        "Findings",
        lambda profile: _unless_none("findings", finding_texts(profile.info) or None),
    ),
    ReportSection(
        "instances",
        "Energy and duration of each instance",
        lambda profile: {"instances": instances(partial(profile.instances.pieces, COLUMNS))},
        ("density",),
        folded=True,
    ),
    ReportSection(
        "sure",
        "What a single instance's figure is worth",
        lambda profile: {"expected": data.expected(profile)},
        folded=True,
    ),
)


def built(profile: Profile) -> tuple[list[Section], dict[str, Any], list[str]]:
    """Return the sections that the profile has, their data, and the names of their scripts."""
    sections: list[Section] = []
    values: dict[str, Any] = {}
    scripts: list[str] = []
    for one in SECTIONS:
        found = one.data(profile)
        if found is None:
            continue
        sections.append(Section(one.id, one.title, fragment(one.id), one.folded))
        values.update(found)
        scripts += one.scripts
    return sections, values, list(dict.fromkeys(scripts))


def fragment(name: str) -> str:
    """Return the HTML of a section."""
    return (files(__package__) / "sections" / f"{name}.html").read_text("utf-8")


def script(names: Sequence[str]) -> str:
    """Return scripts, one after the other."""
    return "\n".join((files(__package__) / f"{name}.js").read_text("utf-8") for name in names)
