"""The export for Perfetto: its own trace processor finds the joules, slices, counters and arrows of the profile."""

# ruff: noqa: S608 - queries of constants

import pytest
from support import command_line, trace_processor, traces

import tprof
from tprof.trace import EventKind, Kind
from tprof.trace.cluster import load_job
from tprof.trace.merge import merge

MS = 1_000_000
TASKS = ("outer", "inner", "coroutine", "=odd\x1b\ud800 name")
OUTER, INNER, FIRST, SECOND, FAILS = 1, 2, 3, 4, 5
# Instance 1 has 2 nested in it; 3 and 4 are coroutines that take turns; 5 fails.
SAMPLES = [
    (0, OUTER, 0, Kind.START), (10, INNER, 1, Kind.START), (20, OUTER, 0, Kind.FINISH), (30, 0, -1, Kind.FINISH),
    (40, FIRST, 2, Kind.START), (45, 0, -1, Kind.SUSPEND), (46, SECOND, 2, Kind.START), (55, FIRST, 2, Kind.SUSPEND),
    (60, SECOND, 2, Kind.FINISH), (62, 0, -1, Kind.FINISH),
]  # fmt: skip
EVENTS = {
    "t_ns": [0, 0, 35 * MS], "kind": [EventKind.SPAWN, EventKind.SPAWN, EventKind.DEPENDENCE],
    "instance": [OUTER, FAILS, FAILS], "other": [0, 0, OUTER],
}  # fmt: skip


