"""A table of operating points is read, completed, and refused in one sentence where something in it is wrong."""

import contextlib
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from support.operating_points import table
from tprof.analysis.export import safe_cell
from tprof.analysis.operating_points.measured import LEAST_NOISE, RUN_NOISE, by_task
from tprof.analysis.operating_points.table import check, read

from tprof.errors import TprofError, UsageError
from tprof.trace.manifest import MANIFEST

GOOD = (("", 1.6e9, 1, 60, 3), ("", 3.3e9, 1, 100, 2))


def written(folder, text, name="points.csv"):
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_a_table_by_hand_needs_few_columns(tmp_path):
    rows = read(written(tmp_path, "task,setting,setting_unit,time_s,power_w\n,100,W,3,90\n,250,W,2,200\n"))

    (program,) = by_task(rows)
    assert program.task == ""
    assert program.unit == "W"
    assert program.energy_j.tolist() == [270.0, 400.0]
    assert program.workers.tolist() == [1, 1]
    assert program.quality == "given"


def test_a_point_keeps_the_medians_and_the_quality_of_its_own_runs(tmp_path):
    rows = (("", 1e9, 1, 10, 3), ("", 1e9, 1, 11, 4), ("", 1e9, 1, 40, 9), ("", 2e9, 1, 20, 1))
    text = table(*rows, setting_unit="Hz").splitlines()
    qualities = ["quality", "estimated", "estimated", "estimated", "measured"]
    lines = [f"{line},{one}" for line, one in zip(text, qualities, strict=True)]

    (program,) = by_task(read(written(tmp_path, "\n".join(lines) + "\n")))

    first, second = program.run(0), program.run(1)
    assert (first.energy_j, first.time_s, first.quality) == (11, 4, "estimated")
    assert (second.energy_j, second.time_s, second.quality) == (20, 1, "measured")


@pytest.mark.parametrize("head", ["", ","])
def test_a_comma_at_the_end_of_each_row_is_harmless(tmp_path, head):
    path = tmp_path / "t.csv"
    path.write_text(f"task,setting,setting_unit,energy_j,time_s{head}\na,1e9,Hz,5,2,\na,2e9,Hz,6,1,\n", "utf-8")

    rows = read(str(path))

    assert list(rows["task"]) == ["a", "a"]
    assert list(rows["setting"]) == [1e9, 2e9]
    assert list(rows["time_s"]) == [2, 1]


@pytest.mark.parametrize("cells", ["7", ",7", ",,"])
def test_cells_without_a_column_are_refused(tmp_path, cells):
    path = tmp_path / "t.csv"
    path.write_text(f"task,energy_j,time_s\na,5,2,{cells}\nb,6,1,{cells}\n", "utf-8")

    with pytest.raises(
        TprofError, match=r"cannot read .* as a table: rows have more cells than there are column names"
    ):
        read(path)


def test_a_session_is_no_table(tmp_path):
    written(tmp_path, "{}", MANIFEST)

    with pytest.raises(UsageError, match=r"is a session, .* tprof sweep .* makes the table"):
        read(tmp_path)


def test_a_sweeps_folder_and_parquet_are_read_like_the_csv(tmp_path):
    path = written(tmp_path, table(*GOOD, setting_unit="Hz", quality="measured"), "sweep.csv")
    rows = read(path)
    rows.to_parquet(tmp_path / "points.parquet")

    for other in (tmp_path, tmp_path / "points.parquet"):
        pd.testing.assert_frame_equal(read(other), rows, check_dtype=False)


def test_repeats_are_averaged_and_their_spread_is_the_noise(tmp_path):
    rows = [("", hz, 1, energy, 2) for hz in (1.6e9, 3.3e9) for energy in (90, 100, 110)]
    (one,) = by_task(read(written(tmp_path, table(*rows, setting_unit="Hz"))))

    assert one.energy_j.tolist() == [100.0, 100.0]
    assert one.energy_noise == pytest.approx(0.1 / np.sqrt(3), rel=1e-6)
    assert one.energy_freedom == 4
    # Times that were all the same count with one more, as noisy as a run is expected to be.
    assert one.time_noise == pytest.approx(max(RUN_NOISE.value / np.sqrt(5 * 3), LEAST_NOISE), rel=1e-6)
    assert one.time_freedom == 5


