"""A recorded cell does what it does without its first line, and shows its joules below."""

import json

import pytest
from pages.notebook import NOTEBOOK, notebook, sources
from support import notebooks
from support.notebooks import failure, printed, shown, value

CELLS = {
    "load": "%load_ext tprof",
    "define": """
class Tile:
    @staticmethod
    def make(): return list(range(1000))
    def blur(self): return sum(self.make())
def spin(n): return sum(range(n))
from json import dumps
""",
    "tasks": """%%tprof --energy estimate --task '__main__:*' --task 'json:dumps'
def inner(n):
    return spin(n)
print("printed")
inner(10), Tile().blur(), dumps(1)
""",
    "left open": """import os
paths = [os.path.realpath(f'/proc/self/fd/{number}') for number in os.listdir('/proc/self/fd')]
[path for path in paths if path.endswith('.jsonl')]""",
    "names": "sorted(_tprof.summary().index)",
    "restored": "[type(one).__name__ for one in (spin, inner, Tile.blur, Tile.make, dumps)]",
    "await": """%%tprof --energy estimate
import asyncio
async def wait(i):
    await asyncio.sleep(0); return i
await asyncio.gather(wait(1), wait(2))
""",
    "fails": "%%tprof --energy estimate\nprint('before')\n1 / 0",
    "timed": "%%tprof -q --energy estimate\n%%time\n3 + 4",
    "quiet": "x = %tprof -q --energy estimate spin(10)\nx, len(_tprof.tasks)",
    "local": "def local(n):\n    %tprof -q --energy estimate m = spin(n)\n    return n\nlocal(5)",
    "typo": "%%tprof --enegry estimate\nprint('not reached')",
    "no function": "%%tprof --energy estimate --task '__main__:spinn'\nspin(1)",
    "kept": "%%tprof --energy estimate -o kept.tprof\nspin(1)",
    "taken": "%%tprof --energy estimate -o kept.tprof\nprint('not reached')",
    "nested": "%%tprof -q --energy estimate\nget_ipython().run_cell('y = 1')\nimport tprof\ntprof.record().__enter__()",
    "open": "running = tprof.record(energy='estimate'); running.__enter__()",
    "second": "%%tprof\nprint('not reached')",
    "close": "running.__exit__(None, None, None)\nrunning.path.exists()",
    "line await": "%tprof await asyncio.sleep(0)",
    "unloaded": "%unload_ext tprof\n%reload_ext tprof\n",
    "again": "%%tprof -q --energy estimate\n5",
    "logging": "import sys\n'logging' in sys.modules",
}


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Execute the cells, and those of the example after them, in one kernel: each takes a second to start."""
    folder = tmp_path_factory.mktemp("notebook")
    example = ["%env TPROF_ENERGY=estimate", *sources()]
    return notebooks.execute([*CELLS.values(), *example], folder)


@pytest.fixture(scope="module")
def outputs(executed):
    return dict(zip(CELLS, executed, strict=False))


def test_output_and_value_are_the_cells(outputs):
    assert printed(outputs["tasks"], "stdout") == "printed\n"
    assert printed(outputs["tasks"], "stderr") == ""
    assert value(outputs["tasks"]) == "(45, 499500, '1')"


def test_the_joules_are_shown_with_their_label(outputs):
    page = shown(outputs["tasks"])

    assert "<b>recording.tprof</b>" in page
    assert "estimated" in page
    assert "inner" in page


def test_functions_of_the_notebook_of_the_cell_and_of_modules_are_tasks(outputs):
    assert value(outputs["names"]) == "['Tile.blur', 'Tile.make', 'cell', 'dumps', 'inner', 'spin']"


def test_a_recorded_cell_leaves_no_file_of_its_session_open(outputs):
    assert value(outputs["left open"]) == "[]"


def test_functions_are_afterwards_what_they_were(outputs):
    assert value(outputs["restored"]) == str(["function"] * 5)


def test_a_cell_may_await(outputs):
    assert value(outputs["await"]) == "[1, 2]"
    assert shown(outputs["await"])


def test_an_exception_is_the_cells_and_the_joules_are_shown(outputs):
    assert failure(outputs["fails"]) == "ZeroDivisionError"
    assert printed(outputs["fails"], "stdout") == "before\n"
    assert shown(outputs["fails"])


def test_another_magic_may_follow(outputs):
    assert "Wall time" in printed(outputs["timed"], "stdout")
    assert value(outputs["timed"]) == "7"
    assert shown(outputs["timed"]) is None


def test_a_statement_has_its_value_and_sees_local_names(outputs):
    assert value(outputs["quiet"]) == "(45, 1)"
    assert value(outputs["local"]) == "5"


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("typo", "UsageError: %tprof has no option --enegry; did you mean --energy?\n"),
        ("line await", "UsageError: %tprof cannot await: write %%tprof above the statement, in a cell of its own\n"),
    ],
)
def test_a_mistake_is_one_sentence_and_the_cell_does_not_run(outputs, cell, sentence):
    assert printed(outputs[cell], "stderr") == sentence
    assert printed(outputs[cell], "stdout") == ""


def test_a_second_recording_is_one_sentence(outputs):
    assert "UsageError: a recording already runs in this process" in printed(outputs["second"], "stderr")
    assert printed(outputs["second"], "stdout") == ""
    assert failure(outputs["nested"]) == "UsageError"
    assert value(outputs["close"]) == "True"


def test_a_pattern_that_meets_no_function_is_named(outputs):
    assert "--task __main__:spinn met no function; did you mean __main__:spin" in printed(
        outputs["no function"], "stderr"
    )


def test_a_named_session_is_kept_and_not_replaced(outputs):
    assert "<b>kept.tprof</b>" in shown(outputs["kept"])
    assert "kept.tprof exists" in printed(outputs["taken"], "stderr")
    assert printed(outputs["taken"], "stdout") == ""


def test_the_extension_can_be_loaded_again(outputs):
    assert value(outputs["again"]) == "5"


def test_the_example_notebook_is_the_page_and_runs(executed):
    assert NOTEBOOK.read_text("utf-8") == notebook(), "run python -m pages.notebook"
    assert all(cell.get("outputs", []) == [] for cell in json.loads(notebook())["cells"])
    cells = sources()
    found = executed[-len(cells) :]

    assert [failure(one) for one in found] == [None] * len(cells)
    assert value(found[2]) == "8"
    assert shown(found[2])
