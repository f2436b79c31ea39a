"""Sampled stacks share a task's joules among functions: by the power of their own time, and without losing any."""

import io
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import stacks, traces
from tprof.analysis.attribution.segments import Segments
from tprof.analysis.attribution.stack_samples import ThreadStacks, cut_at
from tprof.analysis.profile.answer import answer_of
from tprof.analysis.profile.flame_tree import wilson

import tprof
from tprof.cli.summary import as_plain, show

SECOND_NS = 10**9
TENTH_NS = SECOND_NS // 10
CAUSE = "/a.py:7"
THREAD = {
    "t_ns": [0, 2 * SECOND_NS],
    "instance": [1, 0],
    "task": [0, -1],
    "cpu_ns": [0, 2 * SECOND_NS],
    "tid": 5,
    "name": "main",
}
# 5 J in the first second, 20 J in the next.
ENERGY = {
    "package-0": (
        [one * TENTH_NS for one in range(21)],
        [0.5 * one for one in range(11)] + [5 + 2.0 * one for one in range(1, 11)],
    )
}
TIMES_NS = [one * TENTH_NS for one in range(1, 20)]
FUNCTIONS = [
    stacks.function(0, "<module>", "/a.py:1"),
    stacks.function(1, "work", CAUSE),
    stacks.function(2, "low", "/a.py:20"),
    stacks.function(3, "high", "/a.py:30"),
    stacks.function(4, "own", "/tprof/x.py:1", flags=1),
    # module, work, low; module, work, high; own below high
    stacks.call(0, 0), stacks.call(1, 1, 0), stacks.call(2, 2, 1), stacks.call(3, 3, 1), stacks.call(4, 4, 3),
]  # fmt: skip


def session(path, *, sampled, threads=(THREAD,), tasks=("work",), energy=ENERGY, **options):
    traces.write(path, tasks=tasks, threads=threads, energy=energy, **options)
    table = path / "tasks" / "00000000.jsonl"
    table.write_text(
        "".join(f'{{"task": {at}, "name": "{name}", "file": "/a.py", "line": 7}}\n' for at, name in enumerate(tasks))
    )
    stacks.write(path, np.concatenate([*FUNCTIONS, *sampled]))
    return tprof.load(path)


def rows_of(flame):
    return {path: flame.nodes.loc[row] for row, path in flame.paths()}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    ran = [2] * 10 + [3] * 9
    trace = session(
        tmp_path_factory.mktemp("t") / "t.tprof", sampled=[stacks.samples(TIMES_NS, ran, tid=5, cpu_ns=TIMES_NS)]
    )
    return rows_of(trace.profile(model="cputime").flame())


def test_a_function_gets_the_power_of_its_own_time_not_the_mean_of_its_task(rows):
    assert rows["work", "low"]["energy_j"] == pytest.approx(5.0, rel=0.1)
    assert rows["work", "high"]["energy_j"] == pytest.approx(20.0, rel=0.1)
    assert rows["work", "low"]["own_s"] == pytest.approx(2 * 10 / 19)


def test_the_functions_of_a_task_have_all_of_its_joules(rows):
    assert rows[("work",)]["energy_j"] == pytest.approx(25.0)
    assert rows[("work",)]["own_j"] == 0
    assert rows["work", "low"]["energy_j"] + rows["work", "high"]["energy_j"] == pytest.approx(25.0, rel=1e-12)


def test_what_called_the_task_is_left_out_of_its_stacks(rows):
    assert set(rows) == {("work",), ("work", "low"), ("work", "high"), ("(outside tasks)",)}
    assert rows["work", "low"]["place"] == "/a.py:20"


def test_the_answer_points_from_a_task_that_is_all_to_its_dearest_function(tmp_path):
    trace = session(
        tmp_path / "t.tprof", sampled=[stacks.samples(TIMES_NS, [2] * 10 + [3] * 9, tid=5, cpu_ns=TIMES_NS)]
    )

    (split,) = [one for one in answer_of(trace.profile(model="cputime")).remedies if one.kind == "split"]

    assert "tprof report shows where; of its functions high (/a.py:30) takes most itself, 19.6 J" in split.text


