"""The page of a comparison holds its figures, and shows them without the plot library."""

import re

import pytest
from support.browser import opened
from support.runs import Work, write_run

import tprof


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    place = tmp_path_factory.mktemp("page")
    for number in range(2):
        write_run(place / f"a{number}", [Work("blur", 30), Work("<i>gone</i>", 3)], seed=number)
        write_run(place / f"b{number}", [Work("blur", 30, 0.006)], seed=5 + number)
    comparison = tprof.compare([place / "a0", place / "a1"], [place / "b0", place / "b1"])
    comparison.to_html(place / "c.html")
    return place / "c.html"


def test_the_page_is_small_and_escapes_names(page):
    text = page.read_text("utf-8")

    assert len(text) < 100_000
    assert "&lt;i&gt;gone&lt;/i&gt;" in text
    assert "<i>gone" not in text


def test_a_browser_shows_the_change_with_its_bar_and_interval(page):
    shown = opened(page)

    assert 'data-drawn="yes"' in shown
    assert "SIMULATED" in shown.upper()
    assert '<tr class="worse"><th scope="row" class="word">blur</th><td>more</td>' in shown
    assert re.search(r"<td>(39|40)[.\d]* → (59|60)[.\d]* mJ</td>", shown)
    assert 'class="change" aria-hidden="true"><i style="left:50.00%' in shown
    assert re.search(r"The program took [\d.]+ → [\d.]+ m?J \(simulated\)", shown)
