"""`tprof import`: what other tools wrote becomes a session with joules, or one sentence and nothing."""

import gzip
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import command_line
from support.full_disk import short_files
from support.properties import examples

import tprof
from tprof.importing import Request, import_file
from tprof.importing.energy_counters import parse_counter
from tprof.trace import Kind

MS = 1_000_000


def event(**keys):
    return {"ph": "X", "pid": 7, "tid": 8, "ts": 0, "dur": 1000, "name": "work", **keys}


def counter(at_us, **values):
    return {"ph": "C", "pid": 7, "name": "package-0 energy", "ts": at_us, "args": values}


NESTED = [
    event(name="inner", ts=200.5, dur=300, args={"cpu": 1}),
    event(name="outer", ts=0, dur=1000),
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "main"}},
    {"ph": "B", "name": "begun", "pid": 7, "tid": 9, "ts": "100"},
    {"ph": "E", "pid": 7, "tid": 9, "ts": 400},
]
ENERGY = [counter(0, J=5.0), counter(500, J=5.5), counter(1000, J=7.0)]


def imported(path, tmp_path, *words):
    done = command_line.tprof("import", path, "-o", "made.tprof", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done, tprof.load(tmp_path / "made.tprof").profile("cputime")


def put(path, content):
    path.write_text(json.dumps(content))
    return path


def test_events_become_instances_and_a_counter_of_joules_is_shared_among_them(tmp_path):
    done, profile = imported(put(tmp_path / "t.json", {"traceEvents": NESTED + ENERGY}), tmp_path)

    found = {task.task: (task.start_s, task.duration_s, task.thread) for task in profile.tasks.itertuples()}
    assert found == {
        "outer": (0.0, pytest.approx(1e-3), "main"),
        "inner": (pytest.approx(200.5e-6), pytest.approx(3e-4), "main"),
        "begun": (pytest.approx(1e-4), pytest.approx(3e-4), "thread-1"),
    }
    assert profile.measured_j == pytest.approx(2.0)
    assert profile.info["quality"] == "given"
    assert done.stdout.splitlines() == [
        "3 instances of 3 tasks in 2 threads; package-0 from package-0 energy (given)",
        "made.tprof",
    ]


def test_an_array_that_gzip_packed_and_nobody_closed_is_read(tmp_path):
    text = json.dumps(NESTED + ENERGY).removesuffix("]")
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text.encode()))

    _, profile = imported("t.json.gz", tmp_path)

    assert len(profile.tasks) == 3


def test_without_energy_watts_make_an_estimate_that_is_called_one(tmp_path):
    _, profile = imported(put(tmp_path / "t.json", NESTED), tmp_path, "--watts", "2,5")

    assert profile.info["quality"] == "estimated"
    busy_s = 1e-3 + 3e-4
    assert profile.measured_j == pytest.approx(2 * 1e-3 + 5 * busy_s)
    assert any(
        "ESTIMATE: 2 W idle and 5 W a busy thread, as given" in text
        for text in profile.info["sensor"].split("\n") + profile.trace.manifest["notes"]
    )


@pytest.mark.parametrize(
    ("unit", "values", "joules"),
    [
        ("uJ", (10, 2_000_010, 3_000_010), 3.0),
        ("W", (1000, 2000, 7), 1.5),
        ("kW", (1, 2, 7), 1.5),
        ("J", (5, 3, 4), 1.0),
    ],
)
def test_a_counter_is_energy_or_power_as_the_user_says(tmp_path, unit, values, joules):
    points = [
        counter(at, value=value) | {"name": "odd: name=x"} for at, value in zip((0, 500, 1000), values, strict=True)
    ]
    path = put(tmp_path / "t.json", NESTED + points)

    done, profile = imported(path, tmp_path, "--counter", f"odd: name=x=psys:{unit}")

    assert profile.accounts.loc["psys", "measured_j"] == pytest.approx(joules)
    assert ("fell 1 times" in done.stderr) == (unit == "J")


