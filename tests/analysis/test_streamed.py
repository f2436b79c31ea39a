"""A profile of a recording that is read window by window has the figures of the whole recording."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import nested_runs, traces
from support.properties import examples
from support.streamed_profiles import assert_same, in_order, streamed
from tprof.analysis.compare import figures_of
from tprof.analysis.export import format_named
from tprof.analysis.profile.memory import available_bytes

import tprof
from tprof.comparison import figures_of_session
from tprof.errors import TprofError, UsageError
from tprof.trace import Kind
from tprof.trace.compress import compress

if TYPE_CHECKING:
    from tprof.analysis.compare import RunFigures
    from tprof.analysis.profile.flame_tree import Flame


MS = nested_runs.MS


def assert_same_run(whole: RunFigures, parts: RunFigures) -> None:
    """Compare what comparisons take of two profiles."""
    for name, figure in whole.figures.items():
        pd.testing.assert_frame_equal(parts.figures[name], figure, rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(parts.where, whole.where, rtol=1e-9)
    assert parts.totals == pytest.approx(whole.totals, nan_ok=True)
    assert parts.circumstances == whole.circumstances


@examples(80)
@given(st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc", "auto"]), st.integers(1, 4))
def test_windows_of_any_size_give_the_figures_of_the_whole(seed, samples, model, domains) -> None:
    """Nested, suspended and moved instances, longer than many windows, on several threads, packages and domains."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=domains)
        trace = tprof.load(path)

        assert_same(trace.profile(model), streamed(trace, model, samples=samples))


@examples(60)
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc"]), st.sampled_from([0.02, 0.3, 1]),
    st.sampled_from([60, 400]),
)  # fmt: skip
def test_counts_that_are_lost_in_several_windows_are_those_of_the_whole(seed, samples, model, lost, events) -> None:
    """What was counted between known samples is split over the windows between them; some threads have none at all."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), events=events, lost=lost)
        trace = tprof.load(path)

        assert_same(trace.profile(model), streamed(trace, model, samples=samples))


@examples(40)
@example(seed=0, samples=1, model="cputime", domains=1, window=(0.125, 0.25))
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc", "auto"]), st.integers(0, 4),
    st.tuples(st.floats(0, 0.25), st.floats(0.01, 0.3)),
)  # fmt: skip
def test_windows_of_time_are_read_in_parts_too(seed, samples, model, domains, window) -> None:
    """A window of a recording has the same figures whether its samples are read in parts or not."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=domains)
        trace, times = tprof.load(path), {"start_s": window[0], "end_s": window[0] + window[1]}

        parts = streamed(trace, model, samples=samples, **times)
        assert_same(trace.profile(model, **times), parts)


@examples(5)
@given(st.integers(0, 2**31), st.integers(10, 300), st.sampled_from(["cputime", "ipc"]))
def test_comparisons_take_the_same_of_windows_as_of_the_whole(seed, samples, model) -> None:
    """Figures of tasks with their errors, of batches of instances too, and where these ran."""
    with tempfile.TemporaryDirectory() as folder:
        trace = tprof.load(nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed)))

        assert_same_run(figures_of(trace.profile(model)), figures_of(streamed(trace, model, samples=samples)))


@examples(5)
@given(st.integers(0, 2**31), st.integers(10, 300), st.sampled_from([(), ("process", "thread"), ("host",)]))
def test_trees_of_nested_tasks_are_those_of_the_whole(seed, samples, by) -> None:
    """Of instances that end after what they nest in too, and of those that are still open at the end."""
    with tempfile.TemporaryDirectory() as folder:
        trace = tprof.load(nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed)))

        whole, parts = (profile.flame(*by) for profile in (trace.profile(), streamed(trace, samples=samples)))

        pd.testing.assert_frame_equal(_by_path(parts), _by_path(whole), rtol=1e-9, atol=1e-12)


@examples(10)
@given(st.integers(0, 2**31), st.integers(10, 300), st.sampled_from([("host",), ("rank",), ("host", "rank")]))
def test_sums_by_host_or_label_are_those_of_the_whole(seed, samples, names) -> None:
    """The instances of one window after the other are added, with progress for each."""
    with tempfile.TemporaryDirectory() as folder:
        trace = tprof.load(nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed)))
        trace, how_far = replace(trace, labels={one.process: {"rank": "3"} for one in trace.threads}), []

        parts = streamed(trace, samples=samples).by(*names, progress=lambda *args: how_far.append(args))

        pd.testing.assert_frame_equal(parts, trace.profile().by(*names), rtol=1e-9, atol=1e-12)
        assert how_far


