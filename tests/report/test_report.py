"""The report is one page that needs no network, shows what the profile says, and treats names as data."""

import json
import re
import stat
from html.parser import HTMLParser

import numpy as np
import pytest
from support import traces
from support.browser import opened, visit
from support.findings import BESIDE, OTHER, fitted_profile

import tprof

HOSTILE = (
    "</script><img src=x onerror=document.title='owned'>",
    "<b>bold</b> & \"quotes\" 'single'",
    "line\u2028separator\u2029and\u202eright to left",
    "\x1b[31mred\x1b[0m\x07",
    "=cmd()",
    "lone \ud800 surrogate",
    "@DATA@ @SCRIPT@",
)


class Shape(HTMLParser):
    """The tags of a page, and the JSON it carries."""

    def __init__(self, text) -> None:
        super().__init__()
        self.tags, self.data, self._json = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._json = dict(attrs).get("type") == "application/json"

    def handle_endtag(self, tag):  # noqa: ARG002 - HTMLParser's interface
        self._json = False

    def handle_data(self, data):
        if self._json:
            self.data += data


def many(path, count, names=("load", "blur"), **changes):
    """Write a trace of `count` instances on two cores."""
    t_ns = np.arange(count + 1) * 50_000
    threads = [
        {
            "t_ns": t_ns,
            "instance": np.append(thread * count + 1 + np.arange(count), 0),
            "task": np.append(np.arange(count) % len(names), -1),
            "cpu": np.full(count + 1, thread),
            "cpu_ns": t_ns,
        }
        for thread in range(2)
    ]
    edges_ns = np.arange(0, t_ns[-1] + 1, 1_000_000)
    joules = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.02, len(edges_ns)))
    tprof.write_trace(path, tasks=names, threads=threads, energy={"package-0": (edges_ns, joules)}, **changes)
    return tprof.load(path).profile()


def report(profile, folder):
    page = folder / "report.html"
    profile.to_html(page)
    return page


def test_names_of_tasks_are_data_and_change_nothing_in_the_page(tmp_path):
    plain = Shape(report(many(tmp_path / "a.tprof", 70), tmp_path).read_text("utf-8"))

    hostile = Shape(report(many(tmp_path / "b.tprof", 70, HOSTILE), tmp_path).read_text("utf-8", "surrogatepass"))

    assert hostile.tags == plain.tags
    assert {row["task"] for row in json.loads(hostile.data)["summary"]} == {
        name.replace("\ud800", "\\ud800") for name in HOSTILE
    }


@pytest.fixture(scope="module", params=[1200, pytest.param(500, marks=pytest.mark.thorough)])
def drawn(request, tmp_path_factory):
    """Return what a page of that width becomes, of two tasks and of those with hostile names."""
    folder = tmp_path_factory.mktemp("drawn")
    profile = many(folder / "t.tprof", 180, ("load", "blur", *HOSTILE), quality="simulated")
    return opened(report(profile, folder), width=request.param)


def test_a_browser_draws_hostile_names_as_text(drawn):
    assert 'data-drawn="yes"' in drawn
    assert "<title>tprof report</title>" in drawn
    assert "<img" not in drawn
    assert "&lt;b&gt;bold&lt;/b&gt;" in drawn


def test_a_browser_shows_the_plots_and_the_tables(drawn):
    assert 'data-drawn="yes"' in drawn
    assert "SIMULATED" in drawn
    assert drawn.count('class="main-svg"') >= 4
    assert "360</b>" in drawn, "the instances"
    assert re.search(r'<td><button type="button" title="Show its instances">blur</button></td><td>40</td>', drawn)


def test_a_page_has_no_section_of_the_runtime_where_there_was_none(drawn):
    assert '<section id="cost"' in drawn
    assert '<section id="runtime"' not in drawn


