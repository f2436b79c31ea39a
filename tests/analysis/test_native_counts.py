"""Native threads with counters are weighed by these, in models that use counters, and in no others."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cut_pools import cut_by
from support.native_truth import MS, Program
from support.properties import examples
from tprof.analysis.attribution.natives.clocks import members_of, power_between_readings
from tprof.analysis.attribution.natives.cuts import Clock
from tprof.analysis.attribution.natives.segments import OUTSIDE, RUN, Reach, power_of_pool, table
from tprof.analysis.attribution.segment_energy import LocatedSegments, attribute, spread
from tprof.analysis.models import choose_model

from tprof.trace import NativeCounts, NativeThread

COLUMNS = frozenset({"cycles", "instructions"})


def dense(threads=2, counted=2, **ipc):
    """Return a program whose pool executes more instructions a cycle than its callers, and the pool."""
    program = Program(["multiply", "parse"], counted=True)
    pool = program.pool(threads=threads, counted=counted, ipc={"multiply": 3.0, **ipc})
    for _ in range(20):
        program.run("parse", 30 * MS)
        program.call("multiply", pool, 40 * MS)
        program.rest(20 * MS)
    return program, pool


def test_a_pool_is_weighed_by_its_counters(tmp_path):
    program, pool = dense()
    trace = program.write(tmp_path / "t.tprof")

    by_counters, by_time = (trace.profile(model).summary().loc["multiply"] for model in ("ipc", "cputime"))

    # Of 7 W s while the pool works, 6 are the pool's; by CPU time it has 2 of 3 cores.
    own_s = 20 * 0.04
    assert by_counters["native_j"] == pytest.approx(10 * 3 * pool.used_s("multiply"), rel=0.02)
    assert by_counters["energy_j"] == pytest.approx(10 * (3 * pool.used_s("multiply") + own_s), rel=0.02)
    assert by_time["native_j"] == pytest.approx(10 * 7 * own_s * 2 / 3, rel=0.05)
    assert trace.profile("ipc").info["native"]["pools"][0]["counted"] == pytest.approx(1.0, abs=0.02)
    assert trace.profile("cputime").info["native"]["pools"][0]["counted"] == 0.0


def test_under_cputime_counters_change_nothing(tmp_path):
    counted, plain = (
        dense(counted=number)[0].write(tmp_path / f"{number}.tprof").profile("cputime") for number in (2, 0)
    )

    pd.testing.assert_frame_equal(counted.tasks, plain.tasks)
    pd.testing.assert_frame_equal(counted.accounts, plain.accounts)


def test_a_thread_without_counters_is_weighed_as_the_others_of_its_pool(tmp_path):
    program, pool = dense(threads=2, counted=1)

    profile = program.write(tmp_path / "t.tprof").profile("ipc")

    assert profile.summary().loc["multiply", "native_j"] == pytest.approx(10 * 3 * pool.used_s("multiply"), rel=0.02)
    assert profile.info["native"]["pools"][0]["counted"] == pytest.approx(0.5, abs=0.02)


def test_a_pool_without_counters_is_weighed_as_its_task_s_own_threads(tmp_path):
    program, _ = dense(threads=2, counted=0)

    profile = program.write(tmp_path / "t.tprof").profile("ipc")

    summary = profile.summary().loc["multiply"]
    assert summary["native_j"] == pytest.approx(summary["energy_j"] * 2 / 3, rel=0.05)


def test_tasks_that_use_a_pool_in_different_ways_are_told_apart(tmp_path):
    program = Program(["dense", "sparse"], counted=True)
    pool = program.pool(threads=2, counted=2, ipc={"dense": 3.0, "sparse": 0.5})
    for _ in range(20):
        for task in program.tasks:
            program.call(task, pool, 40 * MS)
            program.rest(20 * MS)

    summary = program.write(tmp_path / "t.tprof").profile("ipc").summary()

    for task in program.tasks:
        assert summary.loc[task, "native_j"] == pytest.approx(10 * pool.ipc[task] * pool.used_s(task), rel=0.02)


def thread(t_ns, cpu_ns, counts):
    t_ns, cpu_ns = np.asarray(t_ns, np.int64), np.asarray(cpu_ns, np.int64)
    return NativeThread(7, 8, "", "", None, None, None, None, None, t_ns, cpu_ns, counts)


def counts(at, **values):
    values = {name: np.asarray(column, np.int64) for name, column in values.items()}
    return NativeCounts(np.asarray(at, np.int64), values, np.zeros(len(at), bool))


def test_between_two_reads_of_the_counters_the_power_is_constant():
    read = counts([1, 3, 4], cycles=[0, 300, 300], instructions=[0, 600, 600])

    power = power_between_readings(thread(range(6), [0, 10, 110, 110, 110, 120], read), choose_model("ipc", COLUMNS))

    np.testing.assert_array_equal(power, [np.nan, 2.0, 2.0, np.nan, np.nan])


def test_a_thread_that_records_samples_later_has_power_up_to_these():
    read = counts([0, 1, 2, 3], cycles=[0, 10, 20, 30], instructions=[0, 20, 40, 60])
    native, sampled = thread([0, 10, 20, 30], [0, 10, 20, 30], read), Reach(7, 8, 20, 99)

    (member,) = members_of([native], [sampled], 0, choose_model("ipc", COLUMNS))

    assert member.clock.t_ns.tolist() == [0, 10, 20]
    np.testing.assert_array_equal(member.clock.power, [2.0, 2.0])


@pytest.mark.parametrize("columns", [("cycles",), ("instructions",)])
def test_without_a_column_that_the_model_needs_nothing_is_weighed(columns):
    read = counts([0, 1], **{name: [0, 5] for name in columns})

    assert power_between_readings(thread([0, 1], [0, 1], read), choose_model("ipc", COLUMNS)) is None


@st.composite
def pools(draw):
    """Return clocks of a pool, of some intervals with power, and what ran: whole numbers of milliseconds."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    clocks = []
    for _ in range(draw(st.integers(1, 4))):
        t_ns = MS * np.unique(random.integers(0, 100, int(random.integers(3, 30))))
        if len(t_ns) < 2:
            t_ns = MS * np.array([0, 50])
        used_s = np.diff(t_ns) * 1e-9 * random.choice([0.0, 0.3, 1.0], len(t_ns) - 1)
        power = np.where(random.random(len(used_s)) < 0.7, random.uniform(1e-3, 50, len(used_s)), np.nan)
        clocks.append(Clock(t_ns, np.concatenate(([0.0], np.cumsum(used_s))), power))
    begin_ns = MS * random.integers(0, 100, draw(st.integers(1, 6)))
    end_ns = begin_ns + MS * random.integers(1, 30, len(begin_ns))
    row = np.arange(len(begin_ns))
    runs = table(RUN, begin_ns, end_ns, row, row % 2)
    edges_ns = MS * np.unique(np.concatenate(([0, 130], random.integers(0, 130, 12))))
    return clocks, runs, edges_ns


