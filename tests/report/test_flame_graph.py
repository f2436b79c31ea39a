"""The flame graph of a report: boxes as wide as their joules, that are enlarged, found and reached by keys."""

import json

import pandas as pd
import pytest
from support import traces
from support.browser import acted, visit
from tprof.analysis.profile.flame_tree import Flame
from tprof.analysis.report.flame import MOST_NODES, flame_data

import tprof
from tprof.trace.merge import merge

MS_NS = 1_000_000
NESTED = {
    "t_ns": [one * MS_NS for one in range(6)],
    "instance": [1, 2, 1, 3, 1, 0],
    "task": [0, 1, 0, 2, 0, -1],
    "name": "main",
}
ENERGY = {"package-0": ([one * MS_NS for one in range(6)], [0.0, 0.001, 0.004, 0.005, 0.006, 0.007])}
BOXES = """
const labelOf = (box) => box.getAttribute("aria-label").split(",")[0];
const placeOf = (box) => [labelOf(box), Math.round(parseFloat(box.style.width)), parseInt(box.style.top)];
const boxes = () => [...document.querySelectorAll("#flame [role=treeitem]")].map(placeOf);
const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const change = (name, value) => {
  const one = document.querySelector(`[name=${name}][value=${value}]`);
  one.checked = true;
  one.dispatchEvent(new Event("change"));
};
"""