def test_a_label_that_no_process_has_is_refused_before_instances_are_read_again(tmp_path) -> None:
    """With those that there are."""
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0)))
    how_far: list[tuple[str, int, int]] = []

    with pytest.raises(UsageError, match="no process has the label rank: choose from host"):
        streamed(trace).by("rank", progress=lambda *args: how_far.append(args))

    assert not how_far


def test_what_nests_keeps_its_place_across_windows_in_which_nothing_ends(tmp_path) -> None:
    """A leaf ends in the first window, and what it nests in after many windows of nothing but suspension."""
    waits = [Kind.SUSPEND, Kind.RESUME] * 50
    thread = {
        "t_ns": np.arange(104) * MS,
        "kind": [Kind.START, Kind.START, Kind.FINISH, *waits, Kind.FINISH],
        "instance": [1, 2, 1, *[0, 1] * 50, 0],
        "task": [0, 1, 0, *[-1, 0] * 50, -1],
    }
    energy = {"package-0": (np.arange(0, 105, 2) * MS, np.arange(53.0))}
    path = traces.write(tmp_path / "x.tprof", tasks=("outer", "leaf"), threads=[thread], energy=energy)
    trace = tprof.load(path)

    parts = streamed(trace, samples=10)

    assert len(parts.instances.begins_ns) > 5
    pd.testing.assert_frame_equal(_by_path(parts.flame()), _by_path(trace.profile().flame()), rtol=1e-9, atol=1e-12)


def _by_path(tree: Flame) -> pd.DataFrame:
    paths = {row: " / ".join(path) for row, path in tree.paths()}
    nodes = tree.nodes.drop(columns="parent").astype({"kind": str})
    return nodes.rename(index={0: "all", **paths}).sort_index()


def test_a_long_recording_is_compared_and_checked_in_windows(tmp_path, monkeypatch) -> None:
    """Its figures do not depend on the windows, and progress is reported for each of them."""
    path = nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(3))
    whole = figures_of_session(path)
    monkeypatch.setattr("tprof.analysis.profile.build.WINDOW_SAMPLES", 100)
    windows = []

    parts = figures_of_session(path, progress=lambda *how_far: windows.append(how_far))

    assert_same_run(whole, parts)
    assert windows


@examples(20)
@given(st.integers(0, 2**31), st.integers(1, 100))
def test_a_calibrated_model_takes_idle_watts_of_all_windows(seed, samples) -> None:
    """The power of idle quanta, which replaces a calibrated C2, is that of the whole recording."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), events=60, domains=1)
        trace, given_w = tprof.load(path), {"a": 1.0, "b": 0, "c": 0, "C1": 5.0, "C2": 2.0}

        whole = trace.profile("linear", coefficients=given_w)

        assert_same(whole, streamed(trace, "linear", coefficients=given_w, samples=samples))


def test_a_recording_without_energy_streams(tmp_path) -> None:
    """Without a sensor the times and counts are those of the whole recording."""
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0), domains=0))

    assert_same(trace.profile(), streamed(trace))


def test_the_table_of_a_streamed_profile_is_made_when_it_is_asked_for(tmp_path) -> None:
    """It has the columns, types and figures of the whole recording's."""
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0)))
    whole, parts = trace.profile(), streamed(trace)

    pd.testing.assert_frame_equal(parts.tasks, whole.tasks.sort_values("instance", ignore_index=True), rtol=1e-9)
    assert len(parts.own_s) == len(parts.tasks)


def test_a_table_that_does_not_fit_is_refused_with_what_to_do(tmp_path, monkeypatch) -> None:
    """Before anything is read, in a sentence that names parts and windows."""
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0)))
    profile = streamed(trace)
    monkeypatch.setattr("tprof.analysis.profile.memory.available_bytes", lambda: 1_000)

    with pytest.raises(UsageError, match=r"instances would take .* are free: read it in parts by profile\.scan_tasks"):
        _ = profile.tasks
    with pytest.raises(UsageError, match=r"instances would take .* are free: take a window of the recording by"):
        profile.flame()


def test_memory_is_what_the_machine_and_control_groups_leave(tmp_path) -> None:
    """The least of them, where files that the kernel can read again are free."""
    group = tmp_path / "sys/fs/cgroup/a/b"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/a/b\n")
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("10\n")
    for name, text in (("max", "5000"), ("current", "4500"), ("stat", "anon 1\ninactive_file 300\nactive_file 9")):
        (group.parent / f"memory.{name}").write_text(text + "\n")

    assert available_bytes(tmp_path) == 800


