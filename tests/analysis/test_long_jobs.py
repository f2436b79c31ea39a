"""The profile of a job whose parts are read window by window has the figures of one whose parts are in memory."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs, traces
from support.properties import examples
from tprof.analysis.compare import figures_of
from tprof.analysis.export import format_named
from tprof.analysis.profile import Profile, build
from tprof.analysis.profile.parallel_maps import Processes
from tprof.analysis.report.profile_page import page_data

import tprof
from tprof.cli.options import opened
from tprof.comparison import figures_of_session
from tprof.errors import UsageError
from tprof.trace.merge import merge

if TYPE_CHECKING:
    from tprof.trace import ClusterTrace

HOSTS = ("one", "two", "three")


def job_of(folder: Path, seed: int) -> ClusterTrace:
    """Write three hosts, of which one has labels."""
    for number, name in enumerate(HOSTS):
        path = nested_runs.write(
            folder / f"{name}.tprof", np.random.default_rng((seed, number)), events=150, domains=1 + number
        )
        traces.set_json(path / "manifest.json", host={"hostname": name})
    (folder / "two.tprof" / "labels").mkdir(exist_ok=True)
    (folder / "two.tprof" / "labels" / "00000000.jsonl").write_text(json.dumps({"rank": "7"}))
    merge([folder / f"{name}.tprof" for name in HOSTS], folder / "job.tprof")
    found: ClusterTrace = tprof.load(folder / "job.tprof")
    return found


def in_windows(job: ClusterTrace, samples: int = 40, **options: object) -> Profile:
    """Return the profile whose parts are read in windows of so few samples."""
    return job.profile(tables=False, window_samples=samples, **options)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ClusterTrace:
    return job_of(tmp_path_factory.mktemp("job"), 5)


def by_id(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return instances in an order that does not depend on how they were read, texts as texts."""
    texts = [name for name in tasks if isinstance(tasks[name].dtype, pd.CategoricalDtype)]
    return tasks.astype(dict.fromkeys(texts, object)).sort_values(["host", "instance"], ignore_index=True)


@examples(4)
@given(st.integers(0, 2**31), st.integers(10, 300))
def test_windows_of_hosts_give_the_figures_of_the_whole(seed, samples) -> None:
    """Summaries, accounts, hosts, sums by host, instances, trees and comparisons."""
    with tempfile.TemporaryDirectory() as folder:
        job = job_of(Path(folder), seed)
        whole, parts = job.profile(), in_windows(job, samples)

        for common in (True, False):
            pd.testing.assert_frame_equal(parts.summary(common=common), whole.summary(common=common), rtol=1e-9)
        for name in ("accounts", "hosts", "power"):
            pd.testing.assert_frame_equal(getattr(parts, name), getattr(whole, name), rtol=1e-9, atol=1e-12)
        pd.testing.assert_frame_equal(parts.by("host", "rank"), whole.by("host", "rank"), rtol=1e-9, atol=1e-12)
        pd.testing.assert_frame_equal(by_id(parts.tasks), by_id(whole.tasks), rtol=1e-9, atol=1e-12)
        assert parts.info == whole.info
        for levels in ((), ("host", "thread")):
            assert parts.flame(*levels).energy_j == pytest.approx(whole.flame(*levels).energy_j)
            assert len(parts.flame(*levels).nodes) == len(whole.flame(*levels).nodes)
        ours, theirs = figures_of(parts), figures_of(whole)
        pd.testing.assert_frame_equal(ours.where, theirs.where, rtol=1e-9)
        for name, figure in theirs.figures.items():
            pd.testing.assert_frame_equal(ours.figures[name], figure, rtol=1e-9, atol=1e-12)


def test_a_job_of_one_host_scatters_as_that_host(tmp_path) -> None:
    """The batches of a job are those of each of its hosts."""
    path = nested_runs.write(tmp_path / "one.tprof", np.random.default_rng(8))
    merge([path], tmp_path / "job.tprof")

    of_job, of_host = figures_of(tprof.load(tmp_path / "job.tprof").profile()), figures_of(tprof.load(path).profile())

    for name, figure in of_host.figures.items():
        pd.testing.assert_frame_equal(
            of_job.figures[name][["value", "variance", "df"]].sort_index(),
            figure[["value", "variance", "df"]].sort_index(), rtol=1e-9, check_names=False,
        )  # fmt: skip


def test_parquet_holds_the_instances_of_all_hosts_as_they_end(job, tmp_path) -> None:
    pytest.importorskip("pyarrow")
    format_named("parquet").write(job.profile(), tmp_path / "whole")
    format_named("parquet").write(in_windows(job), tmp_path / "parts")

    assert {one.name for one in (tmp_path / "parts").iterdir()} == {one.name for one in (tmp_path / "whole").iterdir()}
    whole, parts = (pd.read_parquet(tmp_path / name / "tasks.parquet") for name in ("whole", "parts"))
    assert list(parts.columns) == list(whole.columns)
    pd.testing.assert_frame_equal(by_id(parts), by_id(whole), rtol=1e-9, atol=1e-12)


