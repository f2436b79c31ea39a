"""Tables as files: every row names its quality, and a spreadsheet runs nothing that a trace says."""

import csv
import json

import pandas as pd
import pytest
from support import traces
from support.full_disk import short_files

import tprof


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.tprof"
    traces.write(path, tasks=("=cmd|' /C calc'!A0", "\x1b[31mred\u202e\ud800"), quality="simulated")
    return tprof.load(path).profile()


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_every_table_with_its_quality(profile, tmp_path):
    profile.to_csv(tmp_path / "tables")

    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert names == {"tasks.csv", "summary.csv", "accounts.csv", "power.csv", "info.json"}
    for name in ("tasks", "summary", "accounts", "power"):
        assert {row["quality"] for row in rows(tmp_path / "tables" / f"{name}.csv")} == {"simulated"}
    measured = [float(row["measured_j"]) for row in rows(tmp_path / "tables" / "accounts.csv")]
    assert sum(measured) == pytest.approx(profile.measured_j)
    assert json.loads((tmp_path / "tables" / "info.json").read_text())["model"] == "cputime"


def test_csv_cells_are_no_formulas_and_steer_no_terminal(profile, tmp_path):
    profile.to_csv(tmp_path)

    names = {row["task"] for row in rows(tmp_path / "tasks.csv")}
    assert "'=cmd|' /C calc'!A0" in names
    assert all(name.isprintable() for name in names)


def test_parquet_holds_what_the_frames_hold(profile, tmp_path):
    pytest.importorskip("pyarrow")

    profile.to_parquet(tmp_path)

    tasks = pd.read_parquet(tmp_path / "tasks.parquet")
    assert tasks["energy_j"].tolist() == profile.tasks["energy_j"].tolist()
    assert tasks["instance"].tolist() == profile.tasks["instance"].tolist()
    assert set(tasks["quality"]) == {"simulated"}


@pytest.mark.parametrize("write", ["to_csv", "to_parquet"])
def test_a_place_that_cannot_be_written_is_named_in_one_sentence(profile, tmp_path, write):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(tprof.TprofError, match=r"cannot write the tables to .*file: .*; name another directory$"):
        getattr(profile, write)(tmp_path / "file")


@pytest.mark.parametrize("write", ["to_csv", "to_parquet"])
def test_a_full_disk_leaves_no_part_of_the_tables(profile, tmp_path, write):
    with short_files(), pytest.raises(tprof.TprofError, match=r"cannot write the tables to .*tables: .*File too large"):
        getattr(profile, write)(tmp_path / "tables")

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_tables_that_were_there(profile, tmp_path):
    profile.to_csv(tmp_path)
    (tmp_path / "notes").write_text("of the user")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    with short_files(100), pytest.raises(tprof.TprofError, match="cannot write the tables"):
        profile.to_csv(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    profile.to_csv(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
