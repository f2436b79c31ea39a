"""Whatever the files of a trace hold, loading ends in a trace, or in one sentence; never in a crash."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from support import traces
from support.properties import THOROUGH, examples

import tprof
from tprof.trace import layout


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return traces.write(tmp_path_factory.mktemp("trace") / "whole.tprof")


@pytest.fixture
def trace(whole, tmp_path):
    """Return a copy that a test may damage."""
    return traces.copy(whole, tmp_path / "t.tprof")


# Cut, flipped, replaced.


def lengths(size):
    """Return to how many bytes a file of samples is cut, the longest first.

    A cut file is not written anew: that waits for the disk. In the description, which ends the header, every 16th.
    """
    samples, fields, step = layout.HEADER_BYTES, 1024, 1 if os.environ.get(THOROUGH) else 16
    return [*range(size - 1, samples - 1, -1), *range(samples - 1, fields, -step), *range(fields, -1, -1)]


def test_a_file_of_samples_cut_at_any_byte_gives_the_whole_samples_before(trace):
    path = traces.samples_of(trace)
    content = path.read_bytes()
    for length in lengths(len(content)):
        os.truncate(path, length)

        loaded = tprof.load(trace)

        if length < layout.HEADER_BYTES:
            assert [thread.name for thread in loaded.threads] == ["other"]
        else:
            samples = loaded.threads[0].read()
            assert samples.tobytes()[:16] == content[4096:4112][: len(samples) * 16]
            assert len(samples) == (length - layout.HEADER_BYTES) // 64
        assert bool(loaded.notes) == (length > 0), f"of a file of {length} bytes"


@pytest.mark.parametrize("place", ["threads/00000007.samples", "native/00000007.native", "stacks/00000007.stacks"])
def test_a_file_whose_writer_was_stopped_before_it_wrote_is_no_damage(trace, place):
    path = trace / place
    path.parent.mkdir(exist_ok=True)
    path.touch()
    whole = tprof.load(trace)

    assert whole.notes == ()
    assert len(whole.threads) == 2

    path.with_name(f"{path.name}.00000000").write_bytes(bytes(64))

    assert any(path.name in note and "cut inside its header" in note for note in tprof.load(trace).notes)


def test_an_empty_file_of_readings_is_said(trace):
    (trace / "readings" / "package-0.readings").write_bytes(b"")

    assert any("package-0.readings is cut inside its header" in note for note in tprof.load(trace).notes)


@pytest.mark.parametrize("name", ["manifest.json", "end.json", "tasks/00000000.jsonl", "readings/package-0.readings"])
def test_any_other_file_cut_at_any_byte_is_said(trace, name):
    path = trace / name
    content = path.read_bytes()
    for length in reversed(range(0, len(content), 1 if len(content) < 1000 else 7)):
        os.truncate(path, length)

        result = traces.read_or_refuse(trace)

        complete_lines = name.endswith(".jsonl") and length in {0, len(content) - 1, content.find(b"\n") + 1}
        assert isinstance(result, str) or result.notes or complete_lines or length == content.find(b"\n")


def test_a_window_cut_at_any_byte_gives_the_whole_samples_before(trace):
    """The file of a killed program that was cut afterwards: all records stand in the window."""
    path = traces.samples_of(trace)
    traces.set_header(path, window_bytes=4 * 64, flushed=0)
    for length in reversed(range(layout.HEADER_BYTES, path.stat().st_size)):
        os.truncate(path, length)

        assert len(tprof.load(trace).threads[0].read()) == (length - layout.HEADER_BYTES) // 64


FILES = ["manifest.json", "end.json", "tasks/00000000.jsonl", "threads/00000000.samples", "readings/package-0.readings"]
EDIT = st.tuples(
    st.sampled_from(FILES),
    st.integers(0, 5000),
    st.one_of(st.binary(min_size=1, max_size=12), st.sampled_from([b"\0" * 8, b"\xff" * 8, b"\xff" * 7 + b"\x7f"])),
)


@given(edits=st.lists(EDIT, min_size=1, max_size=4))
@example(edits=[("threads/00000000.samples", 64, b"\xff" * 8)])
@example(edits=[("threads/00000000.samples", 24, b"\xc0\xff\xff\xff")])
@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_overwritten_bytes_never_crash_the_reader(whole, tmp_path, edits):
    path = traces.copy(whole, tmp_path / "mutated.tprof")
    for name, offset, content in edits:
        old = (path / name).read_bytes()
        at = offset % len(old)
        (path / name).write_bytes(old[:at] + content + old[at + len(content) :])

    traces.read_or_refuse(path)


@given(fields=st.dictionaries(st.sampled_from(layout.HEADER.names[1:-1]), st.integers(0, 2**64 - 1), max_size=6))
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_header_is_read_or_refused(whole, tmp_path, fields):
    path = traces.copy(whole, tmp_path / "header.tprof")
    for name, number in fields.items():
        kind = layout.HEADER.fields[name][0].base
        bits = kind.itemsize * 8
        value = np.void(number.to_bytes(8, "little") * (kind.itemsize // 8)) if kind.kind == "V" else number
        traces.set_header(traces.samples_of(path), **{name: value if bits > 64 else number % 2**bits})

    traces.read_or_refuse(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["clock", "topology", "host", "argv", "static_power_w", "estimate", "left_out", "notes", "end_ns"]
KEYS += ["processes", "dropped", "lost_threads", "uncounted_threads", "lost_definitions", "columns", "domains"]


@given(manifest=st.dictionaries(st.sampled_from(KEYS), JSON), end=st.dictionaries(st.sampled_from(KEYS), JSON))
@example(manifest={"host": [], "topology": {"cpu": 0}, "static_power_w": {"package-0": "12"}}, end={"dropped": "abc"})
@example(manifest={"clock": 5, "topology": [{"cpu": 2**63, "package": -1}]}, end={"processes": [{"process": 0}]})
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_brought_into_shape(whole, tmp_path, manifest, end):
    path = traces.copy(whole, tmp_path / "json.tprof")
    traces.set_json(path / "manifest.json", **manifest)
    traces.set_json(path / "end.json", **end)

    trace = tprof.load(path)

    assert isinstance(trace.manifest.get("host", {}), dict)
    assert isinstance(trace.manifest.get("topology", []), list)
    assert isinstance(trace.end.get("dropped", {}), dict)
    assert 0 <= trace.start_ns < 2**63
    assert 0 <= trace.end_ns < 2**63
    assert all(0 <= ended_ns < 2**63 for ended_ns in trace.process_end_ns.values())


def test_a_damaged_key_is_left_out_and_said(trace):
    traces.set_json(trace / "manifest.json", host=["not", "an", "object"])

    loaded = tprof.load(trace)

    assert "host" not in loaded.manifest
    assert loaded.notes == ("manifest.json: 'host' is damaged, and left out",)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"{", b"\xff\xfe\xfd", b'{"format": "1"}', b"1" * 5000]
)
def test_a_directory_without_a_manifest_of_ours_is_refused(trace, content):
    (trace / "manifest.json").write_bytes(content)

    with pytest.raises(tprof.TraceError, match=r"manifest\.json is damaged|is not a tprof session"):
        tprof.load(trace)


@pytest.mark.parametrize("what", ["nothing", "file", "empty directory", "nul", "too long"])
def test_what_is_no_session_is_refused_with_what_to_give(tmp_path, what):
    path = {"nul": "a\0b", "too long": "x" * 5000}.get(what, str(tmp_path / "t"))
    if what == "file":
        Path(path).write_bytes(os.urandom(10_000))
    elif what == "empty directory":
        Path(path).mkdir()

    with pytest.raises(tprof.TraceError, match=r"is not a tprof session|cannot read .*manifest\.json: No such file"):
        tprof.load(path)


def test_files_of_random_bytes_are_left_out(trace):
    for path in (traces.samples_of(trace), trace / "readings" / "package-0.readings"):
        path.write_bytes(np.random.default_rng(1).bytes(20_000))

    loaded = tprof.load(trace)

    assert ([thread.name for thread in loaded.threads], loaded.readings) == (["other"], {})
    assert sum("is not a tprof trace file" in note for note in loaded.notes) == 2


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"endian": 0x04030201}, "another byte order"),
        ({"major": 0}, "there is no format 0"),
        ({"kind": 2}, "its header contradicts itself"),
        ({"header_bytes": 512}, "its header contradicts itself"),
        ({"record_bytes": 0}, "its header contradicts itself"),
        ({"record_bytes": 96}, "its header contradicts itself"),
        ({"major": 2, "record_bytes": 44}, "its header contradicts itself"),
        ({"major": 2, "record_bytes": 136}, "its header contradicts itself"),
        ({"window_bytes": 63}, "its header contradicts itself"),
        ({"flushed": 5}, "its header contradicts itself"),
        ({"description_bytes": 4000}, "its description is not readable"),
        ({"description_bytes": 3}, "its description is not readable"),
    ],
)
def test_a_header_that_contradicts_itself_leaves_the_file_out(trace, fields, sentence):
    traces.set_header(traces.samples_of(trace), **fields)

    loaded = tprof.load(trace)

    assert [thread.name for thread in loaded.threads] == ["other"]
    assert any(note.startswith("left out: ") and sentence in note for note in loaded.notes)


@pytest.mark.parametrize("unit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_sensor_without_a_unit_gives_no_joules(trace, unit):
    traces.set_header(trace / "readings" / "package-0.readings", unit=unit)

    loaded = tprof.load(trace)

    assert loaded.readings == {}
    assert any("its unit is" in note for note in loaded.notes)


@pytest.mark.parametrize("quality", ["perfect", None, 5, []])
def test_joules_of_unknown_origin_count_as_estimated(trace, quality):
    path = trace / "readings" / "package-0.readings"
    text = json.dumps({"name": "package-0", "quantity": "energy", "quality": quality, "counted": True}).encode()
    traces.set_header(path, description=np.void(text.ljust(3640, b"\0")), description_bytes=len(text))

    loaded = tprof.load(trace)

    assert loaded.readings["package-0"].quality == tprof.trace.Quality.ESTIMATED
    assert any("count as estimated" in note for note in loaded.notes)


COLUMNS = [
    [{"name": "t_ns"}, {"name": "cpu_ns"}],
    [{"name": ""}, {"name": "_unused_0"}, {"name": "cpu_ns"}],
    [{"name": "cpu_ns"}, {"name": "cpu_ns"}],
    [{"name": "a b"}, {"name": 5}, 7, {"name": "x" * 200}, {"name": "cpu_ns"}],
    [{"name": "__class__"}, {"name": "énergie"}, {"name": "cpu_ns"}] + [{"name": "more"}] * 10**2,
]


@pytest.mark.parametrize("columns", COLUMNS)
def test_columns_with_impossible_names_are_as_if_absent(trace, columns):
    text = json.dumps({"columns": columns}).encode()
    traces.set_header(
        traces.samples_of(trace), description=np.void(text.ljust(3640, b"\0")), description_bytes=len(text)
    )

    thread = tprof.load(trace).threads[0]

    assert "cpu_ns" in thread.columns
    assert set(thread.columns) <= {"cpu_ns", "__class__", "more"}
    assert len(thread.read()) == 4


# Not files, or not ours.


def replace(path, make):
    saved = path.with_name(path.name + ".moved")
    path.rename(saved)
    make(path, saved)


OTHERS = {
    "link": lambda path, saved: path.symlink_to(saved),
    "pipe": lambda path, _: os.mkfifo(path),
    "directory": lambda path, _: path.mkdir(),
    "terminal": lambda path, _: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("other", sorted(OTHERS))
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_something_else_is_never_opened(trace, name, other):
    replace(trace / name, OTHERS[other])

    result = traces.read_or_refuse(trace)

    if name == "manifest.json":
        assert isinstance(result, str)
    else:
        assert any(str(trace / name) in note or "end.json" in note for note in result.notes)
    if name == "threads/00000000.samples":
        assert [thread.name for thread in result.threads] == ["other"]


@pytest.mark.parametrize("directory", ["tasks", "threads", "readings"])
def test_a_directory_that_is_a_link_is_not_entered(trace, directory):
    replace(trace / directory, OTHERS["link"])

    loaded = tprof.load(trace)

    assert f"left out: cannot read {trace / directory}: it is a link or a file" in loaded.notes


def test_a_session_that_is_a_link_is_refused(whole, tmp_path):
    (tmp_path / "link.tprof").symlink_to(whole)

    with pytest.raises(tprof.TraceError, match=r"link\.tprof is not a tprof session \(it is a link or a file\)"):
        tprof.load(tmp_path / "link.tprof")


def test_a_missing_directory_is_noted(trace):
    shutil.rmtree(trace / "readings")

    loaded = tprof.load(trace)

    assert loaded.readings == {}
    assert any("readings: No such file or directory" in note for note in loaded.notes)


def test_a_file_that_vanishes_or_shrinks_after_loading_is_no_crash(trace):
    main, other = tprof.load(trace).threads
    traces.samples_of(trace).write_bytes(traces.samples_of(trace).read_bytes()[: 4096 + 70])
    (trace / "threads" / "00000001.samples").unlink()

    assert len(main.read()) == 1
    with pytest.raises(tprof.TraceError, match=r"cannot read .*00000001\.samples: No such file or directory"):
        other.read()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_what_may_not_be_read_is_said(trace):
    traces.samples_of(trace).chmod(0)

    assert any("Permission denied" in note for note in tprof.load(trace).notes)


def test_reading_changes_nothing(trace):
    before = traces.contents(trace)

    traces.read_or_refuse(trace)

    assert traces.contents(trace) == before
