"""`tprof calibrate --from` reads tables, says what they are worth, and keeps a model that recordings then use."""

import json

import numpy as np
import pytest
from support.command_line import tprof as run_tprof
from tprof.analysis.models.linear import stored_model

import tprof
from benchmarks.simulator import STRESS, Law, Package
from benchmarks.validation.kernel_pairs import Phases
from tprof.doctor.sensor_facts import model_facts
from tprof.sensors.topology import describe_host
from tprof.trace.power_model import model_path, read_model, write_model

KERNELS = {"pipeline": (2.8, 0.5, 0.1), "chain": (0.7, 0.1, 0.0), "l2": (1.2, 60.0, 1.0), "llc": (0.8, 25.0, 22.0),
           "memory": (0.4, 9.0, 9.0)}  # fmt: skip


def run(home, *arguments):
    return run_tprof("calibrate", *arguments, cwd=home, env={"XDG_CONFIG_HOME": str(home), "HOME": str(home)})


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    """Grow as few trees as tell a line from a curve: how good they are is the claim of other tests."""
    monkeypatch.setattr("tprof.analysis.models.calibration.counter_models.TREES", 20)


@pytest.fixture
def table(tmp_path):
    lines = ["kernel,busy,ipc,l2,llc,watts"]
    for name, (ipc, l2, llc) in KERNELS.items():
        for n in (1, 2, 4):
            watts = n * (1.1 * ipc + 0.08 * l2 + 0.19 * llc + 8.0) + 5.2
            lines.append(f"{name},{n},{n * ipc},{n * l2},{n * llc},{watts}")
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


EQUATION_1 = ("--power", "watts", "--group", "kernel", "--cores", "busy", "--ipc", "ipc", "--l2", "l2", "--llc", "llc")


def test_equation_1_of_a_table_is_printed_with_its_worth(tmp_path, table):
    done = run(tmp_path, "--from", table, *EQUATION_1, "--json")

    model = json.loads(done.stdout)
    assert model["coefficients"] == pytest.approx({"a": 1.1, "b": 0.08, "c": 0.19, "C1": 8.0, "C2": 5.2}, rel=1e-4)
    assert model["left_out_error"] < 0.001 < model["mean_error"]
    assert set(model["intervals"]) == {"a", "b", "c", "C1", "C2"}
    assert not (tmp_path / "tprof").exists()


@pytest.mark.parametrize(("words", "processor"), [((), None), (("--processor", "EPYC 7543"), "EPYC 7543")])
def test_a_tables_model_is_of_the_processor_that_the_user_names_or_of_none(tmp_path, table, words, processor):
    done = run(tmp_path, "--from", table, *EQUATION_1, *words, "--json", "-o", "found.json")

    assert json.loads(done.stdout)["processor"] == processor
    assert json.loads((tmp_path / "found.json").read_text())["processor"] == processor


def test_a_model_without_a_processor_is_not_used_for_this_one(tmp_path, table):
    run(tmp_path, "--from", table, *EQUATION_1, "-o", "found.json")

    model, note = read_model(describe_host()["processor"], tmp_path / "found.json")

    assert model is None
    assert "was not used: it does not say which processor it was measured on" in note


def test_a_table_of_another_processor_is_not_kept_for_this_machine(tmp_path, table):
    done = run(tmp_path, "--from", table, *EQUATION_1, "--keep", "--processor", "another")

    assert done.returncode == 2
    assert "and --processor says another: leave one of them out" in done.stderr
    assert not (tmp_path / "tprof").exists()


def test_a_model_that_is_kept_is_read_by_the_next_recording(tmp_path, table, monkeypatch):
    done = run(tmp_path, "--from", table, *EQUATION_1, "--keep")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    with tprof.record(tmp_path / "t.tprof", energy="none"):
        pass

    assert done.returncode == 0, done.stderr
    assert "kept in" in done.stdout
    said = tprof.load(tmp_path / "t.tprof").manifest["power_model"]
    assert said["coefficients"]["C1"] == pytest.approx(8.0, rel=1e-4)


def test_a_model_kept_from_a_table_is_called_so_by_doctor_and_by_profiles(tmp_path, table):
    run(tmp_path, "--from", table, *EQUATION_1, "--keep", "-o", "found.json")

    (fact,) = model_facts(tmp_path / "found.json")
    stored, _ = stored_model(json.loads((tmp_path / "found.json").read_text()))
    assert "from runs.csv, given" in fact.why
    assert stored.why.startswith("fitted to runs.csv, kept for ")
    assert "calibrated on" not in stored.why


