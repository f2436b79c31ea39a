"""A trace reads as it was written, and what is missing is said."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.properties import examples

import tprof
from tprof.trace import EndReason, Kind, Quality, layout


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return traces.write(tmp_path_factory.mktemp("trace") / "whole.tprof")


@pytest.fixture
def trace(whole, tmp_path):
    """Return a copy that a test may damage."""
    return traces.copy(whole, tmp_path / "t.tprof")


def test_a_whole_trace_reads_without_a_note(whole):
    trace = tprof.load(whole)

    assert (trace.complete, trace.notes) == (True, ())
    assert (trace.start_ns, trace.end_ns) == (0, 2 * traces.SECOND_NS)
    assert [entry.name for entry in trace.tasks] == ["load", "blur"]


def test_threads_say_what_their_files_say(whole):
    main, other = tprof.load(whole).threads

    assert (main.name, main.ordinal, main.columns) == ("main", 0, ("cpu_ns",))
    assert (main.end_reason, main.end_ns) == (EndReason.STOPPED, 2 * traces.SECOND_NS)
    assert main.end_columns == {"cpu_ns": 2 * traces.SECOND_NS}
    assert (other.name, other.ordinal, other.columns) == ("other", 1, ())


def test_samples_name_tasks_by_their_index_in_the_trace(whole):
    samples = tprof.load(whole).threads[0].read()

    assert samples["task"].tolist() == [0, layout.NO_TASK, 1, layout.NO_TASK]
    assert samples["kind"].tolist() == [Kind.START, Kind.FINISH, Kind.START, Kind.FINISH]


def test_packages_come_from_the_topology_and_are_unknown_without_one(whole):
    main, other = tprof.load(whole).threads

    assert main.package(main.read()).tolist() == [0, 0, 0, 0]
    assert other.package(other.read()).tolist() == [-1, -1]


def test_readings_keep_raw_counts_with_their_unit(whole):
    readings = tprof.load(whole).readings["package-0"]

    assert (readings.value * readings.unit).tolist() == [0.0, 5.0, 25.0]
    assert (readings.quality, readings.counted, readings.modulus) == (Quality.GIVEN, True, None)


def test_a_relative_path_and_one_with_a_slash_are_the_same(whole, monkeypatch):
    monkeypatch.chdir(whole.parent)

    assert tprof.load(f"{whole.name}/").path == tprof.load(whole).path == whole


def test_without_an_end_the_trace_is_incomplete_and_ends_at_its_last_record(trace):
    (trace / "end.json").unlink()

    loaded = tprof.load(trace)

    assert (loaded.complete, loaded.end_ns) == (False, 2 * traces.SECOND_NS)
    assert any("incomplete" in note for note in loaded.notes)


def test_a_window_holds_the_records_that_are_not_yet_flushed(trace):
    """The state in which kill -9 leaves a file: two records flushed, two committed in the window, one torn."""
    path = traces.samples_of(trace)
    content = path.read_bytes()
    body = content[4096:]
    torn = b"\xff" * 64
    path.write_bytes(content[:4096] + body[128:] + torn + bytes(64) + body[:128])
    traces.set_header(path, window_bytes=256, flushed=2, committed=4)

    samples = tprof.load(trace).threads[0].read()

    assert samples["instance"].tolist() == [1, 0, 2, 0]


@given(first=st.integers(0, 6), stop=st.integers(0, 6))
@examples(30)
def test_a_part_is_a_slice_of_the_whole(whole, first, stop):
    thread = tprof.load(whole).threads[0]

    part = thread.stream.read_part(thread.dtype, first, max(first, stop))

    assert part.tobytes() == thread.stream.read(thread.dtype)[first : max(first, stop)].tobytes()


def test_absent_columns_are_not_there_rather_than_zero(trace):
    traces.set_header(traces.samples_of(trace), absent=1)

    thread = tprof.load(trace).threads[0]

    assert (thread.columns, thread.end_columns) == ((), {})


def test_an_open_file_has_no_end(trace):
    traces.set_header(traces.samples_of(trace), end_reason=0)

    thread = tprof.load(trace).threads[0]

    assert (thread.end_reason, thread.end_ns, thread.end_columns) == (EndReason.OPEN, None, {})


def test_what_was_dropped_is_counted_and_said(trace):
    traces.set_header(traces.samples_of(trace), dropped_enospc=7, dropped_io=2, first_drop_ns=5)
    traces.set_json(trace / "end.json", lost_threads=3, dropped={"emfile": 1})

    loaded = tprof.load(trace)

    assert loaded.threads[0].dropped == {"enospc": 7, "io": 2}
    assert loaded.threads[0].first_drop_ns == 5
    assert any(note.startswith("10 samples could not be written") for note in loaded.notes)
    assert any(note.startswith("3 threads are not recorded: no file descriptor") for note in loaded.notes)


def test_the_same_place_in_two_processes_is_one_task(trace):
    lines = '{"task":0,"name":"blur"}\n{"task":1,"name":"own","file":"/a.py","line":3,"source":"def own(): ..."}\n'
    (trace / "tasks" / "00000001.jsonl").write_text(lines)
    traces.set_header(trace / "threads" / "00000001.samples", process=1)

    loaded = tprof.load(trace)

    assert [entry.name for entry in loaded.tasks] == ["load", "blur", "own"]
    assert loaded.tasks[2] == tprof.trace.TaskEntry("own", "/a.py", 3, "def own(): ...")
    assert loaded.threads[1].read()["task"].tolist() == [2, layout.NO_TASK]


def test_a_number_without_a_name_gets_a_stand_in(trace):
    (trace / "tasks" / "00000000.jsonl").write_text('{"task":0,"name":"load"}\n{"task":1,"na')

    loaded = tprof.load(trace)

    assert [entry.name for entry in loaded.tasks] == ["load", "<lost name #1>"]
    assert loaded.threads[0].read()["task"].tolist() == [0, layout.NO_TASK, 1, layout.NO_TASK]
    assert any("1 line of the task table is damaged" in note for note in loaded.notes)


def test_scattered_numbers_of_tasks_are_found(trace):
    (trace / "tasks" / "00000000.jsonl").write_text('{"task":0,"name":"a"}\n{"task":4000000000,"name":"far"}\n')
    path = traces.samples_of(trace)
    content = bytearray(path.read_bytes())
    samples = np.frombuffer(content, layout.sample_dtype(("",) * 5), offset=4096)
    samples["task"] = [4_000_000_000, layout.NO_TASK, 3_999_999_999, 0]
    path.write_bytes(bytes(content))

    loaded = tprof.load(trace)

    assert loaded.tasks[1].name == "far"
    assert loaded.threads[0].read()["task"].tolist() == [1, layout.NO_TASK, layout.NO_TASK, 0]


def test_a_newer_minor_version_is_read_and_said(trace):
    path = traces.samples_of(trace)
    traces.set_header(path, minor=layout.MINOR + 1)
    traces.set_json(trace / "manifest.json", format=[1, layout.MINOR + 1], novelty={"any": ["thing"]})

    loaded = tprof.load(trace)

    assert len(loaded.threads[0].read()) == 4
    assert (
        f"the trace is of format 1.{layout.MINOR + 1}: what 1.{layout.MINOR} does not know is left out" in loaded.notes
    )
    assert any(f"00000000.samples is of format 1.{layout.MINOR + 1}" in note for note in loaded.notes)


@pytest.mark.parametrize("where", ["manifest", "file"])
def test_a_newer_major_version_is_refused_whole(trace, where):
    if where == "manifest":
        traces.set_json(trace / "manifest.json", format=[2, 0])
    else:
        traces.set_header(traces.samples_of(trace), major=2)

    with pytest.raises(tprof.TraceError, match=r"is of format 2\.x, this tprof reads 1\.x: update tprof$"):
        tprof.load(trace)


def test_samples_out_of_order_and_with_equal_times_are_given_as_they_stand(tmp_path):
    path = traces.write(tmp_path / "t.tprof")
    content = bytearray(traces.samples_of(path).read_bytes())
    np.frombuffer(content, layout.sample_dtype(("",) * 5), offset=4096)["t_ns"] = [5, 5, 3, 5]
    traces.samples_of(path).write_bytes(bytes(content))

    assert tprof.load(path).threads[0].read()["t_ns"].tolist() == [5, 5, 3, 5]


def test_a_profile_lets_no_time_run_backwards_and_counts_where_it_did(tmp_path):
    path = traces.write(tmp_path / "t.tprof")
    content = bytearray(traces.samples_of(path).read_bytes())
    np.frombuffer(content, layout.sample_dtype(("",) * 5), offset=4096)["t_ns"] = [2, 2, 1, 3]
    traces.samples_of(path).write_bytes(bytes(content))

    warnings = tprof.load(path).profile().info["warnings"]

    assert any(warning.startswith("1 time stamp went backwards") for warning in warnings)


def test_nothing_is_left_open(whole):
    before = len(list(Path("/proc/self/fd").iterdir()))

    for samples in traces.read_all(tprof.load(whole)):
        assert len(samples)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


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