# The colours of tasks in the flame graph, in the legend of the timeline and of the points of instances.
COLOURS = """() => {
  const hex = (rgb) => "#" + rgb.match(/\\d+/g).map((n) => Number(n).toString(16).padStart(2, "0")).join("");
  const boxes = [...document.querySelectorAll("#flame [role=treeitem]")];
  const legend = [...document.querySelectorAll("#found button")];
  const points = document.getElementById("scatter").data.filter((one) => one.mode === "markers");
  return [
    boxes.map((one) => [one.getAttribute("aria-label").split(",")[0], one.style.getPropertyValue("--of")]),
    legend.map((one) => [one.querySelector(".name").textContent, hex(one.querySelector(".swatch").style.background)]),
    points.map((one) => [one.name, one.marker.color]),
  ];
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flame")
    path = traces.write(folder / "t.tprof", tasks=("outer", "heavy", "light"), threads=(NESTED,), energy=ENERGY)
    tprof.load(path).profile().to_html(folder / "t.html")
    return folder / "t.html"


def test_boxes_are_as_wide_as_their_joules_or_seconds(page):
    by_energy, by_time, upside = acted(
        page,
        BOXES + "const first = boxes(); change('flame-width', 'time_s'); const second = boxes();"
        " change('flame-way', 'bottom'); return [first, second, boxes()];",
    )

    assert by_energy == [["all", 100, 0], ["outer", 100, 23], ["heavy", 43, 46], ["light", 14, 46]]
    assert by_time == [["all", 100, 0], ["outer", 100, 23], ["heavy", 20, 46], ["light", 20, 46]]
    assert [row[2] for row in upside] == [46, 23, 0, 0]


def test_a_click_enlarges_a_box_and_escape_shows_all(page):
    enlarged, status, back = acted(
        page,
        BOXES + "document.querySelectorAll('#flame [role=treeitem]')[2].click(); const first = boxes();"
        " const text = document.getElementById('flame-status').textContent; press('Escape');"
        " return [first, text, boxes().length];",
    )

    assert enlarged == [["all", 100, 0], ["outer", 100, 23], ["heavy", 100, 46]]
    assert status == "heavy is as wide as all."
    assert back == 4


def test_keys_go_from_box_to_box_and_say_what_each_is(page):
    names, label = acted(
        page,
        BOXES + "document.querySelector('#flame [tabindex=\"0\"]').focus(); const seen = [];"
        " for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowUp']) {"
        " press(key); seen.push(document.activeElement.getAttribute('aria-label').split(',')[0]); }"
        " return [seen, document.activeElement.getAttribute('aria-label')];",
    )

    assert names == ["outer", "heavy", "light", "outer"]
    assert label.startswith("outer, 7 mJ (given), 95 %: ")
    assert "itself 3 mJ in 3 ms" in label
    assert "1 instance" in label


def test_what_is_found_is_added_up_once(page):
    status, found = acted(
        page,
        "const at = (id) => document.getElementById(id), field = at('flame-find'); field.value = 'e';"
        " field.dispatchEvent(new Event('input'));"
        " return [at('flame-status').textContent, document.querySelectorAll('#flame .found').length];",
    )

    assert status == "Found: 7 mJ (given) (100.0 %), 5 ms, in 1 place."
    assert found == 2


def flame_of(shares):
    """Return a flame of one level, with these joules."""
    count = len(shares) + 1
    joules = [sum(shares), *shares]
    nodes = pd.DataFrame({"parent": [-1, *[0] * len(shares)], "name": [f"n{one}" for one in range(count)]})
    nodes["kind"] = pd.Categorical(["all", *["task"] * len(shares)])
    nodes = nodes.assign(place="", samples=float("nan"), instances=1)
    for name in ("energy_j", "energy_low_j", "energy_high_j", "own_j", "time_s", "own_s"):
        nodes[name] = joules
    return Flame(nodes, "measured")


def test_what_is_too_small_to_be_drawn_is_one_box_of_its_parent():
    nodes = flame_data(flame_of([1000.0, 0.5, 0.25]))["nodes"]

    assert nodes["name"] == ["n0", "n1", "(2 smaller)"]
    assert nodes["parent"] == [-1, 0, 0]
    assert nodes["energy_j"][-1] == 0.75


def test_a_page_holds_no_more_nodes_than_can_be_drawn():
    data = flame_data(flame_of([1.0] * 900 + [0.95] * (2 * MOST_NODES)))

    assert len(data["nodes"]["name"]) <= MOST_NODES + 2
    assert sum(data["nodes"]["energy_j"][1:]) == pytest.approx(data["nodes"]["energy_j"][0])
    assert json.dumps(data["nodes"]["parent"])


def test_the_page_of_a_job_has_hosts_above_their_tasks(tmp_path):
    for name in ("one", "two"):
        path = traces.write(
            tmp_path / f"{name}.tprof", tasks=("outer", "heavy", "light"), threads=(NESTED,), energy=ENERGY
        )
        traces.set_json(path / "manifest.json", host={"hostname": name})
    merge([tmp_path / "one.tprof", tmp_path / "two.tprof"], tmp_path / "job.tprof")
    tprof.load(tmp_path / "job.tprof").profile().to_html(tmp_path / "job.html")

    boxes = acted(tmp_path / "job.html", BOXES + "return boxes();")

    assert [row[:2] for row in boxes if row[2] == 23] == [["one", 50], ["two", 50]]
    assert [row[0] for row in boxes if row[2] == 46] == ["outer", "outer"]


def test_a_task_has_one_colour_in_all_sections_and_the_largest_have_others(tmp_path):
    """Tasks are defined from the least to the most joules; the eighth by joules has the first colour again."""
    names = tuple(f"task-{number}" for number in range(9))
    thread = {
        "t_ns": [at * MS_NS for at in range(10)],
        "instance": [*range(1, 10), 0],
        "task": [*range(9), -1],
        "name": "main",
    }
    energy = {"package-0": ([at * MS_NS for at in range(10)], [at * (at + 1) / 2000 for at in range(10)])}
    path = traces.write(tmp_path / "t.tprof", tasks=names, threads=(thread,), energy=energy)
    tprof.load(path).profile().to_html(tmp_path / "t.html")

    page = visit(tmp_path / "t.html", at="instances")
    page.wait_for_function("document.querySelectorAll('#scatter .main-svg').length")
    boxes, legend, points = page.evaluate(COLOURS)

    colours = dict(legend)
    assert {name: colour for name, colour in boxes if name != "all"} == colours
    assert dict(points) == colours
    by_joules = [colours[name] for name in reversed(names)]
    assert len(set(by_joules[:7])) == 7
    assert by_joules[7:] == by_joules[:2]
