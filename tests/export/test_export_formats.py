"""Every format of export: what other tools' own readers find in it is what the profile says."""

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import command_line, task_graphs, traces
from tprof.analysis.export.columns import COMMON, TABLES, column_of
from tprof.analysis.export.formats import FORMATS
from tprof.analysis.export.table_files import ParquetFile

import tprof
from tprof.trace import EventKind, Kind
from tprof.trace.merge import merge

MS = 1_000_000
DOCS = Path(__file__).resolve().parent.parent.parent / "docs" / "export.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A session with nested, failed and dependent instances, and a job of two hosts."""
    place = tmp_path_factory.mktemp("formats")
    main = {
        "t_ns": [0, 10 * MS, 20 * MS, 30 * MS], "instance": [1, 2, 1, 0], "task": [0, 1, 0, -1],
        "kind": [Kind.START, Kind.START, Kind.FINISH, Kind.FINISH], "flags": [0, 0, 1, 0], "pid": 7, "tid": 7,
        "cpu_ns": [0, 5 * MS, 15 * MS, 20 * MS],
        "events": {
            "t_ns": [0, 0, 0], "kind": [EventKind.SPAWN, EventKind.SPAWN, EventKind.DEPENDENCE],
            "instance": [1, 3, 3], "other": [0, 0, 1],
        },
    }  # fmt: skip
    other = {"t_ns": [40 * MS, 60 * MS], "instance": [3, 0], "task": [1, -1], "pid": 7, "tid": 8}
    energy = {"package-0": ([0, 60 * MS], [0.0, 6.0])}
    tprof.write_trace(
        place / "t.tprof", tasks=["outer", 'odd "name"\n'], threads=[main, other], energy=energy, quality="simulated"
    )
    parts = [traces.write(place / f"{name}.tprof", host={"hostname": name}) for name in ("node1", "node2")]
    merge(parts, place / "job.tprof")
    return place


@pytest.fixture(scope="module")
def profile(folder):
    return tprof.load(folder / "t.tprof").profile()


def exported(folder, name, form):
    done = command_line.tprof("export", f"{name}.tprof", form, "-o", f"{name}.{form}", cwd=folder)
    assert (done.returncode, done.stdout) == (0, f"{name}.{form}\n"), done.stderr
    return folder / f"{name}.{form}"


@pytest.mark.parametrize("name", ["t", "job"])
@pytest.mark.parametrize("form", [one for one in FORMATS if one.name != "perfetto"], ids=lambda one: one.name)
def test_every_format_writes_what_it_says_of_a_session_and_of_a_job(folder, form, name):
    if form.needs:
        pytest.importorskip(form.needs)

    path = exported(folder, name, form.name)

    assert path.is_dir() == form.is_folder


def test_spans_nest_fail_link_and_have_joules_by_opentelemetrys_own_classes(folder, profile):
    pytest.importorskip("opentelemetry.proto")
    from google.protobuf.json_format import Parse  # noqa: PLC0415
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData  # noqa: PLC0415

    lines = exported(folder, "t", "otlp").read_text().splitlines()

    batches = [Parse(line, TracesData()) for line in lines]
    spans = [span for batch in batches for part in batch.resource_spans[0].scope_spans for span in part.spans]
    by_instance = dict(zip(["recording", *profile.tasks["instance"]], spans, strict=True))
    values = {one: {a.key: a.value.double_value for a in span.attributes} for one, span in by_instance.items()}
    assert sum(one.get("tprof.energy_j", 0) for one in values.values()) == pytest.approx(6.0)
    assert by_instance[2].parent_span_id == by_instance[1].span_id
    assert by_instance[1].parent_span_id == by_instance["recording"].span_id
    assert [one.status.code for one in (by_instance[1], by_instance[2])] == [0, 2]
    assert by_instance[3].links[0].span_id == by_instance[1].span_id
    assert by_instance[1].end_time_unix_nano - by_instance[1].start_time_unix_nano == 30 * MS


def documented():
    """Return the columns that the page lists: by table and name, type, unit and meaning."""
    found, table = {}, None
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        heading = re.fullmatch(r"#### `(\w+)`", line)
        table = heading.group(1) if heading else "" if line.startswith("#### Every") else table
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if line.startswith("| `") and table is not None and len(cells) == 4:
            found[table, cells[0]] = tuple(cells[1:])
    return found


def test_the_page_lists_every_column_with_its_type_unit_and_meaning():
    listed = documented()

    expected = {("", name): column for name, column in COMMON.items()}
    expected |= {(table, name): column for table, columns in TABLES.items() for name, column in columns.items()}
    assert listed == {key: tuple(column) for key, column in expected.items()}


def test_a_piece_of_a_table_is_a_group_of_rows_however_long(tmp_path):
    """Readers take what ended in one window alone; figures need no dictionary of those that repeat."""
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = 1_100_000
    frame = pd.DataFrame(
        {"task": pd.Categorical.from_codes(np.zeros(rows, np.int8), ["f"]), "energy_j": np.zeros(rows)}
    )
    file = ParquetFile(tmp_path / "tasks")
    for part in (frame, frame.iloc[:0], frame.iloc[:3]):
        file.add(part)
    file.close()

    found = parquet.ParquetFile(tmp_path / "tasks.parquet").metadata

    assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == [rows, 0, 3]
    assert [found.row_group(0).column(number).has_dictionary_page for number in (0, 1)] == [True, False]


def test_the_schemas_of_parquet_carry_unit_and_meaning(folder):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet  # noqa: PLC0415

    nested = task_graphs.Nested([("run", MS), ("spawn", [("run", 5 * MS)], []), ("wait",)], itertools.repeat(1000))
    task_graphs.write(folder / "graph.tprof", nested.lanes)
    schemas = {}
    for name in ("t", "job", "graph"):
        for path in exported(folder, name, "parquet").glob("*.parquet"):
            schemas[name, path.name] = parquet.read_table(path).schema

    assert len(schemas) > 10
    for (_, file), schema in schemas.items():
        table = file.partition(".")[0]
        for field in schema:
            column = column_of(table, field.name)
            told = {key: value.decode() for key, value in field.metadata.items() if key in {b"unit", b"description"}}
            assert told == {b"unit": column.unit, b"description": column.meaning}
            assert column.kind != "real" or field.type == pa.float64()
            is_dynamic = field.name.startswith("label_") or (table == "power" and field.name.endswith("_w"))
            assert is_dynamic or field.name in TABLES[table] or field.name in COMMON, f"{table}.{field.name}"


def test_frames_of_polars_hold_the_same_figures(profile):
    pytest.importorskip("polars")

    frames = profile.to_polars()

    assert frames["tasks"]["energy_j"].sum() == pytest.approx(6.0)
    assert frames["tasks"]["instance"].to_list() == profile.tasks["instance"].tolist()


def test_a_library_that_is_missing_is_named_with_the_command_that_installs_it(folder, monkeypatch):
    monkeypatch.setattr("tprof.analysis.export.formats.find_spec", lambda _: None)

    done = command_line.tprof("export", "t.tprof", "perfetto", cwd=folder)

    assert done.returncode == 2
    assert done.stderr == "tprof: the format perfetto needs perfetto: run pip install 'tprof-energy[perfetto]'\n"
