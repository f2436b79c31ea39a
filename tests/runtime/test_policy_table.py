"""A sweep's table as a policy reads it, and a policy's name as a program writes it."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from tprof.analysis.operating_points.curves import for_workers, read_knowledge
from tprof.analysis.operating_points.table import read
from tprof.benchmarks.sweep.sweep_tables import COLUMNS
from tprof.runtime import Runtime
from tprof.runtime.policy import edp, fixed, max_slowdown, policy_of, power_cap

from tprof.errors import UsageError

GHZ = 10**9


def row(task, hz, energy_j, time_s, instances, **more):
    known = {"task": task, "setting": hz, "setting_unit": "Hz", "workers": 2, "repeat": 1, "energy_j": energy_j}
    return {**dict.fromkeys(COLUMNS, ""), **known, "time_s": time_s, "instances": instances, **more}


def write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_rows_are_means_of_an_instance_over_repeats(tmp_path):
    rows = [row("work", GHZ, 10.0, 4.0, 2), row("work", GHZ, 14.0, 4.0, 2, repeat=2), row("work", 2 * GHZ, 20, 2, 2)]

    known = read_knowledge(write(tmp_path / "sweep.csv", rows).parent)[2]

    assert known.curves["work"][GHZ].energy_j == pytest.approx(6.0)
    assert known.curves["work"][GHZ].time_s == pytest.approx(2.0)
    assert known.instances["work"] == 2


def test_the_whole_program_tells_what_is_drawn_beside_tasks_and_how_workers_starve(tmp_path):
    rows = [row("", GHZ, 30.0, 4.0, 1), row("work", GHZ, 10.0, 4.0, 2)]

    known = read_knowledge(write(tmp_path / "sweep.csv", rows))[2]

    assert known.outside_w == pytest.approx(5.0)
    assert known.stretch == pytest.approx(2.0)
    assert known.totals({"work": GHZ}, 2) == pytest.approx((30.0, 4.0))


def test_rows_whose_energy_was_not_resolved_say_nothing(tmp_path):
    rows = [row("work", GHZ, "", 4.0, 2), row("work", 2 * GHZ, 3.0, 4.0, 2)]

    assert list(read_knowledge(write(tmp_path / "sweep.csv", rows))[2].curves["work"]) == [2 * GHZ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"energy_j": "3,5"}, "row 2: energy_j must be a number, got '3,5'"),
        ({"time_s": "fast"}, "row 2: time_s must be a number, got 'fast'"),
        ({"time_s": ""}, "row 2: time_s is empty"),
        ({"time_s": -1}, "row 2: time_s must be above 0, got -1"),
        ({"energy_j": 0}, "row 2: energy_j must be above 0, got 0"),
        ({"setting": ""}, "row 2: setting is empty; give a setting in every row or in none"),
        ({"setting": "1e999"}, "row 2: setting must be a number, got '1e999'"),
        ({"setting": "9" * 400}, "row 2: setting must be a number, got '999"),
        ({"setting": 2.4}, "row 2: setting is 2.4 Hz, which cannot be"),
        ({"setting_unit": "GHz"}, "setting_unit must be Hz .* got 'GHz', 'Hz'"),
        ({"workers": 1.5}, "row 2: workers must be a whole number from 1 to 1000000, got 1.5"),
        ({"workers": "two"}, "row 2: workers must be a number, got 'two'"),
        ({"instances": 0}, "row 2: instances must be above 0, got 0"),
        ({"quality": "guessed"}, "row 2: quality must be measured, .* got 'guessed'"),
        ({}, "row 2: task, setting, workers and repeat are those of an earlier row"),
    ],
)
def test_what_is_wrong_is_refused_by_file_row_and_column(tmp_path, changed, says):
    good = row("work", GHZ, 10.0, 4.0, 2)
    path = write(tmp_path / "sweep.csv", [good, good | changed])

    with pytest.raises(UsageError, match=says) as refused:
        read_knowledge(path)

    assert str(refused.value).startswith(str(path))


def test_a_policy_and_advice_read_a_table_alike(tmp_path):
    rows = [row("'=SUM(1)", GHZ, "", 4.0, 3, power_w=5), row("", GHZ, 30.0, 4.0, "")]
    path = write(tmp_path / "sweep.csv", rows)

    known, table = read_knowledge(path)[2], read(path)

    assert list(known.curves) == [name for name in table["task"] if name]
    assert known.curves["=SUM(1)"][GHZ].energy_j * 3 == pytest.approx(table["energy_j"][0]) == pytest.approx(20.0)


def test_a_table_brings_neither_pandas_nor_numpy_into_the_program(tmp_path):
    path = write(tmp_path / "sweep.csv", [row("work", GHZ, 10.0, 4.0, 2)])
    code = (
        "import sys; from tprof.analysis.operating_points.curves import read_knowledge; "
        f"read_knowledge({str(path)!r}); print([name for name in ('numpy', 'pandas') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)

    assert done.stdout.strip() == "[]"


def test_no_policy_brings_pandas_or_scipy_into_the_program():
    code = (
        "import sys; from tprof.runtime.policy import learning, operator; "
        "print([name for name in ('pandas', 'scipy', 'sklearn', 'plotly') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)

    assert done.stdout.strip() == "[]"


def test_a_table_by_hand_needs_a_frequency_a_time_and_energy_or_power(tmp_path):
    (tmp_path / "mine.csv").write_text("task,setting,setting_unit,time_s,power_w\nwork,1e9,Hz,2,5\n", encoding="utf-8")

    known = read_knowledge(tmp_path / "mine.csv")[1]

    assert known.curves["work"][GHZ].energy_j == pytest.approx(10.0)
    assert known.quality == "given"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "cannot read .* as a table: it is empty"),
        ("a,b\n1,2\n", "has no column task; its columns are a, b"),
        ("task,time_s,setting_unit\nwork,1,Hz\n", "has neither energy_j nor power_w"),
        (",".join(COLUMNS) + "\n", "has no rows"),
        ("task,time_s,energy_j\nwork,1,1\n", "has no task's energy and time at any frequency"),
        ("task,time_s,energy_j,setting,setting_unit\nwork,1,1,90,W\n", "has no task's energy and time at any"),
        ("task,time_s,energy_j,setting,setting_unit\n,1,1,1e9,Hz\n", "has no task's energy and time at any"),
    ],
)
def test_what_is_no_table_is_said_in_one_sentence(tmp_path, content, says):
    (tmp_path / "sweep.csv").write_text(content, encoding="utf-8")

    with pytest.raises(UsageError, match=says):
        read_knowledge(tmp_path / "sweep.csv")


def test_a_table_that_is_not_there_is_said_when_the_runtime_is_made(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*none\.csv"):
        Runtime(workers=1, policy=edp(tmp_path / "none.csv"))


def test_a_runtime_takes_what_was_swept_with_no_more_workers_than_it_has():
    assert for_workers({1: "one", 4: "four", 8: "eight"}, 4) == {1: "one", 4: "four"}
    assert for_workers({1: "one", 4: "four"}, 6) == {1: "one", 6: "four"}
    assert for_workers({4: "four"}, 2) == {2: "four"}


def test_names_are_policies():
    assert policy_of("edp") == edp()
    assert policy_of("max_slowdown(5%)") == max_slowdown(0.05)
    assert policy_of("power_cap(35 W)") == power_cap(35.0)
    assert policy_of("fixed(2.4GHz)") == fixed(2.4e9)
    assert policy_of(fixed(tasks={"sort": 3e9})).tasks_hz == {"sort": 3 * GHZ}


@pytest.mark.parametrize(
    "name", ["", "fast", "edp(3)", "fixed", "fixed(2.4)", "power_cap(1.2.3W)", "max_slowdown(5W)", "power_cap(.)", 7]
)
def test_what_is_no_policy_is_said_with_what_there_is(name):
    with pytest.raises(UsageError, match="a policy is one of fixed"):
        policy_of(name)


def test_options_out_of_range_are_refused():
    with pytest.raises(UsageError, match="frequencies of a policy is a whole number of 2 or more, got 1"):
        edp(frequencies=1)
    with pytest.raises(UsageError, match=r"instances of a policy is a whole number of 1 or more, got 1\.5"):
        edp(instances=1.5)
    with pytest.raises(UsageError, match="frequencies by the task's name"):
        fixed(tasks=[1])
    with pytest.raises(UsageError, match="fixed\\(\\) takes frequencies and no profile"):
        fixed(2e9, profile="sweep.csv")
    with pytest.raises(UsageError, match=r"for 5 % write 0\.05"):
        max_slowdown(5)
    with pytest.raises(UsageError, match=r"for 5 % write 0\.05"):
        policy_of("max_slowdown(5)")
    with pytest.raises(UsageError, match="above 0, got -5"):
        power_cap(-5)
    with pytest.raises(UsageError, match="fixed\\(\\) needs a frequency"):
        fixed()
    with pytest.raises(UsageError, match="above 0, got a value of type int"):
        power_cap(10**5000)
    for span_s in (-1.0, "x", float("nan"), 10**400):
        with pytest.raises(UsageError, match="span_s of a policy is a number of 0 or more"):
            edp(span_s=span_s)


def test_numbers_of_numpy_are_numbers():
    assert fixed(np.int64(2_400_000_000)) == fixed(2.4e9)
    assert power_cap(np.float32(35)) == power_cap(35.0)
    assert edp(instances=np.int64(2)) == edp(instances=2)