@pytest.mark.parametrize(
    ("content", "words", "sentence"),
    [
        ("", (), "it is empty"),
        ("[", ("--energy", "none"), "it has no slices of threads"),
        ("hello", (), "it is neither trace events as JSON nor a trace of Perfetto"),
        ("{}", (), "it has no traceEvents"),
        ('{"traceEvents": 5}', (), "it has no traceEvents"),
        ('{"traceEvents": [{"ph": "X", "na', (), "it is cut off in the middle of a value"),
        ('{"traceEvents": [', (), "it is cut off: its object has no end"),
        ("[" * 100_000, (), "it is nested too deeply"),
        ('[{"ph": nonsense}]', (), "it is no JSON"),
        (b'[{"name": "\xff\xfe"}]', (), "it is no UTF-8 text"),
        (b"\x1f\x8b\x08\x00" + bytes(20), (), "its bytes cannot be read|it is cut off"),
        (gzip.compress(json.dumps(NESTED).encode())[:-12], (), "it is cut off: its gzip data has no end"),
        (json.dumps(NESTED), (), "name one with --counter"),
        (json.dumps(NESTED + ENERGY), ("--counter", "gone=package-0:J"), "there is no counter 'gone'; the file has"),
        (json.dumps(NESTED), ("--counter", "gone=package-0:furlongs"), "--counter must be NAME=DOMAIN:UNIT"),
        (json.dumps(NESTED), ("--energy", "magic"), "--energy must be auto, estimate or none, got 'magic'"),
        (json.dumps(NESTED), ("--watts", "lots"), "watts must be IDLE,PER_CORE"),
        (json.dumps([event(ts=1e400), event(dur=-5), event(ts="x"), 7]), (), "it has no slices of threads"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence_and_nothing_is_written(tmp_path, content, words, sentence):
    (tmp_path / "t.json").write_bytes(content if isinstance(content, bytes) else content.encode())

    done = command_line.tprof("import", "t.json", *words, cwd=tmp_path)

    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert any(one in done.stderr for one in sentence.split("|")), done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_a_session_that_is_there_stays(tmp_path):
    put(tmp_path / "t.json", NESTED)
    (tmp_path / "t.tprof").write_text("mine")

    done = command_line.tprof("import", "t.json", "--energy", "none", cwd=tmp_path)

    assert done.returncode == 2
    assert "t.tprof exists" in done.stderr
    assert (tmp_path / "t.tprof").read_text() == "mine"


# A body is a list of ("run", ms) and ("call", task, body).
BODIES = st.recursive(
    st.lists(st.tuples(st.just("run"), st.integers(1, 9)), max_size=3),
    lambda bodies: st.lists(
        st.one_of(st.tuples(st.just("run"), st.integers(1, 9)), st.tuples(st.just("call"), st.integers(0, 2), bodies)),
        max_size=4,
    ),
    max_leaves=12,
)


def played(bodies):
    """Return the samples of a thread that runs bodies one after the other; the second of each pair takes turns."""
    samples, numbers, now = [], iter(range(1, 1000)), 0

    def play(body, inside):
        nonlocal now
        for what, *rest in body:
            if what == "run":
                now += rest[0]
                continue
            number = next(numbers)
            samples.append((now, number, rest[0], Kind.START))
            play(rest[1], (number, rest[0]))
            now += 1
            samples.append((now, *inside, Kind.FINISH))

    for body in bodies:
        play([("call", 0, body)], (0, -1))
        now += 2
    first, second = next(numbers), next(numbers)
    for at, (instance, kind) in enumerate([
        (first, Kind.START), (0, Kind.SUSPEND), (second, Kind.START), (0, Kind.SUSPEND), (first, Kind.RESUME),
        (0, Kind.FINISH), (second, Kind.RESUME), (0, Kind.FINISH),
    ]):  # fmt: skip
        samples.append((now + 3 * at, instance, 1 if instance else -1, kind))
    return samples


@given(
    st.lists(st.lists(BODIES, max_size=3), min_size=1, max_size=3), st.lists(st.integers(0, 50), min_size=2, max_size=5)
)
@examples(8)
def test_an_export_that_is_imported_gives_the_same_joules_by_task(tmp_path_factory, threads, joules):
    pytest.importorskip("perfetto")
    folder = tmp_path_factory.mktemp("round")
    given_threads, offset = [], 0
    for number, bodies in enumerate(threads):
        t_ns, instance, task, kind = (list(column) for column in zip(*played(bodies), strict=True))
        given_threads.append({
            "t_ns": [MS * at for at in t_ns], "instance": [one + offset if one else 0 for one in instance],
            "task": task, "kind": kind, "cpu_ns": [MS * at * (number + 1) // 4 for at in t_ns], "tid": number + 5,
            "pid": 5,
        })  # fmt: skip
        offset += 1000
    end_ns = max(one["t_ns"][-1] for one in given_threads)
    edges_ns = [end_ns * place // (len(joules) - 1) for place in range(len(joules))]
    energy = {"package-0": (edges_ns, [sum(joules[: place + 1]) for place in range(len(joules))])}
    tprof.write_trace(folder / "a.tprof", tasks=["x", "y", "z"], threads=given_threads, energy=energy)
    profile = tprof.load(folder / "a.tprof").profile("cputime")

    profile.to_perfetto(folder / "a.pftrace")
    import_file(Request(folder / "a.pftrace", folder / "b.tprof"))

    again = tprof.load(folder / "b.tprof").profile("cputime")
    expected, found = (one.summary()[["instances", "energy_j"]].sort_index() for one in (profile, again))
    assert found.index.tolist() == expected.index.tolist()
    assert found["instances"].tolist() == expected["instances"].tolist()
    assert found["energy_j"].tolist() == pytest.approx(expected["energy_j"].tolist(), rel=1e-9, abs=1e-12)
    assert again.info["quality"] == profile.info["quality"]


def test_a_trace_of_viztracer_is_imported_with_its_functions_as_tasks(tmp_path):
    pytest.importorskip("viztracer")
    (tmp_path / "program.py").write_text("def f(n):\n    return sum(range(n))\nfor _ in range(5): f(1000)\n")
    subprocess.run(
        [sys.executable, "-m", "viztracer", "--quiet", "-o", "v.json", "program.py"], cwd=tmp_path, check=True
    )

    _, profile = imported("v.json", tmp_path, "--watts", "1,2")

    functions = profile.tasks[profile.tasks["task"].str.startswith("f (")]
    assert len(functions) == 5
    assert (profile.summary()["energy_j"] >= 0).all()


def test_counters_are_parsed_as_they_are_typed():
    asked = parse_counter("power.cpu=big:x=rail-cpu:uWs")

    assert (asked.counter, asked.domain, asked.unit) == ("power.cpu=big:x", "rail-cpu", "uWs")


@pytest.mark.parametrize("begin", [b"[", b"{", b"[" + b"," * 4096])
def test_gzip_without_an_event_is_given_up_early(tmp_path, begin):
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(begin)
        for _ in range(64):
            file.write(b" " * (1 << 20))

    with pytest.raises(tprof.TraceError, match=r"bomb.json.gz: its first 16 MB have no trace event$"):
        import_file(Request(path, tmp_path / "made.tprof"))


def test_a_full_disk_is_named_by_the_session_that_was_asked_for(tmp_path):
    path = put(tmp_path / "t.json", NESTED + ENERGY)

    with short_files(), pytest.raises(tprof.TprofError, match=r"cannot write .*/made\.tprof: ") as raised:
        import_file(Request(path, tmp_path / "made.tprof"))

    assert ".part" not in str(raised.value)
    assert [one.name for one in tmp_path.iterdir()] == ["t.json"]
