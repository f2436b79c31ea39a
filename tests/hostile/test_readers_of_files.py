"""Whatever stands where a file of the user is read, it ends in what the file says, or in one sentence that names it."""

import itertools
import json
import os
import re
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from support import hostile_files, traces
from support.command_line import tprof as command
from support.file_readers import (
    JSON_READERS,
    MODEL,
    READERS,
    RUNS,
    RUNS_COLUMNS,
    SWEPT,
    SWEPT_COLUMNS,
    TABLE_READERS,
    outcome,
)
from support.properties import THOROUGH, examples
from tprof.analysis.models.calibration import fit
from tprof.analysis.operating_points.measured import by_task

import tprof
from tprof.errors import TprofError, UsageError
from tprof.trace.power_model import model_path


@pytest.fixture(params=READERS)
def reader(request):
    return READERS[request.param]


@pytest.fixture
def place(tmp_path, reader):
    path = tmp_path / reader.file
    path.parent.mkdir(exist_ok=True)
    return path


def test_no_content_does_more_than_to_be_refused(reader, place):
    for content in hostile_files.CONTENTS.values():
        hostile_files.put(place, content)

        outcome(reader, place)


def test_what_is_no_file_is_refused_and_never_waited_for(reader, place):
    for what, node in hostile_files.NODES.items():
        hostile_files.put(place, node)

        assert isinstance(refused(reader, place), str), what


@pytest.mark.parametrize("name", ["missing", "too long", "below a file", "of a byte that no name has"])
def test_a_name_that_stands_for_nothing_is_refused(reader, place, name):
    if name == "below a file":
        place.write_bytes(b"{}")
    names = {"too long": "x" * 5000 + place.suffix, "below a file": f"{place.name}/{place.name}"}
    names["of a byte that no name has"] = f"a\0{place.suffix}"
    if place.parent.name in ("points", "zeus") or place.name in ("sweep-plan.json", "manifest.json"):
        return  # tprof names these itself

    refused(reader, place.with_name("missing" + place.suffix) if name == "missing" else place.parent / names[name])


def refused(reader, path):
    """Return the sentence that refuses the file, or the note with which a recording goes on without it."""
    try:
        said = reader.read(path)
    except TprofError as error:
        return str(error)
    return said[1] if isinstance(said, tuple) else said


@pytest.mark.parametrize(
    "reader", [*JSON_READERS.values(), *TABLE_READERS.values()], ids=[*JSON_READERS, *TABLE_READERS]
)
def test_no_value_in_any_place_does_more_than_to_be_refused(reader, place):
    """Each value of JSON; of a table's cells every fourth, all of them with --thorough."""
    step = 1 if reader.table is None or os.environ.get(THOROUGH) else 4
    for content in itertools.islice(reader.wrongs(), 0, None, step):
        place.write_bytes(content)
        outcome(reader, place)


WRONG_TABLES = list(hostile_files.csv_with_each(SWEPT_COLUMNS, SWEPT))
WRONG_RUNS = list(hostile_files.csv_with_each(RUNS_COLUMNS, RUNS))


