"""The last segment of a thread that was cut off has the CPU time of its process that no clock shows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs, traces
from support.properties import examples
from support.streamed_profiles import assert_same, streamed
from tprof.analysis.attribution.segments import find_cut_off

import tprof
from tprof.live import Meter
from tprof.live.threads import OUTSIDE
from tprof.trace import NativeThread, layout
from tprof.trace.kinds import NativeFlag, NativeKind, StreamKind
from tprof.trace.stream import open_stream

if TYPE_CHECKING:
    from typing import Any

S = traces.SECOND_NS
PID = 7


def native(
    tid: int, t_s: list[float], cpu_s: list[float], *, created_s: float | None = None, ended_s: float | None = None
) -> NativeThread:
    """Return a native thread with these readings of its clock."""
    t_ns, cpu_ns = (np.round(np.array(values) * S).astype(np.int64) for values in (t_s, cpu_s))
    created_ns, ended_ns = (None if one is None else round(one * S) for one in (created_s, ended_s))
    return NativeThread(PID, tid, "pool", "/lib/polars.so", created_ns, None, None, None, ended_ns, t_ns, cpu_ns)


def write(path: Path, *threads: NativeThread, used_s: float, sampled: tuple[dict[str, Any], ...] = ()) -> Path:
    """Write a process that was killed after 2 s inside a task and had used so many CPU seconds, 0.2 in samples."""
    main = {
        "t_ns": [0, S // 2, 2 * S], "instance": [1, 2, 0], "task": [0, 1, -1], "cpu_ns": [0, S // 5, S // 5],
        "pid": PID, "tid": PID,
    }  # fmt: skip
    traces.write(path, threads=[main, *sampled], native=threads)
    file = traces.samples_of(path)
    traces.set_header(file, end_reason=0, end_ns=0, committed=3, flushed=3)
    processes = [{"process": 0, "pid": PID, "cpu_ns": round(used_s * S), "ended_ns": 2 * S}]
    traces.set_json(path / "end.json", end_ns=2 * S, processes=processes)
    return path


def cut_off_s(path: Path) -> float:
    """Return the CPU seconds of the only segment that was cut off."""
    (found,) = find_cut_off(tprof.load(path)).values()
    return found.cpu_s


def test_native_threads_have_their_part_of_the_process_s_time(tmp_path: Path) -> None:
    """Two of them used 0.5 s, also before the recording; 0.4 of 1.1 s are left for the segment."""
    pool = native(8, [0, 0.3, 1.9], [0.1, 0.2, 0.3]), native(9, [0.5, 1.0], [0, 0.2], created_s=0.5, ended_s=1.0)
    path = write(tmp_path / "t.tprof", *pool, used_s=1.1)

    profiles = tprof.load(path).profile("cputime"), streamed(tprof.load(path), "cputime", samples=1)

    assert cut_off_s(path) == pytest.approx(0.4)
    assert_same(*profiles)
    assert profiles[0].tasks["cpu_s"].tolist() == pytest.approx([0.2, 0.4])


def test_what_is_left_of_a_killed_process_is_the_most_that_its_task_may_have_taken(tmp_path: Path) -> None:
    """Threads that nobody followed may have used all of it, so the task may have taken nothing."""
    profile = tprof.load(write(tmp_path / "t.tprof", used_s=2)).profile("cputime")

    low_j, high_j = profile.tasks[["energy_low_j", "energy_high_j"]].to_numpy()[1]
    assert low_j == 0 < profile.tasks["energy_j"][1] <= high_j


def test_without_any_time_left_the_segment_has_none(tmp_path: Path) -> None:
    """A clock of a native thread may be read after that of the process."""
    path = write(tmp_path / "t.tprof", native(8, [0, 2], [0, 1.8]), used_s=1.9)

    assert cut_off_s(path) == 0.0


def test_a_thread_that_records_samples_later_counts_once(tmp_path: Path) -> None:
    """Its own clock has what it used before, too; another thread with the same number had ended before."""
    sampled = {"t_ns": [S, 2 * S], "instance": [3, 0], "task": [1, -1], "cpu_ns": [S // 10, S // 5], "pid": PID}
    joins, earlier = native(8, [0.6, 0.9], [0, 0.1]), native(8, [0, 0.5], [0, 0.3], ended_s=0.5)
    path = write(tmp_path / "t.tprof", joins, earlier, used_s=1.1, sampled=(sampled | {"tid": 8},))

    assert cut_off_s(path) == pytest.approx(1.1 - 0.2 - 0.2 - 0.3)


def test_a_thread_that_is_noted_to_record_samples_counts_once(tmp_path: Path) -> None:
    """It was read last just before its first sample."""
    sampled = {"t_ns": [S, 2 * S], "instance": [3, 0], "task": [1, -1], "cpu_ns": [S // 10, S // 5], "pid": PID}
    joins = native(8, [0.6, 0.9], [0, 0.1], ended_s=0.9)
    path = write(tmp_path / "t.tprof", joins, used_s=1.1, sampled=(sampled | {"tid": 8},))
    (file,) = (path / "native").iterdir()
    records = open_stream(file, StreamKind.NATIVE).read(layout.NATIVE)
    records["flags"][records["kind"] == NativeKind.END] = NativeFlag.JOINED
    file.write_bytes(file.read_bytes()[: -records.nbytes] + records.tobytes())

    assert cut_off_s(path) == pytest.approx(1.1 - 0.2 - 0.2)


@examples(60, quick=8)
@given(
    st.integers(0, 2**31), st.integers(1, 100), st.sampled_from(["cputime", "ipc"]), st.integers(1, 4),
    st.floats(0, 1.5),
)  # fmt: skip
def test_figures_are_the_same_in_windows_and_while_followed(seed, samples, model, pools, used) -> None:
    """Of threads that are cut off at a moment of a recording with pools."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), pools=pools)
        end_ns = int(np.random.default_rng(seed).integers(30, nested_runs.LENGTH_MS)) * nested_runs.MS
        running = [{"process": 0, "pid": PID, "cpu_ns": 1 + round(used * end_ns), "ended_ns": None}]
        traces.set_json(path / "end.json", end_ns=end_ns, processes=running)
        trace = tprof.load(path)
        whole = trace.profile(model)

        assert find_cut_off(trace)
        assert_same(whole, streamed(trace, model, samples=samples))
        if model == "cputime":
            assert_as_followed(path, whole)


def assert_as_followed(path: Path, whole: Any) -> None:
    """Compare joules of tasks with those of a session that has ended."""
    energies, known = Meter(path, process=OUTSIDE).energy(), whole.summary()["energy_j"]

    assert {name: one.energy_j for name, one in energies.tasks.items()} == {
        name: pytest.approx(joules, abs=1e-6) for name, joules in known.items()
    }
