"""Every page stands in one frame: its colours stand out in light and dark, and it asks for nothing from outside."""

import re
from importlib.resources import files

import pytest
from support.browser import visit
from tprof.analysis.report.embed import Parts, embed

ROOM = files("tprof.analysis.report")
PAGES = {
    "tprof.analysis.report": ("answer", "advice", "sections/cost", "sections/tasks-section"),
    "tprof.analysis.theory": ("model_page", "roofline"),
    "tprof.benchmarks.sweep": ("sweep",),
    "tprof.benchmarks.suite": ("suite",),
    "benchmarks.validation": ("validate",),
}
LEAST_CONTRAST = 3.0  # of what is no text, by the Web Content Accessibility Guidelines 2.1, criterion 1.4.11


def luminance(colour):
    """Return the relative luminance of #rrggbb, as those guidelines define it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("mode", "paper"), [("LIGHT", "#ffffff"), ("DARK", "#14181c")])
def test_the_colours_of_plots_stand_out_from_the_paper_of_their_mode(mode, paper):
    palette = re.search(rf"const {mode} = \[(.*?)\]", (ROOM / "drawing.js").read_text("utf-8"))
    colours = re.findall(r"#[0-9a-f]{6}", palette[1])

    assert len(colours) == 8
    assert min(contrast(colour, paper) for colour in colours) >= LEAST_CONTRAST


@pytest.mark.parametrize(("package", "name"), [(package, name) for package, names in PAGES.items() for name in names])
def test_a_pages_body_leaves_header_and_main_to_the_frame(package, name):
    body = (files(package) / f"{name}.html").read_text("utf-8")

    page = re.sub(r"<script.*?</script>", "", embed(Parts(f"tprof {name}", body, "", {})), flags=re.DOTALL)

    for tag in ("header", "main", "h1", "body", "title"):
        assert f"<{tag}" not in body
        assert page.count(f"<{tag}>") + page.count(f"<{tag} ") == 1
    assert 'id="theme"' in page
    assert "prefers-color-scheme:dark" in page


def test_the_theme_is_the_readers_or_the_systems_and_plots_are_drawn_again_in_its_colours(tmp_path):
    body = '<section id="one"><h2 id="one-title">One</h2><p id="seen"></p></section>'
    script = """
drawing.section("one", () => {
  drawing.make(drawing.at("seen"), "span", `${document.documentElement.className} ${drawing.COLOURS[0]};`);
});
"""
    path = tmp_path / "page.html"
    path.write_text(embed(Parts("tprof", body, script, {})), "utf-8")

    page = visit(path, scheme="dark")
    page.locator("#theme").select_option("light")

    assert page.locator("#seen").inner_text() == "dark #5eb1ef;light #0072b2;"
    assert page.evaluate("location.hash") == "#theme=light"