@given(content=st.sampled_from(WRONG_TABLES))
@examples(400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_that_is_taken_gives_finite_points(tmp_path, content):
    (tmp_path / "sweep.csv").write_bytes(content)
    table = outcome(TABLE_READERS["advice"], tmp_path / "sweep.csv")

    for one in [] if isinstance(table, str) else by_task(table):
        assert np.isfinite([one.energy_j, one.time_s, one.power_w]).all()


def with_power(cell):
    """Return the table of runs with this power in its second row."""
    rows = [RUNS_COLUMNS, *([cell, *row[1:]] if place == 1 else row for place, row in enumerate(RUNS))]
    return "\n".join(",".join(map(str, row)) for row in rows).encode()


@given(content=st.sampled_from(WRONG_RUNS))
@example(content=with_power("5e-324"))
@example(content=with_power("1e-9"))
@example(content=with_power("1e9"))
@example(content=with_power("9" * 400))
@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_that_is_taken_gives_finite_coefficients(tmp_path, content):
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    runs = outcome(TABLE_READERS["calibration by equation 1"], path)
    if isinstance(runs, str):
        return

    try:
        calibration = fit(runs)
    except UsageError:
        return

    assert np.isfinite(astuple(calibration.coefficients)[:5]).all()


EDITS = st.lists(st.tuples(st.integers(0, 10_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4)


@given(name=st.sampled_from([*JSON_READERS, *TABLE_READERS]), edits=EDITS, kept=st.integers(0, 10_000))
@examples(1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_edit_of_bytes_does_more_than_to_be_refused(tmp_path, name, edits, kept):
    reader = READERS[name]
    content = bytearray(reader.right())
    for at, some in edits:
        content[at % len(content) : at % len(content) + len(some)] = some
    path = tmp_path / reader.file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content[: kept + 1])

    outcome(reader, path)


@pytest.mark.parametrize("name", [*JSON_READERS, *TABLE_READERS])
def test_a_byte_order_mark_changes_nothing(tmp_path, name):
    reader = READERS[name]
    said = []
    for content in (reader.right(), b"\xef\xbb\xbf" + reader.right()):
        path = tmp_path / reader.file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        said.append(outcome(reader, path))

    assert not isinstance(said[0], str)
    assert repr(said[0]) == repr(said[1])


# In a trace.

TRACE_FILES = ("manifest.json", "end.json", "tasks/00000000.jsonl", "decisions/00000000.jsonl")


@pytest.mark.parametrize("name", TRACE_FILES)
def test_a_trace_with_any_content_or_node_is_read_or_refused(tmp_path, name):
    path = traces.write(tmp_path / "t.tprof")
    (path / "decisions").mkdir()
    for content in (*hostile_files.CONTENTS.values(), *hostile_files.NODES.values()):
        hostile_files.put(path / name, content)

        traces.read_or_refuse(path)


DECISION = {"t_ns": 1, "kind": "set", "policy": "edp", "cpus": [0], "frequency_hz": 10**9, "energy_j": 1.0}
TASK = {"task": 0, "name": "load", "file": "a.py", "line": 3, "source": "x", "flops": 1.0, "bytes": 2.0, "calls": 1}
TASK |= {"flops_sum": 3.0, "bytes_sum": 4.0, "budget_j": 5.0, "calls_failed": 1, "failed": "flops", "failure": "why"}


@pytest.mark.parametrize(
    ("name", "line"), [(TRACE_FILES[2], TASK), (TRACE_FILES[3], DECISION)], ids=["task", "decision"]
)
def test_no_value_in_a_line_of_a_trace_spoils_the_trace(tmp_path, name, line):
    path = traces.write(tmp_path / "t.tprof")
    (path / "decisions").mkdir()
    whole = json.dumps({**TASK, "task": 1, "name": "blur"} if line is TASK else DECISION).encode()
    (path / name).write_bytes(b"\n".join([*hostile_files.json_with_each(line), whole, b""]))

    trace = tprof.load(path)

    assert "blur" in {entry.name for entry in trace.tasks} or trace.decisions
    assert isinstance(traces.read_or_refuse(path), tprof.Trace)


def test_no_value_of_a_power_model_in_a_manifest_spoils_a_profile(tmp_path):
    path = traces.write(tmp_path / "t.tprof")
    manifest = json.loads((path / "manifest.json").read_text())
    text = json.dumps(manifest | {"power_model": hostile_files.UNSET})

    for number, content in enumerate(hostile_files.json_with_each(MODEL)):
        if number % 20 == 0:
            (path / "manifest.json").write_text(text.replace(json.dumps(hostile_files.UNSET), content.decode()))
            if isinstance(traces.read_or_refuse(path), tprof.Trace):
                json.dumps(tprof.load(path).profile().info, allow_nan=False)


# The user's program goes on.

UNUSABLE = {
    "an integer of 400 digits": json.dumps(MODEL).replace("5.0", hostile_files.LONG).encode(),
    "nested arrays": hostile_files.CONTENTS["nested arrays"],
    "counters that are no names": json.dumps(MODEL | {"counters": 5}).encode(),
    "a residual of 400 digits": json.dumps(MODEL).replace("0.05", hostile_files.LONG).encode(),
    "a pipe": hostile_files.NODES["a pipe"],
    "a device": hostile_files.NODES["a device"],
    "a directory": hostile_files.NODES["a directory"],
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_recording_goes_on_without_a_model_that_cannot_be_used_and_says_so_once(tmp_path, monkeypatch, what):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    model_path().parent.mkdir()
    hostile_files.put(model_path(), UNUSABLE[what])

    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none") as recording, tprof.region("work"):
        pass

    said = f"the power model in {model_path()} was not used"
    assert [said in note for note in recording.notes].count(True) == 1
    assert [said in text for text in recording.profile().info["warnings"]].count(True) == 1


def test_a_recording_goes_on_for_a_user_without_a_home(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)  # a container's user that no table of users has

    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none") as recording, tprof.region("work"):
        pass

    assert not [note for note in recording.notes if "power model" in note]
    with pytest.raises(TprofError, match="set HOME or XDG_CONFIG_HOME"):
        model_path()


# From the command line.

COMMANDS = {
    "advise sweep.csv --all": "sweep.csv",
    "calibrate --from runs.csv --power watts --group kernel --cores busy --ipc ipc --json": "runs.csv",
    "calibrate --from runs.csv --power watts --group kernel": "runs.csv",
    "roofline --machine gpu.json": "gpu.json",
    "scaling matmul --machine m.toml": "m.toml",
    "scaling addition --machine cores.json": "cores.json",
    "summary t.tprof --model linear --coefficients mine.json": "mine.json",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_ends_with_a_sentence_about_the_file(tmp_path, words):
    traces.write(tmp_path / "t.tprof")
    file = COMMANDS[words]
    for what in ("nothing", "no UTF-8", "an integer of 400 digits", "nested arrays", "a pipe", "a device", "missing"):
        content = {**hostile_files.CONTENTS, **hostile_files.NODES}.get(what)
        (tmp_path / file).unlink(missing_ok=True)
        if content is not None:
            hostile_files.put(tmp_path / file, content)

        done = command(*words.split(), cwd=tmp_path)

        assert (done.returncode, done.stdout) in ((1, ""), (2, "")), what
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("tprof: ")
        assert file in done.stderr


def test_a_name_that_would_steer_the_terminal_is_shown_in_one_line(tmp_path):
    done = command("advise", "\x1b[31mno\nsuch.csv", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith(r"tprof: cannot read \x1b[31mno\nsuch.csv: No such file")
    assert done.stderr.count("\n") == 1


LONG = "x" * 5000
NAMES = {
    "advise @.csv": 1,
    "calibrate --from @.csv --power p": 2,
    "roofline --machine @.json": 2,
    "roofline --machine gtx580 -o @/page.html": 2,
    "scaling matmul --machine @.toml": 2,
    "scaling matmul --plot @/page.html": 1,
    "summary @": 1,
    "report @": 1,
    "export @ csv -o out": 1,
    "run @": 2,
    "sweep @": 2,
    "sweep --frequencies none -o @ jacobi": 2,
}


@pytest.mark.parametrize("words", NAMES)
def test_a_name_that_no_file_system_takes_is_refused(tmp_path, words):
    done = command(*words.replace("@", LONG).split(), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (NAMES[words], "")
    assert re.search("[Ff]ile name too long|name a file in a (directory|folder)", done.stderr)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("tprof: ")
    assert list(tmp_path.iterdir()) == []
