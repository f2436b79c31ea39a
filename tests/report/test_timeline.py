"""The timeline has a lane a thread, own segments only, few enough pieces for a page, and does what a reader asks."""

import base64
import functools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.browser import acted
from support.properties import examples
from tprof.analysis.report.timeline import GrowingLanes, Pieces, leb128, pack, timeline_data

import tprof

MS = 1_000_000
DATA = "const data = JSON.parse(document.getElementById('data').textContent), at = (id) => document.getElementById(id);"
# What each lane ran over the whole run: [share with a processor, share waiting], of each task.
RAN = (
    DATA
    + """
const lanes = lanesOf(data.timeline), classes = data.timeline.names.length, all = { from: lanes.begin, to: lanes.end };
const sums = { width: 1, classes, busy: new Float32Array(classes), waiting: new Float32Array(classes) };
const percent = (shares) => [...shares].map((one) => Math.round(100 * one));
const ran = (these) => these.map((lane) => {
  lanes.addUp(lane, all, sums, (task) => task);
  return [lane.label, percent(sums.busy), percent(sums.waiting)];
});
"""
)
FIND = (
    DATA
    + """
const find = at("find");
find.value = "OUT"; find.dispatchEvent(new Event("input"));
const found = [...document.querySelectorAll("#found button")].map((one) => one.textContent);
find.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
const rows = [...at("details-list").tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
const [title, facts] = ["title", "facts"].map((name) => at(`details-${name}`).textContent);
return { found, title, hidden: at("details").hidden, facts, rows };
"""
)
WALK = (
    DATA
    + """
const key = (name, more) => {
  at("timeline").dispatchEvent(new KeyboardEvent("keydown", { key: name, ...more }));
  return at("timeline-range").textContent;
};
const ranges = [key("0"), key("+"), key("ArrowRight"), key("-"), key("0")];
for (let i = 0; i < 60; i += 1) key("+");
const closest = key("ArrowLeft");
for (const name of ["0", "ArrowDown", "ArrowDown"]) key(name);
for (let i = 0; i < 2; i += 1) key("ArrowRight", { shiftKey: true });
const reached = at("timeline-status").textContent;
key("Enter");
const opened = at("details-title").textContent;
key("Escape");
return { ranges, closest, reached, opened, hidden: at("details").hidden };
"""
)


@st.composite
def lanes_of_segments(draw):
    """Give one to three threads' segments without overlap, of a few tasks on a few cores."""
    lanes = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 60))
        gaps = draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
        lengths = draw(st.lists(st.sampled_from([1, 2, 3, 40, 900]), min_size=count, max_size=count))
        start = np.cumsum(gaps) + np.cumsum([0, *lengths[:-1]])
        task, core = (np.array(draw(st.lists(st.integers(low, 2), min_size=count, max_size=count))) for low in (0, -1))
        own = np.array(lengths, float)
        lanes.append(Pieces(start, start + lengths, task, core, own, own / 2, np.ones(count, np.int64)))
    return lanes


def totals(lanes):
    """Return own time, CPU time and segments of each lane, task and core."""
    found = {}
    for number, lane in enumerate(lanes):
        for task, core, *values in zip(lane.task, lane.core, lane.own_ns, lane.cpu_ns, lane.count, strict=True):
            key = (number, int(task), int(core))
            found[key] = tuple(np.add(found.get(key, (0, 0, 0)), values))
    return found


def fitted(lanes, most, windows):
    """Return at most so many pieces of lanes, and the length of a cell."""
    growing = GrowingLanes(["a", "b", "c"], most, windows)
    for number, lane in enumerate(lanes):
        growing.add(SimpleNamespace(ordinal=number, process=0), lane)
    drawn = growing.drawn(len(lanes))
    return drawn.lanes, drawn.cell_ns


@examples(200)
@given(lanes_of_segments(), st.integers(80, 200))
def test_merging_keeps_the_time_and_the_segments_of_each_thread_task_and_core(lanes, most):
    windows = [[0, 10], [100, 110]]
    merged, cell_ns = fitted(lanes, most, windows)

    assert sum(map(len, merged)) <= most
    assert (cell_ns == 0) == (sum(map(len, lanes)) <= most)
    assert totals(merged) == totals(lanes)
    for before, after in zip(lanes, merged, strict=True):
        assert (np.diff(after.start_ns) >= 0).all()
        assert (after.own_ns <= after.end_ns - after.start_ns).all()
        assert (after.end_ns[after.count > 1] - after.start_ns[after.count > 1] < 2 * cell_ns).all()
        kept = before.end_ns - before.start_ns >= max(cell_ns, 1)
        assert set(before.start_ns[kept]) <= set(after.start_ns[after.count == 1])
        for begin, end in windows if cell_ns else ():
            inside = (before.start_ns >= begin) & (before.start_ns < end)
            assert set(before.start_ns[inside]) <= set(after.start_ns[after.count == 1])


