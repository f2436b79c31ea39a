"""Tasks summed by host and label: sums, intervals, and what a call of MPI adds."""

import numpy as np
import pandas as pd
import pytest
from tprof.analysis.profile.grouped import GroupSums

from tprof.errors import UsageError

TASKS = pd.DataFrame(
    {
        "task": ["work", "MPI_Wait", "work", "MPI_Wait", "work"],
        "pid": [1, 1, 2, 2, 3],
        "cpu_s": [1.0, 0.5, 2.0, 0.25, 1.0],
        "energy_j": [10.0, 2.0, 20.0, 1.0, 5.0],
        "energy_low_j": [10.0, 2.0, 20.0, 1.0, 5.0],
        "energy_high_j": [10.0, 2.0, 20.0, 1.0, 5.0],
        "label_rank": pd.Categorical(["10", "10", "9", "9", None]),
        "host": pd.Categorical(["b", "b", "a", "a", "a"]),
    }
)
OWN_S = np.array([1.0, 1.0, 2.0, 0.5, 1.0])
SUMMARY = pd.DataFrame(
    {
        "instances": [3, 2],
        "energy_j": [35.0, 3.0],
        "energy_low_j": [17.5, 0.0],
        "energy_high_j": [52.5, 12.0],
    },
    index=["work", "MPI_Wait"],
)


def table_of(tasks, own_s, names):
    return GroupSums.of(tasks, own_s, names).table(SUMMARY)


def test_parts_add_up_to_the_table_of_all_instances():
    """Whichever part has a group, a task or a process, or none at all."""
    whole = table_of(TASKS, OWN_S, ["host", "rank"])
    for cut in range(len(TASKS) + 1):
        first, second = (GroupSums.of(TASKS[at], OWN_S[at], ["host", "rank"]) for at in (slice(cut), slice(cut, None)))

        pd.testing.assert_frame_equal(first.plus(second).table(SUMMARY), whole)


def test_sums_by_a_label_in_the_order_of_its_numbers():
    table = table_of(TASKS, OWN_S, ["rank"])

    assert list(table.index) == ["9", "10", "(none)"]
    assert table["energy_j"].tolist() == [21.0, 12.0, 5.0]
    assert table["instances"].tolist() == [2, 2, 1]
    assert table["processes"].tolist() == [1, 1, 1]
    assert table["power_w"].tolist() == [21 / 2.5, 6.0, 5.0]
    assert table["share"].sum() == pytest.approx(1)


def test_the_part_in_mpi_is_told_apart():
    table = table_of(TASKS, OWN_S, ["rank"])

    assert table["mpi_s"].tolist() == [0.5, 1.0, 0.0]
    assert table["mpi_j"].tolist() == [1.0, 2.0, 0.0]
    assert "mpi_s" not in table_of(TASKS[TASKS["task"] == "work"], OWN_S[[0, 2, 4]], ["rank"])


def test_errors_of_all_tasks_are_of_one_sign():
    table = table_of(TASKS, OWN_S, ["rank"])

    assert table.loc["10", "energy_low_j"] == pytest.approx(10 / 2 + 0)
    assert table.loc["10", "energy_high_j"] == pytest.approx(10 * 1.5 + 2 * 4)


def test_by_host_and_label():
    table = table_of(TASKS, OWN_S, ["host", "rank"])

    assert list(table.index) == [("a", "9"), ("a", "(none)"), ("b", "10")]
    assert table_of(TASKS, OWN_S, ["host"])["processes"].tolist() == [2, 1]


def test_a_label_that_no_process_has_is_refused_with_those_that_there_are():
    with pytest.raises(UsageError, match="no process has the label worker: choose from host, rank"):
        table_of(TASKS, OWN_S, ["worker"])
    with pytest.raises(UsageError, match="sums by process are in recordings of tprof run --keep summary only"):
        table_of(TASKS, OWN_S, ["process"])
    with pytest.raises(UsageError, match=r"tprof\.label"):
        table_of(TASKS.drop(columns=["label_rank", "host"]), OWN_S, ["rank"])