def slowly(clocks, runs, edges_ns, fallback):
    """Return the modelled energy in each quantum, millisecond by millisecond."""
    running = [((runs["begin_ns"] <= at) & (at < runs["end_ns"])).any() for at in range(0, 130 * MS, MS)]
    total = np.zeros(130)
    for clock in clocks:
        intervals = zip(itertools.pairwise(clock.t_ns), np.diff(clock.cpu_s), clock.power, strict=True)
        for (begin_ns, end_ns), used_s, power in intervals:
            cells = range(begin_ns // MS, end_ns // MS)
            on = [cell for cell in cells if running[cell]]
            inside_s = min(used_s, len(on) * 1e-3)
            for cell in cells:
                part_s = inside_s / len(on) if cell in on else (used_s - inside_s) / (len(cells) - len(on))
                total[cell] += part_s * (fallback if np.isnan(power) else power)
    return [total[begin // MS : end // MS].sum() for begin, end in itertools.pairwise(edges_ns)]


@examples(200, quick=40)
@given(pools())
def test_each_quantum_has_the_modelled_energy_of_a_slow_oracle_and_keeps_its_joules(made):
    clocks, runs, edges_ns = made
    counted = [np.diff(one.cpu_s)[~np.isnan(one.power)].sum() for one in clocks]
    weighed = [np.nansum(np.diff(one.cpu_s) * one.power) for one in clocks]
    fallback = sum(weighed) / sum(counted) if sum(counted) > 0 else 2.0

    cut = cut_by(clocks, runs)
    cut.table["kind"] = OUTSIDE  # one mean for all, as the oracle has it
    drawn = cut.modelled_at(power_of_pool(np.array([2.0]), *cut.counted_by_task(0)))

    located = LocatedSegments(cut.t_ns, drawn, edges_ns)
    modelled = spread(located)[1:-1]
    np.testing.assert_allclose(modelled, slowly(clocks, runs, edges_ns, fallback), rtol=1e-9, atol=1e-12)
    assert cut.table["counted"].sum() == pytest.approx(sum(weighed), rel=1e-9, abs=1e-12)
    joules = np.linspace(1.0, 2.0, len(edges_ns) - 1)
    (energy_j,) = attribute([cut.t_ns], [drawn], edges_ns, joules)
    assert energy_j.sum() == pytest.approx(joules[modelled > 0].sum(), rel=1e-9)
