"""Where a task runtime ran, report, summary and exports say what held it up; elsewhere they say nothing of it."""

import json

import pandas as pd
import pytest
from support import task_graphs, traces
from support.browser import opened
from support.command_line import tprof as command
from support.task_graphs import Flat

import tprof
from tprof.trace import EventKind


@pytest.fixture
def profile(tmp_path):
    """Return three tasks in a row and one beside them, on two workers."""
    tasks = [(30_000_000, set()), (20_000_000, {0}), (10_000_000, {1}), (5_000_000, set())]
    return task_graphs.write(tmp_path / "t.tprof", Flat(tasks, workers=2, slow_ns=4_000_000).lanes).profile()


def data_of(page):
    return json.loads(page.read_text("utf-8").split('id="data">')[1].split("</script>")[0])


def test_the_page_holds_waits_workers_and_the_chain(profile, tmp_path):
    profile.to_html(tmp_path / "report.html")

    runtime = data_of(tmp_path / "report.html")["runtime"]

    assert runtime["facts"]["span_s"] == pytest.approx(0.060)
    assert [row["task"] for row in runtime["waits"]] == ["work"]
    assert [row["worker"] for row in runtime["workers"]] == [0, 1]
    assert runtime["chain"][0]["instances"] == 3
    assert [row["instance"] for row in runtime["links"]] == [1, 2, 3]


def test_a_browser_draws_the_section_and_links_to_the_tasks(profile, tmp_path):
    profile.to_html(tmp_path / "report.html")

    page = opened(tmp_path / "report.html")

    assert 'data-drawn="yes"' in page
    assert '<section id="runtime" aria-labelledby="runtime-title">' in page
    assert '<a href="#task-0">work</a>' in page
    assert '<tr id="task-0">' in page
    assert "starved: nothing was ready" in page


def test_a_page_without_a_runtime_holds_nothing_of_one(tmp_path):
    tprof.load(traces.write(tmp_path / "t.tprof")).profile().to_html(tmp_path / "report.html")

    assert "runtime" not in data_of(tmp_path / "report.html")


def summary(folder, *options):
    done = command("summary", "t.tprof", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_summary_says_what_held_the_run_up(profile):
    said = summary(profile.trace.path.parent)

    assert "Longest chain of tasks: 60 ms of 72 ms (83.3 %)" in said
    assert "; the dependences allow 1.1 workers at once" in said
    assert "by parts of its time: 83.3 % tasks ran, 16.7 % a task waited for a worker\n" in said
    assert "2 workers: running 45.1 %" in said


def test_the_summary_as_json_has_the_figures_and_the_tables(profile):
    said = json.loads(summary(profile.trace.path.parent, "--json"), parse_constant=pytest.fail)

    assert said["runtime"]["span_s"] == pytest.approx(0.060)
    assert said["runtime"]["run_worker_s"] == pytest.approx(0.012)
    assert [row["worker"] for row in said["workers"]] == [0, 1]
    assert said["waits"][0]["instances"] == 4


def test_without_a_runtime_the_summary_is_silent_about_it(tmp_path):
    traces.write(tmp_path / "t.tprof")

    assert "Longest chain" not in summary(tmp_path)
    assert "runtime" not in json.loads(summary(tmp_path, "--json"))


def test_exports_have_the_tables_of_the_runtime(profile, tmp_path):
    profile.to_csv(tmp_path / "csv")
    profile.to_parquet(tmp_path / "parquet")

    names = {"tasks", "summary", "accounts", "power", "waits", "workers", "dependences", "critical_path"}
    assert {path.stem for path in (tmp_path / "csv").glob("*.csv")} == names
    assert {path.stem for path in (tmp_path / "parquet").glob("*.parquet")} == names
    assert pd.read_csv(tmp_path / "csv" / "dependences.csv")["waits_for"].tolist() == [1, 2]
    assert pd.read_parquet(tmp_path / "parquet" / "critical_path.parquet")["instance"].tolist() == [1, 2, 3]
    assert json.loads((tmp_path / "csv" / "runtime.json").read_text())["workers"] == 2


def test_events_without_any_instance_make_a_page(tmp_path):
    lanes = Flat([], workers=1).lanes
    lanes[0].event(0, EventKind.SPAWN, 1)
    profile = task_graphs.write(tmp_path / "t.tprof", lanes).profile()

    profile.to_html(tmp_path / "report.html")

    assert data_of(tmp_path / "report.html")["runtime"]["facts"]["share"] is None
    assert "Longest chain of tasks: 0 s of 0 s" in summary(tmp_path)
