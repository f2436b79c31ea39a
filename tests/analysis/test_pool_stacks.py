"""What threads of a pool run is theirs: a task's joules go to the functions of the threads that work for it."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import stacks, traces
from tprof.analysis.profile.answer import answer_of

import tprof
from tprof.cli.render import dump
from tprof.cli.summary import as_plain, show
from tprof.trace import NativeThread

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.analysis import Profile

MS = 1_000_000
END_MS, SETUP_MS = 2000, 300
MAIN, WORKERS = 5, (6, 7)
READS_MS = np.arange(SETUP_MS, END_MS + 1, 5)
FUNCTIONS = [
    stacks.function(0, "<module>", "/fit.py:1"),
    stacks.function(1, "fit", "/fit.py:7"),
    stacks.function(2, "setup", "/fit.py:20"),
    stacks.function(3, "wait", "/usr/lib/python3.11/threading.py:3"),
    stacks.function(4, "Thread.run", "/usr/lib/python3.11/threading.py:9"),
    stacks.function(5, "hash_part", "/fit.py:2"),
    # module, fit, setup; module, fit, wait; run, hash_part; module, fit
    stacks.call(0, 0), stacks.call(1, 1, 0), stacks.call(2, 2, 1), stacks.call(3, 3, 1),
    stacks.call(4, 4), stacks.call(5, 5, 4),
]  # fmt: skip


def fitted(path: Path, *, workers_are_sampled: bool = True, half_is: int = 2) -> Profile:
    """A task computes for 0.3 s and then waits for two threads that each compute for 1.7 s; a core draws 10 W."""
    busy_ns = SETUP_MS * MS
    main = {
        "t_ns": [0, busy_ns, END_MS * MS], "instance": [1, 1, 0], "task": [0, 0, -1], "cpu_ns": [0, busy_ns, busy_ns],
        "tid": MAIN, "pid": 1,
    }  # fmt: skip
    t_ms = np.arange(0, END_MS + 1, 10)
    energy = {"package-0": (t_ms * MS, 1e-2 * t_ms + 1e-2 * np.maximum(t_ms - SETUP_MS, 0))}
    workers = [
        NativeThread(
            1, tid, "pool", "/usr/bin/python3.11", busy_ns, MAIN, 0, 1, None, READS_MS * MS, (READS_MS - SETUP_MS) * MS
        )
        for tid in WORKERS
    ]
    traces.write(path, tasks=("fit",), threads=[main], energy=energy, native=workers)
    (path / "tasks" / "00000000.jsonl").write_text('{"task": 0, "name": "fit", "file": "/fit.py", "line": 7}\n')
    at_ms = np.arange(10, END_MS, 10)
    ran = np.select([at_ms <= SETUP_MS // 2, at_ms <= SETUP_MS], [half_is, 2], 3)
    sampled = [stacks.samples(at_ms * MS, ran, tid=MAIN, cpu_ns=np.minimum(at_ms * MS, busy_ns))]
    later_ms = at_ms[at_ms > SETUP_MS]
    sampled += [
        stacks.samples(later_ms * MS, [5] * len(later_ms), tid=tid, cpu_ns=(later_ms - SETUP_MS) * MS)
        for tid in WORKERS
        if workers_are_sampled
    ]
    stacks.write(path, np.concatenate([*FUNCTIONS, *sampled]), pid=1)
    return tprof.load(path).profile(model="cputime")


def own_j(profile: Profile) -> dict[str, float]:
    """Return the joules that each function took itself."""
    table = profile.flame().functions()
    return dict(zip(table["name"], table["own_j"], strict=True))


def test_what_the_threads_of_a_pool_run_is_theirs(tmp_path: Path) -> None:
    """Not the function's in which the task was sampled most while it used the processor itself."""
    profile = fitted(tmp_path / "t.tprof")

    found = own_j(profile)

    assert found["setup"] == pytest.approx(3.0, rel=0.02)
    assert found["hash_part"] == pytest.approx(34.0, rel=0.02)
    assert sum(found.values()) == pytest.approx(profile.summary().loc["fit", "energy_j"])
    assert ("fit", "Thread.run", "hash_part") in {path for _, path in profile.flame().paths()}


def test_the_first_screen_names_the_function_of_the_pool(tmp_path: Path) -> None:
    profile = fitted(tmp_path / "t.tprof")

    (split,) = [one for one in answer_of(profile).remedies if one.kind == "split"]

    assert "of its functions hash_part (/fit.py:2) takes most itself, 34 J" in split.text


def test_threads_of_which_no_stack_was_sampled_leave_their_joules_to_no_function(tmp_path: Path) -> None:
    found = own_j(fitted(tmp_path / "t.tprof", workers_are_sampled=False))

    assert found["setup"] == pytest.approx(3.0, rel=0.02)
    assert found["(no stack sampled)"] == pytest.approx(34.0, rel=0.02)


def test_the_table_of_functions_has_all_of_a_task_with_its_own_function(tmp_path: Path) -> None:
    """In which it was sampled without calling another."""
    profile, stream = fitted(tmp_path / "t.tprof", half_is=1), io.StringIO()

    show(profile, stream)
    rows: list[dict[str, Any]] = as_plain(profile)["functions"]

    assert {row["name"]: row["kind"] for row in rows} == {"hash_part": "function", "setup": "function", "fit": "task"}
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert "fit, its own function" in stream.getvalue()


def test_a_long_table_of_functions_ends_with_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "t.tprof"
    fitted(path)
    many = [stacks.function(10 + at, f"f{at}", f"/f.py:{at}") for at in range(20)]
    calls = [stacks.call(10 + at, 10 + at, 1) for at in range(20)]
    at_ms = np.arange(10, SETUP_MS, 10)
    sampled = stacks.samples(at_ms * MS, 10 + np.arange(len(at_ms)) % 20, tid=MAIN, cpu_ns=at_ms * MS)
    stacks.write(path, np.concatenate([*FUNCTIONS, *many, *calls, sampled]), pid=1)

    stream = io.StringIO()
    dump(as_plain(tprof.load(path).profile(model="cputime")), stream)
    rows = json.loads(stream.getvalue())["functions"]

    assert len(rows) == 9
    assert rows[-1]["name"] == "(13 further functions)"
    assert rows[-1]["own_low_j"] is None
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)


def test_a_lone_stack_after_a_gap_stands_for_what_its_threads_clock_shows(tmp_path: Path) -> None:
    """A thread computes in one task for a second, is not sampled while it waits, and computes for 10 ms in another."""
    edges_ms = [0, 1000, 2000, 2010, 3000]
    thread = {
        "t_ns": [one * MS for one in edges_ms], "instance": [1, 0, 2, 0, 0], "task": [0, -1, 0, -1, -1],
        "cpu_ns": [one * MS for one in (0, 1000, 1000, 1010, 1010)], "tid": MAIN,
    }  # fmt: skip
    t_ms = np.arange(0, 3001, 10)
    energy = {"package-0": (t_ms * MS, 1e-2 * t_ms)}
    path = traces.write(tmp_path / "t.tprof", tasks=("work",), threads=[thread], energy=energy)
    at_ms = np.append(np.arange(10, 1000, 10), [2005, 2500])
    clock_ms = np.append(np.arange(10, 1000, 10), [1005, 1010])
    ran = [2] * 99 + [5, 3]
    stacks.write(path, np.concatenate([*FUNCTIONS, stacks.samples(at_ms * MS, ran, tid=MAIN, cpu_ns=clock_ms * MS)]))

    found = own_j(tprof.load(path).profile(model="cputime"))

    assert found["hash_part"] < 0.05 * found["setup"]
