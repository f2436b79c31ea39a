"""Every kind of page works without a network, a mouse, good eyes or a wide window, and says nothing to the console."""

import pytest
from support import pages
from support.browser import complaints, faults, visit

import tprof
from tprof.trace.short_names import short

QUICK, TABLES = ("report",), ("report", "compare", "job")
QUICK_SCHEMES = (("report", "light"), ("compare", "dark"))
"""The dark colours are the frame's, and a page without plots shows them in a third of the time."""
WIDE, DESK, PHONES = 1280, 1400, (360, 390)
CUT = """[...document.querySelectorAll("table")]
  .filter((one) => one.scrollWidth > (one.closest(".scroll") || one.parentElement).clientWidth + 1)
  .map((one) => one.id)"""
IS_DRAWN = "(one) => one.closest('[hidden]') || one.querySelector('.main-svg')"
MIDDLE = "(one) => { const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }"


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """Return the page of a kind, written once."""
    written = {}

    def page(kind):
        if kind not in written:
            written[kind] = pages.KINDS[kind](tmp_path_factory.mktemp(kind))
        return written[kind]

    return page


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        pytest.param(kind, scheme, marks=() if (kind, scheme) in QUICK_SCHEMES else pytest.mark.thorough)
        for kind in pages.KINDS
        for scheme in ("light", "dark")
    ],
)
def test_axe_finds_no_serious_fault_in_either_theme_and_the_console_is_silent(page_of, kind, scheme):
    page = visit(page_of(kind), width=WIDE, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.wait_for_function(f"[...document.querySelectorAll('.plot')].every({IS_DRAWN})")

    assert page.evaluate("document.documentElement.className") == scheme
    assert faults(page) == []
    assert complaints() == []


@pytest.mark.parametrize(
    "kind", [*QUICK, *(pytest.param(one, marks=pytest.mark.thorough) for one in pages.KINDS if one not in QUICK)]
)
def test_a_phone_shows_all_of_a_page_without_scrolling_sideways(page_of, kind):
    for width in PHONES:
        page = visit(page_of(kind), width=width, height=740)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints() == []


@pytest.mark.parametrize(
    "kind", [*TABLES, *(pytest.param(one, marks=pytest.mark.thorough) for one in pages.KINDS if one not in TABLES)]
)
def test_a_desk_shows_every_table_whole(page_of, kind):
    page = visit(page_of(kind), width=DESK)

    assert page.evaluate(CUT) == []


def test_the_page_opens_with_the_answer_and_its_quality(page_of):
    page = visit(page_of("report"))

    assert page.locator("#badges").inner_text() == "ESTIMATED"
    assert page.locator("#answer-title").inner_text().startswith("blur takes most energy: ")
    assert "95 % confidence" in page.locator("#answer-certainty").inner_text()
    assert "tprof doctor" in page.locator("#answer-remedies").inner_text()
    box = page.locator("#answer").bounding_box()
    assert box["y"] + box["height"] < 720, "the first screen of a laptop"


def test_the_table_of_tasks_is_filtered_sorted_and_opened_by_keys_alone(page_of):
    page = visit(page_of("report"))

    page.locator("#filter").focus()
    page.keyboard.type("PNG")
    assert page.locator("#tasks tbody tr:visible").count() == 1
    assert page.locator("#filter-count").inner_text() == "1 of 6 tasks"
    page.keyboard.press("Escape")
    assert page.locator("#tasks tbody tr:visible").count() == 6

    page.locator("#tasks th button").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#tasks th").first.get_attribute("aria-sort") == "descending"
    assert page.evaluate("document.activeElement.dataset.key") == "task"
    page.locator("#tasks td button").first.focus()
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.id") == "details-title"
    assert page.locator("#details-title").inner_text() == "write_png"


def test_the_first_key_leads_past_the_header_and_every_stop_can_be_seen(page_of):
    page = visit(page_of("report"))

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_what_is_folded_is_in_the_address_and_comes_back_with_it(page_of):
    path = page_of("report")
    page = visit(path)
    assert not page.evaluate("document.querySelector('#instances > details').open")
    assert page.locator("#scatter .main-svg").count() == 0, "what is folded is not drawn"

    page.locator("#cost summary").click()
    page.locator("#contents a[href='#instances']").click()
    page.wait_for_function("document.querySelectorAll('#scatter .main-svg').length")
    page.wait_for_function("location.hash.includes('closed=cost') && location.hash.includes('open=instances')")
    address = page.evaluate("location.hash.slice(1)")

    again = visit(path, at=address)
    opened = (
        "[...document.querySelectorAll('details.fold')].filter((one) => !one.open).map((one) => one.parentElement.id)"
    )
    assert again.evaluate(opened) == ["cost", "sure"]
    again.wait_for_function("scrollY > 0")


def test_hovering_a_point_shows_its_figures_and_dragging_zooms(page_of):
    page = visit(page_of("report"), height=1600, at="instances")
    page.wait_for_function("document.querySelectorAll('#scatter .main-svg').length")
    page.locator("#scatter").scroll_into_view_if_needed()
    before = page.evaluate("document.getElementById('scatter')._fullLayout.xaxis.range")
    box = page.locator("#scatter .xy .nsewdrag, #scatter .nsewdrag").first.bounding_box()
    point = page.locator("#scatter .scatterlayer .point").first.evaluate(MIDDLE)

    page.mouse.move(*point)
    page.wait_for_function("document.querySelectorAll('#scatter .hovertext').length")
    assert "J (estimated), " in page.locator("#scatter .hovertext").first.text_content()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 120, steps=5)
    page.mouse.up()
    page.wait_for_function(
        f"JSON.stringify(document.getElementById('scatter')._fullLayout.xaxis.range) !== JSON.stringify({before})"
    )