def test_where_even_the_coarsest_cells_are_too_many_the_longest_stay():
    lanes = [
        Pieces(*(np.array([value]) for value in (start, start + length, 0, 0, float(length), 0.0, 1)))
        for start, length in ((0, 5), (3, 900), (4, 7), (9, 40))
    ]

    merged, _ = fitted(lanes, 2, [])

    assert [lane.own_ns.tolist() for lane in merged] == [[], [900.0], [], [40.0]]


def decoded(text):
    values, value, shift = [], 0, 0
    for byte in base64.b64decode(text):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value, shift = 0, 0
    return values


@examples(100)
@given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
def test_packed_integers_are_what_they_were(values):
    assert decoded(leb128(np.array(values, np.int64))) == values


@examples(100)
@given(lanes_of_segments())
def test_packed_starts_are_differences_within_each_lane(lanes):
    columns = pack(lanes)

    starts, first = [], 0
    differences = decoded(columns["start"])
    for lane in lanes:
        starts += (np.cumsum(differences[first : first + len(lane)]) + int(columns["from_ns"])).tolist()
        first += len(lane)
    assert starts == [start for lane in lanes for start in lane.start_ns.tolist()]
    assert columns["count"] == columns["own"] == ""


def nested(path):
    """Write a `main` that waits on a worker's core, and an outer task around an inner one on another core."""
    threads = [
        {"t_ns": [0, 100 * MS], "instance": [1, 0], "task": [0, -1], "cpu": [0, 0], "cpu_ns": [0, 0], "name": "main"},
        {"t_ns": [20 * MS, 60 * MS], "instance": [2, 0], "task": [1, -1], "cpu": [0, 0], "cpu_ns": [0, 40 * MS],
         "name": "worker"},
        {"t_ns": [0, 10 * MS, 30 * MS, 50 * MS, 70 * MS], "instance": [3, 4, 3, 0, 0], "task": [2, 3, 2, -1, -1],
         "cpu": [1] * 5, "cpu_ns": [0, 10 * MS, 30 * MS, 50 * MS, 50 * MS], "name": "deep"},
    ]  # fmt: skip
    energy = {"package-0": (np.arange(0, 101 * MS, MS), np.linspace(0, 2, 101))}
    tprof.write_trace(path, tasks=("main", "work", "outer", "inner"), threads=threads, energy=energy)
    return tprof.load(path).profile()


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Return what one page shows to a reader who adds up its lanes, then finds a task, then walks by keys."""
    folder = tmp_path_factory.mktemp("nested")
    nested(folder / "t.tprof").to_html(folder / "report.html")
    steps = {"ran": RAN + "return [ran(lanes.threads()), ran(lanes.cores())];", "found": FIND, "walked": WALK}
    values = ", ".join(f"{name}: (() => {{ {script} }})()" for name, script in steps.items())
    return acted(folder / "report.html", f"return {{ {values} }};")


def test_own_time_of_every_task_is_what_the_profile_says(tmp_path):
    profile = nested(tmp_path / "t.tprof")

    said = timeline_data(profile)

    lengths, tasks = decoded(said["columns"]["length"]), decoded(said["columns"]["task"])
    own_s = {said["names"][task]: 0.0 for task in tasks}
    for length, task in zip(lengths, tasks, strict=True):
        own_s[said["names"][task]] += length * 1e-9
    expected = dict(zip(profile.tasks["task"], profile.own_s, strict=True))
    assert own_s == pytest.approx(expected)
    assert said["merged"] == said["not_drawn"] == said["threads_left_out"] == 0


def test_a_blocked_main_has_a_lane_of_its_own_and_hides_no_worker_of_its_core(said):
    threads, cores = said["ran"]

    assert threads == [
        ["main", [0, 0, 0, 0], [100, 0, 0, 0]],
        ["worker", [0, 40, 0, 0], [0, 0, 0, 0]],
        ["deep", [0, 0, 30, 20], [0, 0, 0, 0]],
    ]
    assert [(label, busy) for label, busy, _ in cores] == [("core 0", [0, 40, 0, 0]), ("core 1", [0, 0, 30, 20])]


def test_a_task_is_found_by_name_and_its_instances_are_listed_with_bounds(said):
    said = said["found"]

    assert said["found"] == ["outer"]
    assert (said["title"], said["hidden"]) == ("outer", False)
    assert "instances1" in said["facts"]
    assert "(one instance)" in said["facts"]
    (row,) = said["rows"]
    assert row[:3] == ["0 ms", "50 ms", "30 ms"]
    assert " … " in row[4]
    assert row[5:] == ["1", "deep"]


def test_the_table_opens_a_tasks_instances_and_an_instance_is_gone_to_by_the_nanosecond(tmp_path):
    begin_ns = 7_200 * 1_000 * MS + 123_456_789
    threads = [
        {"t_ns": [0, MS], "instance": [1, 0], "task": [0, -1], "cpu": [0, 0], "name": "first"},
        {"t_ns": [begin_ns, begin_ns + 2_000], "instance": [2, 0], "task": [1, -1], "cpu": [1, 1], "name": "second"},
    ]
    energy = {"package-0": ([0, begin_ns + MS], [0.0, 9.0])}
    tprof.write_trace(tmp_path / "t.tprof", tasks=("early", "late"), threads=threads, energy=energy)
    tprof.load(tmp_path / "t.tprof").profile().to_html(tmp_path / "report.html")

    title, began, shown, drawn = acted(
        tmp_path / "report.html",
        DATA
        + """
