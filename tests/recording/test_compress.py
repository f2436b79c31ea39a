"""A compressed session: the same records and figures, and nothing lost whatever happens meanwhile."""

import os
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import earlier_blocks, noisy_counters

import tprof
from tprof.errors import TprofError, TraceError, UsageError
from tprof.live import Meter
from tprof.trace import compress as compressing
from tprof.trace import layout, packed
from tprof.trace.kinds import NativeKind, ReadingFlag, StreamKind
from tprof.trace.layout import BLOCK_HEADER
from tprof.trace.stream import _stand_in, open_stream

SAMPLES = 70_000
COUNTERS = ("instructions", "cycles", "llc_misses", "l2_refs", "llc_refs", "stalls_frontend")


@pytest.fixture
def session(tmp_path):
    """Return a session with a thread of more samples than two blocks have."""
    t_ns = np.arange(SAMPLES, dtype=np.int64) * 1000
    instance = np.where(np.arange(SAMPLES) % 2, 0, np.arange(SAMPLES) // 2 + 1)
    task = np.where(instance == 0, -1, instance % 3)
    cpu_ns = np.cumsum(np.random.default_rng(1).integers(0, 900, SAMPLES))
    thread = {"t_ns": t_ns, "instance": instance, "task": task, "cpu_ns": cpu_ns}
    energy = {"package-0": (t_ns[::700], np.linspace(0.0, 5.0, len(t_ns[::700])))}
    path = tmp_path / "a.tprof"
    tprof.write_trace(path, tasks=["a", "b", "c"], threads=[thread], energy=energy)
    return path


def records(session):
    """Return the samples of its one thread."""
    return tprof.load(session).threads[0].read()


def test_records_and_figures_stay_and_the_disk_gets_room(session):
    """Records, any part of them, the profile and live figures are as before, at 16 bytes a sample or less."""
    before, summary, live = records(session), tprof.load(session).profile().summary(), Meter(session).energy()
    done = compressing.compress(session)
    assert done.samples == len(before)
    assert done.sample_bytes <= 16 * done.samples
    assert done.after_bytes < done.before_bytes / 4
    trace = tprof.load(session)
    assert not trace.notes
    assert (trace.threads[0].read() == before).all()
    stream = trace.threads[0].stream
    part = stream.read_part(trace.threads[0].dtype, 32_000, 66_000)
    assert (part["t_ns"] == before["t_ns"][32_000:66_000]).all()
    assert trace.profile().summary().equals(summary)
    assert Meter(session).energy() == live
    again = compressing.compress(session)
    assert again.before_bytes == again.after_bytes == done.after_bytes


@st.composite
def some_records(draw):
    """Return records of some length, with numbers of all sizes and few different ones."""
    words, count = draw(st.sampled_from([4, 5, 8, 16])), draw(st.integers(1, 60))
    number = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 3), st.just(2**64 - 1))
    rows = draw(st.lists(st.lists(number, min_size=words, max_size=words), min_size=count, max_size=count))
    return np.array(rows, np.uint64).view(np.uint8).reshape(count, 8 * words)


@pytest.mark.parametrize("encode", [packed.encode, earlier_blocks.encode], ids=["now", "before 1.9"])
@settings(max_examples=30, deadline=None)
@given(some_records())
def test_any_records_come_back(encode, rows):
    """Whatever is in the records, they are restored byte by byte, also those that an earlier version compressed."""
    name = Path(os.environ.get("TMPDIR", "/tmp")) / f"tprof-packed-{os.getpid()}.samples"  # noqa: S108 - hypothesis and tmp_path
    packed.packed_path(name).write_bytes(packed.file_header(rows.shape[1]) + encode(rows, 0))
    try:
        out = np.zeros_like(rows)
        damaged = packed.open_packed(name, rows.shape[1]).read_into(out, 0)
    finally:
        packed.packed_path(name).unlink()
    assert not damaged
    assert (out == rows).all()


@pytest.mark.parametrize("count", [1, 2, 1023, 4095, 4096, packed.MOST_RECORDS])
@pytest.mark.parametrize("counters", [0, 3, 9])
def test_samples_come_back_whatever_the_size_of_their_block(tmp_path, count, counters):
    rows = noisy_counters.samples(count, counters)
    (tmp_path / "a.samples.packed").write_bytes(packed.file_header(rows.shape[1]) + packed.encode(rows, 0))

    out = np.zeros_like(rows)
    assert not packed.open_packed(tmp_path / "a.samples", rows.shape[1]).read_into(out, 0)

    assert (out == rows).all()


