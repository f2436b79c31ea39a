"""What the program did outside its tasks is said by its stacks, with the pattern that makes tasks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import stacks, traces
from tprof.analysis.profile.answer import answer_of

import tprof
from tprof.launch.pattern import Pattern
from tprof.trace import layout

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
END_MS = 1000
SITE, PYTHON = "/venv/lib/python3.11/site-packages", "/usr/lib/python3.11"
PLACES = [
    ("<module>", "/app/grid.py:1"), ("<module>", f"{SITE}/sklearn/__init__.py:1"),
    ("_find_and_load", "<frozen importlib._bootstrap>:1"),
    ("_fit_context.<locals>.decorator.<locals>.wrapper", f"{SITE}/sklearn/base.py:3"),
    ("BaseForest.fit", f"{SITE}/sklearn/ensemble/_forest.py:5"), ("_unique1d", f"{SITE}/numpy/lib/sets.py:7"),
    ("Runner.run", f"{PYTHON}/asyncio/runners.py:9"), ("Protocol.data_received", f"{SITE}/uvicorn/h11.py:4"),
    ("prepare", "/app/grid.py:20"), ("dumps", f"{PYTHON}/json/__init__.py:8"), ("six_moves", f"{SITE}/six.py:8"),
]  # fmt: skip
IMPORT, FIT, LOOP, SERVED, OWN, PYTHONS, SINGLE = (
    (0, 2, 1), (0, 3, 4, 5), (0, 6), (0, 6, 7, 9), (0, 8, 9), (0, 9), (0, 10),
)  # fmt: skip


def outside(path: Path, *ran: tuple[int, ...]) -> str:
    """Return what is said of a program whose first tenth is a task, and whose rest has these stacks in turn."""
    thread = {
        "t_ns": [0, END_MS * MS // 10, END_MS * MS], "instance": [1, 0, 0], "task": [0, -1, -1], "tid": 5,
        "cpu_ns": [0, END_MS * MS // 10, END_MS * MS],
    }  # fmt: skip
    t_ms = np.arange(0, END_MS + 1, 10)
    traces.write(path, tasks=("work",), threads=[thread], energy={"package-0": (t_ms * MS, 1e-2 * t_ms)})
    if ran:
        calls, last = [], []
        for functions in ran:
            above: tuple[int, ...] = ()
            for function in functions:
                calls.append(stacks.call(len(calls), function, *above))
                above = (len(calls) - 1,)
            last.append(len(calls) - 1)
        at_ms = np.arange(5, END_MS, 10)
        sampled = stacks.samples(at_ms * MS, np.resize(last, len(at_ms)), tid=5, cpu_ns=at_ms * MS)
        names = [stacks.function(number, *one) for number, one in enumerate(PLACES)]
        stacks.write(path, np.concatenate([*names, *calls, sampled]))
    (text,) = [
        one.text for one in answer_of(tprof.load(path).profile(model="cputime")).remedies if one.kind == "outside"
    ]
    return text


@pytest.mark.parametrize(
    ("ran", "what", "pattern"),
    [
        ((FIT, FIT, IMPORT), "67 % sklearn and 33 % importing modules", "sklearn.*:*.fit"),
        ((IMPORT, IMPORT, FIT), "67 % importing modules and 33 % sklearn", "sklearn.*:*.fit"),
        ((SERVED, LOOP), "an event loop", "uvicorn.*:*.data_received"),
        ((OWN, OWN, PYTHONS), "67 % the program's functions and 33 % Python's own library", "/app/grid.py:prepare"),
        ((SINGLE,), "100 % six", "six:six_moves"),
    ],
)
def test_the_stacks_say_what_it_was_and_give_a_pattern_to_paste(tmp_path: Path, ran, what, pattern) -> None:
    text = outside(tmp_path / "t.tprof", *ran)

    assert what in text
    assert f"tprof run --task '{pattern}' makes tasks of functions there" in text
    assert Pattern.parse(pattern).function


@pytest.mark.parametrize(
    ("ran", "advice"),
    [
        ((IMPORT,), "100 % importing modules): import fewer modules"),
        ((PYTHONS,), "100 % Python's own library): no function of the program called it"),
        ((LOOP,), "100 % an event loop): a task is the body of its function only"),
    ],
)
def test_where_no_task_shows_more_it_says_why(tmp_path: Path, ran, advice) -> None:
    text = outside(tmp_path / "t.tprof", *ran)

    assert f"(by its stacks: {advice}" in text
    assert "tprof run --task" not in text


@pytest.mark.parametrize(("child", "is_late"), [(False, False), (False, True), (True, True)])
def test_imports_are_known_by_their_time_without_stacks(tmp_path: Path, child, is_late) -> None:
    """The one task begins after 900 of 1000 ms of CPU time, in the program or in a child process, or after 10 ms."""
    begin_ms = 900 if is_late else 10
    t_ns = [0, begin_ms * MS, (begin_ms + 50) * MS, END_MS * MS]
    thread = {"t_ns": t_ns, "instance": [0, 2, 0, 0], "task": [-1, 0, -1, -1], "cpu_ns": t_ns, "pid": 5, "tid": 5}
    first = {"t_ns": [0, MS], "instance": [1, 0], "task": [0, -1], "cpu_ns": [0, MS], "pid": 4, "tid": 4}
    t_ms = np.arange(0, END_MS + 1, 10)
    energy = {"package-0": (t_ms * MS, 1e-2 * t_ms)}
    path = traces.write(tmp_path / "t", tasks=("work",), threads=[thread] + [first] * child, energy=energy)
    readings = np.zeros(len(t_ms), layout.READING)
    readings["t_ns"] = readings["value"] = t_ms * MS
    traces.add_cpu_times(path, "program", quantity="program", package=None, readings=readings)

    answer = answer_of(tprof.load(path).profile(model="cputime"))

    (text,) = [one.text for one in answer.remedies if one.kind == "outside"]
    assert ("most of it before its first task, as imports are: import fewer" in text) == is_late
    assert text.endswith("tprof run --stacks shows what it was.")


def test_without_stacks_it_says_what_may_be_there_and_what_shows_it(tmp_path: Path) -> None:
    text = outside(tmp_path / "t.tprof")

    assert "such as imports, a server's loop and libraries' own work" in text
    assert text.endswith("tprof run --stacks shows what it was.")