def write(path, **changes):
    t_ns, instance, task, kind = (list(column) for column in zip(*SAMPLES, strict=True))
    main = {
        "t_ns": [MS * at for at in t_ns], "instance": instance, "task": task, "kind": kind, "cpu": [3] * len(t_ns),
        "cpu_ns": [MS * at // 2 for at in t_ns], "pid": 100, "tid": 100, "name": "main", "events": EVENTS,
    }  # fmt: skip
    other = {
        "t_ns": [40 * MS, 80 * MS], "instance": [FAILS, 0], "task": [3, -1], "kind": [Kind.START, Kind.FINISH],
        "flags": [0, 1], "pid": 100, "tid": 101, "name": "other",
    }  # fmt: skip
    energy = {
        "package-0": ([0, 25 * MS, 50 * MS, 90 * MS], [0.0, 1.0, 3.0, 4.5]),
        "core-0": ([0, 90 * MS], [0.0, 2.0]),
    }
    given = {"tasks": TASKS, "threads": [main, other], "energy": energy, "quality": "simulated"} | changes
    tprof.write_trace(path, **given)
    return path


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tprof.load(write(tmp_path_factory.mktemp("perfetto") / "small.tprof")).profile()


@pytest.fixture(scope="module")
def trace(profile, tmp_path_factory):
    """The rows that SQL finds in the exported trace."""
    pytest.importorskip("perfetto")
    path = tmp_path_factory.mktemp("perfetto") / "small.pftrace"
    profile.to_perfetto(path)
    with trace_processor.opened(path) as rows:
        yield rows


def argument(name):
    return f"extract_arg(slice.arg_set_id, 'debug.{name}')"


def test_the_joules_of_each_task_sum_to_those_of_the_summary(profile, trace):
    found = trace(
        f"select name, sum({argument('energy_j')}) as joules, count({argument('energy_j')}) as instances,"
        f" min({argument('quality')}) as quality from slice where category = 'task' group by name"
    )

    summary = profile.summary()
    assert {row["name"] for row in found} == set(summary.index)
    for row in found:
        assert row["joules"] == pytest.approx(summary.loc[row["name"], "energy_j"], rel=1e-9)
        assert row["instances"] == summary.loc[row["name"], "instances"]
        assert row["quality"] == "simulated"


def test_slices_nest_and_interleaved_coroutines_have_one_for_each_time_that_they_ran(trace):
    rows = trace(
        f"select ts, dur, thread_dur, depth, {argument('instance')} as instance from slice join thread_track"
        " on slice.track_id = thread_track.id join thread using (utid) where tid = 100 order by ts, depth"
    )

    found = [(row["instance"], row["ts"] // MS, row["dur"] // MS, row["depth"]) for row in rows]
    assert found == [
        (OUTER, 0, 30, 0), (INNER, 10, 10, 1), (FIRST, 40, 5, 0), (SECOND, 46, 9, 0), (FIRST, 55, 5, 0),
        (SECOND, 60, 2, 0),
    ]  # fmt: skip
    assert [row["thread_dur"] for row in rows] == [row["dur"] // 2 for row in rows]


def test_a_slice_names_bounds_power_processor_and_failure(profile, trace):
    names = ("energy_low_j", "energy_high_j", "power_w", "cpu", "failed")
    columns = ", ".join(f"{argument(name)} as {name}" for name in names)
    rows = trace(f"select {argument('instance')} as instance, {columns} from slice where {argument('energy_j')} > 0")
    found = {row["instance"]: row for row in rows}

    for task in profile.tasks.itertuples():
        row = found[task.instance]
        assert [row[name] for name in names[:3]] == pytest.approx([getattr(task, name) for name in names[:3]], rel=1e-6)
    assert found[INNER]["cpu"] == 3
    assert found[FAILS]["cpu"] is None, "the processor is not known"
    assert {instance for instance, row in found.items() if row["failed"]} == {FAILS}


def test_the_last_value_of_an_energy_counter_is_what_the_domain_measured(profile, trace):
    rows = trace(
        "select t.name as name, unit, value from counter join counter_track t on track_id = t.id"
        " where ts = (select max(ts) from counter c where c.track_id = t.id)"
    )

    values = {row["name"]: (row["value"], row["unit"]) for row in rows}
    for domain in ("package-0", "core-0"):
        assert values[f"{domain} energy"] == (pytest.approx(profile.accounts.loc[domain, "measured_j"]), "J")
    assert values["package-0 power"] == (pytest.approx(1.5 / 0.040), "W")


def test_a_dependence_is_an_arrow_from_the_instance_that_was_waited_for(trace):
    (arrow,) = trace("select slice_out, slice_in from flow")

    ends = [
        trace(f"select {argument('instance')} as instance from slice where id = {arrow[end]}")[0]["instance"]
        for end in ("slice_out", "slice_in")
    ]
    assert ends == [OUTER, FAILS]


def test_the_trace_says_what_its_figures_are_and_has_no_faults(trace):
    metadata = {row["name"]: row["str_value"] for row in trace("select name, str_value from metadata")}
    (recording,) = trace(f"select name, {argument('quality')} as quality from slice where category = 'tprof'")
    faults = trace("select name, value from stats where severity in ('error', 'data_loss') and value > 0")

    assert metadata["cr-tprof.quality"] == "simulated"
    assert recording == {"name": "small.tprof (simulated)", "quality": "simulated"}
    assert faults == []


def test_the_hosts_of_a_job_are_groups_of_processes_on_one_clock(tmp_path):
    pytest.importorskip("perfetto")
    sources = [traces.write(tmp_path / f"{name}.tprof", host={"hostname": name}) for name in ("node1", "node2")]
    merge(sources, tmp_path / "job.tprof")

    done = command_line.tprof("export", "job.tprof", "perfetto", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "job.pftrace\n")
    summary = load_job(tmp_path / "job.tprof").profile().summary()
    with trace_processor.opened(tmp_path / "job.pftrace") as rows:
        found = rows(
            f"select process.name as host, sum({argument('energy_j')}) as joules from slice join thread_track"
            " on slice.track_id = thread_track.id join thread using (utid) join process using (upid) group by 1"
        )
    assert [row["host"] for row in found] == ["node1", "node2"]
    assert sum(row["joules"] for row in found) == pytest.approx(summary["energy_j"].sum())


@pytest.mark.parametrize("place", ["missing/x.pftrace", "folder"])
def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left(profile, tmp_path, place):
    pytest.importorskip("perfetto")
    (tmp_path / "folder").mkdir()

    with pytest.raises(tprof.TprofError, match=r"cannot write .*: .*; name another file with -o$"):
        profile.to_perfetto(tmp_path / place)

    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]