def test_each_plot_has_a_name_and_a_table_of_its_figures(page_of):
    page = visit(page_of("report"))

    plot = page.locator("#power")
    assert plot.get_attribute("role") == "figure"
    assert plot.get_attribute("aria-label").startswith("Plot: Power over the run's time; dram-0, package-0.")
    page.locator("#power + details summary").click()
    page.wait_for_function("document.querySelectorAll('#power + details tbody tr').length")
    first = page.locator("#power + details tbody tr").first
    assert first.inner_text().split("\t")[0] in {"dram-0", "package-0"}
    assert first.inner_text().endswith("W")


def test_paper_shows_every_section_in_light_colours(page_of):
    page = visit(page_of("report"), scheme="dark")

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details.fold')].every((one) => one.open)")
    assert page.evaluate("document.documentElement.className") == "light"
    assert page.locator("#scatter .main-svg").count() > 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.className") == "dark"
    assert not page.evaluate("document.querySelector('#instances > details').open")


def test_pages_of_a_folder_share_the_plot_library_without_a_network(page_of):
    path = page_of("dense")

    (library,) = path.parent.glob("plotly-*.min.js")
    text = path.read_text("utf-8")
    assert f'<script src="{library.name}"></script>' in text
    assert len(text) < 1_000_000
    page = visit(path)
    page.wait_for_function("document.querySelectorAll('#power .main-svg').length")
    assert complaints() == []


def test_long_names_are_cut_as_in_the_summary_and_whole_where_the_pointer_rests(tmp_path):
    names = [f"first.{'x' * 500}{letter}{'x' * 400}.load" for letter in "ab"]
    threads = [{"t_ns": [0, 10**6, 2 * 10**6], "instance": [1, 2, 0], "task": [0, 1, -1]}]
    path = tmp_path / "t.tprof"
    tprof.write_trace(path, tasks=names, threads=threads, energy={"package-0": ([0, 2 * 10**6], [0.0, 2.0])})
    tprof.load(path).profile().to_html(tmp_path / "page.html")
    page = visit(tmp_path / "page.html")

    titles = page.evaluate("[...document.querySelectorAll('#tasks button[title]')].map((one) => one.title)")
    cells = page.evaluate("[...document.querySelectorAll('#tasks td:first-child button')].map((one) => one.innerText)")
    assert set(names) <= set(titles)
    assert set(cells) == {short(name) for name in names}
    assert max(len(word.rstrip(".,:;")) for word in page.evaluate("document.body.innerText").split()) <= 120
    assert complaints() == []
