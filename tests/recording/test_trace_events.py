"""Events of a task runtime are read as they were written, and damage to them ends in a note."""

import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support import traces
from support.properties import examples
from tprof.analysis.profile.task_graph import read_events

import tprof
from tprof.trace import EventKind, layout

EVENTS = {
    "t_ns": [0, 5, 5, 7, 9, 11],
    "kind": [EventKind.BEGIN, EventKind.SPAWN, EventKind.DEPENDENCE, EventKind.READY, EventKind.STEAL, EventKind.END],
    "instance": [0, 2, 2, 2, 2, 0],
    "other": [0, 1, 1, 1, 0, 0],
    "task": [-1, 1, 1, -1, -1, -1],
    "worker": [0, -1, -1, -1, 3, 0],
}


def with_events(path, *, first=EVENTS, other=None):
    """Write the usual two threads, each with its events."""
    lanes = [dict(lane) for lane in traces.THREADS]
    lanes[0]["events"], lanes[1]["events"] = first, other
    return traces.write(path, threads=[{k: v for k, v in lane.items() if v is not None} for lane in lanes])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return with_events(tmp_path_factory.mktemp("events") / "whole.tprof", other=EVENTS)


@pytest.fixture
def trace(whole, tmp_path):
    """Return a copy that a test may damage."""
    return traces.copy(whole, tmp_path / "t.tprof")


def events_of(path):
    return path / "graph" / "00000000.events"


def events_in(trace, thread=0):
    """Return the events of a thread as those of the product are read, by name of the field."""
    events = read_events(trace).table
    return events[events["thread"] == thread]


def as_given(events):
    """Return the columns as `write_trace` takes them."""
    found = {name: events[name].tolist() for name in EVENTS}
    none = {"task": layout.NO_TASK, "worker": layout.NO_WORKER}
    return found | {name: [-1 if value == none[name] else value for value in found[name]] for name in none}


def test_events_come_back_as_they_were_given(tmp_path):
    trace = tprof.load(with_events(tmp_path / "t.tprof"))

    assert as_given(events_in(trace)) == {name: [int(value) for value in values] for name, values in EVENTS.items()}
    assert read_events(trace).notes == ()


def test_a_trace_without_events_has_none_and_no_note(tmp_path):
    trace = tprof.load(traces.write(tmp_path / "t.tprof"))

    assert len(read_events(trace)) == 0
    assert trace.notes == ()
    assert not (trace.path / "graph").exists()


EVENT = st.tuples(
    st.integers(0, 2**63 - 1),
    st.sampled_from(EventKind),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(-1, 1),
    st.integers(-1, 0xFFFE),
)


@given(events=st.lists(EVENT, max_size=30))
@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_events_come_back(tmp_path, events):
    columns = list(zip(*sorted(events, key=lambda event: event[0]), strict=True)) or [()] * 6
    path = tmp_path / "t.tprof"
    shutil.rmtree(path, ignore_errors=True)
    arrays = dict(zip(EVENTS, map(list, columns), strict=True))
    with_events(path, first=arrays | {name: np.array(arrays[name], np.uint64) for name in ("instance", "other")})

    got = as_given(events_in(tprof.load(path)))
    assert [tuple(got[name]) for name in EVENTS] == [tuple(column) for column in columns]


def test_an_event_of_unknown_kind_is_left_out_and_said(trace):
    path = events_of(trace)
    content = bytearray(path.read_bytes())
    np.frombuffer(content, layout.EVENT, offset=4096)["kind"][1] = 99
    path.write_bytes(bytes(content))

    events = read_events(tprof.load(trace))

    assert len(events) == 11
    assert events.notes == ("1 event is of a kind that this tprof does not know, and left out",)


def test_a_spawn_of_what_may_run_at_once_stands_for_a_ready_too(trace):
    path = events_of(trace)
    content = bytearray(path.read_bytes())
    np.frombuffer(content, layout.EVENT, offset=4096)["flags"][1] = 1
    path.write_bytes(bytes(content))

    events = events_in(tprof.load(trace))[1:4]

    assert events["kind"].tolist() == [EventKind.SPAWN, EventKind.READY, EventKind.DEPENDENCE]
    assert (events["t_ns"].tolist(), events["instance"].tolist()) == ([5, 5, 5], [2, 2, 2])
    assert events["other"].tolist() == [1, 0, 1]


def test_a_file_cut_at_any_byte_gives_the_whole_events_before(trace):
    path = events_of(trace)
    content = path.read_bytes()
    for length in [*range(0, layout.HEADER_BYTES, 97), *range(layout.HEADER_BYTES, len(content))]:
        path.write_bytes(content[:length])

        loaded = tprof.load(trace)

        assert len(read_events(loaded)) == 6 + max(length - layout.HEADER_BYTES, 0) // 32
        # An empty one was never written.
        assert bool(loaded.notes) is (length > 0), f"of a file of {length} bytes is said: {loaded.notes}"


