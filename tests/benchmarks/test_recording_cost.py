"""`overhead.measure` gives every figure of the design with its target; how large they are is not tested."""

import json
import os

import pytest
from tprof.benchmarks import measured_figures
from tprof.benchmarks.measured_figures import Figure

import tprof
from benchmarks.overhead import call_cost as calls
from benchmarks.overhead import recording_cost as overhead
from benchmarks.overhead import sensor_thread_cost as sensor_thread
from benchmarks.overhead import timing
from tprof.errors import TprofError, UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder in which the result is measured."""
    return tmp_path_factory.mktemp("overhead")


@pytest.fixture(scope="module")
def result(folder):
    return overhead.measure(overhead.QUICK, directory=folder)


def test_each_target_of_the_design_has_its_figure(result):
    targets = {figure["name"]: (figure["target"], figure["unit"]) for figure in result["figures"] if figure["target"]}

    assert targets == {
        "a sample, clock and cpu only": (50, "ns"),
        "a sample, clock and cpu only, undisturbed": (50, "ns"),
        "a sample, clock and cpu only, over the limit, undisturbed": (1.5, "×"),
        "a sample with a group of four counters": (500, "ns"),
        "task, nothing recording, over the plain call": (25, "ns"),
        "task, recording clock and cpu, over the plain call": (100, "ns"),
        "task, recording clock and cpu, over the plain call, over the limit, undisturbed": (4, "×"),
        "5,000 tasks, 10,000 samples: a sample end to end": (60, "ns"),
        "import of tprof, over Python's start": (30, "ms"),
        "the sensor thread, this machine's sensors": (0.01, "core"),
        "the sensor thread, a powercap file each millisecond": (0.01, "core"),
        **{
            f"the sensor thread, following {count} native threads{what}, over not following any": (0.01, "core")
            for count in (2, 16, 64)
            for what in ("", " and their counters")
        },
    }


def test_the_paper_size_is_two_and_a_half_million_tasks():
    assert overhead.FULL.tasks == 2_500_000


def test_a_limit_that_cannot_write_is_an_error(tmp_path):
    with pytest.raises(OSError, match="missing"):
        calls.time_limit(tmp_path / "missing", 1, by_ticks=True)


def test_threads_hold_no_descriptors(result):
    (figure,) = (figure for figure in result["figures"] if figure["unit"] == "descriptors")

    assert figure["value"] == 0


def test_rivals_stand_beside_the_figures(result):
    names = " ".join(figure["name"] for figure in result["figures"])

    for rival in ("plain function call", "pure-Python wrapper", "cProfile", "VizTracer"):
        assert rival in names


def test_what_papi_costs_stands_there_or_why_it_does_not_count(result):
    (figure,) = (figure for figure in result["figures"] if "PAPI" in figure["name"])

    assert (figure["value"] is not None) == (calls.papi_problem() is None)
    assert figure["value"] is not None or figure["note"] == calls.papi_problem()


def test_what_pyrapl_costs_stands_there_or_why_it_reads_nothing(result):
    (figure,) = (figure for figure in result["figures"] if "pyRAPL" in figure["name"])

    assert (figure["value"] is None) == (sensor_thread.pyrapl_problem() is not None)


def test_no_sample_is_missing(result):
    missing = next(figure for figure in result["figures"] if "missing" in figure["name"])

    assert missing["value"] == 0
    assert missing["met"] is True


def test_the_result_is_plain_and_names_its_machine(result):
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["machine"]["python"] in measured_figures.heading(result)


def test_every_figure_becomes_a_row_in_the_same_order(result):
    assert [row.name for row in measured_figures.rows(result)] == [figure["name"] for figure in result["figures"]]


@pytest.mark.usefixtures("result")
def test_nothing_stays_behind(folder):
    assert list(folder.iterdir()) == []


def test_a_measurement_inside_a_recording_is_refused(tmp_path):
    with (
        tprof.record(tmp_path / "outer.tprof", energy="none", counters="none"),
        pytest.raises(UsageError, match="a recording already runs in this process"),
    ):
        overhead.measure(overhead.QUICK, directory=tmp_path)


def test_samples_that_a_trace_lacks_are_counted(tmp_path):
    with tprof.record(tmp_path / "short.tprof", energy="none", counters="none"):
        calls.task()

    assert overhead.count_samples(tmp_path / "short.tprof") == 2


def test_all_subjects_meet_in_each_round_and_each_round_begins_with_another():
    order = []
    subjects = [timing.Subject(name, lambda calls, name=name: order.append(name) or float(calls)) for name in "abc"]

    taken = timing.interleave(subjects, calls=1, rounds=3)

    assert order == list("abc" + "abc" + "bca" + "cab")
    assert {len(values) for values in taken.values()} == {3}


def test_differences_are_taken_round_by_round():
    assert timing.differences((5.0, 9.0), (1.0, 3.0), divisor=2) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("x", (1.0, 50.0, 2.0), "ns", 2), True),
        (Figure("x", (1.0, 50.0, 3.0), "ns", 2), False),
        (Figure("x", (1.0,), "ns"), None),
        (Figure("x", (1.0,), "ns", 2, "something else", comparable=False), None),
        (Figure("x", (), "ns", 2, "not installed"), None),
    ],
)
def test_the_median_is_held_to_the_target_where_it_can_be(figure, met):
    assert figure.as_plain()["met"] is met


def test_a_row_says_what_was_not_measured():
    (row,) = measured_figures.rows({"figures": [Figure("VizTracer", (), "ns", None, "not installed").as_plain()]})

    assert (row.value, row.spread, row.target, row.note) == ("not measured", "", "", "not installed")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (2_500_000.0, "2,500,000"), (12.345, "12.3"), (0.00123456, "0.00123"), (1234.5, "1,230")],
)
def test_numbers_have_three_digits_and_no_exponent(value, text):
    assert measured_figures.number(value) == text


def test_the_stand_in_for_powercap_is_read_and_gone_afterwards(tmp_path, monkeypatch):
    monkeypatch.delenv(sensor_thread.ROOT_VARIABLE, raising=False)

    with sensor_thread.powercap_stand_in(tmp_path / "root"), tprof.record(tmp_path / "a.tprof", energy="powercap"):
        pass

    domains = tprof.load(tmp_path / "a.tprof").manifest["domains"]
    assert [(domain["name"], domain["source"]) for domain in domains] == [("package-0", "powercap")]
    assert sensor_thread.ROOT_VARIABLE not in os.environ


def test_without_a_recording_there_is_no_sensor_thread_to_measure():
    with pytest.raises(TprofError, match="measured only while a recording runs"):
        sensor_thread.cpu_time_ns()