def test_csv_holds_the_instances_of_all_hosts_as_they_end(job, tmp_path) -> None:
    format_named("csv").write(job.profile(), tmp_path / "whole")
    format_named("csv").write(in_windows(job), tmp_path / "parts")

    whole, parts = (pd.read_csv(tmp_path / name / "tasks.csv") for name in ("whole", "parts"))
    pd.testing.assert_frame_equal(by_id(parts), by_id(whole), rtol=1e-9, atol=1e-12)


def test_parquet_takes_windows_whose_labels_differ(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    t_ns = np.arange(0, 3) * traces.SECOND_NS
    threads = [
        {"t_ns": t_ns + number * 3 * traces.SECOND_NS, "instance": [2 * number + 1, 2 * number + 2, 0],
         "task": [0, 1, -1], "kind": [1, 1, 2], "pid": number + 10}
        for number in (0, 1)
    ]  # fmt: skip
    path = traces.write(tmp_path / "x.tprof", threads=threads)
    traces.set_header(path / "threads" / "00000001.samples", process=1)
    (path / "labels").mkdir()
    for number in (0, 1):
        (path / "labels" / f"{number:08}.jsonl").write_text(json.dumps({"rank": str(number)}))

    profile = tprof.load(path).profile(tables=False, window_samples=2)
    format_named("parquet").write(profile, tmp_path / "out")

    found = pd.read_parquet(tmp_path / "out" / "tasks.parquet")
    assert found.sort_values("instance")["label_rank"].astype(str).tolist() == ["0", "0", "1", "1"]


def test_the_report_of_windows_has_the_lanes_and_trees_of_the_whole(job) -> None:
    whole, parts = page_data(job.profile(tables=False)), page_data(in_windows(job))

    for name in ("lanes", "names", "segments", "not_drawn", "threads_left_out"):
        assert parts["timeline"][name] == whole["timeline"][name]
    assert parts["longest"].keys() == whole["longest"].keys()
    for task, rows in whole["longest"].items():
        assert parts["longest"][task]["duration_ns"] == rows["duration_ns"]
    assert parts["flame"].keys() == whole["flame"].keys()


def test_hosts_that_a_pool_reads_have_the_same_figures(job) -> None:
    alone, pooled = in_windows(job), in_windows(job, map=Processes(2))

    assert pooled.summary().equals(alone.summary())
    assert pooled.by("host").equals(alone.by("host"))
    shared = figures_of(pooled)
    for name, figure in figures_of(alone).figures.items():
        pd.testing.assert_frame_equal(shared.figures[name], figure)


def test_progress_shows_hosts_and_windows(job) -> None:
    seen: list[tuple[str, int, int]] = []

    in_windows(job, progress=lambda doing, done, of: seen.append((doing, done, of)))

    assert [one for one in seen if one[0] in HOSTS] == [(name, number, 3) for number, name in enumerate(sorted(HOSTS))]
    assert {doing for doing, _, _ in seen} >= {
        f"{name} ({number + 1} of 3): instances" for number, name in enumerate(sorted(HOSTS))
    }


def test_a_label_that_nobody_has_is_refused_before_parts_are_read_again(job) -> None:
    with pytest.raises(UsageError, match="no process has the label colour: choose from host, rank"):
        in_windows(job).by("colour")


def test_a_table_that_does_not_fit_is_one_sentence(job, monkeypatch) -> None:
    monkeypatch.setattr("tprof.analysis.profile.memory.available_bytes", lambda: 1000)

    with pytest.raises(UsageError, match=r"instances of the job would take .* and 0 MB are free: write it by profile"):
        in_windows(job).tasks  # noqa: B018 - asking for it is what fails


def test_commands_read_a_long_job_in_windows(job, monkeypatch) -> None:
    """Its table of instances is not made, and its bar shows hosts."""
    whole = job.profile()

    with opened(job.path, instances=True) as profile:
        assert not profile.instances.has_table
        pd.testing.assert_frame_equal(profile.summary(), whole.summary(), rtol=1e-9)
    monkeypatch.setattr(build, "WINDOW_SAMPLES", 50)
    seen: list[tuple[str, int, int]] = []
    found = figures_of_session(job.path, progress=lambda *how_far: seen.append(how_far))
    assert any(doing == "two (3 of 3): instances" for doing, _, _ in seen)
    for name, figure in figures_of(whole).figures.items():
        pd.testing.assert_frame_equal(found.figures[name], figure, rtol=1e-9, atol=1e-12)


def test_what_is_known_of_one_host_says_where_the_parts_are(job) -> None:
    profile = job.profile()

    assert profile.has_instances
    for ask in (profile.waits, lambda: profile.energy_by_domain, lambda: profile.quanta):
        with pytest.raises(UsageError, match="is a job of several hosts, and this is known of one: take the part"):
            ask()


def test_a_job_of_one_host_has_the_row_of_that_host(tmp_path) -> None:
    path = nested_runs.write(tmp_path / "one.tprof", np.random.default_rng(8))
    merge([path], tmp_path / "job.tprof")

    of_job, of_host = tprof.load(tmp_path / "job.tprof").profile().hosts, tprof.load(path).profile().hosts

    pd.testing.assert_frame_equal(of_job.reset_index(drop=True), of_host.reset_index(drop=True))
