"""A line of a session's tasks that names no task is left out and counted."""

import pytest

from tprof.trace.layout import NO_TASK
from tprof.trace.tasks import TaskTable


@pytest.mark.parametrize(
    "line",
    [
        b'{"task": "1", "name": "a"}',
        b'{"task": true, "name": "a"}',
        b'{"task": -1, "name": "a"}',
        b'{"task": %d, "name": "a"}' % NO_TASK,
        b'{"task": 1, "name": 7}',
        b'{"task": 1}',
        b"[]",
        b"{",
    ],
)
def test_a_line_that_names_no_task_is_left_out_and_counted(tmp_path, line):
    (tmp_path / "1.jsonl").write_bytes(line + b'\n{"task": 2, "name": "b"}\n')
    table = TaskTable()

    table.read(tmp_path / "1.jsonl", 0)

    assert [entry.name for entry in table.entries] == ["b"]
    assert table.numbers(0) == {2: 0}
    assert table.notes == ["1.jsonl: 1 line of the task table is damaged, and left out"]
