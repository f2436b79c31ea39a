"""`tprof advise` reads a table, prints, draws, and refuses in one sentence."""

import json

import pytest
from support.command_line import tprof as run_tprof
from support.operating_points import table

ROWS = (
    ("", 1.6e9, 4, 60, 3),
    ("", 3.3e9, 4, 100, 2),
    ("jacobi", 1.6e9, 4, 10, 2),
    ("jacobi", 3.3e9, 4, 27, 2),
)


@pytest.fixture
def points(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text(table(*ROWS, setting_unit="Hz", quality="estimated"), "utf-8")
    return path


def advised(folder, *words):
    return run_tprof("advise", *words, cwd=folder)


def test_it_prints_where_to_run_why_and_that_energies_are_estimates(points, tmp_path):
    done = advised(tmp_path, points, "--by", "edp", "-o", "advice.html")

    assert (done.returncode, done.stderr) == (0, "")
    assert "Where to run for the least energy" in done.stdout
    assert "jacobi: Memory-bound" in done.stdout
    assert "energy saved (estimated)" in done.stdout
    assert "Energies in the table are estimated." in done.stdout
    assert "There: 10 J in 500 ms (estimated, median of its runs)." in " ".join(done.stdout.split())
    assert "measured" not in done.stdout
    assert (tmp_path / "advice.html").stat().st_size > 1_000_000


def test_assumed_watts_put_joules_off_alike_and_advice_says_so(tmp_path):
    columns = {"setting_unit": "Hz", "quality": "estimated"}
    (tmp_path / "exact.csv").write_text(table(*ROWS, **columns), "utf-8")
    (tmp_path / "assumed.csv").write_text(table(*ROWS, **columns, watts_factor=2.5), "utf-8")

    said = {name: json.loads(advised(tmp_path, f"{name}.csv", "--json").stdout) for name in ("exact", "assumed")}
    text = " ".join(advised(tmp_path, "assumed.csv", "--max-power", "100").stdout.split())

    assert [one.pop("watts_factor") for one in said["assumed"]] == [2.5] * len(said["assumed"])
    assert [one.pop("watts_factor") for one in said["exact"]] == [1.0] * len(said["exact"])
    assert said["assumed"] == said["exact"]
    assert "There: 10 (4 … 25) J in 500 ms" in text
    assert "joules and watts may be off by a factor of 2.5, all alike (95 %)" in text
    assert "whether the cap on power is kept does" in text


def test_json_has_the_choice_its_saving_and_every_point(points, tmp_path):
    done = advised(tmp_path, points, "--json", "--task", "jacobi", "--settings", "1.6GHz..3.3GHz:5")

    (one,) = json.loads(done.stdout)
    assert one["chosen"] == {"setting": 1.6e9, "workers": 4}
    assert one["quality"] == "estimated"
    assert one["energy_saving"]["low"] < one["energy_saving"]["mean"] < one["energy_saving"]["high"]
    assert [point["setting"] for point in one["points"]] == [1.6e9, 2.025e9, 2.45e9, 2.875e9, 3.3e9]
    assert [point["measured"] for point in one["points"]] == [True, False, False, False, True]


def test_a_point_that_was_not_run_is_called_predicted(tmp_path):
    rows = (("", 1e9, 1, 40, 4), ("", 2e9, 1, 36, 2), ("", 3e9, 1, 60, 1.4))
    (tmp_path / "points.csv").write_text(table(*rows, setting_unit="Hz"), "utf-8")
    done = advised(tmp_path, "points.csv", "--settings", "1.5GHz")

    assert "predicted from the fit to 3 points, given)" in " ".join(done.stdout.split())
    assert "Energies are taken as given" in done.stdout
    assert "(measured" not in done.stdout


def test_of_many_tasks_those_of_most_energy_are_advised_on_and_the_others_counted(tmp_path):
    rows = [(f"task{n}", hz, 1, energy * (40 - n), 1) for n in range(40) for hz, energy in ((1e9, 1), (2e9, 2))]
    (tmp_path / "points.csv").write_text(table(*rows, setting_unit="Hz"), "utf-8")

    some = advised(tmp_path, "points.csv", "--json", "--settings", "1GHz")
    every = advised(tmp_path, "points.csv", "--json", "--settings", "1GHz", "--all")

    assert {one["task"] for one in json.loads(some.stdout)} == {f"task{n}" for n in range(30)}
    assert "10 tasks with the least energy are left out, 6.7 % of that of all tasks; --all advises" in some.stderr
    assert len(json.loads(every.stdout)) == 40
    assert every.stderr == ""


def test_conditions_are_kept(points, tmp_path):
    done = advised(tmp_path, points, "--json", "--task", "", "--max-slowdown", "5%", "--max-power", "60W")

    (one,) = json.loads(done.stdout)
    chosen = next(point for point in one["points"] if point["setting"] == one["chosen"]["setting"])
    assert chosen["time_s"] <= 1.05 * min(point["time_s"] for point in one["points"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by", "speed"], "--by must be energy, edp, ed2p, got 'speed'"),
        (["--max-slowdown", "5"], "--max-slowdown must be a percentage such as 5% or a part such as 0.05, got '5'"),
        (["--max-power", "80A"], "--max-power must be watts such as 80 or 80W, got '80A'"),
        (["--settings", "1600"], "1600 lacks its unit; write GHz, MHz, kHz or Hz after it"),
        (["--settings", "3GHz..2GHz:4"], "write LOW..HIGH:N, the lower end first"),
        (["--settings", "100W"], "--settings must be such as 1.6GHz,2.4GHz"),
        (["--sure", "0%"], "--sure must be above 0 % and at most 100 %, got 0 %"),
        (["--algorithm", "addition"], "--algorithm and --size go together"),
        (["--algorithm", "addition", "--size", "1e6"], "needs runs at frequencies and with several numbers of workers"),
        (["--workers", "two"], "--workers must be whole numbers from 1 up"),
        (["--workers", "\N{SUPERSCRIPT TWO}"], "--workers must be whole numbers from 1 up"),
        (["--workers", "9" * 5000], "--workers must be whole numbers from 1 up"),
        (["--settings", "9" * 400 + "GHz"], "--settings must be such as 1.6GHz,2.4GHz"),
        (["--settings", "1GHz..2GHz:" + "9" * 5000], "N from 2 to 200"),
        (["--max-power", "1e999"], "--max-power must be watts such as 80 or 80W, got '1e999'"),
        (["--max-slowdown", "9" * 400 + "%"], "--max-slowdown must be a percentage such as 5%"),
        (["--task", "gone"], "the table has no task 'gone'"),
        (["--settings", "1GHz..4GHz:150", "--workers", "1,2"], "operating points; name fewer"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(points, tmp_path, words, said):
    done = advised(tmp_path, points, *words)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_table_that_is_not_there_is_an_error(tmp_path):
    done = advised(tmp_path, "nowhere.csv")

    assert done.returncode == 1
    assert done.stderr.startswith("tprof: cannot read nowhere.csv: No such file")