@pytest.mark.parametrize("count", [2**31, 2**58, 2**64 - 1])
def test_a_count_of_events_beyond_the_file_is_cut_to_the_file(trace, count):
    traces.set_header(events_of(trace), committed=count, flushed=count)

    loaded = tprof.load(trace)

    assert len(read_events(loaded)) == 12
    assert loaded.notes == (f"00000000.events is cut: {count} records were committed, 6 are there",)


def test_a_second_file_of_a_thread_is_left_out(trace):
    shutil.copy(events_of(trace), trace / "graph" / "00000007.events")

    loaded = tprof.load(trace)

    assert len(read_events(loaded)) == 12
    assert ["thread 0, as another file does" in note for note in loaded.notes] == [True]


def test_other_events_than_a_graph_s_are_left_out(trace):
    text = b'{"events": "rain"}'
    traces.set_header(events_of(trace), description=np.void(text), description_bytes=len(text))

    loaded = tprof.load(trace)

    assert len(read_events(loaded)) == 6
    assert ["holds events 'rain'" in note for note in loaded.notes] == [True]


def test_events_that_were_lost_to_a_full_disk_are_said(trace):
    traces.set_header(events_of(trace), dropped_enospc=3)

    assert tprof.load(trace).notes == ("3 events of the task runtime could not be written: its graph has gaps",)


def test_a_link_in_the_place_of_the_folder_is_not_followed(trace, tmp_path):
    shutil.move(trace / "graph", tmp_path / "elsewhere")
    (trace / "graph").symlink_to(tmp_path / "elsewhere")

    loaded = tprof.load(trace)

    assert len(read_events(loaded)) == 0
    assert ["it is a link or a file" in note for note in loaded.notes] == [True]


def test_a_task_that_only_an_event_names_and_no_table_gets_a_stand_in(trace):
    path = events_of(trace)
    content = bytearray(path.read_bytes())
    np.frombuffer(content, layout.EVENT, offset=4096)["task"][1] = 77
    path.write_bytes(bytes(content))
    (trace / "end.json").unlink()

    loaded = tprof.load(trace)

    assert loaded.tasks[-1].name == "<lost name #77>"
    assert (events_in(loaded)["task"] == len(loaded.tasks) - 1).sum() == 1


FIELD = st.sampled_from(layout.HEADER.names[1:-1])


@given(fields=st.dictionaries(FIELD, st.integers(0, 2**64 - 1), max_size=6), body=st.binary(max_size=200))
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_header_and_body_are_read_or_left_out(whole, tmp_path, fields, body):
    path = traces.copy(whole, tmp_path / "any.tprof")
    content = events_of(path).read_bytes()
    events_of(path).write_bytes(content[:4096] + body + content[4096 + len(body) :])
    for name, number in fields.items():
        kind = layout.HEADER.fields[name][0].base
        if kind.kind != "V":
            traces.set_header(events_of(path), **{name: number % 2 ** (8 * kind.itemsize)})

    result = traces.read_or_refuse(path)

    if not isinstance(result, str):
        events = read_events(result).table
        assert set(events["kind"].tolist()) <= set(EventKind)
        assert (events["task"][events["task"] != layout.NO_TASK] < len(result.tasks)).all()


REFUSED = {
    "no dict": ([1], r"threads\[0\]\['events'\] must be a dict of arrays: t_ns, kind, instance and"),
    "no kind": ({"t_ns": [0], "instance": [1]}, "must hold .*; see 'kind'"),
    "another key": (EVENTS | {"speed": [1]}, "must hold .*; see 'speed'"),
    "lengths": (EVENTS | {"kind": [1]}, "t_ns has 6 entries, kind 1"),
    "time falls": (EVENTS | {"t_ns": [5, 4, 5, 7, 9, 11]}, "t_ns must not decrease"),
    "time negative": (EVENTS | {"t_ns": [-1, 4, 5, 7, 9, 11]}, "t_ns must not be negative, got -1"),
    "kind zero": (EVENTS | {"kind": [0] * 6}, "kind must be from 1 to 7, got 0"),
    "kind eight": (EVENTS | {"kind": [8] * 6}, "kind must be below 8, got 8"),
    "task": (EVENTS | {"task": [2] * 6}, "task must be from -1 to 1, got 2"),
    "worker": (EVENTS | {"worker": [65535] * 6}, "worker must be from -1 to 65534, got 65535"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_is_refused_in_one_sentence(tmp_path, name):
    events, message = REFUSED[name]

    with pytest.raises(tprof.UsageError, match=message):
        with_events(tmp_path / "t.tprof", first=events)

    assert not (tmp_path / "t.tprof").exists()
