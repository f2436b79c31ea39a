"""Calls that a recording notes tell who uses a pool, where onsets of its work cannot."""

from __future__ import annotations

import pytest
from support.native_truth import MS, PID, Program, account, credited


def test_calls_show_who_uses_a_pool_that_never_rests(tmp_path):
    program = Program(["multiply", "parse"], threads=2)
    pool = program.pool(threads=2, noted=True)
    while program.now_ns[0] < 2_000 * MS:
        program.call("multiply", pool, 20 * MS, before_ns=3 * MS, spin_ns=60 * MS)
        program.rest(int(program.random.integers(1, 40)) * MS)
    while program.now_ns[1] < 2_000 * MS:
        program.run("parse", 10 * MS, thread=1)

    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")

    assert profile.info["native"]["pools"][0]["known_by"] == "calls"
    assert credited(profile)["multiply"] == pytest.approx(pool.used_s("multiply"), rel=0.02)
    assert credited(profile)["parse"] == 0.0
    row, summary = account(profile), profile.summary()
    assert row["unidentified_j"] == 0.0
    assert summary.loc["multiply", "spin_j"] == pytest.approx(row["spin_j"], rel=1e-9)
    assert row["spin_j"] == pytest.approx(10 * (pool.busy_s() - pool.used_s("multiply")), rel=0.02)


def test_two_callers_share_a_pool_by_their_calls_where_these_do_not_overlap(tmp_path):
    program = Program(["one", "two"], threads=2)
    pool = program.pool(noted=True)
    for thread, task, begin_ms in ((0, "one", 0), (1, "two", 30)):
        program.rest(begin_ms * MS, thread=thread)
        for _ in range(20):
            program.call(task, pool, 40 * MS, before_ns=10 * MS, thread=thread)
            program.rest(50 * MS, thread=thread)

    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")

    # "one" calls from 10 to 50 ms of every 100, "two" from 40 to 80.
    assert credited(profile) == pytest.approx({"one": 0.6, "two": 0.6}, rel=0.03)
    assert account(profile)["unidentified_j"] == pytest.approx(2.0, rel=0.06)
    summary = profile.summary()
    assert (summary["native_high_j"] >= 8.0 - 0.1).all()


def test_a_pool_that_works_without_calls_is_not_known_by_its_calls(tmp_path):
    program = Program(["multiply"])
    pool = program.pool(noted=True)
    for _ in range(20):
        program.call("multiply", pool, 30 * MS)
        program.rest(80 * MS)
    pool.calls = pool.calls[::2]

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert profile.info["native"]["pools"][0]["known_by"] == "alone"
    assert credited(profile)["multiply"] == pytest.approx(pool.used_s("multiply"), rel=0.02)


def test_calls_outside_tasks_are_the_program_s(tmp_path):
    program = Program(["multiply", "parse"], threads=2)
    pool = program.pool(noted=True)
    for _ in range(20):
        program.call("multiply", pool, 20 * MS)
        pool.work(program.now_ns[0] + 10 * MS, program.now_ns[0] + 30 * MS, "outside")
        pool.calls.append((PID, -1, program.now_ns[0] + 10 * MS, program.now_ns[0] + 30 * MS, 1.0))
        program.rest(60 * MS)
    while program.now_ns[1] < program.now_ns[0]:
        program.run("parse", 10 * MS, thread=1)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert credited(profile) == pytest.approx({"multiply": 0.4, "parse": 0.0}, rel=0.02)
    assert profile.info["native"]["outside_j"] == pytest.approx(4.0, rel=0.02)


def test_spinning_after_calls_outside_tasks_is_no_task_s(tmp_path):
    program = Program(["multiply"])
    pool = program.pool(noted=True)
    for _ in range(20):
        program.call("multiply", pool, 40 * MS)
        program.rest(100 * MS)
        begin_ns = program.now_ns[0]
        pool.work(begin_ns, begin_ns + 20 * MS, "outside")
        pool.work(begin_ns + 20 * MS, begin_ns + 22 * MS, "spinning")
        pool.calls.append((PID, -1, begin_ns, begin_ns + 20 * MS, 1.0))
        program.rest(200 * MS)

    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")

    assert profile.info["native"]["pools"][0]["known_by"] == "calls"
    assert profile.summary().loc["multiply", "spin_j"] == pytest.approx(0.0, abs=0.01)


def test_calls_of_a_thread_that_runs_no_task_are_the_program_s(tmp_path):
    program = Program(["multiply", "parse"], threads=2)
    pool = program.pool(noted=True)
    program.outside()
    for _ in range(20):
        begin_ns = program.now_ns[0]
        program.rest(20 * MS)
        pool.work(begin_ns, program.now_ns[0], "outside")
        pool.calls.append((PID, -1, begin_ns, program.now_ns[0], 1.0))
        program.rest(60 * MS)
        program.run("parse", 40 * MS, thread=1)
        program.call("multiply", pool, 20 * MS, thread=1)
        program.rest(20 * MS, thread=1)
    program.outside()

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert credited(profile) == pytest.approx({"multiply": 0.4, "parse": 0.0}, rel=0.02)
    assert profile.info["native"]["outside_j"] == pytest.approx(10 * pool.used_s("outside"), rel=0.02)


def test_many_calls_noted_together_take_their_part_of_the_time(tmp_path):
    program = Program(["multiply"])
    pool = program.pool(noted=True)
    for _ in range(10):
        _, begin_ns, end_ns = program.run("multiply", 100 * MS)
        pool.work(begin_ns, end_ns, "spinning")
        pool.calls += [(PID, 0, at_ns, at_ns + 5 * MS, 0.3) for at_ns in range(begin_ns, end_ns, 5 * MS)]
        program.rest(200 * MS)

    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")

    assert credited(profile)["multiply"] == pytest.approx(0.3, rel=0.05)
    assert profile.summary().loc["multiply", "spin_j"] == pytest.approx(7.0, rel=0.05)


def test_calls_of_each_thread_s_own_pool_of_libgomp_are_apart(tmp_path):
    program = Program(["one", "two"], threads=2)
    pools = [
        program.pool(library="/lib/libgomp.so.1", created_ns=0, creator_tid=PID + thread, noted=True)
        for thread in range(2)
    ]
    for thread, task in enumerate(program.tasks):
        while program.now_ns[thread] < 1_000 * MS:
            program.call(task, pools[thread], (10 + 5 * thread) * MS, thread=thread, spin_ns=7 * MS)
            program.rest(9 * MS, thread=thread)

    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")

    assert [pool["known_by"] for pool in profile.info["native"]["pools"]] == ["calls", "calls"]
    expected = {task: pool.used_s(task) for task, pool in zip(program.tasks, pools, strict=True)}
    assert credited(profile) == pytest.approx(expected, rel=0.03)
    assert account(profile)["unidentified_j"] == 0.0
