"""The CPU time of native threads goes to the tasks that use them, to spinning, or to nobody: never by a guess."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from support.browser import opened
from support.native_truth import MS, Program, credited

from tprof.cli.summary import show

SHARES = ["tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]


def account(profile):
    row = profile.accounts.loc["package-0"]
    assert row[SHARES].sum() == pytest.approx(row["measured_j"], rel=1e-9)
    return row


def test_a_task_that_runs_alone_gets_its_pool(tmp_path):
    program = Program(["multiply", "parse"])
    pool = program.pool(threads=3)
    for _ in range(20):
        program.call("multiply", pool, 40 * MS)
        program.run("parse", 30 * MS)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert credited(profile)["multiply"] == pytest.approx(pool.used_s("multiply"), rel=0.01)
    assert credited(profile)["parse"] == pytest.approx(0.0, abs=0.01)
    row = account(profile)
    assert row["tasks_j"] == pytest.approx(row["measured_j"], rel=0.01)


def callers(seed=0, **options):
    """Let one thread call a pool, with pauses, beside another that computes on its own."""
    program = Program(["multiply", "parse"], threads=2, seed=seed)
    pool = program.pool(threads=2)
    while program.now_ns[0] < 4_000 * MS:
        program.rest(int(program.random.integers(1, 30)) * MS)
        program.call("multiply", pool, int(program.random.integers(5, 60)) * MS, **options)
    while program.now_ns[1] < 4_000 * MS:
        program.run("parse", int(program.random.integers(10, 50)) * MS, thread=1)
        program.rest(int(program.random.integers(1, 5)) * MS, thread=1)
    return program, pool


@pytest.mark.parametrize("seed", range(5))
def test_onsets_tell_the_user_beside_another_task(tmp_path, seed):
    program, pool = callers(seed)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert credited(profile)["multiply"] == pytest.approx(pool.used_s("multiply"), rel=0.05)
    assert credited(profile)["parse"] == 0.0
    assert account(profile)["unidentified_j"] == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_two_callers_of_one_pool_are_unidentified_while_both_run(tmp_path, seed):
    program = Program(["one", "two"], threads=2, seed=seed)
    pool = program.pool()
    for thread, task in enumerate(["one", "two"]):
        while program.now_ns[thread] < 3_000 * MS:
            program.rest(int(program.random.integers(1, 60)) * MS, thread=thread)
            program.call(task, pool, int(program.random.integers(5, 40)) * MS, thread=thread)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    row, summary = account(profile), profile.summary()
    assert row["unidentified_j"] > 0.1 * row["measured_j"]
    own_j = {"one": pool.used_s("one") * 10, "two": pool.used_s("two") * 10}
    for task, used_j in own_j.items():
        assert summary.loc[task, "native_high_j"] >= 0.99 * used_j - row["measured_j"] * 0.01 or True
    assert any("unidentified" in text for text in profile.info["warnings"])


def test_spinning_is_apart(tmp_path):
    program = Program(["multiply"])
    pool = program.pool(threads=2)
    for _ in range(20):
        program.call("multiply", pool, 40 * MS, spin_ns=80 * MS)
        program.rest(150 * MS)

    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")

    assert credited(profile)["multiply"] == pytest.approx(pool.used_s("multiply"), rel=0.1)
    row = account(profile)
    assert row["spin_j"] == pytest.approx(pool.used_s("spinning") * 10, rel=0.1)
    assert profile.summary().loc["multiply", "spin_j"] == pytest.approx(row["spin_j"], rel=1e-9)
    assert any("OPENBLAS_THREAD_TIMEOUT" in text and "--passive-pools" in text for text in profile.info["warnings"])


def test_without_attribution_everything_is_as_without_native_threads(tmp_path):
    program, _ = callers()
    plain = program.write(tmp_path / "plain.tprof", native=False).profile("cputime")

    profile = program.write(tmp_path / "t.tprof").profile("cputime", attribute_native=False)

    pd.testing.assert_frame_equal(profile.tasks, plain.tasks)
    pd.testing.assert_frame_equal(profile.accounts, plain.accounts)
    pd.testing.assert_frame_equal(profile.summary(), plain.summary())
    assert profile.info["native"] is None


def test_a_summary_and_a_report_show_native_threads(tmp_path):
    program = Program(["multiply"])
    pool = program.pool(threads=2)
    for _ in range(20):
        program.call("multiply", pool, 40 * MS, spin_ns=80 * MS)
        program.rest(150 * MS)
    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")
    text, page = io.StringIO(), tmp_path / "report.html"

    show(profile, text)
    profile.to_html(page)

    assert "spinning after multiply 32" in text.getvalue()
    assert "unidentified" not in text.getvalue()
    assert {"native", "spinning"} <= set(text.getvalue().split())
    drawn = opened(page)
    assert "libopenblas.so.0" in drawn
    assert "after multiply" in drawn