@pytest.mark.parametrize(("counters", "most_bytes"), [(6, 10.5), (11, 16.0)])
def test_noisy_counters_take_little_more_than_their_noise(counters, most_bytes):
    """After tasks of 100 us, whose counters each have an error of a tenth of their own."""
    rows = noisy_counters.samples(packed.MOST_RECORDS, counters)
    noise = noisy_counters.noise_bytes(counters)

    stored = len(packed.encode(rows, 0)) / len(rows)

    assert noise < stored < min(1.12 * noise, most_bytes)


SOUND = bytes([1, 2, 0, 16, 16])


@pytest.mark.parametrize(
    ("codec", "grouped_by", "methods"),
    [
        (2, 16, bytes([1, 2, 0, 19, 16])),  # by itself
        (2, 16, bytes([1, 2, 0, 20, 16])),  # by a later column
        (2, 16, bytes([16, 2, 0, 16, 16])),  # the first one by another
        (2, 16, bytes([1, 2, 0, 3, 16])),  # no method
        (2, 16, bytes([1, 2, 2, 16, 16])),  # of the column that says the groups, in groups
        (2, 16, bytes([1, 2, 16, 16, 16])),  # the same, by another one
        (2, 40, SOUND),  # beyond the record
        (3, 16, SOUND),
        (1, 16, SOUND),
        (1, 0, bytes([1, 2, 0, 0, 0])),
    ],
)
def test_a_block_written_in_no_known_way_is_damaged_whatever_its_checksum(tmp_path, codec, grouped_by, methods):
    rows = noisy_counters.samples(100, 1)
    blocks = [bytearray(packed.encode(rows, first)) for first in (0, 100, 200)]
    header = np.frombuffer(blocks[1], BLOCK_HEADER, 1)
    assert (header["codec"], header["grouped_by"], bytes(header["methods"][0])[:5]) == (2, 16, SOUND)
    header["codec"], header["grouped_by"], header["methods"] = codec, grouped_by, np.void(methods.ljust(16, b"\0"))
    (tmp_path / "a.samples.packed").write_bytes(packed.file_header(40) + b"".join(blocks))

    out = np.zeros((300, 40), np.uint8)
    damaged = packed.open_packed(tmp_path / "a.samples", 40).read_into(out, 0)

    assert [(one.first, one.count) for one in damaged] == [(100, 100)]
    assert (out == np.concatenate((rows, np.zeros_like(rows), rows))).all()


@pytest.mark.parametrize("change", ["a rate less", "a rate more", "no first numbers", "a column less", "another group"])
def test_content_of_the_wrong_length_is_damaged(tmp_path, change):
    rows = noisy_counters.samples(100, 1)
    block = packed.encode(rows, 0)
    plain = zlib.decompress(block[BLOCK_HEADER.itemsize :], -zlib.MAX_WBITS)
    content = {
        "a rate less": plain[:-4],
        "a rate more": plain + bytes(4),
        "no first numbers": plain[: 100 * 40],
        "a column less": plain[800:],
        "another group": plain[: 2 * 800 + 5] + b"\x77" + plain[2 * 800 + 6 :],
    }[change]
    stored = zlib.compress(content, wbits=-zlib.MAX_WBITS)
    header = np.frombuffer(bytearray(block[: BLOCK_HEADER.itemsize]), BLOCK_HEADER).copy()
    header["length"], header["checksum"] = len(stored), zlib.crc32(stored)
    (tmp_path / "a.samples.packed").write_bytes(packed.file_header(40) + header.tobytes() + stored)

    damaged = packed.open_packed(tmp_path / "a.samples", 40).read_into(np.zeros((100, 40), np.uint8), 0)

    assert [(one.first, one.count) for one in damaged] == [(0, 100)]


def test_a_file_of_a_later_version_is_refused(tmp_path):
    header = np.frombuffer(bytearray(packed.file_header(40)), layout.PACKED_HEADER).copy()
    header["major"] += 1
    (tmp_path / "a.samples.packed").write_bytes(header.tobytes() + packed.encode(noisy_counters.samples(9, 1), 0))

    with pytest.raises(TraceError, match=r"a\.samples\.packed is compressed as by a newer tprof: update tprof"):
        packed.open_packed(tmp_path / "a.samples", 40)


