"""Recordings in which no task ran, without a sensor, or without anything have all their tables, alone and in jobs."""

import warnings

import pytest
from support import traces

import tprof
from tprof.trace.merge import merge

SENSOR = traces.ENERGY
IDLE = {"t_ns": [0], "instance": [0], "task": [-1]}
RAN = {"t_ns": [0, traces.SECOND_NS], "instance": [1, 0], "task": [0, -1]}
CASES = {
    "nothing": {"tasks": [], "threads": [], "energy": {}},
    "no-thread": {"tasks": [], "threads": [], "energy": SENSOR},
    "no-task": {"tasks": [], "threads": [IDLE], "energy": SENSOR},
    "none-ran": {"tasks": ["a"], "threads": [IDLE], "energy": SENSOR},
    "no-energy": {"tasks": ["a"], "threads": [RAN], "energy": {}},
}
JOBS = [*([name] for name in CASES), list(CASES), ["none-ran", "no-energy"]]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    place = tmp_path_factory.mktemp("empty")
    return {name: traces.write(place / name, host={"hostname": name}, **case) for name, case in CASES.items()}


def show_all(profile, folder):
    """Make every table and every page; a warning of a library is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tables = [profile.summary(), profile.accounts, profile.tasks, profile.power]
        profile.to_html(folder / "page.html", plotly="folder")
        profile.to_csv(folder / "csv")
    return tables


@pytest.mark.parametrize("name", CASES)
def test_a_recording_without_much_has_all_its_tables(sessions, tmp_path, name):
    summary, *_ = show_all(tprof.load(sessions[name]).profile(), tmp_path)

    assert summary.index.tolist() == (["a"] if name == "no-energy" else [])


@pytest.mark.parametrize("names", JOBS, ids="+".join)
def test_a_job_of_such_recordings_has_all_its_tables(sessions, tmp_path, names):
    merge([sessions[name] for name in names], tmp_path / "job.tprof")

    profile = tprof.load(tmp_path / "job.tprof").profile()
    summary, accounts, tasks, _, *_ = show_all(profile, tmp_path)

    assert summary.index.tolist() == tasks["task"].tolist() == (["a"] if "no-energy" in names else [])
    assert accounts["measured_j"].sum() == 25 * len(set(names) & {"no-thread", "no-task", "none-ran"})
    assert profile.by("host")["instances"].sum() == len(summary)
