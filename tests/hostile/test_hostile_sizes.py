"""However much a trace claims or holds, reading it takes little memory and ends soon."""

import json
import os
import resource
import shutil

import numpy as np
import pytest
from support import programs, traces

import tprof
from tprof.trace import layout
from tprof.trace.tasks import MAX_TASKS

ADDRESS_SPACE_BYTES = 512 << 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return traces.write(tmp_path_factory.mktemp("trace") / "whole.tprof")


@pytest.fixture
def trace(whole, tmp_path):
    """Return a copy that a test may damage."""
    return traces.copy(whole, tmp_path / "t.tprof")


def in_little_memory(tmp_path, path):
    """Load and read in a process of 512 MiB; return what it says."""
    source = """
import json, resource, sys, time
import numpy, tprof
begin = resource.getrusage(resource.RUSAGE_SELF)
said = []
try:
    trace = tprof.load(sys.argv[1])
    said = list(trace.notes)
    for thread in trace.threads:
        thread.read()
except tprof.TraceError as error:
    said.append(str(error))
end = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"said": said, "grown_bytes": (end.ru_maxrss - begin.ru_maxrss) << 10}))
"""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))

    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = programs.run(tmp_path, source, str(path), preexec_fn=limit, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("count", [2**31, 2**57, 2**58, 2**63, 2**64 - 1])
@pytest.mark.parametrize("record_bytes", [64, 128])
def test_a_count_of_samples_beyond_the_file_is_cut_to_the_file(trace, count, record_bytes):
    path = traces.samples_of(trace)
    traces.set_header(path, committed=count, flushed=count, record_bytes=record_bytes)

    loaded = tprof.load(trace)

    assert len(loaded.threads[0].read()) == 256 // record_bytes
    assert any(f"{count} records were committed, {256 // record_bytes} are there" in note for note in loaded.notes)


@pytest.mark.parametrize("complete", [True, False])
def test_a_terabyte_of_nothing_is_not_read(trace, tmp_path, complete):
    path = traces.samples_of(trace)
    traces.set_header(path, committed=1 << 34, flushed=1 << 34)
    os.truncate(path, 1 << 40)
    if not complete:
        (trace / "end.json").unlink()

    told = in_little_memory(tmp_path, trace)

    assert any("records were committed" in note for note in told["said"])


def test_samples_that_do_not_fit_into_memory_are_refused_in_one_sentence(trace, tmp_path):
    """Real bytes, not holes: more than the process may have."""
    path = traces.samples_of(trace)
    count = (700 << 20) // 64
    traces.set_header(path, committed=count, flushed=count)
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 4096 + count * 64)

    told = in_little_memory(tmp_path, trace)

    assert told["said"] == [f"cannot read {path}: its {count} records do not fit into memory"]


@pytest.mark.parametrize("millions", [1, pytest.param(10, marks=pytest.mark.thorough)])
def test_millions_of_names_are_cut_to_what_a_program_can_have(trace, tmp_path, millions):
    path = trace / "tasks" / "00000000.jsonl"
    with path.open("wb") as file:
        for first in range(0, millions * 10**6, 10**5):
            file.write(b"".join(b'{"task":%d,"name":"%d"}\n' % (n, n) for n in range(first, first + 10**5)))

    told = in_little_memory(tmp_path, trace)

    assert f"00000000.jsonl: what follows {MAX_TASKS} tasks is left out of the task table" in told["said"]
    assert told["grown_bytes"] < 10 * path.stat().st_size


@pytest.mark.parametrize("line", [pytest.param(b"\n", marks=pytest.mark.thorough), b"x\n"])
def test_a_table_of_a_hundred_million_lines_is_not_read_to_its_end(trace, tmp_path, line):
    (trace / "tasks" / "00000000.jsonl").write_bytes(line * (10**8 // len(line)))

    told = in_little_memory(tmp_path, trace)

    assert any(note.startswith("00000000.jsonl: what follows") for note in told["said"])


@pytest.mark.parametrize("megabytes", [100, pytest.param(1024, marks=pytest.mark.thorough)])
def test_a_name_as_large_as_the_disk_is_left_out(trace, tmp_path, megabytes):
    path = trace / "tasks" / "00000000.jsonl"
    with path.open("wb") as file:
        file.write(b'{"task":0,"name":"')
        for _ in range(megabytes):
            file.write(b"A" * (1 << 20))
        file.write(b'"}\n{"task":1,"name":"blur"}\n')

    told = in_little_memory(tmp_path, trace)

    assert any("damaged" in note or "at most" in note for note in told["said"])
    assert told["grown_bytes"] < 100 << 20


def test_a_manifest_that_is_too_large_is_refused(trace, tmp_path):
    (trace / "manifest.json").write_bytes(b'{"format":[1,0],"notes":[' + b'"",' * (30 << 20) + b'""]}')

    told = in_little_memory(tmp_path, trace)

    assert told["said"][0].endswith("at most 8388608 are read")


@pytest.mark.parametrize("name", ["manifest.json", "end.json", "tasks/00000000.jsonl"])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_damage(trace, name, left, right):
    (trace / name).write_text(left * 100_000 + "0" + right * 100_000 + "\n")

    result = traces.read_or_refuse(trace)

    assert isinstance(result, str) or result.notes


def test_a_description_nested_deeply_leaves_the_file_out(trace):
    text = b"[" * 1820 + b"]" * 1820
    traces.set_header(traces.samples_of(trace), description=np.void(text), description_bytes=len(text))

    assert [thread.name for thread in tprof.load(trace).threads] == ["other"]


def test_a_copied_file_does_not_count_twice(trace):
    shutil.copy(traces.samples_of(trace), trace / "threads" / "00000009.samples")
    shutil.copy(trace / "readings" / "package-0.readings", trace / "readings" / "z.readings")

    loaded = tprof.load(trace)

    assert [thread.ordinal for thread in loaded.threads] == [0, 1]
    assert list(loaded.readings) == ["package-0"]
    assert sum("as another file does" in note for note in loaded.notes) == 2


def test_instances_that_begin_twice_are_read_as_they_stand_and_counted_in_the_profile(trace):
    other = trace / "threads" / "00000001.samples"
    content = bytearray(other.read_bytes())
    np.frombuffer(content, layout.sample_dtype(("",) * 5), offset=4096)["instance"] = [1, 0]
    other.write_bytes(bytes(content))

    loaded = tprof.load(trace)

    assert loaded.threads[1].read()["instance"].tolist() == [1, 0]
    assert any("1 instance begins more than once" in warning for warning in loaded.profile().info["warnings"])


def test_a_cycle_of_parents_ends(trace):
    """Each of two instances starts inside the other."""
    path = traces.samples_of(trace)
    content = bytearray(path.read_bytes())
    samples = np.frombuffer(content, layout.sample_dtype(("",) * 5), offset=4096)
    samples["instance"], samples["task"], samples["kind"] = [1, 2, 1, 2], 0, 1
    path.write_bytes(bytes(content))

    profile = tprof.load(trace).profile()

    assert set(profile.tasks["instance"]) >= {1, 2}
