"""The figures of docs/attribution-by-hand.md are those of the product."""

import contextlib
import io
import re

import pytest
from pages.blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "attribution-by-hand.md"


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """Return the tables that the page's program made."""
    (block,) = [block for block in blocks_of(PAGE) if block.language == "python"]
    names = {}
    with contextlib.chdir(tmp_path_factory.mktemp("hand")), contextlib.redirect_stdout(io.StringIO()):
        exec(block.code, names)  # noqa: S102 - the page's own program
    return names


def printed(row):
    """Return the joules of A, B and C in the page's rows of that name, one tuple for each table."""
    rows = re.findall(rf"^\| \**{row}\** \|(.*)\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return [tuple(float(cell) for cell in re.findall(r"([\d.]+) J", one)[:3]) for one in rows]


def test_shares_by_cpu_time_are_those_computed_by_hand(computed):
    tasks = computed["by_time"]

    assert tuple(tasks["energy_j"]) == pytest.approx(printed("energy")[0])
    assert tuple(tasks["static_j"]) == pytest.approx(printed("static")[0])
    assert tuple(tasks["dynamic_j"]) == pytest.approx((8, 2 + 6, 5 + 3))


def test_shares_by_counters_are_those_computed_by_hand(computed):
    tasks = computed["by_counters"]

    assert tuple(tasks["energy_j"]) == pytest.approx(printed("energy")[1])
    assert tuple(tasks["dynamic_j"]) == pytest.approx((10, 1 + 5, 4 + 4))


def test_the_bounds_of_an_instance_are_those_in_the_text(computed):
    low, high = computed["by_time"].loc[0, ["energy_low_j", "energy_high_j"]]

    assert f"{low:.1f} to {high:.1f} J" in PAGE.read_text("utf-8")