const drawn = () => {
  const canvas = at("timeline-canvas"), lanes = [[24, 52], [52, 80]];
  const pixels = ([from, to]) => canvas.getContext("2d").getImageData(canvas.width - 12, from, 12, to - from - 3).data;
  return lanes.map((lane) => pixels(lane).some((value) => value > 0));
};
// The page draws in a frame of its own, some time after its script.
const firstDrawn = (left) => new Promise((resolve) => requestAnimationFrame(() => {
  const now = drawn();
  resolve(left && !now.some(Boolean) ? firstDrawn(left - 1) : now);
}));
return firstDrawn(300).then((before) => {
  [...document.querySelectorAll("#tasks td button")].find((one) => one.textContent === "late").click();
  const [button] = at("details-list").querySelectorAll("td button"), began = button.textContent;
  button.click();
  return [at("details-title").textContent, began, at("timeline-range").textContent, before];
});
""",
    )

    assert title == "late"
    assert began == "7200.1234568 s"
    assert shown == "7200.12345629 s to 7200.12345929 s"
    assert drawn == [False, True], "two microseconds of two hours can be seen"


def test_keys_zoom_and_move_the_timeline_and_walk_its_segments(said):
    said = said["walked"]

    whole, closer, moved = "0 ms to 100 ms", "20.0 ms to 80.0 ms", "32.0 ms to 92.0 ms"
    assert said["ranges"] == [whole, closer, moved, whole, whole]
    assert said["closest"].endswith(" ms")
    first, last = (float(one.removesuffix(" ms")) for one in said["closest"].split(" to "))
    assert last - first == pytest.approx(0.0002, rel=0.02)
    assert said["reached"].startswith(f"{said['opened']}: ")
    assert said["opened"] in {"outer", "inner"}
    assert said["hidden"]


def many_short(path, count):
    """Write `count` instances of a microsecond or two a thread, on two threads of one core each."""
    t_ns = np.arange(count + 1) * 1_500
    threads = [
        {"t_ns": t_ns, "instance": np.append(cpu * count + 1 + np.arange(count), 0),
         "task": np.append(np.arange(count) % 2, -1), "cpu": np.full(count + 1, cpu), "cpu_ns": t_ns}
        for cpu in range(2)
    ]  # fmt: skip
    energy = {"package-0": ([0, int(t_ns[-1])], [0.0, 9.0])}
    tprof.write_trace(path, tasks=("even", "odd"), threads=threads, energy=energy)
    return tprof.load(path).profile(model="cputime")


def test_a_long_recording_makes_a_page_of_bounded_size(tmp_path):
    profile = many_short(tmp_path / "t.tprof", 150_000)
    profile.to_html(tmp_path / "report.html")
    small = many_short(tmp_path / "s.tprof", 100)
    small.to_html(tmp_path / "small.html")

    said = json.loads((tmp_path / "report.html").read_text("utf-8").split('id="data">')[1].split("</script>")[0])
    assert said["timeline"]["segments"] == 300_000
    size = (tmp_path / "report.html").stat().st_size - (tmp_path / "small.html").stat().st_size
    assert size < 4_000_000


def test_a_page_says_what_is_aggregated_and_adds_it_up(tmp_path, monkeypatch):
    in_few_pieces = functools.partial(timeline_data, pieces=10_000)
    monkeypatch.setattr("tprof.analysis.report.report_sections.timeline_data", in_few_pieces)
    many_short(tmp_path / "t.tprof", 15_000).to_html(tmp_path / "report.html")

    ran, note = acted(tmp_path / "report.html", RAN + "return [ran(lanes.threads()), at('timeline-note').textContent];")

    assert "of 30,000 segments" in note
    assert "In the 16 places that are marked on the time axis every segment is drawn; key n" in note
    assert [busy for _, busy, _ in ran] == [[50, 50], [50, 50]]


def test_no_more_pieces_are_packed_than_asked_for(tmp_path):
    profile = many_short(tmp_path / "t.tprof", 5_000)

    said = timeline_data(profile, pieces=1_000)

    assert sum(lane["pieces"] for lane in said["lanes"]) <= 1_000
    assert said["segments"] == 10_000
    assert sum(decoded(said["columns"]["count"])) == 10_000
    assert len(said["windows"]) == 16


HOSTILE = "</script><img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def handled(tmp_path_factory):
    """Return what the page of a single instance shows to one who turns the wheel, drags, pinches and clicks."""
    folder = tmp_path_factory.mktemp("one")
    thread = {"t_ns": [0, 100 * MS], "instance": [1, 0], "task": [0, -1], "cpu": [0, 0], "cpu_ns": [0, 100 * MS]}
    energy = {"package-0": ([0, 100 * MS], [0.0, 2.0])}
    tprof.write_trace(folder / "t.tprof", tasks=[HOSTILE], threads=[thread], energy=energy)
    tprof.load(folder / "t.tprof").profile().to_html(folder / "report.html")

    return acted(
        folder / "report.html",
        DATA
        + """
