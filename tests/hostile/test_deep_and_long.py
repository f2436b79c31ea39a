"""Deep recursion and long names are the program's right."""

import json

import pytest
from support import programs
from support.recorded import instances, record, story

import tprof

DEEP = """
import sys, threading
import tprof

@tprof.task
def down(n):
    return 0 if n == 0 else 1 + down(n - 1)

def plain(n):
    return 0 if n == 0 else 1 + plain(n - 1)

def deepest(function):
    try:
        function(10**9)
    except RecursionError as error:
        return str(error)

with tprof.record("t.tprof", energy="estimate", counters="none"):
    print(deepest(down) == deepest(plain))
    sys.setrecursionlimit(30_000)
    threading.stack_size(512 << 20)
    thread = threading.Thread(target=lambda: print(down(10_000)))
    thread.start()
    thread.join()
    nested = [tprof.region("nested") for _ in range(100_000)]
    for region in nested: region.__enter__()
    for region in reversed(nested): region.__exit__(None, None, None)
"""


def test_recursion_goes_as_deep_as_the_stack_allows_and_comes_back(tmp_path):
    done = programs.run(tmp_path, DEEP)

    assert (done.returncode, done.stdout) == (0, "True\n10000\n"), done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    counts = instances(trace)
    assert counts["nested"] == 100_000
    assert counts["down"] > 10_001
    for thread in range(2):
        told = [moment for moment in story(trace, thread) if moment[0] != "close"]
        assert told[-1] == ("finish", None)
        assert len(told) == 2 * sum(kind == "start" for kind, _ in told)


def test_a_profile_of_deep_recursion_is_made(tmp_path):
    def body():
        regions = [tprof.region("deep") for _ in range(20_000)]
        for region in regions:
            region.__enter__()
        for region in reversed(regions):
            region.__exit__(None, None, None)

    tasks = record(tmp_path / "t.tprof", body).profile().tasks

    assert len(tasks) == 20_000
    assert (tasks["parent"] != 0).sum() >= 19_999


NAMES = {
    "long": "n" * 2_000_000,
    "markup": "</script><img src=x onerror=alert(1)>",
    "lines": "a\nb\r\nc\u2028d\u2029e\x00f",
    "terminal": "\x1b[31mred\x1b]0;title\x07",
    "surrogate": "half \ud800 and \udcff",
    "formula": "=cmd()|'/c calc'!A0",
    "direction": "\u202egnp.exe",
    "empty": "",
    "json": '{"task": 7, "name": "other"}\n{"task": 0, "name": "stolen"}',
}


@pytest.mark.parametrize("which", NAMES)
def test_any_name_of_a_task_comes_back_as_far_as_names_are_kept(tmp_path, which):
    name = NAMES[which]

    @tprof.task(name="before")
    def before(): ...

    def body():
        before()
        with tprof.region(name):
            pass
        before()

    counts = instances(record(tmp_path / "t.tprof", body))

    assert counts.pop("before") == 2
    (kept,) = counts
    assert counts[kept] == 1
    if which == "long":
        assert 100 < len(kept) < 2000
        assert set(kept.rstrip("…")) == {"n"}
    else:
        assert kept == name


def test_a_function_of_a_thousand_lines_or_without_a_file_is_a_task(tmp_path):
    place = tmp_path / "long.py"
    place.write_text("def long():\n" + "    x = 'é'\n" * 20_000)
    scope = {}
    exec(compile(place.read_text(), str(place), "exec"), scope)  # noqa: S102 - the test's own program
    exec("def nowhere(): pass", scope)  # noqa: S102
    long, nowhere = tprof.task(scope["long"]), tprof.task(scope["nowhere"])

    trace = record(tmp_path / "t.tprof", lambda: (long(), nowhere()))

    assert instances(trace) == {"long": 1, "nowhere": 1}
    sources = {task.name: task.source for task in trace.tasks}
    assert sources["long"].startswith("def long():")
    assert len(sources["long"]) <= 8192
    assert sources["nowhere"] is None


MANY = """
import tprof

with tprof.record("t.tprof", energy="estimate", counters="none"):
    for number in range(20_000):
        with tprof.region(f"region {number}"):
            pass
"""


def test_twenty_thousand_regions_keep_their_names(tmp_path):
    done = programs.run(tmp_path, MANY)

    assert (done.returncode, done.stderr) == (0, "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert instances(trace) == {f"region {number}": 1 for number in range(20_000)}
    assert json.loads((tmp_path / "t.tprof" / "end.json").read_text())["lost_definitions"] == 0
