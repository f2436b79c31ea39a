"""Cases of what `fitted` assumes: they run, are counted, and go on where they were interrupted."""

import json

import numpy as np
import pytest

from benchmarks.validation.assumption_runs import Series, measure, run_once, tally
from benchmarks.validation.assumptions import ASSUMPTION_CASES, BROKEN, CLEAN, chosen_assumptions
from benchmarks.validation.validation_text import assumptions_table
from tprof.errors import UsageError

SHORT = Series(runs=2, first_seed=7, most_s=0.5)
ENDS = ("low", "high", "power_low", "power_high")
CHEAP = chosen_assumptions(("long", "alternating"))


def a_run(case, *tasks, found=()):
    """A run: of each task whether the interval held; of each finding its kind and tasks."""
    ends = {True: (-0.01, 0.02), False: (0.01, 0.02)}
    return {
        "case": case.key,
        "seed": 1,
        "fit_s": 0.1,
        "tasks": [
            {"task": name, "error": 0.02, **dict(zip(ENDS, 2 * ends[held], strict=True))} for name, held in tasks
        ],
        "found": [{"kind": kind, "tasks": list(names)} for kind, names in found],
    }


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.key, marks=[pytest.mark.thorough] if place % 3 else [])
        for place, case in enumerate(ASSUMPTION_CASES)
    ],
)
def test_each_case_compares_its_tasks_with_the_truth(case):
    run = run_once(case, 3, 0.4)

    assert {task["task"] for task in run["tasks"]} <= {task.name for task in case.of_run(3).tasks}
    assert run["tasks"]
    assert all(task["low"] <= task["error"] <= task["high"] for task in run["tasks"])
    assert json.loads(json.dumps(run, allow_nan=False)) == run


def test_a_clean_run_states_the_least_error_which_falls_as_the_root_of_its_length():
    clean = CLEAN[0]

    short, long = ([task["least"] for task in run_once(clean, 3, length_s)["tasks"]] for length_s in (0.4, 1.6))

    assert [one / other for one, other in zip(short, long, strict=True)] == pytest.approx([2.0] * 3, rel=0.2)
    assert not any("least" in task for task in run_once(BROKEN[0], 3, 0.3)["tasks"])


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["clean", "long", "noisy"])
def test_errors_of_fitted_are_about_the_least_ones(key):
    """Many runs: the errors over the least ones vary by about 1."""
    (case,) = chosen_assumptions((key,))

    tasks = [task for seed in range(20) for task in run_once(case, seed, 1.0)["tasks"]]

    assert 0.75 < np.sqrt(np.mean([(task["error"] / task["least"]) ** 2 for task in tasks])) < 1.3


def test_what_is_drawn_is_another_program_in_each_run_and_the_same_with_the_same_seed():
    (drawn,) = chosen_assumptions(("drawn",))

    assert drawn.of_run(1) == drawn.of_run(1)
    assert drawn.of_run(1).tasks != drawn.of_run(2).tasks


def test_a_miss_counts_as_warned_of_if_a_finding_names_the_task_or_none():
    case = BROKEN[0]
    runs = [
        a_run(case, ("a", False), ("b", False), found=[("contention", ["a"])]),
        a_run(case, ("a", False), ("b", False), found=[("lateness", [])]),
        a_run(case, ("a", True), ("b", False)),
    ]

    row = tally(case, runs)

    assert [(task["missed"], task["warned"]) for task in row["tasks"]] == [(2, 2), (3, 1)]
    assert row["held"] == pytest.approx(1 / 6)
    assert (row["warned"], row["named"]) == pytest.approx((2 / 3, 1 / 3))
    assert row["kinds"] == pytest.approx({"contention": 1 / 3, "lateness": 1 / 3})


@pytest.mark.parametrize(
    ("misses", "warned_of", "met"), [(1, 0, True), (2, 0, False), (10, 9, True), (10, 8, False), (0, 0, True)]
)
def test_a_case_meets_its_aims_if_intervals_hold_or_misses_are_warned_of(misses, warned_of, met):
    case = BROKEN[0]
    finding = [("contention", ["a"])]
    runs = [a_run(case, ("a", n >= misses), found=finding if n < warned_of else ()) for n in range(10)]

    assert tally(case, runs)["met"] is met


@pytest.mark.parametrize(("false", "met"), [(1, True), (2, False)])
def test_a_clean_case_may_warn_in_one_of_twenty_runs(false, met):
    runs = [a_run(CLEAN[0], ("a", True), found=[("drift", [])] if n < false else ()) for n in range(20)]

    row = tally(CLEAN[0], runs)

    assert row["met"] is met
    assert row["named"] is None


def test_runs_are_made_in_rounds_and_those_that_are_kept_are_not_made_again(tmp_path, monkeypatch):
    keep, told = tmp_path / "runs.jsonl", []
    monkeypatch.setattr("benchmarks.validation.processes.usable_cpus", lambda: 1)
    first = measure(CHEAP, Series(1, 7, 0.5), keep=keep)
    kept = keep.read_text("utf-8")

    both = measure(CHEAP, SHORT, keep=keep, progress=lambda *at: told.append(at))

    assert [(run["case"], run["seed"]) for run in both["runs"]] == [
        ("long", 7), ("alternating", 7), ("long", 8), ("alternating", 8),
    ]  # fmt: skip
    assert both["runs"][:2] == first["runs"]
    assert keep.read_text("utf-8").startswith(kept)
    assert told == [(3, 4), (4, 4)]


@pytest.mark.parametrize("text", ["no json", '["a list"]', "{}"])
def test_a_file_that_holds_no_runs_is_refused(tmp_path, text):
    keep = tmp_path / "runs.jsonl"
    keep.write_text(text + "\n", encoding="utf-8")

    with pytest.raises(UsageError, match=r"cannot read the runs kept in .*runs\.jsonl: name a file that --keep"):
        measure(CHEAP, SHORT, keep=keep)
    assert keep.read_text("utf-8") == text + "\n"


def test_the_table_has_a_line_for_each_case():
    result = measure(CHEAP, Series(1, 7, 0.5))

    table = assumptions_table(result)

    assert [row[0] for row in table.rows] == [case.name for case in CHEAP]
    assert all(len(row) == len(table.headings) for row in table.rows)