@pytest.mark.parametrize("is_streamed", [True, False])
def test_instances_are_scanned_in_parts_with_the_columns_of_the_table(tmp_path, is_streamed) -> None:
    """As a dataset of pyarrow that outlives the profile, and from which polars takes what it needs."""
    pl = pytest.importorskip("polars")
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0)))
    whole = trace.profile()

    found = (streamed(trace) if is_streamed else trace.profile()).scan_tasks()

    assert found.schema.names == list(whole.tasks)
    table = in_order(found.to_table().to_pandas())
    pd.testing.assert_frame_equal(table, in_order(whole.tasks), check_dtype=False, check_categorical=False, rtol=1e-9)
    joules = pl.scan_pyarrow_dataset(found).filter(pl.col("task") == "leaf").select(pl.col("energy_j").sum()).collect()
    assert joules.item() == pytest.approx(whole.summary().loc["leaf", "energy_j"])


def test_a_scan_of_instances_leaves_no_files(tmp_path, monkeypatch) -> None:
    """Scans that outlive the dataset and the profile are read whole, and their space is free when they are done."""
    pytest.importorskip("pyarrow")
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0)))
    monkeypatch.setenv("TMPDIR", str(make_folder(tmp_path / "temporary")))
    monkeypatch.setattr(tempfile, "tempdir", None)

    scan = streamed(trace).scan_tasks().scanner(columns=["energy_j"])

    assert list((tmp_path / "temporary").iterdir()) == []
    assert scan.to_table().num_rows == len(trace.profile().tasks)
    del scan
    gc.collect()
    assert open_files(tmp_path / "temporary") == []


def test_a_scan_for_which_there_is_no_space_leaves_no_files(tmp_path, monkeypatch) -> None:
    """The error says what helps."""
    pytest.importorskip("pyarrow")
    profile = streamed(tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0))))
    monkeypatch.setenv("TMPDIR", str(make_folder(tmp_path / "temporary")))
    monkeypatch.setattr(tempfile, "tempdir", None)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(
            TprofError, match=r"cannot keep the instances .* in .*temporary .set TMPDIR .*: .*File too large"
        ) as error:
            profile.scan_tasks()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert list((tmp_path / "temporary").iterdir()) == [], error  # which still refers to what failed
    assert profile.scan_tasks().count_rows() == len(profile.tasks)


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def open_files(folder: Path) -> list[str]:
    """Return the files of a folder that this process has open, removed ones too."""
    targets = [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]
    return [target for target in targets if target.startswith(f"{folder}/")]


@pytest.mark.parametrize("instance", [[1, 2, 1, 0], [5, 4, 3, 0]])
def test_ids_that_return_give_the_figures_of_the_whole(tmp_path, instance) -> None:
    """Instances that run again after they had ended are one, in whatever order their ids are."""
    t_ns = np.arange(4) * traces.SECOND_NS
    kind = [1, 1, 1, 2]
    thread = {"t_ns": t_ns, "instance": instance, "task": [0, 1, 0, -1], "kind": kind}
    trace = tprof.load(traces.write(tmp_path / "x.tprof", threads=[thread]))

    parts = trace.profile(tables=False, window_samples=1)

    pd.testing.assert_frame_equal(parts.summary(), trace.profile().summary())
    assert parts.info == trace.profile().info


@pytest.mark.parametrize(("form", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_instances_are_written_as_they_end_with_the_same_columns(tmp_path, form, read) -> None:
    """Files of a streamed profile hold what those of the whole one do, tasks in the order in which they ended."""
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(1)))

    format_named(form).write(trace.profile(), tmp_path / "whole")
    format_named(form).write(streamed(trace), tmp_path / "parts")

    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "parts").iterdir())
    for name in names:
        if name.endswith(".json"):
            assert (tmp_path / "whole" / name).read_text() == (tmp_path / "parts" / name).read_text()
            continue
        whole, parts = (read(tmp_path / folder / name) for folder in ("whole", "parts"))
        if name.startswith("tasks"):
            whole, parts = in_order(whole), in_order(parts)
        pd.testing.assert_frame_equal(parts, whole, rtol=1e-9)


def test_a_compressed_recording_of_a_program_streams(tmp_path) -> None:
    """What the recorder wrote of threads, nested tasks and coroutines, with an estimate, gives the same in windows."""
    with tprof.record(tmp_path / "x.tprof", energy="estimate", counters="none", watts=(4, 6)):
        threads = [threading.Thread(target=_nested, args=(6,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        asyncio.run(_switching())
        for thread in threads:
            thread.join()
    compress(tmp_path / "x.tprof")

    trace = tprof.load(tmp_path / "x.tprof")

    assert_same(trace.profile(attribute_native=False), streamed(trace, samples=20, attribute_native=False))


@tprof.task
def _nested(depth: int) -> int:
    return depth and sum(_nested(depth - 1) for _ in range(2))


@tprof.task
async def _waits() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def _switching() -> None:
    await asyncio.gather(*(_waits() for _ in range(10)))
