"""`write_trace` writes what it is given, exactly, or refuses it in one sentence and leaves nothing."""

import doctest
import math
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import programs, traces
from support.properties import examples

import tprof
from tprof.trace import Kind, Quality, kinds
from tprof.trace.directory import create_session


def thread(**changes):
    return {"t_ns": [0, 5, 9], "instance": [1, 2, 0], "task": [0, 1, -1]} | changes


REFUSED = {
    "no task": ({"threads": [{"t_ns": [0], "instance": [1]}]}, "has no 'task'"),
    "not a dict": ({"threads": [[0, 1]]}, r"threads\[0\] must be a dict"),
    "lengths": ({"threads": [thread(task=[0, 1])]}, "t_ns has 3 entries, task 2"),
    "second thread": ({"threads": [thread(), thread(task=[0, 1])]}, r"threads\[1\]: t_ns has 3 entries"),
    "time falls": ({"threads": [thread(t_ns=[0, 9, 5])]}, "t_ns must not decrease; sort"),
    "time negative": ({"threads": [thread(t_ns=[-1, 5, 9])]}, "t_ns must not be negative, got -1"),
    "time huge": ({"threads": [thread(t_ns=np.array([0, 5, 2**63], np.uint64))]}, r"t_ns must be below 2\*\*63"),
    "time wraps": ({"threads": [thread(t_ns=[2**62, -(2**62), 2**62])]}, "t_ns must not be negative"),
    "time in fractions": ({"threads": [thread(t_ns=[0, 0.5, 9])]}, "t_ns must hold whole numbers"),
    "time not a number": ({"threads": [thread(t_ns=["a", "b", "c"])]}, "t_ns must hold numbers"),
    "time nan": ({"threads": [thread(t_ns=[0, math.nan, 9])]}, "t_ns must be finite"),
    "two dimensions": ({"threads": [thread(t_ns=[[0, 5, 9]])]}, "t_ns must be one-dimensional"),
    "ragged": ({"threads": [thread(t_ns=[[0], [5, 9]])]}, "t_ns must be one-dimensional"),
    "instance negative": ({"threads": [thread(instance=[-1, 2, 0])]}, "instance must not be negative"),
    "task too high": ({"threads": [thread(task=[0, 2, -1])]}, "task must be from -1 to 1, got 2"),
    "task too low": ({"threads": [thread(task=[0, -2, -1])]}, "task must be from -1 to 1, got -2"),
    "task missing": ({"threads": [thread(task=[0, -1, -1])]}, "instance 2 has no task"),
    "cpu too high": ({"threads": [thread(cpu=[0, 65535, 0])]}, "cpu must be below 65535, got 65535"),
    "package too high": ({"threads": [thread(package=[0, 40000, 0])]}, "package must be below 32768"),
    "cpu in two packages": ({"threads": [thread(cpu=[1, 1, 1], package=[0, 1, 1])]}, "processor is given in two"),
    "cpu in two packages by two threads": (
        {"threads": [thread(cpu=[1] * 3, package=[0] * 3), thread(package=[1] * 3)]},
        r"threads\[1\]: cpu 1 is in package 1, but in 0 before",
    ),
    "kind": ({"threads": [thread(kind=[1, 7, 2])]}, "kind must be below 7, got 7"),
    "kind zero": ({"threads": [thread(kind=[1, 0, 2])]}, "kind must be from 1 to 6, got 0"),
    "flags": ({"threads": [thread(flags=[0, 256, 0])]}, "flags must be below 256"),
    "pid": ({"threads": [thread(pid=-3)]}, "pid must be one number from 0 to 2147483647, got -3"),
    "tid": ({"threads": [thread(tid=[1, 2, 3])]}, "tid must be one number"),
    "column falls": ({"threads": [thread(cycles=[0, 9, 5])]}, "cycles is cumulative, so it must not decrease"),
    "column name": ({"threads": [thread(**{"l2 refs": [0, 1, 2]})]}, "'l2 refs' is no name for a column"),
    "column reserved": ({"threads": [thread(_unused_0=[0, 1, 2])]}, "'_unused_0' is no name for a column"),
    "column long": ({"threads": [thread(**{"x" * 101: [0, 1, 2]})]}, "is no name for a column"),
    "columns": ({"threads": [thread(**{f"c{n}": [0, 1, 2] for n in range(14)})]}, "at most 13 columns fit, got 14"),
    "tasks a string": ({"tasks": "ab"}, "tasks must be a list of names, got the name 'ab'"),
    "task not a string": ({"tasks": ["a", 1]}, "tasks must be a list of names, got 1"),
    "energy not a dict": ({"energy": [([0], [0])]}, "energy must be a dict of domains"),
    "domain name": ({"energy": {"../x": ([0], [0.0])}}, "a domain is named like package-0"),
    "domain no pair": ({"energy": {"psys": [0]}}, "must be arrays: t_ns, cumulative joules"),
    "domain lengths": ({"energy": {"psys": ([0, 1], [0.0])}}, "t_ns has 2 entries, joules 1"),
    "domain window": ({"energy": {"psys": ([0, 1], [0.0, 1.0], [0, 1 << 32])}}, "window_ns must be below 4294967296"),
    "energy nan": ({"energy": {"psys": ([0, 1], [0.0, math.nan])}}, "joules must be finite"),
    "energy infinite": ({"energy": {"psys": ([0, 1], [0.0, math.inf])}}, "joules must be finite"),
    "energy falls": ({"energy": {"psys": ([0, 1], [2.0, 1.0])}}, "cumulative joules must not decrease"),
    "energy negative": ({"energy": {"psys": ([0, 1], [-1.0, 1.0])}}, "joules must not be negative"),
    "energy text": ({"energy": {"psys": ([0, 1], ["a", "b"])}}, "joules must hold numbers"),
    "energy time falls": ({"energy": {"psys": ([1, 0], [0.0, 1.0])}}, "t_ns must not decrease"),
    "quality": ({"quality": "guessed"}, "quality must be one of measured, estimated, simulated, given, got 'guessed'"),
    "host": ({"host": {"a": {1, 2}}}, "host: 'a' must be a text or a number"),
    "static domain": ({"static_power_w": {"psys": 1.0}}, "static_power_w: 'psys' is no domain"),
    "more joules than there are": (
        {"energy": {"psys": ([0, 1], [0.0, 1e308])}},
        r"joules must be at most 1e\+15, got 1e\+308",
    ),
    "more static watts than there are": (
        {"static_power_w": {"package-0": 1e308}},
        r"must be watts, not negative, got 1e\+308 \(at most 1e\+09\)",
    ),
    "static watts": ({"static_power_w": {"package-0": -1.0}}, "must be watts, not negative, got -1.0"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_contradiction_is_refused_in_one_sentence_and_nothing_is_written(tmp_path, case):
    changes, sentence = REFUSED[case]
    arguments = {"tasks": ["a", "b"], "threads": [thread()], "energy": {"package-0": ([0, 10], [0.0, 1.0])}} | changes

    with pytest.raises(tprof.UsageError, match=sentence) as caught:
        tprof.write_trace(tmp_path / "t.tprof", **arguments)

    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_example_of_the_docstring_holds():
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(tprof.write_trace, "write_trace", globs={})

    assert doctest.DocTestRunner().run(example).failed == 0


def test_everything_is_private_to_its_owner(tmp_path):
    path = traces.write(tmp_path / "t.tprof")

    modes = {stat.S_IMODE(one.stat().st_mode) for one in path.rglob("*") if one.is_file()}
    rooms = {stat.S_IMODE(one.stat().st_mode) for one in (path, *path.iterdir()) if one.is_dir()}

    assert (modes, rooms) == ({0o600}, {0o700})


@pytest.mark.parametrize("make", ["directory", "file", "link", "dangling link", "session"])
def test_a_path_that_is_taken_is_refused_and_stays_as_it_is(tmp_path, make):
    path, elsewhere = tmp_path / "t.tprof", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("data")
    {
        "directory": path.mkdir,
        "file": path.touch,
        "link": lambda: path.symlink_to(elsewhere),
        "dangling link": lambda: path.symlink_to(tmp_path / "nowhere"),
        "session": lambda: traces.write(path),
    }[make]()
    before = traces.contents(tmp_path)

    with pytest.raises(tprof.UsageError, match=r"t\.tprof exists: .* by --overwrite \(in Python overwrite=True\)$"):
        traces.write(path)

    assert traces.contents(tmp_path) == before
    assert not (tmp_path / "nowhere").exists()


def test_a_place_that_does_not_exist_is_said(tmp_path):
    with pytest.raises(tprof.TprofError, match=r"cannot make the session .*: No such file or directory; choose"):
        traces.write(tmp_path / "missing" / "t.tprof")


def test_a_disk_that_refuses_leaves_nothing_behind(tmp_path):
    """A limit on the size of files stands for the full disk: both are an error of write."""
    source = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
import tprof
from support import programs, traces
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4200, 4200))
try:
    traces.write(__import__("pathlib").Path(sys.argv[1]))
