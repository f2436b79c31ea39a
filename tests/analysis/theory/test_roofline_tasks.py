"""Tasks of a session stand under the roof by what they declare or by what was counted, and say which."""

import json

import pytest
from support import traces
from tprof.analysis.theory.roofline_machines import MACHINES
from tprof.analysis.theory.roofline_page import Shown, page_data, write_roofline
from tprof.analysis.theory.roofline_tasks import task_points

import tprof


def session(path, *lines, misses=False, **changes):
    """Two threads of two seconds: load for one, blur for the other and for both of another thread."""
    threads = changes.pop("threads", traces.THREADS)
    if misses:
        counts = ([0, 10, 30], [0, 50])
        threads = [dict(one, llc_misses=count) for one, count in zip(threads, counts, strict=True)]
    traces.write(path, threads=threads, **changes)
    with (path / "tasks/00000000.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return tprof.load(path).profile(model="cputime")


def declared(task=1, name="blur", **said):
    return {"task": task, "name": name, **said}


def test_a_task_is_a_point_of_its_work_over_the_time_in_which_any_instance_ran(tmp_path):
    profile = session(tmp_path / "t.tprof", declared(flops=3e9, bytes=1e9), quality="measured")

    (point,), notes = task_points(profile)

    assert (point.task, point.instances, point.flops, point.traffic_bytes) == ("blur", 2, 6e9, 2e9)
    # One instance runs from 1 to 2 s, the other from 0 to 2 s.
    assert point.time_s == pytest.approx(2.0)
    assert point.intensity == 3.0
    assert point.flops_per_s == pytest.approx(3e9)
    assert point.energy_j == pytest.approx(profile.summary().loc["blur", "energy_j"])
    assert point.power_w == pytest.approx(point.energy_j / 2.0)
    assert (point.flops_from, point.bytes_from, point.quality) == ("declared", "declared", "measured")
    assert point.of_roof(MACHINES["fermi"]) == pytest.approx(3e9 / (515e9 * 3.0 / MACHINES["fermi"].time_balance))
    assert notes == []


def test_sums_of_some_calls_stand_for_all_and_that_is_said(tmp_path):
    said = declared(calls=1, flops_sum=5.0, bytes_sum=2.0)

    (point,), notes = task_points(session(tmp_path / "t.tprof", said))

    assert (point.flops, point.traffic_bytes) == (10.0, 4.0)
    assert notes == ["blur: flops and bytes of 1 of 2 instances are known; the others count as their mean"]


def test_bytes_that_are_not_declared_come_from_llc_misses_and_are_labelled(tmp_path):
    (point,), _ = task_points(session(tmp_path / "t.tprof", declared(flops=1e9), misses=True))

    assert point.traffic_bytes == 64 * (20 + 50)
    assert point.bytes_from == "from LLC misses"


def test_flops_that_were_counted_are_used_but_instructions_are_no_flops(tmp_path):
    threads = [dict(one, flops=[0] * len(one["t_ns"]), bytes=[0] * len(one["t_ns"])) for one in traces.THREADS]
    threads[0]["flops"], threads[0]["bytes"] = [0, 100, 300], [0, 10, 20]
    traces.write(tmp_path / "a.tprof", threads=threads)
    counted, _ = task_points(tprof.load(tmp_path / "a.tprof").profile(model="cputime"))
    threads = [dict(one, instructions=[9] * len(one["t_ns"])) for one in traces.THREADS]
    traces.write(tmp_path / "b.tprof", threads=threads)

    assert {point.task: (point.flops, point.flops_from) for point in counted} == {
        "blur": (200.0, "counted"),
        "load": (100.0, "counted"),
    }
    assert task_points(tprof.load(tmp_path / "b.tprof").profile(model="cputime")) == ([], [])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"flops": 1.0}, "its bytes are not known: declare them with tprof.task(bytes=...), or count LLC misses"),
        ({"flops": 1.0, "bytes": 0}, "it moves no bytes, so it has no intensity"),
        ({"flops": 0, "bytes": 1}, "it does no flops"),
    ],
)
def test_a_task_that_has_no_intensity_is_left_out_with_the_reason(tmp_path, said, why):
    assert task_points(session(tmp_path / "t.tprof", declared(**said))) == ([], [f"blur is no point: {why}"])


def test_energy_that_is_not_known_is_no_figure(tmp_path):
    (point,), _ = task_points(session(tmp_path / "t.tprof", declared(flops=3e9, bytes=1e9), energy={}))

    assert (point.energy_j, point.flops_per_j, point.power_w) == (None, None, None)


def test_the_page_holds_lines_balances_and_the_tasks_with_their_quality(tmp_path):
    points, _ = task_points(session(tmp_path / "t.tprof", declared(flops=3e9, bytes=1e9), quality="estimated"))
    shown = Shown(MACHINES["gtx580"], "a test", None, points, "single", ["a note"])

    data = page_data(shown)

    views = {view["precision"]: view for view in data["views"]}
    assert data["qualities"] == ["estimated"]
    assert [task["task"] for task in views["single"]["tasks"]] == ["blur"]
    assert views["double"]["tasks"] == []
    assert views["single"]["machine"]["most_power_w"] == pytest.approx(378.33, abs=0.01)
    assert max(views["single"]["curves"]["power"]) == pytest.approx(378.333, abs=1e-3)
    assert max(views["single"]["curves"]["capped_power"]) == pytest.approx(244)
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize("name", ["gtx580", "fermi", pytest.param("i7-950", marks=pytest.mark.thorough)])
def test_a_browser_draws_the_lines_of_every_machine(tmp_path, name):
    from support.browser import opened  # noqa: PLC0415 - skips where there is no browser

    points, _ = task_points(session(tmp_path / "t.tprof", declared(flops=3e9, bytes=1e9)))
    write_roofline(Shown(MACHINES[name], "a test", None, points), tmp_path / "page.html")

    page = opened(tmp_path / "page.html")

    assert 'data-drawn="yes"' in page
    assert page.count('class="main-svg"') >= 2 * len(MACHINES[name].precisions)
    assert "time balance" in page