def test_a_task_that_was_run_once_has_the_noise_that_other_tasks_show(tmp_path):
    rows = [("", hz, 1, 100, 2) for hz in (1.6e9, 3.3e9)]
    rows += [("again", hz, 1, energy, 2) for hz in (1.6e9, 3.3e9) for energy in (70, 100, 130)]
    once, again = by_task(read(written(tmp_path, table(*rows, setting_unit="Hz"))))

    assert RUN_NOISE.value < once.energy_noise[0] < 0.3
    assert once.energy_freedom == RUN_NOISE.freedom <= again.energy_freedom
    assert once.time_noise[0] < RUN_NOISE.value


def test_the_time_of_a_task_is_over_the_workers_that_its_instances_fill(tmp_path):
    text = "task,workers,instances,energy_j,time_s\na,1,2,10,8\na,4,2,10,8\na,2,2,10,8\n"
    (one,) = by_task(read(written(tmp_path, text)))

    assert one.workers.tolist() == [1, 2, 4]
    assert one.time_s.tolist() == [8.0, 4.0, 4.0]


def test_points_with_more_instances_are_brought_to_the_same_work(tmp_path):
    text = "task,setting,setting_unit,instances,energy_j,time_s\na,1e9,Hz,10,10,2\na,2e9,Hz,30,60,3\n"
    (one,) = by_task(read(written(tmp_path, text)))

    assert one.energy_j.tolist() == [20.0, 40.0]
    assert one.time_s.tolist() == [4.0, 2.0]


def test_a_task_without_any_energy_is_left_out(tmp_path):
    text = table(*GOOD, ("a", 1.6e9, 1, "", 3), ("a", 3.3e9, 1, "", 2), setting_unit="Hz")

    assert [one.task for one in by_task(read(written(tmp_path, text)))] == [""]


def test_counters_tell_what_waits(tmp_path):
    text = "task,workers,energy_j,time_s,stalls_per_cycle,llc_misses\na,1,9,8,0.1,1\na,2,9,8,0.6,1\n"
    (one,) = by_task(read(written(tmp_path, text)))

    assert one.waiting == 0.6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (table(("", 1.6, 1, 1, 1), setting_unit="Hz"), "frequencies are in Hz, such as 3300000000"),
        (
            table(("", 1.6e6, 1, 1, 1), setting_unit="Hz"),
            "row 1: setting is 1600000 Hz, which cannot be; .* in kHz, MHz",
        ),
        (table(*GOOD[:1], ("", 2.5e10, 1, 1, 1), setting_unit="Hz"), "row 2: setting is 25000000000 Hz, which cannot"),
        (table(*GOOD, setting_unit="W"), "row 1: setting is 1600000000 W, which cannot be; .* frequencies in Hz"),
        (table(("", 1e9, 1e300, 1, 1), setting_unit="Hz"), "row 1: workers must be .* from 1 to 1000000, got 1e\\+300"),
        (table(("", 1e9, 1, "inf", 1), setting_unit="Hz"), "energy_j must be a number, got 'inf'"),
        (table(*GOOD), "setting_unit must be Hz .* the column is missing"),
        (table(*GOOD, setting_unit="GHz"), "one for all rows; got 'GHz'"),
        (table(*GOOD, ("", "", 1, 1, 1), setting_unit="Hz"), "row 3: setting is empty; give a setting in every row"),
        (table(("", 1e9, 1, 0, 1), setting_unit="Hz"), "row 1: energy_j must be above 0, got 0"),
        (table(("", 1e9, 1, 5, -1), setting_unit="Hz"), "row 1: time_s must be above 0, got -1"),
        (table(("", 1e9, 1, "much", 1), setting_unit="Hz"), "row 1: energy_j must be a number, got 'much'"),
        (table(("", 1e9, 1, "inf", 1), setting_unit="Hz"), "row 1: energy_j must be a number, got"),
        (
            table(("", 1e9, 1.5, 1, 1), setting_unit="Hz"),
            "row 1: workers must be a whole number from 1 to 1000000, got 1.5",
        ),
        (table(("", 1e9, 1, 5, ""), setting_unit="Hz"), "row 1: time_s is empty"),
        (table(("", 1e9, 1, "", 1), setting_unit="Hz"), "no row has an energy"),
        (table(*GOOD, setting_unit="Hz", quality="guessed"), "quality must be measured, .*, got 'guessed'"),
        (table(*GOOD, setting_unit="Hz", watts_factor=0.5), "row 1: watts_factor must be from 1 to 1e.06, got 0.5"),
        (table(*GOOD, setting_unit="Hz", energy_low_j=150), "row 1: energy_j lies outside energy_low_j to"),
        (table(GOOD[0], GOOD[0], setting_unit="Hz", repeat=1), "row 2: .* are those of an earlier row"),
        (
            table(GOOD[0], GOOD[0], setting_unit="Hz"),
            "row 2: all values are those of an earlier row; .* a column repeat",
        ),
        ("task,energy_j\n,1\n", "has no column time_s; its columns are task, energy_j"),
        ("task,time_s\n,1\n", "has neither energy_j nor power_w"),
        ("task,time_s,energy_j\n", "has no rows"),
    ],
)
def test_what_is_wrong_is_said_with_its_row(tmp_path, text, said):
    with pytest.raises(UsageError, match=said):
        read(written(tmp_path, text))