except tprof.TprofError as error:
    print(error)
"""
    done = programs.run(tmp_path, source, str(tmp_path / "t.tprof"), str(Path(__file__).parents[1]))

    assert done.stdout.endswith("t.tprof: File too large; nothing of it is left behind\n"), done.stderr
    assert not (tmp_path / "t.tprof").exists()


# What stands at a path when a session is to replace it.


def test_overwrite_replaces_a_session(tmp_path):
    path = traces.write(tmp_path / "t.tprof")

    create_session(path, overwrite=True)

    assert list(path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "no manifest of a session"),
        (lambda path: (path.mkdir(), (path / "manifest.json").write_text('{"name": "a web app"}')), "no manifest"),
        (lambda path: (traces.write(path), (path / "thesis.odt").touch()), "it also holds 'thesis.odt'"),
        (lambda path: path.write_text("text"), "it is no directory"),
        (lambda path: path.symlink_to(traces.write(path.parent / "other.tprof")), "it is no directory"),
        (lambda path: (path.mkdir(), (path / "manifest.json").symlink_to("/etc/passwd")), "no manifest"),
    ],
)
def test_overwrite_removes_nothing_but_a_session(tmp_path, make, why):
    path = tmp_path / "t.tprof"
    make(path)
    before = traces.contents(tmp_path)

    with pytest.raises(tprof.UsageError, match=why):
        create_session(path, overwrite=True)

    assert traces.contents(tmp_path) == before
    assert path.exists()


# What is written is what was given.


def test_domains_are_understood_by_the_prefix_of_their_name(tmp_path):
    names = ["package-1", "core-0", "dram-0", "psys", "gpu-0"]
    path = traces.write(tmp_path / "t.tprof", energy={name: ([0, 1], [0.0, 1.0]) for name in names})

    readings = tprof.load(path).readings

    said = {name: (one.scope, one.package, one.counted) for name, one in readings.items()}
    assert said == {
        "package-1": ("package", 1, True),
        "core-0": ("core", 0, False),
        "dram-0": ("dram", 0, True),
        "psys": ("psys", None, False),
        "gpu-0": ("gpu", 0, True),
    }


def test_simulated_joules_are_called_simulated(tmp_path):
    path = traces.write(tmp_path / "t.tprof", quality="simulated")

    assert tprof.load(path).readings["package-0"].quality == Quality.SIMULATED


@given(
    steps=st.lists(st.just(0.0) | st.floats(1e-30, 1e6), min_size=1, max_size=20),
    base=st.just(0.0) | st.floats(1e-30, 1e9),
)
@examples(60)
def test_no_bit_of_the_joules_is_lost(tmp_path_factory, steps, base):
    """Counts times the unit are the given joules to within half of what separates the largest from its neighbour."""
    joules = base + np.cumsum(steps)
    path = tmp_path_factory.mktemp("joules") / "t.tprof"
    traces.write(path, energy={"package-0": (np.arange(len(joules)), joules)})

    readings = tprof.load(path).readings["package-0"]

    assert math.frexp(readings.unit)[0] == 0.5
    np.testing.assert_allclose(readings.value * readings.unit, joules, rtol=0, atol=np.spacing(joules[-1]) / 2)


@pytest.mark.parametrize("most", [0.0, 5e-324, 1e-300, 1e-30, 1e15])
def test_the_smallest_and_largest_joules_can_be_written(tmp_path, most):
    traces.write(tmp_path / "t.tprof", energy={"psys": ([0, 1], [0.0, most])})

    readings = tprof.load(tmp_path / "t.tprof").readings["psys"]

    assert float(readings.value[1]) * readings.unit == pytest.approx(most, rel=1e-15, abs=1e-300)


def test_counters_keep_all_their_bits_and_thirteen_fit(tmp_path):
    columns = {f"c{n}": [0, 2**64 - 1 - n, 2**64 - 1] for n in range(13)}
    columns = {name: np.array(values, np.uint64) for name, values in columns.items()}
    path = traces.write(tmp_path / "t.tprof", threads=[thread(kind=[1, 1, 2], **columns)])

    read = tprof.load(path).threads[0]
    samples = read.read()

    assert read.columns == tuple(columns)
    assert samples.dtype.itemsize == 128
    assert all(samples[name].tolist() == values.tolist() for name, values in columns.items())


def test_counters_that_are_not_given_are_absent(tmp_path):
    path = traces.write(tmp_path / "t.tprof", threads=[thread()])

    assert tprof.load(path).threads[0].columns == ()


@pytest.mark.parametrize("threads", [[], [{"t_ns": [], "instance": [], "task": []}]])
def test_nothing_at_all_can_be_written(tmp_path, threads):
    path = traces.write(tmp_path / "t.tprof", tasks=[], threads=threads, energy={})

    trace = tprof.load(path)

    assert [thread.count for thread in trace.threads] == [0] * len(threads)
    assert (trace.complete, trace.notes) == (True, ())


NAMES = [
    "</script><img src=x onerror=alert(1)>", "\"quotes' &amp;", "line\u2028break", "\u202eright to left",
    "nul\0inside", "lone \ud800 surrogate", "\x1b[31mred", "=cmd()", "new\nline", "", "naïve 🧮",
]  # fmt: skip


def test_names_are_data_and_come_back_as_they_were(tmp_path):
    path = traces.write(tmp_path / "t.tprof", tasks=NAMES, threads=[])

    assert [entry.name for entry in tprof.load(path).tasks] == NAMES


@given(names=st.lists(st.text(st.characters(), max_size=30), unique=True, max_size=10))
@examples(40)
def test_any_name_comes_back_as_it_was(tmp_path_factory, names):
    path = traces.write(tmp_path_factory.mktemp("names") / "t.tprof", tasks=names, threads=[])

    assert [entry.name for entry in tprof.load(path).tasks] == names


@pytest.mark.parametrize(("name", "read"), [("ä" * 100, "ä" * 63), ("a\0b", "a b"), ("\ud800", "?")])
def test_a_name_of_a_thread_is_cut_between_characters(tmp_path, name, read):
    path = traces.write(tmp_path / "t.tprof", threads=[thread(name=name)])

    assert tprof.load(path).threads[0].name == read


# Kinds that a writer of arrays need not say.


def kinds_of(tmp_path, instance, **more):
    arrays = {"t_ns": list(range(len(instance))), "instance": instance, "task": [0 if one else -1 for one in instance]}
    path = traces.write(tmp_path / "t.tprof", tasks=["a"], threads=[arrays | more], energy={})
    samples = tprof.load(path).threads[0].read()
    return [(Kind(sample["kind"]).name, int(sample["instance"]), int(sample["t_ns"])) for sample in samples]


def test_one_after_the_other_has_a_finish_between(tmp_path):
    told = kinds_of(tmp_path, [1, 2, 0])

    assert told == [("START", 1, 0), ("FINISH", 0, 1), ("START", 2, 1), ("FINISH", 0, 2)]


def test_one_inside_the_other_is_nested(tmp_path):
    told = kinds_of(tmp_path, [1, 2, 1, 0])

    assert told == [("START", 1, 0), ("START", 2, 1), ("FINISH", 1, 2), ("FINISH", 0, 3)]


def test_one_that_pauses_is_suspended_and_resumed(tmp_path):
    told = kinds_of(tmp_path, [1, 0, 1, 0])

    assert told == [("START", 1, 0), ("SUSPEND", 0, 1), ("RESUME", 1, 2), ("FINISH", 0, 3)]


def test_one_that_moves_to_another_thread_starts_once(tmp_path):
    threads = [
        {"t_ns": [0, 2], "instance": [1, 0], "task": [0, -1]},
        {"t_ns": [5, 9], "instance": [1, 0], "task": [0, -1]},
    ]
    path = traces.write(tmp_path / "t.tprof", tasks=["a"], threads=threads, energy={})

    kinds = [thread.read()["kind"].tolist() for thread in tprof.load(path).threads]

    assert kinds == [[Kind.START, Kind.FINISH], [Kind.RESUME, Kind.FINISH]]


def test_kinds_and_flags_that_are_given_are_kept(tmp_path):
    told = kinds_of(tmp_path, [1, 1, 0], kind=[1, 4, 5], flags=[0, 0, 8])

    assert [kind for kind, _, _ in told] == ["START", "RESUME", "CLOSE"]
    assert tprof.load(tmp_path / "t.tprof").threads[0].read()["flags"].tolist() == [0, 0, kinds.Flag.ABORTED]


def test_the_samples_given_are_the_samples_read(tmp_path):
    """With kinds given nothing is put in, so each field comes back as it was."""
    random = np.random.default_rng(1)
    count = 1000
    given = {
        "t_ns": np.sort(random.integers(0, 2**60, count)),
        "instance": random.integers(1, 2**64, count, np.uint64),
        "task": random.integers(0, 2, count),
        "cpu": random.integers(0, 65535, count),
        "kind": random.integers(1, 7, count),
        "flags": random.integers(0, 16, count),
        "cycles": np.sort(random.integers(0, 2**64, count, np.uint64)),
    }
    path = traces.write(tmp_path / "t.tprof", threads=[given])

    samples = tprof.load(path).threads[0].read()

    assert {name: samples[name].tolist() for name in given} == {name: one.tolist() for name, one in given.items()}


def test_one_package_stands_for_a_whole_thread(tmp_path):
    energy = {f"package-{number}": ([0, 9], [0.0, 1.0]) for number in (0, 1)}
    threads = [thread(package=0), thread(package=1, instance=[3, 4, 0])]

    tprof.write_trace(tmp_path / "t.tprof", tasks=["a", "b"], threads=threads, energy=energy)

    assert set(tprof.load(tmp_path / "t.tprof").profile().tasks["package"]) == {0, 1}


@pytest.mark.parametrize("window_s", [0.0, 0.5])
def test_windows_of_given_joules_count_as_those_of_a_sensor(tmp_path, window_s):
    t_ns = np.arange(0, 11) * 10**9
    window_ns = np.full(11, round(window_s * 1e9))

    tprof.write_trace(
        tmp_path / "t.tprof", tasks=["a", "b"], threads=[thread()],
        energy={"package-0": (t_ns, t_ns * 5e-9, window_ns)},
    )  # fmt: skip

    (whole,) = tprof.load(tmp_path / "t.tprof").profile().recipe.whole
    assert whole.window_s[1:-1] == pytest.approx(window_s)
