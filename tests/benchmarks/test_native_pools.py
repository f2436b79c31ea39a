"""Pools of real libraries are credited to the tasks that call them, as their threads' clocks say."""

import sys

import pytest

from benchmarks.validation.native_pools import CASES, run_case, skipped
from benchmarks.validation.validation_text import native_pools


def rows_of(name, *, passive):
    """Run a case and return its rows by task; skips the test where its package is missing."""
    case = next(case for case in CASES if case.name == name)
    if case.needs is not None:
        pytest.importorskip(case.needs, reason=f"the case needs {case.needs}")
    return {row["task"]: row for row in run_case(case, passive=passive, seconds=3.0)}


@pytest.mark.thorough
@pytest.mark.parametrize("passive", [True, False], ids=["sleeping", "spinning"])
@pytest.mark.parametrize("name", [case.name for case in CASES if case.is_known])
def test_no_task_is_credited_with_more_than_its_library_s_threads_used(name, passive):
    """On a busy machine a few seconds may not tell the users: then the rest is unidentified, not another's."""
    rows = rows_of(name, passive=passive)

    whole_s = max(row["native_cpu_s"] for row in rows.values())
    for row in rows.values():
        assert row["credited_s"] <= row["used_s"] + 0.1 * whole_s
        if row["unidentified_share"] < 0.01 and row["spinning_share"] < 0.01:
            assert row["credited_s"] == pytest.approx(row["used_s"], abs=0.1 * whole_s)


@pytest.mark.thorough
@pytest.mark.parametrize("passive", [True, False], ids=["sleeping", "spinning"])
def test_two_callers_of_one_pool_are_unidentified(passive):
    rows = rows_of("two BLAS callers", passive=passive)

    for row in rows.values():
        assert row["unidentified_share"] > 0.05
        assert row["at_most_j"] > row["credited_j"]


def test_cases_whose_package_is_missing_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    left_out = {row["case"]: row["reason"] for row in skipped()}

    assert left_out["two PyTorch callers"] == "it needs torch (pip install torch)"
    assert "Skipped: two PyTorch callers: it needs torch (pip install torch)." in native_pools([], skipped()).note