@pytest.mark.parametrize("name", ["null", "NA", "None", "nan", "N/A", "=1+1", "@home", "-", "'quoted'"])
def test_a_task_keeps_its_name_whatever_that_means_elsewhere(tmp_path, name):
    rows = read(written(tmp_path, table(*GOOD, (safe_cell(name), 1.6e9, 1, 5, 3), setting_unit="Hz")))

    assert rows["task"].tolist() == ["", "", name]


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b'"never closed'])
def test_what_is_no_table_is_refused(tmp_path, content):
    path = tmp_path / "points.csv"
    path.write_bytes(content)

    with pytest.raises(TprofError, match=r"points\.csv"):
        read(path)


def test_a_table_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TprofError, match=r"cannot read .*nowhere\.csv: No such file"):
        read(tmp_path / "nowhere.csv")


def test_a_program_may_give_numbers_of_any_kind():
    rows = {"task": ["a", "b", None], "time_s": [Decimal("1.5"), np.float32(2), 3], "energy_j": ["1e1", 2.0, None]}

    table = check(pd.DataFrame(rows), where="my rows")

    assert table["task"].tolist() == ["a", "b", ""]
    assert table["time_s"].tolist() == [1.5, 2.0, 3.0]
    assert table["energy_j"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize("value", [True, 10**400, Decimal("1e999"), pd.Timestamp(1), [1.0], "1_0", float("inf")])
def test_what_is_no_number_in_rows_of_a_program_is_refused(value):
    rows = pd.DataFrame({"task": ["a", "b"], "time_s": pd.Series([1.0, value], dtype=object), "energy_j": [1.0, 2.0]})

    with pytest.raises(UsageError, match="my rows, row 2: time_s must be a number, got "):
        check(rows, where="my rows")


def test_a_column_given_twice_is_refused():
    with pytest.raises(UsageError, match="my rows has two columns called 'time_s'"):
        check(pd.DataFrame([["a", 1.0, 2.0]], columns=["task", "time_s", "time_s"]), where="my rows")


def test_parquet_that_is_edited_is_read_or_refused(tmp_path):
    path = tmp_path / "points.parquet"
    read(written(tmp_path, table(*GOOD, setting_unit="Hz"))).to_parquet(path)
    content, random = path.read_bytes(), np.random.default_rng(1)

    for _ in range(100):
        edited = bytearray(content)
        for place in random.integers(len(content), size=3):
            edited[place] = random.integers(256)
        path.write_bytes(edited)
        with contextlib.suppress(TprofError):
            read(path)


def test_rows_made_by_a_program_are_checked_too():
    with pytest.raises(UsageError, match="my rows has no column task"):
        check(pd.DataFrame({"time_s": [1.0]}), where="my rows")