def test_functions_by_their_own_energy_add_up_wherever_they_were_called(tmp_path):
    ran = [2] * 10 + [3] * 5 + [4] * 4
    trace = session(tmp_path / "t.tprof", sampled=[stacks.samples(TIMES_NS, ran, tid=5, cpu_ns=TIMES_NS)])

    table = trace.profile(model="cputime").flame().functions()

    assert table["own_j"].sum() == pytest.approx(25.0)
    assert table["share"].sum() == pytest.approx(1.0)
    assert dict(zip(table["name"], table["samples"], strict=True)) == {"high": 5, "low": 10, "(tprof)": 4}
    assert table["own_j"].is_monotonic_decreasing
    assert (table["own_low_j"] < table["own_j"]).all()
    assert (table["own_j"] < table["own_high_j"]).all()


def test_the_summary_of_a_task_that_is_all_names_its_functions_and_where_they_are_from(tmp_path):
    trace = session(
        tmp_path / "t.tprof", sampled=[stacks.samples(TIMES_NS, [2] * 10 + [3] * 9, tid=5, cpu_ns=TIMES_NS)]
    )
    profile, stream = trace.profile(model="cputime"), io.StringIO()

    show(profile, stream)
    found = as_plain(profile)

    lines = stream.getvalue().splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("Functions by energy of their own"))
    assert "shares come from 19 sampled stacks" in lines[begin]
    assert [line.split()[:2] for line in lines[begin + 2 : begin + 4]] == [
        ["high", "(/a.py:30)"],
        ["low", "(/a.py:20)"],
    ]
    assert "19.6 (" in lines[begin + 2]
    assert [(row["name"], row["samples"]) for row in found["functions"]] == [("high", 9), ("low", 10)]
    assert found["stacks"] == 19


def test_the_summary_leaves_functions_to_the_report_where_several_tasks_share_the_energy(tmp_path):
    half = {**THREAD, "t_ns": [0, SECOND_NS, 2 * SECOND_NS], "instance": [1, 2, 0], "task": [0, 1, -1]}
    half["cpu_ns"] = [0, SECOND_NS, 2 * SECOND_NS]
    even = {"package-0": (ENERGY["package-0"][0], [0.5 * one for one in range(21)])}
    trace = session(
        tmp_path / "t.tprof",
        sampled=[stacks.samples(TIMES_NS, [2] * 10 + [3] * 9, tid=5, cpu_ns=TIMES_NS)],
        threads=(half,),
        tasks=("work", "other"),
        energy=even,
    )

    assert "functions" not in as_plain(trace.profile(model="cputime"))


def test_the_code_of_a_module_is_called_by_its_file(tmp_path):
    imported = [stacks.function(5, "<module>", "/b.py:1"), stacks.call(5, 5, 1)]
    trace = session(tmp_path / "t.tprof", sampled=[*imported, stacks.samples(TIMES_NS, [5] * 19, tid=5)])

    assert ("work", "module b.py") in rows_of(trace.profile(model="cputime").flame())


def test_few_stacks_have_a_wide_interval(rows):
    low, high = rows["work", "low"], rows["work", "high"]

    assert low["samples"] == 10
    assert low["energy_low_j"] < low["energy_j"] < low["energy_high_j"]
    assert high["energy_high_j"] - high["energy_low_j"] > 5


def test_waiting_counts_where_the_cpu_clock_stood_still(tmp_path):
    """Two threads share 10 J a second; one computes in its first second only, in `low`, and then waits in `high`."""
    clock = [min(one, SECOND_NS) for one in TIMES_NS]
    ran = [2] * 10 + [3] * 9
    waiting = {**THREAD, "cpu_ns": [0, SECOND_NS]}
    waiting["cpu_ns"] = [0, SECOND_NS]
    beside = {**THREAD, "instance": [2, 0], "task": [1, -1], "tid": 6, "name": "beside"}
    trace = session(
        tmp_path / "t.tprof",
        sampled=[stacks.samples(TIMES_NS, ran, tid=5, cpu_ns=clock)],
        threads=(waiting, beside),
        tasks=("work", "other"),
    )

    rows = rows_of(trace.profile(model="cputime").flame())

    assert rows["work", "high"]["energy_j"] == pytest.approx(0.0, abs=1e-9)
    assert rows["work", "low"]["energy_j"] == pytest.approx(rows[("work",)]["energy_j"])


