"""Traces that earlier versions wrote stay readable; each format's own stays in the repository."""

from pathlib import Path

import pytest
from support import traces

import tprof

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_a_trace_of_an_earlier_version_gives_the_same_joules(name, tmp_path):
    profile = tprof.load(traces.copy(GOLDEN / name, tmp_path / name)).profile()

    assert [entry.name for entry in profile.trace.tasks] == ["load", "blur"]
    assert profile.tasks.set_index("instance")["energy_j"].to_dict() == pytest.approx({1: 2.5, 2: 10.0, 3: 12.5})
    assert profile.accounts.loc["package-0", "measured_j"] == 25.0


def test_the_events_of_1_1_are_read(tmp_path):
    profile = tprof.load(traces.copy(GOLDEN / "format-1.1", tmp_path / "t")).profile()

    tasks = profile.tasks.set_index("instance")
    assert tasks["wait_data_s"].to_dict() == {1: 0.0, 2: 1.0, 3: 0.0}
    assert tasks["stolen"].to_dict() == {1: False, 2: False, 3: True}
    assert profile.dependences.to_numpy().tolist() == [[2, 1]]
    assert profile.critical_path().span_s == 2.0
    assert profile.starvation["running_s"].tolist() == [2.0, 2.0]


def test_the_native_threads_of_1_2_are_read(tmp_path):
    seen, other = tprof.load(traces.copy(GOLDEN / "format-1.2", tmp_path / "t")).native_threads

    assert (seen.pid, seen.tid, seen.name, seen.library) == (7, 12, "idle", "/opt/libpool.so.1")
    assert (seen.created_ns, seen.creator_tid, seen.creator_task, seen.creator_instance) == (10, 7, 1, 2)
    assert (seen.ended_ns, seen.t_ns.tolist(), seen.cpu_ns.tolist()) == (
        1_999_999_999,
        [10, 1_000_000_000, 1_999_999_999],
        [0, 0, 0],
    )
    assert (other.tid, other.created_ns, other.ended_ns, other.cpu_ns.tolist()) == (12, None, None, [5])


def test_the_calls_of_1_3_are_read(tmp_path):
    (calls,) = tprof.load(traces.copy(GOLDEN / "format-1.3", tmp_path / "t")).native_calls

    assert (calls.pid, calls.library, calls.since_ns, calls.complete) == (7, "/opt/libpool.so.1", 10, True)
    assert calls.tid.tolist() == [7, 7, 8]
    assert calls.task.tolist() == [0, 1, -1]
    assert calls.begin_ns.tolist() == [100, 500_000_000, 600]
    assert calls.end_ns.tolist() == [2000, 700_000_000, 900]
    assert calls.inside.tolist() == pytest.approx([1.0, 0.5, 1.0], abs=1e-4)
    assert calls.several.tolist() == [False, False, True]


def test_the_work_on_gpus_of_1_4_is_read(tmp_path):
    trace = tprof.load(traces.copy(GOLDEN / "format-1.4", tmp_path / "t"))

    (segments,), (users,), (note,) = trace.gpu.segments, trace.gpu.users, trace.gpu.notes
    assert (segments.process, segments.device, segments.number) == (0, ("GPU-8f00", "00000000:01:00.0"), 0)
    assert segments.begin_ns.tolist() == [200_000_000, 700_000_000]
    assert segments.end_ns.tolist() == [600_000_000, 800_000_000]
    assert (segments.instance.tolist(), segments.task.tolist()) == ([2, 0], [1, 0xFFFFFFFF])
    assert (users.domain, users.t_ns.tolist(), users.processes.tolist()) == ("gpu-0", [1_000_000_000], [2])
    assert (users.pid.tolist(), repr(users.part.tolist())) == ([7, 8], "[0.4, nan]")
    assert (note.used, note.lost) == (("torch",), 1)


def test_native_threads_before_1_5_have_no_counts(tmp_path):
    native = tprof.load(traces.copy(GOLDEN / "format-1.4", tmp_path / "t")).native_threads

    assert [one.counts for one in native] == [None, None]


def test_the_compressed_records_of_1_6_are_read(tmp_path):
    threads = tprof.load(traces.copy(GOLDEN / "format-1.6", tmp_path / "t")).threads

    assert [one.stream.packed.stop for one in threads] == [one.count for one in threads] == [4, 2]


def test_the_segments_of_1_7_are_read(tmp_path):
    first, second = tprof.load(traces.copy(GOLDEN / "format-1.7", tmp_path / "t")).threads

    assert [(one.stream.segments.records, one.stream.segments.first, one.count) for one in (first, second)] == [
        (2, 0, 4),
        (2, 0, 2),
    ]
    assert len(list((tmp_path / "t" / "threads").glob("00000000.samples.*.packed"))) == 2
    assert len(list((tmp_path / "t" / "threads").glob("00000001.samples.0*"))) == 1


def test_the_samples_of_1_8_are_as_long_as_their_columns_need(tmp_path):
    earlier, now = (
        tprof.load(traces.copy(GOLDEN / name, tmp_path / name)).threads for name in ("format-1.4", "format-1.8")
    )

    assert [one.stream.number("record_bytes") for one in now] == [40, 40]
    for former, one in zip(earlier, now, strict=True):
        assert [former.read()[name].tolist() for name in former.columns] == [
            one.read()[name].tolist() for name in one.columns
        ]


def test_the_samples_of_1_9_are_compressed_by_rates_and_in_groups(tmp_path):
    before, now = (
        tprof.load(traces.copy(GOLDEN / name, tmp_path / name)).threads for name in ("format-1.8", "format-1.9")
    )

    plans = [block.plan for one in now for block in one.stream.packed.blocks]
    assert [one.grouped_by for one in plans] == [16, 16]
    assert max(max(one.methods) for one in plans) >= 16
    assert [one.read().tolist() for one in now] == [one.read().tolist() for one in before]