def test_a_simulated_sessions_model_is_shown_and_not_kept(tmp_path):
    phases = Phases(STRESS[:4], busy=(1, 2, 4), phase_s=0.1)
    phases.record(tmp_path / "virtual.tprof", Package(Law()), seed=1)

    done = run(tmp_path, "--from", "virtual.tprof")

    assert done.returncode == 0, done.stderr
    assert "(simulated)" in done.stdout
    assert "nothing was kept" in done.stdout
    assert "idle package: " in done.stdout
    assert not (tmp_path / "tprof").exists()


def test_a_session_without_idle_time_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.validation.kernel_pairs.IDLE_S", 0.0)
    phases = Phases(STRESS[:4], busy=(1, 2, 4), phase_s=0.1)
    phases.record(tmp_path / "virtual.tprof", Package(Law()), seed=1)

    done = run(tmp_path, "--from", "virtual.tprof", "--json")

    model = json.loads(done.stdout)
    assert model["idle_w"] is None
    assert any("what the idle package draws was not seen" in text for text in model["warnings"])


def test_a_damaged_model_is_named_in_the_profile_of_the_next_recording(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    model_path().parent.mkdir()
    model_path().write_text("{", encoding="utf-8")

    with tprof.record(tmp_path / "t.tprof", energy="none") as recording:
        pass

    assert any("was not used: it is no JSON" in text for text in recording.profile().info["warnings"])


def test_any_counters_are_fitted_and_written_where_asked(tmp_path):
    random = np.random.default_rng(0)
    rows = [(f"p{i % 4}", *random.random(2)) for i in range(120)]
    text = "group,x,y,watts\n" + "".join(f"{g},{x},{y},{20 + 30 * x + 5 * y}\n" for g, x, y in rows)
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")

    done = run(tmp_path, "--from", "t.csv", "--power", "watts", "--group", "group", "-o", "found.json")

    assert done.returncode == 0, done.stderr
    assert "a straight line" in done.stdout
    assert "predict the mean" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["coefficients"] == pytest.approx({"x": 30, "y": 5, "constant": 20}, rel=1e-3)


@pytest.mark.parametrize("cell", ["", "text", "1e308", "inf"])
def test_a_cell_that_is_no_number_is_named_even_where_columns_are_found_alone(tmp_path, cell):
    rows = [f"{50 + i},{cell if i == 5 else i},g{i % 3}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["P,x,g", *rows]) + "\n", encoding="utf-8")

    done = run(tmp_path, "--from", "t.csv", "--power", "P", "--group", "g")

    assert done.returncode == 2
    assert 'column "x" must hold numbers' in done.stderr
    assert "in line 7" in done.stderr


def test_a_single_counter_is_enough(tmp_path):
    rows = [f"{50 + i},{i},g{i % 3}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["P,x,g", *rows]) + "\n", encoding="utf-8")

    done = run(tmp_path, "--from", "t.csv", "--power", "P", "--json")

    assert json.loads(done.stdout)["coefficients"] == pytest.approx({"x": 1, "constant": 50}, rel=1e-3)


def straight(path, *, groups="abcd", rows=60, head="g,x,y,watts", spread=0.02, seed=0):
    """Write a table whose power is straight in its counters, with an error of each group and of each row."""
    random = np.random.default_rng(seed)
    shifts = dict(zip(groups, spread * random.standard_normal(len(groups)), strict=True))
    lines = [head]
    for place in range(rows):
        group, (x, y) = groups[place % len(groups)], random.random(2)
        watts = (20 + 30 * x + 5 * y) * np.exp(shifts[group] + spread / 2 * random.standard_normal())
        cells = {"g": group, "x": x, "y": y, "watts": watts}
        lines.append(",".join(str(cells[name]) for name in head.split(",")))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


TABLE = ("--from", "t.csv", "--power", "watts", "--group", "g")


def test_the_better_of_line_and_curve_on_groups_left_out_is_named_and_predicts_another_table(tmp_path):
    straight(tmp_path / "t.csv")
    straight(tmp_path / "other.csv", groups="efghij", seed=1)

    told = run(tmp_path, *TABLE, "--predict", "other.csv")
    found = json.loads(run(tmp_path, *TABLE, "--predict", "other.csv", "--json").stdout)

    assert found["chosen"] == "line"
    assert found["line_error"] < found["curve_error"]
    assert found["predicted"]["error"] < 0.05
    assert found["predicted"]["covered"] >= 0.9
    assert {row["group"] for row in found["predicted"]["rows"]} == set("efghij")
    assert "the line predicts: " in told.stdout
    assert "Watts predicted by the line for other.csv" in told.stdout
    assert "95 % intervals hold" in told.stdout


def test_watts_are_predicted_without_errors_for_a_table_that_has_none(tmp_path):
    straight(tmp_path / "t.csv")
    straight(tmp_path / "other.csv", head="x,y", rows=5)

    told = run(tmp_path, *TABLE, "--predict", "other.csv")
    found = json.loads(run(tmp_path, *TABLE, "--predict", "other.csv", "--json").stdout)["predicted"]

    assert (found["error"], found["covered"]) == (None, None)
    assert all(row["low_w"] < row["power_w"] < row["high_w"] for row in found["rows"])
    assert "5 rows, of which no watts are known: errors cannot be given" in told.stdout


def test_rows_beyond_the_fitted_counters_are_counted(tmp_path):
    straight(tmp_path / "t.csv")
    (tmp_path / "other.csv").write_text("x,y\n0.5,0.5\n3,0.5\n", encoding="utf-8")

    told = run(tmp_path, *TABLE, "--predict", "other.csv")

    assert "1 of 2 rows have a counter outside of the range that was fitted" in told.stdout


def test_equation_1_of_a_table_predicts_another_one(tmp_path, table):
    lines = table.read_text(encoding="utf-8").splitlines()
    (tmp_path / "other.csv").write_text("\n".join([lines[0], *lines[4:10]]) + "\n", encoding="utf-8")

    told = run(tmp_path, "--from", table, *EQUATION_1, "--predict", "other.csv")
    found = json.loads(run(tmp_path, "--from", table, *EQUATION_1, "--predict", "other.csv", "--json").stdout)

    assert found["coefficients"]["C1"] == pytest.approx(8.0, rel=1e-4)
    assert found["predicted"]["error"] < 1e-4
    assert "Watts predicted by equation 1" in told.stdout


def test_columns_that_the_other_table_lacks_are_named(tmp_path, table):
    straight(tmp_path / "t.csv")
    (tmp_path / "other.csv").write_text("x,watts\n1,50\n", encoding="utf-8")

    counters = run(tmp_path, *TABLE, "--predict", "other.csv")
    equation = run(tmp_path, "--from", table, *EQUATION_1, "--predict", "other.csv")

    assert (counters.returncode, equation.returncode) == (2, 2)
    assert 'other.csv: there is no column "y": the table has x, watts' in counters.stderr
    assert 'other.csv: there is no column "busy": the table has x, watts' in equation.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--predict", "runs.csv"), "--predict applies the model of a table to another table: name the first with"),
        (("--from", "missing.csv", "--power", "watts"), "cannot read a table from missing.csv: No such file"),
        (("--from", "runs.csv"), "which column of runs.csv holds the watts? name it with --power"),
        (("--from", "runs.csv", "--power", "W"), 'there is no column "W": the table has kernel, busy'),
        (
            ("--from", "runs.csv", "--power", "kernel"),
            'column "kernel" must hold numbers below 1e+30, got "pipeline" in line 2',
        ),
        (("--from", "runs.csv", "--power", "watts", "--counters", "l2,l2"), 'column "l2" is named twice'),
        (("--power", "watts"), "columns are those of a table: name it with --from"),
        (("--from", "runs.csv", "--power", "watts", "--ipc", "ipc"), "equation 1 needs the number of active cores"),
        (("--from", "runs.csv", "--power", "watts", "--kernels", "all"), "leave one of --kernels and --from out"),
        (("--kernels", "linpack"), 'kernels must be stress, polybench or all; got "linpack"'),
        (("--from", "runs.csv", "--power", "watts", "--keep"), "only a model of equation 1 can be kept"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, table, arguments, said):
    done = run(tmp_path, *arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert table.exists()


def model(**changes):
    coefficients = {"a": 1.0, "b": 0.1, "c": 0.2, "C1": 5.0, "C2": 4.0}
    said = {"format": 1, "processor": describe_host()["processor"], "coefficients": coefficients, "scales": []}
    return said | changes


def test_a_model_is_kept_whole_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    write_model(model())

    assert read_model(describe_host()["processor"]) == (model(), None)
    assert [one.name for one in model_path().parent.iterdir()] == ["power-model.json"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is no JSON"),
        ("[]", "it is no JSON object"),
        (json.dumps(model(format=2)), "its format is 2"),
        (json.dumps(model(processor="Other")), "it is of another processor (Other)"),
        (json.dumps(model(coefficients={"a": -1})), "its coefficients are not"),
        (json.dumps(model(scales=[[2e9, 1.0], [1e9, 1.0]])), "its scales are not"),
        (json.dumps(model(residual_share="x")), "its residual_share"),
    ],
)
def test_a_model_that_cannot_be_believed_is_not_used_and_said(tmp_path, text, why):
    path = tmp_path / "model.json"
    path.write_text(text, encoding="utf-8")

    found, note = read_model(describe_host()["processor"], path)

    assert found is None
    assert why in note
    assert "tprof calibrate" in note