def test_a_task_in_which_no_stack_was_sampled_says_so(tmp_path):
    beside = {**THREAD, "instance": [2, 0], "task": [1, -1], "tid": 6, "name": "beside"}
    trace = session(
        tmp_path / "t.tprof",
        sampled=[stacks.samples(TIMES_NS, [4] * 19, tid=5)],
        threads=(THREAD, beside),
        tasks=("work", "other"),
    )

    flame = trace.profile(model="cputime").flame()
    rows = rows_of(flame)

    assert rows["other", "(no stack sampled)"]["energy_j"] == pytest.approx(rows[("other",)]["energy_j"])
    assert set(rows) >= {("work", "high"), ("work", "high", "(tprof)")}
    assert flame.energy_j == pytest.approx(25.0)


def test_short_instances_are_shared_by_the_stacks_that_hit_any_of_them(tmp_path):
    """A hundred instances of a hundredth of a second, of which every tenth is hit."""
    count = 100
    edges = [one * SECOND_NS // 50 for one in range(count + 1)]
    thread = {
        **THREAD,
        "t_ns": edges,
        "instance": [*range(1, count + 1), 0],
        "task": [0] * count + [-1],
        "cpu_ns": edges,
    }
    trace = session(
        tmp_path / "t.tprof",
        sampled=[stacks.samples([one + 1 for one in TIMES_NS], [2, 3] * 9 + [2], tid=5)],
        threads=(thread,),
    )

    rows = rows_of(trace.profile(model="cputime").flame())

    assert rows[("work",)]["energy_j"] == pytest.approx(25.0)
    assert rows["work", "low"]["energy_j"] == pytest.approx(12.5, rel=0.15)
    assert ("work", "(no stack sampled)") not in rows


RUNS = st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.floats(0, 1)), min_size=1, max_size=6)
"""Of a thread's segments: tenths of a second, whether a task runs, and the part of the time that is CPU time."""
SAMPLED = st.lists(st.tuples(st.integers(0, 110), st.sampled_from((2, 3, 4))), max_size=12)
"""When stacks were sampled, in twentieths of a second, two at a time or on an edge too, and which."""


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(RUNS, SAMPLED), min_size=1, max_size=3), st.booleans())
def test_the_graph_has_the_joules_of_tasks_and_of_threads_outside_them_and_no_others(drawn, is_static):
    threads, records, first = [], [], 1
    for number, (runs, sampled) in enumerate(drawn):
        threads.append(thread_of(runs, 5 + number, first))
        first += len(runs)
        when = sorted(sampled)
        records.append(stacks.samples([t * TENTH_NS // 2 for t, _ in when], [at for _, at in when], tid=5 + number))
    with tempfile.TemporaryDirectory() as folder:
        static_w = {"static_power_w": {"package-0": 2.0}} if is_static else {}
        path = Path(folder) / "t.tprof"
        profile = session(path, sampled=records, threads=threads, **static_w).profile(model="cputime")
        flame, account = profile.flame(), profile.accounts.loc["package-0"]
        threads_j = sum(joules for joules, _ in profile.instances.kept[1].outside.values())

    nodes = flame.nodes
    tasks_j = profile.tasks["energy_j"].sum()
    outside_j = nodes.loc[nodes["name"] == "(outside tasks)", "energy_j"].sum()
    total_j = np.nan_to_num(flame.energy_j)
    assert total_j == pytest.approx(tasks_j + outside_j)
    assert np.nansum(nodes["own_j"]) == pytest.approx(total_j)
    assert outside_j == pytest.approx(threads_j)
    assert outside_j == pytest.approx(account["runtime_j"]), "here no CPU time is without samples"
    assert total_j <= (account["tasks_j"] + account["runtime_j"]) * (1 + 1e-9)


def thread_of(runs, tid, first):
    """Return a thread with these segments; `first` is the number of its first instance."""
    edges = np.append(0, np.cumsum([one[0] for one in runs])) * TENTH_NS
    used = np.append(0, np.cumsum([one[0] * one[2] for one in runs])) * TENTH_NS
    return {
        "t_ns": edges,
        "instance": [*(first + at if one[1] else 0 for at, one in enumerate(runs)), 0],
        "task": [*(0 if one[1] else -1 for one in runs), -1],
        "cpu_ns": used.astype(np.int64),
        "tid": tid,
        "name": f"thread {tid}",
    }


@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=12),
    st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 90)), max_size=12),
)
def test_pieces_have_the_sums_of_their_segments(steps, sampled):

    t_ns = np.cumsum(steps).astype(np.int64)
    package = np.arange(len(t_ns) - 1).astype(np.int16)
    one = replace(segments_of(t_ns), cpu=package + 10, package=package + 20, package_end=package + 30)
    when, clock = (np.array([pair[at] for pair in sorted(sampled)], np.int64) for at in (0, 1))

    cuts = cut_at(one, sampled_at(when, SECOND_NS * np.maximum.accumulate(clock)))

    for name in ("cpu_s", "modelled"):
        sums = np.bincount(cuts.owner, weights=getattr(cuts.segments, name), minlength=len(t_ns) - 1)
        assert sums == pytest.approx(getattr(one, name))
        assert (getattr(cuts.segments, name) >= 0).all()
    assert (np.diff(cuts.segments.t_ns) >= 0).all()
    assert set(cuts.segments.t_ns) >= set(t_ns)
    assert (cuts.segments.t_ns[cuts.before + 1] == when[cuts.sample]).all()
    assert len(cuts.before) == ((when >= t_ns[0]) & (when < t_ns[-1])).sum()
    for name in ("slot", "cpu", "package", "package_end"):
        assert (getattr(cuts.segments, name) == getattr(one, name)[cuts.owner]).all()


