"""The program's row of a sweep is the time from the first task to the last and exactly that time's joules."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.traces import SECOND_NS
from tprof.benchmarks.sweep.output import host_warnings, merged_range, outside_tasks, without_figures
from tprof.benchmarks.sweep.sweep_tables import rows_of, rows_without_setting

import tprof

WATTS = (100.0, 10.0, 20.0, 20.0, 10.0, 100.0)
"""Of each second: start-up, four seconds of tasks with a gap between them, and the end."""


def profile_of(path, *, instances=((1, 2), (3, 5)), cpu_part=1.0, quality="given"):
    """Write tasks between start-up and end, at known watts; instances are (begin_s, end_s)."""
    times_s, running, cpu_s = [0.0], [0], [0.0]
    for number, (begin_s, end_s) in enumerate(instances, 1):
        times_s += [begin_s, end_s]
        running += [number, 0]
        cpu_s += [cpu_s[-1], cpu_s[-1] + (end_s - begin_s) * cpu_part]
    times_s, running, cpu_s = [*times_s, 6.0], [*running, 0], [*cpu_s, cpu_s[-1]]
    thread = {
        "t_ns": [round(one * SECOND_NS) for one in times_s],
        "instance": running,
        "task": [0 if one else -1 for one in running],
        "cpu_ns": [round(one * SECOND_NS) for one in cpu_s],
    }
    joules = [sum(WATTS[:second]) for second in range(7)]
    energy = {"package-0": ([second * SECOND_NS for second in range(7)], joules)}
    tprof.write_trace(path, tasks=["work"], threads=[thread], energy=energy, quality=quality)
    return tprof.load(path).profile("cputime")


def test_start_up_and_end_are_left_out_and_the_gap_is_not(tmp_path):
    program, *_ = rows_of(profile_of(tmp_path / "t.tprof"))

    assert program["task"] == ""
    assert program["time_s"] == pytest.approx(4)
    assert program["energy_j"] == pytest.approx(sum(WATTS[1:5]))
    assert program["power_w"] == pytest.approx(15)


def test_part_of_a_reading_counts_in_proportion_to_time(tmp_path):
    program, *_ = rows_of(profile_of(tmp_path / "t.tprof", instances=((1.5, 2), (3, 4.25))))

    assert program["time_s"] == pytest.approx(2.75)
    assert program["energy_j"] == pytest.approx(10 * 0.5 + 20 + 20 + 10 * 0.25)


def test_without_tasks_it_is_the_whole_recording(tmp_path):
    (program,) = rows_of(profile_of(tmp_path / "t.tprof", instances=()))

    assert program["time_s"] == pytest.approx(6)
    assert program["energy_j"] == pytest.approx(sum(WATTS))


def test_tasks_that_waited_for_a_processor_make_a_simulated_machine_doubtful(tmp_path):
    assert host_warnings(profile_of(tmp_path / "alone.tprof")) == []
    (said,) = host_warnings(profile_of(tmp_path / "beside.tprof", cpu_part=0.5))
    assert said.startswith("tasks had a processor for 50% of their time only")


def test_joules_of_a_program_that_are_in_no_tasks_row_are_told_above_5_percent(tmp_path):
    for outside_s, told in ((0.1, False), (1.0, True)):
        path = tmp_path / f"{outside_s}.tprof"
        thread = {"t_ns": [0, 4 * SECOND_NS, 5 * SECOND_NS], "instance": [1, 0, 0], "task": [0, -1, -1]}
        thread["cpu_ns"] = [0, 4 * SECOND_NS, round((4 + outside_s) * SECOND_NS)]
        tprof.write_trace(path, tasks=["work"], threads=[thread], energy={"package-0": ([0, 5 * SECOND_NS], [0, 50.0])})

        said = outside_tasks(tprof.load(path).profile("cputime"))

        assert bool(said) == told
        assert all("joules are in no task's row" in text for text in said)


def test_without_a_sensor_no_joules_are_missed(tmp_path):
    thread = {"t_ns": [0, SECOND_NS, 2 * SECOND_NS], "instance": [1, 0, 0], "task": [0, -1, -1], "cpu_ns": [0, 1, 2]}
    tprof.write_trace(tmp_path / "t.tprof", tasks=["work"], threads=[thread], energy={})

    assert outside_tasks(tprof.load(tmp_path / "t.tprof").profile("cputime")) == []


def test_a_sweeps_intervals_are_about_chance_and_the_error_of_assumed_watts_stands_beside_them(tmp_path):
    rows = {}
    for is_given, factors in ((True, {}), (False, {"idle_factor": 2.0, "per_core_factor": 3.0})):
        path = tmp_path / f"{is_given}.tprof"
        profile_of(path, quality="estimated")
        traces.set_json(
            path / "manifest.json", estimate={"idle_w": 4.0, "per_core_w": 6.0, "given": is_given, **factors}
        )
        rows[is_given] = rows_of(tprof.load(path).profile("cputime"))

    assert [row.pop("watts_factor") for row in rows[True]] == [None, None]
    assert [row.pop("watts_factor") for row in rows[False]] == [3.0, 3.0]
    assert rows[True][1] == pytest.approx(rows[False][1], nan_ok=True)


def test_a_run_that_was_kept_before_the_column_has_no_error_of_watts(tmp_path):
    _, row = rows_of(profile_of(tmp_path / "t.tprof"))
    row = {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
    del row["watts_factor"]

    assert rows_without_setting([row]) == [row | {"watts_factor": None}]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["had it for 44% of 2 s", "had it for 7% of 2 s"], "had it for 7 … 44% of 2 s"),
        (["power of package-0 is (0.02 ± 0.1 W)", "power of package-0 is (0.03 ± 0.1 W)"],
         "power of package-0 is ((0.02 … 0.03) ± 0.1 W)"),
        (["not steady after 60 s", "not steady after 1e+02 s"], "not steady after 60 … 1e+02 s"),
    ],
)  # fmt: skip
def test_each_figure_becomes_its_range(texts, said):
    assert len({without_figures(text) for text in texts}) == 1
    assert merged_range(texts) == said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("package-0 is uncertain", "package-1 is uncertain"),
        ("policy0 took 2 GHz", "policy0 took 3 GHz"),
        ("the run ended with status 1", "the run ended with status 2"),
    ],
)
def test_numbers_that_tell_things_apart_stay(one, other):
    assert without_figures(one) != without_figures(other)


@given(st.lists(st.integers(0, 100), min_size=1))
def test_the_range_holds_every_figure_and_one_is_no_range(parts):
    low, high = min(parts), max(parts)

    said = merged_range([f"{part}% of it" for part in parts])

    assert said == (f"{low}% of it" if low == high else f"{low} … {high}% of it")
