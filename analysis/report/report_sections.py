"""The sections of a profile's page, in their order.

A section is added here: an id, a title, a function that takes the page and returns what its scripts need, and the
scripts. Its HTML is `sections/<id>.html`. The function returns keys and values of the page's data (`drawing.data` in
the scripts), or None where the profile has nothing for it: the page then lacks the section, and its scripts must not
fail. A script draws within `drawing.section("<id>", draw)`: `draw` is called when the section is first open, and again
after the theme or the width of the page changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.profile.provenance import finding_texts

from . import host_data as hosts
from . import profile_data as data
from .density import instances
from .embed import Section
from .flame import flame_data
from .job_timeline import joined_timeline, lanes_of
from .timeline import timeline_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.analysis.profile import Profile

    from .job_timeline import PartLanes


@dataclass(frozen=True)
class Page:
    """A profile, and what its page shows of it in several sections or of one host in another way than of a job."""

    profile: Profile

    @cached_property
    def lanes(self) -> list[PartLanes]:
        """The lanes of the hosts of a job, for which its parts are read again."""
        return [] if self.profile.job is None else lanes_of(self.profile.job)

    @property
    def places(self) -> dict[str, list[dict[str, Any]]]:
        """Where tasks are in the source."""
        if self.profile.has_samples:
            return data.places_of(self.profile.trace.tasks)
        found: dict[str, list[dict[str, Any]]] = {}
        for part in self.lanes:
            found = part.places | found
        return found

    @property
    def flame(self) -> dict[str, Any] | None:
        """The tree of nested tasks; None without instances."""
        if self.profile.job is not None:
            return flame_data(hosts.flame_of(self.profile.job, self.lanes))
        return flame_data(self.profile.flame()) if self.profile.has_instances else None

    @property
    def timeline(self) -> dict[str, Any] | None:
        """The lanes of all threads, and the longest instances; None without instances."""
        if self.profile.job is not None:
            timeline = joined_timeline(self.lanes, float(self.profile.info["duration_s"]))
            rows = [one.longest for one in self.lanes]
        elif self.profile.has_instances:
            timeline, rows = timeline_data(self.profile), [data.longest(self.profile)]
        else:
            return None
        return {"timeline": timeline, "longest": data.longest_by_task(timeline["names"], rows)}

    @property
    def power(self) -> dict[str, Any]:
        """Watts over time, of each host of a job or of each domain."""
        if self.profile.job is not None:
            return hosts.power(self.profile.job, float(self.profile.info["duration_s"]))
        return data.power(self.profile.power_steps(data.TIME_BINS))

    @property
    def instances(self) -> dict[str, Any] | None:
        """Energy and duration of the instances of one host; None without them."""
        return instances(self.profile.host_instances.kept[0].tasks) if self.profile.has_samples else None


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
    data: Callable[[Page], Mapping[str, Any] | None]
    scripts: tuple[str, ...] = ()
    folded: bool = False


def _unless_none(key: str, value: object) -> dict[str, Any] | None:
    return None if value is None else {key: value}


SECTIONS: tuple[ReportSection, ...] = (
    ReportSection("cost", "What the run cost", lambda page: {"accounts": data.accounts(page.profile)}),
    ReportSection("hosts-section", "What each host cost", lambda page: hosts.hosts(page.profile), ("hosts",)),
    ReportSection(
        "tasks-section",
        "Tasks",
        lambda page: {
            "summary": data.summary(page.profile, page.places),
            "left_out_tasks": data.left_out(page.profile),
            "native": data.native(page.profile),
        },
        ("task_table", "task_filter"),
    ),
    ReportSection(
        "by-host-section", "Tasks by host", lambda page: None if page.profile.job is None else {}, ("hosts",)
    ),
    ReportSection(
        "flame-section",
        "Where the energy went, by nested tasks",
        lambda page: _unless_none("flame", page.flame),
        ("flame",),
    ),
    ReportSection("timeline-section", "Timeline", lambda page: page.timeline, ("lanes", "timeline", "explore")),
    ReportSection("power-section", "Power over the run's time", lambda page: {"power": page.power}),
    ReportSection(
        "over-time",
        "Power of the tasks over time",
        lambda page: _unless_none("over_time", data.over_time(page.profile)),
    ),
    ReportSection(
        "path",
        "The longest chain of tasks over all hosts",
        lambda page: _unless_none("path", hosts.path(page.profile)),
        ("hosts",),
    ),
    ReportSection(
        "runtime",
        "Runtime",
        lambda page: _unless_none("runtime", data.runtime_data(page.profile)),
        ("runtime_sections",),
    ),
    ReportSection(
        "operating",
        "Operating points",
        lambda page: _unless_none("operating", data.operating_data(page.profile)),
        ("runtime_sections",),
    ),
    ReportSection(
        "found-section",
        "Findings",
        lambda page: _unless_none("findings", finding_texts(page.profile.info) or None),
    ),
    ReportSection(
        "domains",
        "Accounts by host and domain",
        lambda page: {} if page.profile.job is not None and page.profile.job.has_domains else None,
        ("hosts",),
    ),
    ReportSection(
        "instances",
        "Energy and duration of each instance",
        lambda page: _unless_none("instances", page.instances),
        ("density",),
        folded=True,
    ),
    ReportSection(
        "sure",
        "What a single instance's figure is worth",
        lambda page: {"expected": data.expected(page.profile)} if page.profile.has_samples else None,
        folded=True,
    ),
)


def built(profile: Profile) -> tuple[list[Section], dict[str, Any], list[str]]:
    """Return the sections that the profile has, their data, and the names of their scripts."""
    page, sections = Page(profile), list[Section]()
    values: dict[str, Any] = {}
    scripts: list[str] = []
    for one in SECTIONS:
        found = one.data(page)
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