def test_pieces_have_the_cpu_time_that_a_sampled_clock_shows():
    """A segment of 100 ms that used 60, 50 of them before the sample in its middle, after a second of earlier ones."""
    one = replace(segments_of(np.array([0, TENTH_NS])), cpu_s=np.array([0.06]), modelled=np.array([6.0]), earlier_s=1.0)

    known, unknown = (
        cut_at(one, sampled_at([TENTH_NS // 2], clock_ns)) for clock_ns in (np.array([1_050_000_000]), None)
    )

    assert known.segments.cpu_s == pytest.approx([0.05, 0.01])
    assert known.segments.modelled == pytest.approx([5.0, 1.0])
    assert unknown.segments.cpu_s == pytest.approx([0.03, 0.03])


def test_a_sampled_clock_stays_within_those_of_its_segment():
    """The clock at the ends of segments is known too: it began at one second."""
    steps_s = np.array([0.02, 0.06, 0.04])
    one = replace(segments_of(np.arange(4) * TENTH_NS), cpu_s=steps_s, modelled=steps_s, earlier_s=1.0)
    when, clock = np.array([15, 25, 27]) * TENTH_NS // 10, np.array([1_010_000_000, 1_090_000_000, 1_500_000_000])

    cuts = cut_at(one, sampled_at(when, clock))

    assert cuts.owner.tolist() == [0, 1, 1, 2, 2, 2]
    assert cuts.segments.cpu_s == pytest.approx([0.02, 0.0, 0.06, 0.01, 0.03, 0.0])


def sampled_at(t_ns, clock_ns):
    t_ns = np.asarray(t_ns, np.int64)
    gap_ns, none = np.diff(t_ns, prepend=t_ns[:1]), np.zeros(len(t_ns), np.int64)
    return ThreadStacks(t_ns, clock_ns, gap_ns, gap_ns, none, none)


def segments_of(t_ns):
    count = len(t_ns) - 1
    values = np.arange(1.0, count + 1)
    unknown = dict.fromkeys(("thread", "package", "package_end", "owners"))
    return Segments(
        t_ns=t_ns,
        slot=np.ones(count, np.int32),
        cpu_s=values,
        modelled=2 * values,
        counted=True,
        cpu=np.zeros(count, np.uint16),
        earlier_s=0.0,
        **unknown,
    )


def test_the_interval_of_a_share_is_wilsons():
    """Newcombe 1998, table I: 81 of 263."""
    low, high = wilson(np.array([81 / 263, 0.0, 0.5]), np.array([263, 10, 0]))

    assert (round(low[0], 4), round(high[0], 4)) == (0.2553, 0.3662)
    assert low[1] == 0
    assert (low[2], high[2]) == (0.0, 1.0)
