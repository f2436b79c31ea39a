"""Native threads are read as they were written, and damage to them ends in a note."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support import traces
from support.properties import examples

import tprof
from tprof.trace import NativeCounts, NativeThread, PoolCalls, layout
from tprof.trace.kinds import NativeFlag, NativeKind

MS = 1_000_000


def native(t_ns=(5, 100, 800), cpu_ns=(0, 50, 600), **changes):
    thread = NativeThread(
        pid=7,
        tid=12,
        name="omp",
        library="/opt/liböpenmp-with-a-long-name.so.1",
        created_ns=t_ns[0],
        creator_tid=7,
        creator_task=1,
        creator_instance=2**40 + 1,
        ended_ns=900,
        t_ns=np.array(t_ns),
        cpu_ns=np.array(cpu_ns),
    )
    return replace(thread, **changes)


def counted(at=(0, 2), scaled=(False, True), **values):
    values = values or {"cycles": (0, 2**63 - 1), "instructions": (0, 7)}
    columns = {name: np.array(column) for name, column in values.items()}
    return NativeCounts(np.array(at, np.int64), columns, np.array(scaled))


UNSEEN = {"created_ns": None, "creator_tid": None, "creator_task": None, "creator_instance": None, "ended_ns": None}
OTHER = native((3, 4), (9, 9), **UNSEEN, name="", library="", tid=11)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return traces.write(tmp_path_factory.mktemp("native") / "whole.tprof", native=[native(), OTHER])


@pytest.fixture
def trace(whole, tmp_path):
    """Return a copy that a test may damage."""
    return traces.copy(whole, tmp_path / "t.tprof")


def file_of(path):
    return path / "native" / "00000000.native"


def plain(thread):
    counts = thread.counts
    if counts is not None:
        values = {name: counts.values[name].tolist() for name in sorted(counts.values)}
        counts = (counts.at.tolist(), values, counts.scaled.tolist())
    return {**vars(thread), "t_ns": thread.t_ns.tolist(), "cpu_ns": thread.cpu_ns.tolist(), "counts": counts}


def change(path, place, **fields):
    content = bytearray(file_of(path).read_bytes())
    records = np.frombuffer(content, layout.NATIVE, offset=4096)
    for name, value in fields.items():
        records[name][place] = value
    file_of(path).write_bytes(bytes(content))


def records_of(path):
    return np.frombuffer(file_of(path).read_bytes(), layout.NATIVE, offset=4096)


def place_of(path, kind):
    return int(np.flatnonzero(records_of(path)["kind"] == kind)[0])


def test_native_threads_come_back_as_they_were_given_by_process_and_time(tmp_path):
    given_threads = [native(pid=9), native(tid=13, created_ns=8, t_ns=np.array([8, 9, 10])), native(), OTHER]

    loaded = tprof.load(traces.write(tmp_path / "t.tprof", native=given_threads))

    assert [plain(one) for one in loaded.native_threads] == [plain(given_threads[place]) for place in (3, 2, 1, 0)]
    assert loaded.notes == ()


def test_counts_come_back_as_they_were_given(tmp_path):
    given_threads = [native(counts=counted()), replace(OTHER, counts=counted((1,), (True,), llc_misses=(5,)))]

    loaded = tprof.load(traces.write(tmp_path / "t.tprof", native=given_threads))

    assert [plain(one) for one in loaded.native_threads] == [plain(given_threads[place]) for place in (1, 0)]
    assert loaded.notes == ()


def test_a_pair_of_columns_is_one_record(tmp_path):
    path = traces.write(tmp_path / "t.tprof", native=[native(counts=counted())])
    places = np.flatnonzero(records_of(path)["kind"] == NativeKind.COUNTS)
    large = 2**40 + 5
    change(path, places[2], kind=99)
    change(path, places[3], kind=99)
    change(path, places[0], flags=NativeFlag.PAIR)
    change(path, places[1], flags=NativeFlag.PAIR, value=large, tid=large % 2**32, task=large >> 32)
    change(path, places[1], part=0)

    (thread,) = tprof.load(path).native_threads

    assert plain(thread)["counts"] == ([0, 2], {"cycles": [0, large], "instructions": [0, large]}, [False, False])


def test_a_reading_without_all_columns_has_no_counts(tmp_path):
    path = traces.write(tmp_path / "t.tprof", native=[native(counts=counted())])
    change(path, np.flatnonzero(records_of(path)["kind"] == NativeKind.COUNTS)[-1], t_ns=99)

    (thread,) = tprof.load(path).native_threads

    assert plain(thread)["counts"] == ([0], {"cycles": [0], "instructions": [0]}, [False])


@pytest.mark.parametrize("columns", [None, [], [{"name": "t_ns"}, {"name": 5}], [{"name": "cycles"}] * 2])
def test_counts_of_columns_without_a_name_are_left_out(tmp_path, columns):
    path = traces.write(tmp_path / "t.tprof", native=[native(counts=counted())])
    text = json.dumps({"native": "threads", "columns": columns}).encode()
    traces.set_header(file_of(path), description=np.void(text), description_bytes=len(text))

    (thread,) = tprof.load(path).native_threads

    assert thread.counts is None or list(thread.counts.values) == ["cycles"]


def test_a_trace_without_them_has_none_and_no_note(tmp_path):
    loaded = tprof.load(traces.write(tmp_path / "t.tprof"))

    assert (loaded.native_threads, loaded.notes) == ((), ())


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
CLOCK = st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)), min_size=1, max_size=6)


@st.composite
def any_thread(draw):
    readings = draw(CLOCK)
    creator = draw(st.none() | st.tuples(st.integers(1, 2**31 - 1), st.none() | st.integers(1, 2**64 - 1)))
    instance = None if creator is None else creator[1]
    name = draw(TEXT)
    return NativeThread(
        pid=draw(st.integers(0, 2)),
        tid=draw(st.integers(1, 3)),
        name=name.encode()[:16].decode(errors="ignore"),
        library=draw(TEXT),
        created_ns=None if creator is None else draw(st.integers(0, 2**63 - 1)),
        creator_tid=None if creator is None else creator[0],
        creator_task=None if instance is None else draw(st.integers(0, 1)),
        creator_instance=instance,
        ended_ns=draw(st.none() | st.integers(0, 2**63 - 1)),
        t_ns=np.sort([t_ns for t_ns, _ in readings]),
        cpu_ns=np.sort([cpu_ns for _, cpu_ns in readings]),
        counts=draw(any_counts(np.sort([t_ns for t_ns, _ in readings]))),
    )


@st.composite
def any_counts(draw, t_ns):
    at = [place for place in range(len(t_ns)) if t_ns[place] not in t_ns[place + 1 :] and draw(st.booleans())]
    if not at:
        return None
    names = draw(st.sets(st.sampled_from(["cycles", "instructions", "l2_refs"]), min_size=1))
    column = st.lists(st.integers(0, 2**63 - 1), min_size=len(at), max_size=len(at)).map(sorted)
    scaled = draw(st.lists(st.booleans(), min_size=len(at), max_size=len(at)))
    return counted(at, scaled, **{name: draw(column) for name in sorted(names)})


@given(threads=st.lists(any_thread(), max_size=4))
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_native_threads_come_back(tmp_path, threads):
    path = tmp_path / "t.tprof"
    shutil.rmtree(path, ignore_errors=True)

    got = tprof.load(traces.write(path, native=threads)).native_threads

    def order(thread):
        return repr(sorted(plain(thread).items(), key=lambda item: item[0]))

    assert sorted(map(order, got)) == sorted(map(order, threads))


def test_a_number_that_was_used_again_is_another_thread(tmp_path):
    again = native(t_ns=np.array([1000, 2000]), cpu_ns=np.array([0, 3]), created_ns=1000, ended_ns=None)

    first, second = tprof.load(traces.write(tmp_path / "t.tprof", native=[native(), again])).native_threads

    assert (first.tid, second.tid) == (12, 12)
    assert (first.cpu_ns[-1], second.cpu_ns[-1]) == (600, 3)


def test_a_thread_that_a_default_task_created_was_created_by_none(trace):
    table = next((trace / "tasks").iterdir())
    table.write_text(table.read_text().replace('"name": "blur"', '"name": "blur", "default": true'))

    thread = tprof.load(trace).native_threads[1]

    assert (thread.creator_tid, thread.creator_task, thread.creator_instance) == (7, None, None)


def test_a_clock_that_falls_or_is_out_of_order_never_gives_negative_time(trace):
    place = place_of(trace, NativeKind.CLOCK)
    change(trace, place, t_ns=2**64 - 1, value=2**64 - 1)

    thread = max(tprof.load(trace).native_threads, key=lambda one: len(one.t_ns))

    assert (np.diff(thread.t_ns) >= 0).all()
    assert (np.diff(thread.cpu_ns) >= 0).all()


def test_a_file_cut_at_any_byte_gives_what_was_there_before(trace):
    content = file_of(trace).read_bytes()
    for length in [*range(0, layout.HEADER_BYTES, 97), *range(layout.HEADER_BYTES, len(content))]:
        file_of(trace).write_bytes(content[:length])

        loaded = tprof.load(trace)

        assert len(loaded.native_threads) <= 2
        # An empty one was never written.
        assert bool(loaded.notes) is (length > 0), f"of a file of {length} bytes is said: {loaded.notes}"


def test_a_second_file_of_a_process_is_left_out(trace):
    shutil.copy(file_of(trace), trace / "native" / "00000007.native")

    loaded = tprof.load(trace)

    assert len(loaded.native_threads) == 2
    assert ["process 7, as another file does" in note for note in loaded.notes] == [True]


def test_other_native_files_are_left_out(trace):
    text = b'{"native": "rain"}'
    traces.set_header(file_of(trace), description=np.void(text), description_bytes=len(text))

    loaded = tprof.load(trace)

    assert loaded.native_threads == ()
    assert ["holds native 'rain'" in note for note in loaded.notes] == [True]


def test_readings_that_were_lost_to_a_full_disk_are_said(trace):
    traces.set_header(file_of(trace), dropped_enospc=3)

    assert tprof.load(trace).notes == ("3 readings of native threads could not be written (disk full)",)


def test_records_of_unknown_kinds_and_libraries_are_left_out(trace):
    change(trace, place_of(trace, NativeKind.NAME), kind=99)
    change(trace, place_of(trace, NativeKind.BEGIN), value=2**63)

    thread = tprof.load(trace).native_threads[1]

    assert (thread.name, thread.library) == ("", "")


FIELD = st.sampled_from(layout.HEADER.names[1:-1])


@given(fields=st.dictionaries(FIELD, st.integers(0, 2**64 - 1), max_size=6), body=st.binary(max_size=300))
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_header_and_body_are_read_or_left_out(whole, tmp_path, fields, body):
    path = traces.copy(whole, tmp_path / "any.tprof")
    content = file_of(path).read_bytes()
    file_of(path).write_bytes(content[:4096] + body + content[4096 + len(body) :])
    for name, number in fields.items():
        kind = layout.HEADER.fields[name][0].base
        if kind.kind != "V":
            traces.set_header(file_of(path), **{name: number % 2 ** (8 * kind.itemsize)})

    result = traces.read_or_refuse(path)

    if not isinstance(result, str):
        for thread in result.native_threads:
            assert len(thread.t_ns) == len(thread.cpu_ns) > 0
            assert (np.diff(thread.t_ns) >= 0).all()
            assert (np.diff(thread.cpu_ns) >= 0).all()
            assert thread.counts is None or (np.diff(thread.counts.at) > 0).all()
            assert thread.creator_task is None or thread.creator_task < len(result.tasks)


REFUSED = {
    "no thread": ({"pid": 1}, r"native\[0\] must be a tprof.trace.NativeThread, got dict"),
    "no reading": (replace(native(), t_ns=np.array([], int), cpu_ns=np.array([], int)), "one reading at least"),
    "lengths": (native(cpu_ns=np.array([1])), "t_ns has 3 entries, cpu_ns 1"),
    "time falls": (native(t_ns=np.array([5, 4, 6])), "t_ns must not decrease"),
    "clock falls": (native(cpu_ns=np.array([5, 4, 6])), "cpu_ns must not decrease"),
    "clock negative": (native(cpu_ns=np.array([-5, 4, 6])), "cpu_ns must not be negative, got -5"),
    "task": (native(creator_task=2), "creator_task must be from 0 to 1, got 2"),
    "no creation": (native(created_ns=None), "has a creator, so it needs created_ns"),
    "no counts": (native(counts=5), "counts must be a tprof.trace.NativeCounts"),
    "places": (native(counts=counted((0, 3))), "increasing indices of its 3 readings"),
    "no columns": (native(counts=replace(counted(), values={})), "from 1 to 11 columns"),
    "column": (native(counts=counted(t_ns=(0, 1))), "'t_ns' is no name of a column"),
    "counts fall": (native(counts=counted(cycles=(2, 1))), "counts of cycles must not be negative or decrease"),
    "scaled": (native(counts=counted(scaled=(True,))), "one value for each index"),
    "no instance": (native(creator_instance=None), "creator_task and creator_instance go together"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_is_refused_in_one_sentence(tmp_path, name):
    thread, message = REFUSED[name]

    with pytest.raises(tprof.UsageError, match=message):
        traces.write(tmp_path / "t.tprof", native=[thread])

    assert not (tmp_path / "t.tprof").exists()


def called(begin_ns=(5, 100, 40), end_ns=(50, 180, 90), **changes):
    calls = PoolCalls(
        pid=7,
        library="/opt/liböpenmp-with-a-long-name.so.1",
        since_ns=3,
        complete=True,
        tid=np.array([7, 7, 9]),
        task=np.array([1, -1, 0]),
        begin_ns=np.array(begin_ns),
        end_ns=np.array(end_ns),
        inside=np.array([1.0, 0.5, 0.0]),
        several=np.array([False, True, False]),
    )
    return replace(calls, **changes)


def plain_calls(calls):
    columns = {name: value.tolist() for name, value in vars(calls).items() if isinstance(value, np.ndarray)}
    return {**vars(calls), **columns, "inside": [round(part, 3) for part in columns["inside"]]}


def test_calls_come_back_as_they_were_given_by_process_and_library(tmp_path):
    given_calls = [called(pid=9, complete=False), called(), called(library="/lib/a.so")]

    loaded = tprof.load(traces.write(tmp_path / "t.tprof", native=[*given_calls, native()]))

    assert [plain_calls(one) for one in loaded.native_calls] == [plain_calls(given_calls[at]) for at in (2, 1, 0)]
    assert len(loaded.native_threads) == 1
    assert loaded.notes == ()


def test_a_trace_without_calls_has_none(whole):
    assert tprof.load(whole).native_calls == ()


def test_parts_of_a_long_call_that_repeat_each_other_count_once(tmp_path):
    parts = called((10, 30, 20), (30, 60, 70), tid=np.array([7, 7, 7]), inside=np.ones(3), task=np.zeros(3, int))

    (calls,) = tprof.load(traces.write(tmp_path / "t.tprof", native=[parts])).native_calls

    assert (calls.end_ns - calls.begin_ns).sum() == 60
    assert (calls.begin_ns[1:] >= calls.end_ns[:-1]).all()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": np.array([2, 0, 0])}, "task must be from -1 to 1"),
        ({"end_ns": np.array([5, 180, 90])}, "end_ns must be after begin_ns"),
        ({"inside": np.array([1.0, 1.5, 0.0])}, "inside must be from 0 to 1"),
        ({"tid": np.array([7])}, "equally many values"),
        ({"library": ""}, "needs the path of its library"),
    ],
)
def test_calls_that_cannot_be_are_refused(tmp_path, changes, reason):
    with pytest.raises(tprof.UsageError, match=reason):
        traces.write(tmp_path / "t.tprof", native=[called(**changes)])


@given(
    records=st.lists(
        st.tuples(*[st.integers(0, 2**64 - 1)] * 2, *[st.integers(0, 2**32 - 1)] * 3, st.integers(0, 65535)), max_size=6
    ),
    kinds=st.lists(st.sampled_from([NativeKind.CALLS, NativeKind.NOTED, NativeKind.MISSED]), min_size=6, max_size=6),
)
@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_calls_that_are_damaged_are_in_order_all_the_same(tmp_path, records, kinds):
    path = tmp_path / "t.tprof"
    shutil.rmtree(path, ignore_errors=True)
    traces.write(path, native=[called(), native()])
    places = np.flatnonzero(records_of(path)["kind"] >= NativeKind.NOTED)
    for place, record, kind in zip(places, records, kinds, strict=False):
        names = ("t_ns", "value", "tid", "task", "thread", "part")
        change(path, place, kind=kind, **dict(zip(names, record, strict=True)))

    loaded = tprof.load(path)

    for calls in loaded.native_calls:
        assert (calls.end_ns > calls.begin_ns).all()
        assert ((calls.inside >= 0) & (calls.inside <= 1)).all()
        for tid in np.unique(calls.tid):
            own = calls.tid == tid
            assert (calls.begin_ns[own][1:] >= calls.end_ns[own][:-1]).all()
    loaded.profile("cputime")