@pytest.mark.parametrize("step", ["blocks", "stream"])
def test_nothing_is_lost_if_it_is_cut_short(session, monkeypatch, step):
    """If the disk is full at either step, the session is as before, and can be compressed later."""
    before = records(session)

    def full(*_args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(compressing, "encode" if step == "blocks" else "replace_file", full)
        with pytest.raises(TprofError, match="nothing is lost"):
            compressing.compress(session)
    assert (records(session) == before).all()
    assert not [path for path in (session / "threads").iterdir() if path.name.startswith(".")]
    compressing.compress(session)
    assert (records(session) == before).all()


@pytest.mark.parametrize("ending", ["", packed.ENDING])
def test_what_a_killed_compression_left_is_removed_by_the_next_one(session, ending):
    """A half-written file of blocks, or of what stays of the stream, takes no room for ever."""
    stream = next((session / "threads").glob("*.samples"))
    left = stream.with_name(f".{stream.name}{ending}.abcdefgh")
    left.write_bytes(b"half")
    compressing.compress(session)
    assert not left.exists()
    assert packed.packed_path(stream).exists()


def test_a_copy_that_shares_the_files_keeps_its_records(session, tmp_path):
    """A copy by hard links, as `Recording.save` makes, stays whole."""
    before, copy = records(session), tmp_path / "copy.tprof"
    for path in session.rglob("*"):
        place = copy / path.relative_to(session)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            os.link(path, place)
    compressing.compress(session)
    assert (records(copy) == before).all()


def blocks_of(session, place="threads"):
    """Return the file of compressed records of a stream, and where its blocks begin."""
    file = next((session / place).glob("*.packed"))
    stream = file.with_name(file.name.removesuffix(packed.ENDING))
    size = open_stream(stream, StreamKind.SAMPLES if place == "threads" else StreamKind.READINGS).number("record_bytes")
    return file, [block.at - BLOCK_HEADER.itemsize for block in packed.open_packed(stream, size).blocks]


def flip(file, at):
    """Flip the bits of one byte."""
    whole = file.read_bytes()
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("inside", [0, 4, 9, 17, 20, 21, 24, 200, 5_000], ids=lambda at: f"byte {at}")
def test_a_damaged_block_loses_its_samples_only(session, number, inside):
    """Other samples stay, the time of the lost ones is no task's, and a warning names the thread and that time."""
    before, whole = records(session), tprof.load(session).profile()
    compressing.compress(session)
    file, begins = blocks_of(session)
    flip(file, begins[number] + inside)

    trace = tprof.load(session)
    samples, profile = trace.threads[0].read(), trace.profile()

    first, stop = number * packed.MOST_RECORDS, (number + 1) * packed.MOST_RECORDS
    assert (samples[:first] == before[:first]).all()
    assert (samples[stop:] == before[stop:]).all()
    assert not samples["instance"][first:stop].any()
    begin_s, end_s = max(first - 1, 0) * 1e-6, stop * 1e-6
    lost = f"thread 0 (0) lost 32,768 records from {begin_s:.6g} s to {end_s:.6g} s of the recording"
    why = f"a compressed block of {file.name.removesuffix(packed.ENDING)} is damaged; that time counts as `runtime`"
    assert [text for text in profile.info["warnings"] if "damaged" in text] == [f"{lost}: {why}"]
    kept = whole.tasks["instance"].isin(np.unique(samples["instance"]))
    assert set(profile.tasks["instance"]) == set(whole.tasks["instance"][kept])
    row = profile.accounts.iloc[0]
    assert row[["tasks_j", "runtime_j", "other_j", "idle_j"]].sum() == pytest.approx(row["measured_j"], rel=1e-9)
    assert row["measured_j"] == pytest.approx(whole.measured_j)
    assert profile.tasks["cpu_s"].sum() <= whole.tasks["cpu_s"].sum()
    assert Meter(session).energy()


def test_windows_beside_a_damaged_block_are_as_before(session):
    """A window that needs no damaged block has its figures and no warning; one that does says what is lost."""
    whole = tprof.load(session).profile(start_s=0.04, end_s=0.06).tasks
    compressing.compress(session)
    file, begins = blocks_of(session)
    flip(file, begins[0] + 100)
    trace = tprof.load(session)

    beside, across = trace.profile(start_s=0.04, end_s=0.06), trace.profile(start_s=0.01, end_s=0.06)

    assert beside.tasks.equals(whole)
    assert not any("damaged" in text for text in beside.info["warnings"])
    assert any("lost 32,768 records" in text for text in across.info["warnings"])


def test_readings_in_a_damaged_block_count_as_failed(tmp_path):
    """The sensor's joules of that time stay, in one long interval, and a note says it."""
    t_ns = np.arange(SAMPLES, dtype=np.int64) * 1_000_000
    thread = {"t_ns": t_ns[[0, -1]], "instance": [1, 0], "task": [0, -1]}
    path = tmp_path / "a.tprof"
    tprof.write_trace(path, tasks=["a"], threads=[thread], energy={"package-0": (t_ns, t_ns * 1e-8)})
    whole = tprof.load(path).profile()
    compressing.compress(path)
    file, begins = blocks_of(path, "readings")
    flip(file, begins[1] + 300)

    trace = tprof.load(path)

    assert any("package-0 lost 32,768 records from 32.767 s to 65.536 s" in note for note in trace.notes)
    assert trace.profile().measured_j == pytest.approx(whole.measured_j)


@pytest.mark.parametrize("kind", StreamKind)
def test_what_stands_for_a_lost_record_says_its_time_only(kind):
    like = np.zeros(1, layout.SAMPLE_HEAD) if kind == StreamKind.SAMPLES else np.zeros(1, layout.NATIVE)
    like["t_ns"] = 123_456

    stand_in = _stand_in(like.tobytes().ljust(32, b"\1"), kind)

    assert int.from_bytes(stand_in[:8], "little") == 123_456
    if kind == StreamKind.READINGS:
        assert np.frombuffer(stand_in, layout.READING)["flags"][0] == ReadingFlag.MISSING
    if kind == StreamKind.NATIVE:
        assert np.frombuffer(stand_in, layout.NATIVE)["kind"][0] == NativeKind.MISSED


def test_blocks_that_were_cut_off_are_said(session):
    """A cut file gives the records before the cut, with a note."""
    before = records(session)
    compressing.compress(session)
    file, _ = blocks_of(session)
    file.write_bytes(file.read_bytes()[:-1])
    trace = tprof.load(session)
    assert any("is cut" in note for note in trace.notes)
    assert (trace.threads[0].read() == before[: trace.threads[0].count]).all()
    assert trace.threads[0].count == 65_536


def test_a_session_that_runs_is_refused(tmp_path):
    """The files of a recording that runs are not touched."""
    with (
        tprof.record(tmp_path / "run.tprof", energy="none") as recording,
        pytest.raises(UsageError, match="still records"),
    ):
        compressing.compress(recording.path)


@pytest.mark.parametrize("window_records", [0, 4])
def test_a_short_stream_has_no_window_any_more(tmp_path, window_records):
    """Most bytes of a thread with few samples are its window, whose records go to the body."""
    session = tmp_path / "a.tprof"
    thread = {"t_ns": np.arange(10), "instance": [1, 0] * 5, "task": [0, -1] * 5}
    tprof.write_trace(session, tasks=["a"], threads=[thread], energy={})
    stream = next((session / "threads").glob("*.samples"))
    content = stream.read_bytes()
    header = np.frombuffer(bytearray(content[:4096]), layout.HEADER).copy()
    header["window_bytes"], header["flushed"] = 32_768, 10 - window_records
    body, window = content[4096 : 4096 + 64 * (10 - window_records)], content[4096 + 64 * (10 - window_records) :]
    stream.write_bytes(header.tobytes() + window.ljust(32_768, b"\0") + body)
    before = records(session)
    compressing.compress(session)

    assert (records(session) == before).all()
    assert stream.stat().st_size == 4096 + 640


def test_wide_samples_with_counters_take_few_bytes(tmp_path):
    """Six counters that each differ by a tenth from task to task: short tasks stay below 16 bytes a sample."""
    draw = np.random.default_rng(5)
    length_ns = draw.gamma(4, 100, SAMPLES)
    counted = {
        name: np.cumsum(length_ns * rate * draw.normal(1, 0.1, SAMPLES)).astype(np.int64)
        for name, rate in zip(COUNTERS, (3.0, 2.2, 0.004, 0.02, 0.01, 0.5), strict=True)
    }
    instance = np.where(np.arange(SAMPLES) % 2, 0, np.arange(SAMPLES) // 2 + 1)
    t_ns = np.cumsum(length_ns).astype(np.int64)
    thread = {"t_ns": t_ns, "instance": instance, "task": np.where(instance == 0, -1, instance % 3), "cpu_ns": t_ns}
    session = tmp_path / "wide.tprof"
    tprof.write_trace(session, tasks=["a", "b", "c"], threads=[thread | counted], energy={})
    before = records(session)
    done = compressing.compress(session)

    assert before.dtype.itemsize == 128
    assert (records(session) == before).all()
    assert done.sample_bytes <= 16 * done.samples


def test_threads_of_few_samples_stay_in_one_small_file_each_when_a_recording_is_compressed(tmp_path):
    """A file of their own for a few records would take more room, and some 10 ms until the disk has it."""

    @tprof.task
    def short():
        pass

    with tprof.record(tmp_path / "a.tprof", energy="none", compress=True) as recording:
        for _ in range(5):
            thread = threading.Thread(target=short)
            thread.start()
            thread.join()

    files = sorted(path.name for path in (recording.path / "threads").iterdir())
    assert all(name.endswith(".samples") for name in files)
    assert all((recording.path / "threads" / name).stat().st_size < 4096 + 8192 for name in files)
    assert tprof.load(recording.path).profile().summary()["instances"].sum() == 5
