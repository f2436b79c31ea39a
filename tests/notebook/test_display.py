"""What notebooks show: labelled, escaped, without anything from elsewhere."""

import copy
import pickle
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from support import traces
from tprof.analysis.display.markup import bar, line, shares

import tprof

HOSTILE = "<script>alert(1)</script>\u202e<img src=https://a.b/c onerror=x>\n" + "n" * 400


class _Elements(HTMLParser):
    def __init__(self, page) -> None:
        super().__init__()
        self.open, self.names, self.attributes = [], set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes += attrs
        if tag not in {"br", "rect", "path"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in {"rect", "path"}:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    path = tmp_path_factory.mktemp("display") / "<b>.tprof"
    return tprof.load(traces.write(path, tasks=("load", HOSTILE))).profile()


@pytest.fixture(scope="module")
def pages(profile):
    recording = tprof.record("<i>.tprof")
    return {
        "profile": profile._repr_html_(),
        "summary": profile.summary()._repr_html_(),
        "accounts": profile.accounts._repr_html_(),
        "recording": recording._repr_html_(),
    }


@pytest.mark.parametrize("name", ["profile", "summary", "accounts", "recording"])
def test_a_page_is_whole_and_names_are_escaped(pages, name):
    elements = _Elements(pages[name])

    assert elements.open == []
    assert elements.names.isdisjoint({"script", "img", "link", "iframe", "i"})
    assert not [pair for pair in elements.attributes if pair[0].startswith("on") or pair[0] in {"src", "href"}]
    assert "http" not in re.sub(r"https://a\.b/c", "", pages[name])
    assert "\u202e" not in pages[name]


def test_joules_are_labelled(pages):
    for name in ("profile", "summary", "accounts"):
        assert "<span class='badge'>given</span>" in pages[name]


def test_a_profile_has_pictures_with_a_text(pages):
    labels = re.findall(r"aria-label='([^']*)'", pages["profile"])

    assert any("95 % interval" in label for label in labels)
    assert any(label.startswith("5 W to 20 W") for label in labels)


def test_tables_are_frames_and_what_is_computed_from_them_is_plain(profile):
    summary = profile.summary()

    assert isinstance(summary, pd.DataFrame)
    assert type(summary[["energy_j"]]) is type(summary.head(1)) is type(summary.copy()) is pd.DataFrame
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(summary)), summary)  # noqa: S301 - made here
    pd.testing.assert_frame_equal(copy.deepcopy(summary), pd.DataFrame(summary))
    before = list(summary.index)
    summary._repr_html_()
    assert list(summary.index) == before


def test_figures_that_are_not_known_draw_nothing():
    assert bar(np.nan, 0, 1, 1, "x") == ""
    assert "path" not in bar(1.0, np.nan, 1, 1, "x")
    assert line([0.0], [np.nan], 1.0, "W") == ""
    assert shares([("tasks", 0.0)]) == ""


def test_a_plot_has_the_joules_and_the_power(profile):
    figure = profile.plot()

    bars, power = figure.data
    assert list(bars.y) == pytest.approx(profile.summary()["energy_j"].tolist())
    assert list(power.y) == [5, 20, 20]
    assert "given" in figure.layout.annotations[0].text
    assert "<script>" not in bars.x[0]


def test_a_recording_says_whether_it_runs(tmp_path):
    recording = tprof.record(tmp_path / "a.tprof", energy="none", counters="none")

    assert repr(recording) == f"<Recording {tmp_path}/a.tprof: not begun>"
    with recording:
        assert repr(recording).endswith(": running>")
    assert repr(recording).endswith(": ended>")
    assert "not begun" in repr(tprof.record())
