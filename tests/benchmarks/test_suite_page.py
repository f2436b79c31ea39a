"""The suite's page draws every program, stays small, asks for nothing, and its files say what it says."""

import csv
import json
import re
from importlib.resources import files

import numpy as np
import pytest
from support.browser import opened
from tprof.benchmarks.programs.outcome import Outcome
from tprof.benchmarks.repeats import Runs
from tprof.benchmarks.suite import FILES, Suite, write_suite
from tprof.benchmarks.suite.suite_page import LEAST, POINTS, panels

import tprof

MACHINE = {
    "processor": "a processor", "cores": 2, "cpus": 2, "usable_cpus": 2, "virtual": None, "kernel": "6",
    "python": "3", "free_threaded": False, "load_1_min": 0.0,
}  # fmt: skip
MB = 1_000_000
UNRESOLVED = "1 more are not resolved by the sensor and not drawn."


def many(path, count, names=("often", "rare"), *, threads=2, rare_every=1_000, quality="simulated"):
    """Profile `count` instances a thread, a thread a core; the last task runs once in `rare_every`."""
    t_ns = np.arange(count + 1) * 50_000
    task = np.where(np.arange(count) % rare_every == 0, len(names) - 1, np.arange(count) % (len(names) - 1))
    lanes = [
        {
            "t_ns": t_ns,
            "instance": np.append(cpu * count + 1 + np.arange(count), 0),
            "task": np.append(task, -1),
            "cpu": np.full(count + 1, cpu),
            "cpu_ns": t_ns,
        }
        for cpu in range(threads)
    ]
    edges_ns = np.arange(0, t_ns[-1] + 1, 1_000_000)
    joules = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.02, len(edges_ns)))
    tprof.write_trace(path, tasks=names, threads=lanes, energy={"package-0": (edges_ns, joules)}, quality=quality)
    return tprof.load(path).profile()


def unresolved(path):
    """Profile one instance that is far shorter than what the sensor resolves."""
    threads = [{"t_ns": [0, 5], "instance": [1, 0], "task": [0, -1]}]
    tprof.write_trace(path, tasks=["ferret"], threads=threads, energy={"package-0": ([0], [1.0])})
    return tprof.load(path).profile()


def runs(program, profile, **facts):
    return Runs(program, (Outcome(program, "small", 2, {}, 1.0, ("by hand",), facts),), (profile,))


def write(folder, *programs):
    return write_suite(Suite(programs, MACHINE), folder)


def test_a_browser_draws_a_panel_for_each_core_and_the_tables(tmp_path):
    page, *_ = write(
        tmp_path,
        runs("cholesky", many(tmp_path / "a.tprof", 200, ("gemm", "potrf"), rare_every=20)),
        runs("blackscholes", many(tmp_path / "b.tprof", 60, ("<b>bold</b>", "</script>@DATA@ @SCRIPT@"))),
        runs("ferret", unresolved(tmp_path / "c.tprof")),
    )

    drawn = opened(page)

    assert 'data-drawn="yes"' in drawn
    assert "SIMULATED" in drawn
    assert "Figure 9: cholesky" in drawn
    assert "Figure 10: blackscholes" in drawn
    assert all(f"core {cpu}: {count} instances" in drawn for cpu in (0, 1) for count in (200, 60))
    assert re.search(r"<td[^>]*>trsm</td>", drawn), "what only the paper has"
    assert "<b>bold" not in drawn
    assert UNRESOLVED in drawn


def test_the_page_asks_for_nothing_from_outside(tmp_path):
    page, *_ = write(tmp_path, runs("ferret", many(tmp_path / "a.tprof", 10)))
    text = page.read_text("utf-8")

    assert "default-src 'none'" in text
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=", text)


def test_six_programs_of_many_instances_stay_below_ten_megabytes(tmp_path):
    profile = many(tmp_path / "a.tprof", 25_000, ("one", "two", "three", "four", "rare"))

    page, *_ = write(tmp_path, *(runs(f"program-{number}", profile) for number in range(6)))

    library = len((files("plotly") / "package_data" / "plotly.min.js").read_bytes())
    assert page.stat().st_size - library <= 10 * MB


def test_a_sample_of_points_keeps_rare_tasks_and_says_that_it_is_one(tmp_path):
    data = panels(runs("ferret", many(tmp_path / "a.tprof", 25_000, rare_every=500)))

    drawn = dict(zip(data["names"], np.bincount(data["task"]), strict=True))
    assert drawn["rare"] == 100, "all 50 of both threads"
    assert sum(drawn.values()) <= POINTS + LEAST
    assert any("Points are a sample of" in note for note in data["notes"])


def test_few_instances_are_all_drawn(tmp_path):
    data = panels(runs("ferret", many(tmp_path / "a.tprof", POINTS // 2)))

    assert len(data["energy_j"]) == POINTS
    assert not any("sample" in note for note in data["notes"])


def test_distributions_rise_to_all_instances_whatever_is_drawn(tmp_path):
    profile = many(tmp_path / "a.tprof", 25_000)

    curves = {curve["name"]: curve for curve in panels(runs("ferret", profile))["curves"]}

    assert set(curves) == {"often", "rare", "all tasks"}
    for curve in curves.values():
        assert curve["share"][-1] == 1.0
        assert curve["share"] == sorted(curve["share"])
        assert curve["energy_j"] == sorted(curve["energy_j"])
    assert curves["all tasks"]["energy_j"][-1] == pytest.approx(profile.tasks["energy_j"].max())


def test_instances_that_are_not_resolved_are_counted_and_not_drawn(tmp_path):
    data = panels(runs("ferret", unresolved(tmp_path / "t.tprof")))

    assert data["energy_j"] == []
    assert UNRESOLVED in data["notes"]


def test_the_files_are_strict_json_and_tables_of_the_same_rows(tmp_path):
    written = write(tmp_path, runs("multisort", many(tmp_path / "a.tprof", 50, ("sort", "merge")), footprint_bytes=7))

    said = json.loads((tmp_path / "suite.json").read_text("utf-8"), parse_constant=pytest.fail)
    tables = {
        number: list(csv.DictReader((tmp_path / f"suite-table{number}.csv").open(encoding="utf-8")))
        for number in (5, 6)
    }
    assert [path.name for path in written] == list(FILES)
    assert said["programs"]["multisort"]["quality"] == "simulated"
    assert "i5-2500" in said["paper"]["machine"]
    for number, rows in tables.items():
        assert [list(row) for row in rows] == [list(row) for row in said[f"table_{number}"]]
    assert tables[5][0]["footprint_bytes"] == "7"
    assert float(tables[6][0]["energy_mean_j"]) == pytest.approx(said["table_6"][0]["energy_mean_j"])


def test_a_suite_that_cannot_be_written_says_so(tmp_path):
    ours = runs("ferret", many(tmp_path / "a.tprof", 10))
    (tmp_path / "suite.json").mkdir()

    with pytest.raises(tprof.TprofError, match=r"cannot write the suite's tables to .*: Is a directory"):
        write(tmp_path, ours)