const frame = at("timeline"), box = frame.getBoundingClientRect(), middle = box.left + box.width / 2;
frame.setPointerCapture = () => {};
const range = () => at("timeline-range").textContent.match(/[0-9.]+/g).map(Number);
const wheel = (deltaY, more) => {
  const event = new WheelEvent("wheel", { deltaY, clientX: middle, cancelable: true, ...more });
  frame.dispatchEvent(event);
  return [event.defaultPrevented, ...range()];
};
const pointer = (kind, pointerId, x) => frame.dispatchEvent(new PointerEvent(`pointer${kind}`, {
  pointerId, pointerType: "touch", clientX: x, clientY: box.top + 36, bubbles: true,
}));
const hidden = ["instances", "means-part", "timeline-section"].map((id) => at(id).hidden);
const said = { hidden, away: wheel(100), closer: wheel(-400), across: wheel(50, { shiftKey: true }) };
pointer("down", 1, middle); pointer("move", 1, middle + 40); pointer("up", 1, middle + 40);
said.dragged = range();
pointer("down", 1, middle - 50); pointer("down", 2, middle + 50); pointer("move", 2, middle + 150);
pointer("up", 1, middle - 50); pointer("up", 2, middle + 150);
said.pinched = range();
said.hiddenBefore = at("details").hidden;
pointer("down", 1, middle); pointer("up", 1, middle);
return { ...said, title: at("details-title").textContent, images: document.images.length, page: document.title };
""",
    )


def test_a_page_of_one_instance_has_no_empty_axes(handled):
    assert handled["hidden"] == [True, True, False]


def test_wheel_fingers_and_mouse_zoom_pan_and_open(handled):
    said = handled

    assert said["away"] == [False, 0, 100], "the page scrolls on where there is nothing to zoom out to"
    assert said["closer"][0]
    low, high = said["closer"][1:]
    assert 0 < low < 50 < high < 100
    assert said["across"][1] > low
    assert said["dragged"][0] < said["across"][1]
    wide, pinched = (last - first for first, last in (said["dragged"], said["pinched"]))
    assert pinched == pytest.approx(wide / 2, rel=0.05)
    assert said["hiddenBefore"]
    assert (said["title"], said["images"], said["page"]) == (HOSTILE, 0, "tprof report")


def test_a_narrow_page_is_no_wider_than_its_window(tmp_path):
    names = ("a name " * 30, "n" * 200)
    thread = {"t_ns": [0, MS, 3 * MS, 4 * MS], "instance": [1, 2, 3, 0], "task": [0, 1, 0, -1], "cpu": [0] * 4}
    energy = {"package-0": ([0, 4 * MS], [0.0, 2.0])}
    tprof.write_trace(tmp_path / "t.tprof", tasks=names, threads=[thread], energy=energy)
    tprof.load(tmp_path / "t.tprof").profile().to_html(tmp_path / "report.html")

    said = acted(
        tmp_path / "report.html",
        DATA
        + """
document.querySelector("#found button").click();
return [at("details").hidden, document.documentElement.scrollWidth, innerWidth];
""",
        width=500,
    )

    assert said[0] is False
    assert said[1] <= said[2]