def test_a_browser_opens_a_hundred_thousand_instances_as_density(tmp_path):
    profile = many(tmp_path / "t.tprof", 50_000)

    path = report(profile, tmp_path)
    page = visit(path, at="instances")

    said = page.locator("#note").inner_text()
    assert said == "Density of all instances in cells, with a sample of 2,000 of the 100,000 as points over it."
    assert page.locator("#scatter .heatmaplayer image").count() == 1
    assert path.stat().st_size < report(many(tmp_path / "s.tprof", 100), tmp_path).stat().st_size + 1_000_000


def test_the_page_asks_for_nothing_from_outside(tmp_path):
    text = report(many(tmp_path / "t.tprof", 10), tmp_path).read_text("utf-8")

    assert "default-src 'none'" in text
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=", text)


def test_domains_that_are_part_of_another_are_not_added_to_the_total(tmp_path):
    edges_ns = np.array([0, 1_000_000_000, 2_000_000_000])
    energy = {"package-0": (edges_ns, [0.0, 5.0, 25.0]), "core-0": (edges_ns, [0.0, 4.0, 20.0])}
    traces.write(tmp_path / "t.tprof", energy=energy)

    shape = Shape(report(tprof.load(tmp_path / "t.tprof").profile(), tmp_path).read_text("utf-8"))

    accounts = {row["domain"]: row["counted"] for row in json.loads(shape.data)["accounts"]}
    assert accounts == {"package-0": True, "core-0": False}


def test_what_is_not_resolved_is_null_and_never_nan(tmp_path):
    tprof.write_trace(
        tmp_path / "t.tprof",
        tasks=["a"],
        threads=[{"t_ns": [0, 5], "instance": [1, 0], "task": [0, -1]}],
        energy={"package-0": ([0], [1.0])},
    )

    shape = Shape(report(tprof.load(tmp_path / "t.tprof").profile(), tmp_path).read_text("utf-8"))

    assert json.loads(shape.data, parse_constant=pytest.fail)["summary"][0]["energy_j"] is None


def test_a_trace_without_tasks_has_a_report_too_without_a_timeline(tmp_path):
    tprof.write_trace(tmp_path / "t.tprof", tasks=[], threads=[], energy={"package-0": ([0, 5], [0.0, 1.0])})

    path = report(tprof.load(tmp_path / "t.tprof").profile(), tmp_path)
    page = opened(path)

    assert "No task ran" in page
    assert "hidden" in page.split('<section id="timeline-section"')[1].split(">")[0]
    assert json.loads(Shape(path.read_text("utf-8")).data)["timeline"]["lanes"] == []


def test_a_report_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    profile = many(tmp_path / "t.tprof", 10)
    before = sorted(tmp_path.iterdir())

    with pytest.raises(tprof.TprofError, match=r"cannot write the report to .*: it is a directory"):
        profile.to_html(tmp_path)
    with pytest.raises(tprof.TprofError, match=r"No such file or directory; name another file$"):
        profile.to_html(tmp_path / "missing" / "report.html")

    assert sorted(tmp_path.iterdir()) == before


def test_a_report_replaces_an_older_one_and_is_the_users_own(tmp_path):
    (tmp_path / "report.html").write_text("old")

    page = report(many(tmp_path / "t.tprof", 10), tmp_path)

    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_a_browser_shows_findings_in_a_section_that_is_absent_without_any(tmp_path):
    for name, findings in (("found", (BESIDE, OTHER)), ("none", ())):
        fitted_profile(tmp_path / f"{name}.tprof", *findings).to_html(tmp_path / f"{name}.html")

    found = opened(tmp_path / "found.html")

    section = found.split('<section id="found-section"')[1].split("</section>")[0]
    assert "hidden" not in section.split(">")[0]
    assert f"<li>{BESIDE.text}</li><li>{OTHER.text}</li>" in section
    assert "Findings (simulated)" in section
    assert found.count(f"<li>{OTHER.text}</li>") == 1
    assert '<section id="found-section"' in (tmp_path / "found.html").read_text("utf-8")
    assert '<section id="found-section"' not in (tmp_path / "none.html").read_text("utf-8")
