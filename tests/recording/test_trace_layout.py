"""The format is said three times, in prose, in C and in Python, and is the same each time."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support import traces

import tprof
from tprof import _core
from tprof.trace import kinds, layout

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "trace-format.md").read_text(encoding="utf-8")
TYPES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "f64": "<f8"}


def rows(title):
    """Return the rows of the first table after a heading."""
    table = DOCUMENT.split(f"\n### {title}\n")[1].split("\n|---")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


def names_of(column):
    """Return number and name of each row of the table whose first heading this is."""
    table = DOCUMENT.split(f"\n| {column} | name |")[1].split("\n\n")[0]
    return {name: int(number) for number, name in re.findall(r"^\| (\d+) \| (\w+) \|", table, re.MULTILINE)}


def dtype_of(text):
    count, _, kind = text.rpartition(" \N{MULTIPLICATION SIGN} ")
    if kind.endswith(" bytes"):
        return np.dtype(f"V{kind.split()[0]}")
    return np.dtype((TYPES[kind], int(count))) if count else np.dtype(TYPES[kind])


def documented(title):
    return [(name, int(offset), dtype_of(kind)) for offset, kind, name, _ in rows(title)]


def held(dtype):
    return [(name, dtype.fields[name][1], dtype.fields[name][0]) for name in dtype.names]


def test_the_header_is_as_documented():
    assert documented("Header") == held(layout.HEADER)
    assert layout.HEADER.itemsize == layout.HEADER_BYTES == 4096


def test_a_reading_is_as_documented():
    assert documented("Reading") == held(layout.READING)
    assert layout.READING.itemsize == 32


def test_an_event_is_as_documented():
    assert documented("Event") == held(layout.EVENT)
    assert layout.EVENT.itemsize == 32


def test_a_record_of_a_native_thread_is_as_documented():
    assert documented("Native") == held(layout.NATIVE)
    assert layout.NATIVE.itemsize == 32


def test_a_record_of_sampled_stacks_is_as_documented():
    assert documented("Stack") == held(layout.STACK)
    assert layout.STACK.itemsize == 32


def test_a_sample_is_as_documented():
    fields = [(name, int(offset)) for offset, _, name, _ in rows("Sample")]
    short, long = (layout.sample_dtype(("",) * count) for count in (5, 13))

    assert fields[:-1] == [(name, short.fields[name][1]) for name, _ in layout.SAMPLE_HEAD]
    assert fields[-1] == ("columns", short.fields["_unused_0"][1])
    assert (short.itemsize, long.itemsize) == (64, 128)
    assert (layout.column_count(64), layout.column_count(128)) == (5, 13)


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("kind", kinds.Kind),
        ("flag", kinds.Flag),
        ("reading flag", kinds.ReadingFlag),
        ("event kind", kinds.EventKind),
        ("event flag", kinds.EventFlag),
        ("native kind", kinds.NativeKind),
        ("native flag", kinds.NativeFlag),
        ("stack kind", kinds.StackKind),
        ("stack flag", kinds.StackFlag),
    ],
)
def test_numbers_have_the_documented_names(heading, kind):
    assert names_of(heading) == {one.name: one.value for one in kind}


def test_the_ends_of_a_thread_have_the_documented_numbers():
    (said,) = [row[3] for row in rows("Header") if row[2] == "end_reason"]
    numbers = {
        kinds.EndReason.OPEN: "open",
        kinds.EndReason.ENDED: "thread ended",
        kinds.EndReason.STOPPED: "recording",
    }

    assert [int(number) for number in re.findall(r"(\d): ", said)] == [int(one) for one in kinds.EndReason]
    assert all(f"{int(number)}: {words}" in said for number, words in numbers.items())


def test_the_core_has_the_same_layout():
    said = _core.layout()
    sample = layout.sample_dtype(("columns", "", "", "", ""))

    assert said["sample_bytes"] == sample.itemsize
    assert said["reading_bytes"] == layout.READING.itemsize
    assert said["event_bytes"] == layout.EVENT.itemsize
    assert said["native_bytes"] == layout.NATIVE.itemsize
    assert said["native"] == {name: layout.NATIVE.fields[name][1] for name in layout.NATIVE.names}
    assert said["stack"] == {name: layout.STACK.fields[name][1] for name in layout.STACK.names}
    assert said["event"] == {name: layout.EVENT.fields[name][1] for name in layout.EVENT.names}
    assert said["sample"] == {name: sample.fields[name][1] for name in said["sample"]}
    assert said["reading"] == {name: layout.READING.fields[name][1] for name in said["reading"]}
    assert said["header"] == {name: layout.HEADER.fields[name][1] for name in said["header"]}


def block(language):
    return DOCUMENT.split("## An example in C")[1].split(f"```{language}\n")[1].split("```")[0]


@pytest.fixture
def example(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to build the documented example with")
    (tmp_path / "example.c").write_text(block("c"), encoding="utf-8")
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-o", "example", "example.c"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "example"], cwd=tmp_path, check=True)
    return tmp_path / "c.tprof"


def test_the_documented_c_program_writes_a_trace_that_loads(example):
    trace = tprof.load(example)
    samples = trace.threads[0].read()

    assert (trace.complete, trace.notes) == (True, ())
    assert [entry.name for entry in trace.tasks] == ["blur"]
    assert samples["t_ns"].tolist() == [0, traces.SECOND_NS]
    assert samples["instance"].tolist() == [1, 0]
    assert trace.threads[0].package(samples).tolist() == [0, 0]
    assert (trace.readings["package-0"].value * trace.readings["package-0"].unit).tolist() == [0, 25]


def test_the_documented_bytes_are_those_of_the_program(example):
    shown = bytes.fromhex(DOCUMENT.split("from byte 4160:")[1].split("```")[1])

    assert traces.samples_of(example).read_bytes()[4160:] == shown


def test_write_trace_writes_the_documented_bytes(tmp_path):
    """One thread, one sample, field by field."""
    thread = {"t_ns": [7], "instance": [9], "task": [1], "cpu": [3], "cpu_ns": [11], "pid": 5, "tid": 6, "name": "é"}
    tprof.write_trace(tmp_path / "t.tprof", tasks=["a", "b"], threads=[thread], energy={})

    content = traces.samples_of(tmp_path / "t.tprof").read_bytes()

    assert content[:32].hex() == "5450524f460d0a1a010009000403020101000000001000000000000040000000"
    assert content[40:48].hex() == "0500000006000000"
    assert content[64:80].hex() == "0100000000000000" * 2
    assert content[320:324] == "é".encode() + b"\0\0"
    assert content[4096:].hex() == ("0700000000000000090000000000000001000000030001000b00000000000000" + "00" * 32)
