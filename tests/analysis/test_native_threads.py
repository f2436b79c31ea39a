"""The CPU time of native threads goes to the tasks that use them, to spinning, or to nobody: never by a guess."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.browser import opened
from support.native_truth import MS, PID, SHARES, Program, account, credited
from support.properties import examples
from tprof.analysis.profile.native_threads import title_of

from tprof.cli.summary import show


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
    for task in program.tasks:
        assert summary.loc[task, "native_j"] <= 10 * pool.used_s(task)
        assert summary.loc[task, "native_high_j"] >= 10 * pool.alone_s(task)
    assert any("unidentified" in text for text in profile.info["warnings"])


def test_what_a_task_started_and_left_working_is_not_credited_to_the_tasks_after_it(tmp_path):
    program = Program(["begin", "parse"])
    program.run("begin", 2 * MS)
    thread = program.pool(library="/lib/libown.so", created_ns=MS, creator_tid=PID, creator_task=0, creator_instance=1)
    for _ in range(4):
        program.run("parse", 300 * MS)
    thread.work(MS, program.now_ns[0] + 20 * MS, "begin")

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert credited(profile)["parse"] == 0.0
    assert account(profile)["unidentified_j"] == pytest.approx(10 * thread.used_s("begin"), rel=0.05)


def spinning():
    """Return a program whose pool spins for twice as long as it works, and the pool."""
    program = Program(["multiply"])
    pool = program.pool(threads=2)
    for _ in range(20):
        program.call("multiply", pool, 40 * MS, spin_ns=80 * MS)
        program.rest(150 * MS)
    return program, pool


def test_spinning_is_apart(tmp_path):
    program, pool = spinning()

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
    program, _ = spinning()
    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")
    text, page = io.StringIO(), tmp_path / "report.html"

    show(profile, text, everything=True)
    profile.to_html(page)

    assert "spinning after multiply 32" in text.getvalue()
    assert "unidentified" not in text.getvalue()
    assert {"native", "spinning"} <= set(text.getvalue().split())
    drawn = opened(page)
    assert "libopenblas.so.0" in drawn
    assert "after multiply" in drawn


@pytest.mark.parametrize(
    ("library", "title"),
    [
        ("libscipy_openblas64_-32a4b2a6.so", "OpenBLAS"),
        ("libgomp-e985bcbb.so.1.0.0", "OpenMP (libgomp)"),
        ("libpython3.11.so.1.0", "Python (threading.Thread)"),
        ("python3.13t", "Python (threading.Thread)"),
        ("polars.abi3.so", "polars"),
        ("libown-0123abcd.so.2", "libown"),
        ("own.cpython-311-x86_64-linux-gnu.so", "own"),
        ("my_program", "my_program"),
        ("", ""),
    ],
)
def test_libraries_are_called_by_names_that_readers_know(library, title):
    assert title_of(library) == title


def test_a_task_that_only_created_threads_is_not_among_those_that_got_their_time(tmp_path):
    program = Program(["prepare", "multiply"])
    pool = program.pool(library="/lib/libgomp.so.1", created_ns=MS, creator_tid=PID, creator_task=0, creator_instance=1)
    program.run("prepare", 30 * MS)
    for _ in range(20):
        program.rest(30 * MS)
        program.call("multiply", pool, 30 * MS)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")
    page = tmp_path / "report.html"
    profile.to_html(page)

    (row,) = profile.info["native"]["pools"]
    assert (row["title"], row["served"]) == ("OpenMP (libgomp)", ["multiply"])
    drawn = opened(page)
    used_by = "multiply\nran on the thread that created them"
    assert f'<td title="libgomp.so.1">OpenMP (libgomp)</td><td class="word">{used_by}</td>' in drawn


def test_callers_of_two_pools_get_their_own(tmp_path):
    program = Program(["multiply", "group"], threads=2)
    pools = [program.pool(threads=2), program.pool(library="/lib/polars.abi3.so", name="polars-0", threads=2)]
    for thread, task in enumerate(program.tasks):
        while program.now_ns[thread] < 4_000 * MS:
            program.rest(int(program.random.integers(1, 60)) * MS, thread=thread)
            program.call(task, pools[thread], int(program.random.integers(5, 60)) * MS, thread=thread)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    for pool, task in zip(pools, program.tasks, strict=True):
        assert credited(profile)[task] == pytest.approx(pool.used_s(task), rel=0.05)
    assert account(profile)["unidentified_j"] < 0.01 * account(profile)["measured_j"]


def test_many_calls_between_two_reads_are_one_task_s(tmp_path):
    program = Program(["multiply", "parse"], threads=2)
    pool = program.pool()
    for _ in range(60):
        for _ in range(100):
            program.call("multiply", pool, 200_000, before_ns=30_000)
        program.rest(int(program.random.integers(10, 40)) * MS)
    while program.now_ns[1] < program.now_ns[0]:
        program.run("parse", int(program.random.integers(10, 50)) * MS, thread=1)
        program.rest(int(program.random.integers(1, 5)) * MS, thread=1)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert credited(profile)["multiply"] == pytest.approx(pool.used_s("multiply"), rel=0.05)
    assert credited(profile)["parse"] == 0.0


def test_tasks_that_alternate_between_two_reads_have_an_interval_that_holds(tmp_path):
    """Only the sum of both is known there: the interval says so."""
    program = Program(["multiply", "parse"])
    pool = program.pool()
    for _ in range(2000):
        program.call("multiply", pool, MS)
        program.run("parse", MS)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    summary = profile.summary()
    for task, length_s in (("multiply", 0.002), ("parse", 0.001)):
        row = summary.loc[task]
        assert row["energy_mean_low_j"] <= 10 * length_s <= row["energy_mean_high_j"]


def test_a_short_lived_thread_is_its_creator_s(tmp_path):
    program = Program(["fit", "parse"], threads=2)
    used_s = 0.0
    for _ in range(20):
        instance, begin_ns, end_ns = program.run("fit", 30 * MS, busy=0.2)
        pool = program.pool(
            library="/usr/lib/libstdc++.so.6", created_ns=begin_ns + MS, ended_ns=end_ns - MS, creator_tid=PID,
            creator_task=0, creator_instance=instance,
        )  # fmt: skip
        pool.work(begin_ns + MS, end_ns - MS, "fit")
        used_s += pool.used_s("fit")
        program.rest(20 * MS)
    program.run("parse", program.now_ns[0], thread=1)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert credited(profile)["fit"] == pytest.approx(used_s, rel=1e-6)
    assert credited(profile)["parse"] == 0.0


def test_each_calling_thread_has_its_own_pool_of_libgomp(tmp_path):
    program = Program(["fit", "scan"], threads=2)
    for thread, task in enumerate(program.tasks):
        pool = program.pool(library="/lib/libgomp.so.1", created_ns=0, creator_tid=PID + thread)
        while program.now_ns[thread] < 2_000 * MS:
            program.call(task, pool, 20 * MS, thread=thread)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    for pool, task in zip(program.pools, program.tasks, strict=True):
        assert credited(profile)[task] == pytest.approx(pool.used_s(task), rel=0.01)


def test_a_thread_that_works_whether_tasks_run_or_not_is_the_program_s(tmp_path):
    program = Program(["parse"])
    pool = program.pool(library="/lib/liblogger.so")
    for begin_ms in range(0, 4000, 40):
        pool.work(begin_ms * MS, begin_ms * MS + 20 * MS, "nobody")
    for _ in range(20):
        program.run("parse", 100 * MS)
        program.rest(100 * MS)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert profile.info["native"] is None
    assert account(profile)["unidentified_j"] == 0.0


def test_a_thread_that_python_started_outside_tasks_is_the_program_s(tmp_path):
    program = Program(["parse"])
    pool = program.pool(library="/usr/bin/python3.11", created_ns=0, creator_tid=PID)
    program.run("parse", 500 * MS)
    pool.work(10 * MS, 400 * MS, "nobody")

    assert program.write(tmp_path / "t.tprof").profile("cputime").info["native"] is None


def test_a_child_s_pool_is_its_own_tasks(tmp_path):
    program = Program(["multiply"])
    program.call("multiply", program.pool(), 300 * MS)
    other = program.pool(pid=PID + 1)
    other.work(0, 300 * MS, "elsewhere")

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert credited(profile)["multiply"] == pytest.approx(0.3, rel=0.01)


def test_spinning_that_runs_into_another_task_is_unidentified(tmp_path):
    """Whether the second task works or the pool spins on cannot be seen without passive pools."""
    program = Program(["multiply", "parse"])
    pool = program.pool()
    for _ in range(30):
        program.call("multiply", pool, 40 * MS, spin_ns=60 * MS)
        program.run("parse", 60 * MS)
        program.rest(100 * MS)

    profile = program.write(tmp_path / "t.tprof", passive=False).profile("cputime")

    assert credited(profile)["multiply"] == pytest.approx(pool.used_s("multiply"), rel=0.1)
    assert credited(profile)["parse"] == 0.0
    assert account(profile)["unidentified_j"] == pytest.approx(10 * pool.used_s("spinning"), rel=0.1)
    assert profile.summary().loc["parse", "native_high_j"] > 0.9 * 10 * pool.used_s("spinning")


@st.composite
def programs(draw):
    """Return a random program: some threads, tasks and pools, some of which spin, and whose calls may be noted."""
    threads, tasks = draw(st.integers(1, 3)), [f"task {number}" for number in range(draw(st.integers(1, 4)))]
    program = Program(tasks, threads=threads, seed=draw(st.integers(0, 2**32 - 1)))
    random, spins = program.random, draw(st.booleans())
    libraries = ["/lib/libopenblas.so.0", "/lib/polars.abi3.so", "", "/lib/libgomp.so.1"]
    pools = [
        program.pool(
            library=str(random.choice(libraries)), threads=int(random.integers(1, 4)), noted=bool(random.random() < 0.5)
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    uses = {task: [pool for pool in pools if random.random() < 0.5] for task in tasks}
    longest = draw(st.sampled_from([2 * MS, 20 * MS, 80 * MS]))
    for thread in range(threads):
        while program.now_ns[thread] < 1_500 * MS:
            task = str(random.choice(tasks))
            if uses[task]:
                pool = uses[task][int(random.integers(len(uses[task])))]
                spin_ns = 70 * MS if spins and "openblas" in pool.library else 0
                program.call(task, pool, int(random.integers(MS // 2, longest)), thread=thread, spin_ns=spin_ns)
            else:
                program.run(task, int(random.integers(MS // 2, longest)), thread=thread)
            program.rest(int(random.integers(0, 20 * MS)), thread=thread)
    return program, not spins


@pytest.mark.parametrize(
    ("library", "thread", "name"), [("/lib/libx.so", "a", "libx.so"), ("", "a", "a"), ("", "python3", "")]
)
def test_a_pool_has_the_name_of_its_library_or_of_its_threads_if_these_have_one(tmp_path, library, thread, name):
    program = Program(["work"])
    pool = program.pool(library=library, name=thread)
    for _ in range(10):
        program.call("work", pool, 30 * MS)
        program.rest(80 * MS)

    profile = program.write(tmp_path / "t.tprof").profile("cputime")

    assert [one["library"] for one in profile.info["native"]["pools"]] == [name]


@examples(60, quick=8)
@given(programs(), st.sampled_from(["cputime", "fitted"]))
@np.errstate(divide="raise", invalid="raise")
def test_joules_are_conserved_and_no_part_is_negative(tmp_path_factory, made, model):
    program, passive = made

    profile = program.write(tmp_path_factory.mktemp("random") / "t.tprof", passive=passive).profile(model)

    row, tasks = account(profile), profile.tasks
    assert (row[SHARES] >= -1e-12).all()
    assert tasks["energy_j"].sum() == pytest.approx(row["tasks_j"], rel=1e-9)
    if profile.info["native"] is not None:
        assert tasks["spin_j"].sum() == pytest.approx(row["spin_j"], rel=1e-9, abs=1e-12)
        assert tasks["native_j"].sum() == pytest.approx(profile.info["native"]["tasks_j"], rel=1e-9, abs=1e-12)
        assert (tasks["native_high_j"] >= tasks["native_j"] - 1e-12).all()
        assert (tasks["energy_low_j"] <= tasks["energy_j"]).all()
        assert (tasks["energy_high_j"] >= tasks["energy_j"]).all()


@examples(60, quick=8)
@given(programs())
def test_bounds_hold_what_each_task_took(tmp_path_factory, made):
    """Works that overlap in one pool are split between their users in some way, so the truth has bounds itself."""
    program, passive = made

    profile = program.write(tmp_path_factory.mktemp("random") / "t.tprof", passive=passive).profile("cputime")

    summary, native, tolerance_j = profile.summary(), profile.native, 0.02 * account(profile)["measured_j"]
    for task in summary.index if native is not None else ():
        place = list(profile.tasks["task"].cat.categories).index(task)
        least_j = 10 * sum(pool.threads * pool.alone_s(task) for pool in program.pools)
        most_j = 10 * sum(pool.used_s(task) for pool in program.pools)
        assert least_j <= native.most_j[place] + tolerance_j
        # Spinning while a user runs again counts as its work: it cannot be told from it.
        if passive or most_j == 0:
            assert native.least_j[place] <= most_j + tolerance_j
