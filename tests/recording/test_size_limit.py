"""A recording with a size limit keeps its latest part whole, and says what is gone."""

import os
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import traces
from support.segmented import size_of, split
from tprof.analysis.profile.provenance import removed_text

import tprof
from tprof.errors import TraceError, UsageError
from tprof.live import Meter
from tprof.session.options import RecordingOptions
from tprof.trace import packed, ring
from tprof.trace.compress import compress, compress_sealed
from tprof.trace.digests import digest, thinned
from tprof.trace.gone import Gone, read_gone, write_gone
from tprof.trace.kinds import NativeKind, StreamKind
from tprof.trace.layout import NATIVE, READING
from tprof.trace.ring import Ring
from tprof.trace.segments import segment_path

STEPS, RECORDS = 4000, 256
LIMIT = 16_000_000


@pytest.fixture
def session(tmp_path):
    """Return a session in segments: two threads that run tasks to the end, and one that ends early."""
    draw = np.random.default_rng(3)
    threads = [_thread(draw, number, STEPS if number < 2 else STEPS // 8) for number in range(3)]
    t_ns = np.arange(0, 4 * STEPS) * 1000
    path = tmp_path / "a.tprof"
    tprof.write_trace(path, tasks=["a", "b"], threads=threads, energy={"package-0": (t_ns, t_ns * 2e-8)})
    split(path, RECORDS)
    return path


def _thread(draw, number, steps):
    t_ns = np.cumsum(draw.integers(1, 8000, steps)) * 4 * STEPS // 16000
    instance = np.where(np.arange(steps) % 2, 0, (number << 40) + np.arange(steps) + 1)
    task = np.where(instance == 0, -1, instance % 2)
    return {"t_ns": t_ns, "instance": instance, "task": task, "cpu_ns": np.cumsum(np.diff(t_ns, prepend=0))}


def keep(session, size):
    """Apply a limit once."""
    found = Ring(session, size)
    found.keep()
    return found.gone


@pytest.mark.parametrize("is_compressed", [False, True])
def test_what_remains_has_the_figures_of_that_window_of_the_whole(session, tmp_path, is_compressed):
    """The instances after the removal are those of the whole recording from that moment on, joule for joule."""
    whole = tprof.load(traces.copy(session, tmp_path / "whole"))
    if is_compressed:
        compress(session)
    gone = keep(session, 2 * size_of(session) // 3)
    trace = tprof.load(session)
    expected = whole.profile(start_s=(gone.until_ns - whole.start_ns) * 1e-9)

    assert not trace.notes
    assert gone.samples > 1000
    assert trace.start_ns == gone.until_ns
    # Readings before T are sparser, so what bounds the watts of an interval may come from fewer of them.
    columns = ["task", "instance", "start_s", "duration_s", "energy_j"]
    found = trace.profile()
    pd.testing.assert_frame_equal(found.tasks[columns], expected.tasks[columns], rtol=1e-9)
    assert found.accounts["measured_j"].sum() == pytest.approx(expected.accounts["measured_j"].sum())


def test_live_figures_of_an_ended_session_are_those_of_its_profile(session):
    keep(session, 2 * size_of(session) // 3)
    live = Meter(session).energy()
    expected = tprof.load(session).profile(model="cputime").summary()

    assert {name: task.energy_j for name, task in live.tasks.items()} == pytest.approx(
        expected["energy_j"].to_dict(), rel=1e-6
    )


def test_the_joules_of_the_whole_recording_stay_known(session, tmp_path):
    """The line says from when to when samples are gone, how many they are, and their joules."""
    whole = tprof.load(traces.copy(session, tmp_path / "whole"))
    before = sum(thread.count for thread in whole.threads)
    gone = keep(session, 2 * size_of(session) // 3)
    trace = tprof.load(session)
    info = trace.profile().info

    assert gone.samples + sum(thread.stream.count for thread in trace.threads) == before
    assert info["removed"]["total_j"] == pytest.approx(whole.profile().accounts["measured_j"].sum(), rel=1e-9)
    assert 0 < info["removed"]["energy_j"] < info["removed"]["total_j"]
    assert removed_text(info).startswith("gone by --max-size (")
    assert f"the {gone.samples:,} samples of 0 to " in removed_text(info)


def test_a_thread_that_ended_before_goes_with_its_file(session):
    before = read_gone(session)
    gone = keep(session, size_of(session) // 2)

    assert before is None
    assert gone.threads == 1
    assert len(tprof.load(session).threads) == 2


def test_a_window_is_taken_of_what_remains(session):
    gone = keep(session, 2 * size_of(session) // 3)
    trace = tprof.load(session)
    begin_s = (gone.until_ns - trace.recorded.start_ns) * 1e-9

    assert trace.between(begin_s + 1e-3).start_ns == gone.until_ns + 1_000_000
    with pytest.raises(UsageError, match="what was before is gone by --max-size"):
        trace.between(0.0)


@given(steps=st.lists(st.floats(0.3, 0.9), min_size=1, max_size=4), packs=st.booleans())
@settings(max_examples=10, deadline=None)
def test_removing_in_any_steps_leaves_a_recording_that_loads(tmp_path_factory, steps, packs):
    """Every sample from the moment on is there, whatever went before and was compressed meanwhile."""
    folder = tmp_path_factory.mktemp("steps")
    draw = np.random.default_rng(5)
    threads = [_thread(draw, number, STEPS // 4) for number in range(3)]
    t_ns = np.arange(0, STEPS) * 1000
    session = folder / "a.tprof"
    tprof.write_trace(session, tasks=["a", "b"], threads=threads, energy={"package-0": (t_ns, t_ns * 2e-8)})
    split(session, 64)
    for part in steps:
        gone = keep(session, int(part * size_of(session)))
        if packs:
            compress_sealed(session, most=2)
        trace = tprof.load(session)
        kept_ns = (trace if trace.recorded is None else trace.recorded).start_ns if gone is None else gone.until_ns
        assert not trace.notes
        for thread in trace.threads:
            given_ns = np.array(threads[thread.ordinal]["t_ns"])
            found_ns = thread.read()["t_ns"].astype(np.int64)
            assert found_ns[found_ns >= kept_ns].tolist() == given_ns[given_ns >= kept_ns].tolist()


def test_a_reader_that_came_before_is_told_and_never_reads_other_samples(session):
    trace = tprof.load(session)
    keep(session, size_of(session) // 2)

    with pytest.raises(TraceError, match="were removed while they were read"):
        trace.threads[0].read()


def test_a_reader_that_came_before_reads_what_was_compressed_meanwhile(session):
    trace = tprof.load(session)
    before = tprof.load(session).threads[0].read()
    compress(session)

    assert (trace.threads[0].read() == before).all()


def test_files_before_a_gap_are_no_part_of_the_trace(session):
    """A removal that was cut short is finished by what gone.json says, and by the gap."""
    write_gone(session, Gone(max_bytes=LIMIT))
    segment_path(session / "threads" / "00000000.samples", 3).unlink()

    assert tprof.load(session).threads[0].stream.gone == 4 * RECORDS


def test_a_removal_that_was_cut_short_is_ended_and_counted_once(session, monkeypatch):
    before = sum(thread.stream.count for thread in tprof.load(session).threads)
    removed = []

    def killed(stream, number):
        if len(removed) == 2:
            raise OSError(4, "killed")
        removed.append((stream, number))
        segment_path(stream, number).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(ring, "_unlink_segment", killed)
        with pytest.raises(OSError, match="killed"):
            keep(session, size_of(session) // 2)
    noted = read_gone(session)
    gone = Ring(session, noted.max_bytes).gone

    assert gone == noted
    assert gone.samples + sum(thread.stream.count for thread in tprof.load(session).threads) == before
    assert Ring(session, noted.max_bytes).keep() > 0
    assert read_gone(session) == noted


def test_a_full_disk_while_removing_loses_nothing(session, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    before = [thread.read().tobytes() for thread in tprof.load(session).threads]
    with monkeypatch.context() as patch:
        patch.setattr(ring, "write_gone", full)
        with pytest.raises(OSError, match="No space"):
            keep(session, size_of(session) // 2)

    assert [thread.read().tobytes() for thread in tprof.load(session).threads] == before


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 1000), st.integers(0, 2)), min_size=1, max_size=50))
def test_sparser_readings_have_the_same_joules(steps):
    """The first and the last stay, and those with flags; no window reaches before the reading before."""
    readings = np.zeros(len(steps), READING)
    readings["t_ns"], readings["value"] = (np.cumsum([step[place] for step in steps]) for place in (0, 1))
    readings["flags"] = [step[2] for step in steps]
    found = thinned(readings, 10**9)

    assert found["value"][[0, -1]].tolist() == readings["value"][[0, -1]].tolist()
    assert (found["flags"] != 0).sum() == (readings["flags"] != 0).sum()
    gaps = np.diff(found["t_ns"].astype(np.int64))
    assert (found["window_ns"][1:] == np.minimum(gaps, 2**32 - 1)).all()


def test_facts_of_native_threads_that_go_on_stay():
    rows = [
        (1, NativeKind.APPEAR, 0), (1, NativeKind.APPEAR, 1), (2, NativeKind.CLOCK, 0), (3, NativeKind.CLOCK, 0),
        (3, NativeKind.CLOCK, 1), (4, NativeKind.END, 1), (4, NativeKind.PATH, 0),
    ]  # fmt: skip
    records = np.zeros(len(rows), NATIVE)
    records["t_ns"], records["kind"], records["thread"] = zip(*rows, strict=True)
    kept = digest(StreamKind.NATIVE, records.view(np.uint8).reshape(-1, 32), 0).view(NATIVE)[:, 0]

    assert list(zip(kept["t_ns"].tolist(), kept["kind"].tolist(), kept["thread"].tolist(), strict=True)) == [
        (1, NativeKind.APPEAR, 0), (3, NativeKind.CLOCK, 0), (4, NativeKind.PATH, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given_size", "found"), [("2GB", 2 * 10**9), ("500 MiB", 500 << 20), (2**30, 2**30), ("1.5gb", 15 * 10**8)]
)
def test_sizes_are_read(given_size, found):
    assert RecordingOptions(max_size=given_size).max_bytes == found


@pytest.mark.parametrize("given_size", ["much", "1MB", "-3GB", "2XB", 0, ""])
def test_other_sizes_are_refused(given_size):
    with pytest.raises(UsageError, match=r"^--max-size \(max_size in Python\) must be"):
        RecordingOptions(max_size=given_size)


PROGRAM = """
import threading
import tprof

@tprof.task
def work(number):
    return number

def serve():
    for number in range(120_000):
        work(number)

threads = [threading.Thread(target=serve) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
"""


def test_a_program_that_records_more_than_the_limit_keeps_its_latest_part(tmp_path):
    """The folder of 38 MB of samples ends below 16 MB; the summary says in one line what is gone."""
    (tmp_path / "serve.py").write_text(PROGRAM)
    words = ["run", "--energy", "estimate", "--max-size", "16MB", "-o", "s.tprof", "serve.py"]
    command = [sys.executable, "-m", "tprof", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    trace = tprof.load(tmp_path / "s.tprof")
    kept = sum(thread.stream.count for thread in trace.threads)

    assert size_of(tmp_path / "s.tprof") < LIMIT
    assert trace.gone.samples > 100_000
    assert abs(trace.gone.samples + kept - 4 * 240_002) <= 4
    assert not trace.notes
    assert "gone by --max-size (16 MB): the " in done.stdout + done.stderr
    assert not (tmp_path / "s.tprof" / "disk.lock").exists()


def test_the_latest_joules_are_known_while_samples_go(tmp_path):
    """Live figures go on over removed samples, and a child of the program that forks records too."""
    with tprof.record(tmp_path / "s.tprof", energy="estimate", max_size=LIMIT, compress=True) as recording:
        threads = [threading.Thread(target=_serve, args=(60_000,)) for _ in range(2)]
        for thread in threads:
            thread.start()
            recording.energy()
        for thread in threads:
            thread.join()
        child = os.fork()
        if not child:
            _serve(10)
            os._exit(0)
        os.waitpid(child, 0)
        energy = recording.energy()

    assert 10 < energy.tasks["work"].instances <= 120_010
    assert not tprof.load(tmp_path / "s.tprof").notes


@tprof.task(name="work")
def _work(number):
    return number


def _serve(count):
    for number in range(count):
        _work(number)


def test_samples_that_a_full_last_segment_lacks_are_not_there(tmp_path):
    t_ns = np.arange(2 * RECORDS)
    instance = np.where(t_ns % 2, 0, t_ns + 1)
    path = tmp_path / "full.tprof"
    thread = {"t_ns": t_ns, "instance": instance, "task": np.where(instance == 0, -1, 0), "cpu_ns": t_ns}
    tprof.write_trace(path, tasks=["a"], threads=[thread], energy={})
    split(path, RECORDS)
    (stream,) = (path / "threads").glob("*.samples")
    assert tprof.load(path).threads[0].count == 2 * RECORDS
    last = segment_path(stream, 1)
    content = last.read_bytes()

    last.write_bytes(content[: -2 * (len(content) // RECORDS)])

    assert tprof.load(path).threads[0].count == 2 * RECORDS - 2


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("left", [None, 0, 300])
def test_without_a_limit_a_segment_that_is_missing_or_cut_loses_its_records_only(session, number, is_compressed, left):
    """The others keep their places, and the loss is said once with its time."""
    before = tprof.load(session).threads[0].read()
    if is_compressed:
        compress(session)
    segment = segment_path(session / "threads" / "00000000.samples", number)
    file = packed.packed_path(segment) if is_compressed else segment
    content = file.read_bytes()
    file.unlink()
    if left is not None:
        file.write_bytes(content[:left])

    trace = tprof.load(session)
    after = trace.threads[0].read()

    kept = np.ones(len(before), bool)
    kept[number * RECORDS : (number + 1) * RECORDS] = False
    assert (after[kept] == before[kept]).all()
    assert (after["instance"][~kept] == 0).sum() >= RECORDS - (0 if left is None else left // 32)
    lost = [text for text in trace.profile("cputime").info["warnings"] if " lost " in text]
    assert len(lost) == 1
    assert "a file of 00000000.samples is missing, or cut; that time counts as `runtime`" in lost[0]


def test_a_segment_that_is_a_link_is_not_followed(session, tmp_path):
    segment = segment_path(session / "threads" / "00000000.samples", 2)
    segment.rename(tmp_path / "elsewhere")
    segment.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(TraceError):
        tprof.load(session).threads[0].read()
