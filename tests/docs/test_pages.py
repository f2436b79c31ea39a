"""Pages show commands that exist and Python that compiles; what is marked runs."""

import shlex
import sys
from pathlib import Path

import pytest
from pages.blocks import ROOT, blocks_of, pages
from pages.commands import wrong_commands
from pages.examples import ExampleError, compiled, run_page

PAGE = """
# A page

<!-- file: add.py -->
```python
print(1 + 1)
```

<!-- run -->
```console
$ python add.py    # prints
1

$ python -c 'print("heading  figures"); print("task  12 J")'
task  11 J
```
"""


@pytest.fixture
def page(tmp_path):
    def write(text):
        (tmp_path / "page.md").write_text(text, "utf-8")
        return tmp_path / "page.md"

    return write


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_every_command_of_a_page_exists_with_its_options(path):
    assert wrong_commands(path) == []


def test_every_block_of_python_compiles_with_names_that_tprof_has():
    blocks = [block for path in pages() for block in blocks_of(path) if block.language == "python"]

    for block in blocks:
        compiled(block)

    assert len(blocks) > 20


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`tprof sumary blur.tprof`", "there is no such command"),
        ("`tprof summary --every x.tprof`", "there is no option --every"),
        ("```console\n$ srun -n 2 tprof run --energi auto x.py\n```", "there is no option --energi"),
        ("```console\n$ cd x && tprof report \\\n    --to y.html\n```", "there is no option --to"),
    ],
)
def test_a_command_that_tprof_would_refuse_is_found(page, text, fault):
    (found,) = wrong_commands(page(text))

    assert found.endswith(fault)


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ tprof run -o x.tprof prog.py --verbose --workers 3\n```",
        "```console\n$ mpirun -n 2 tprof run --mpi -m solver --steps 2 | tee log\n```",
        '```console\n$ for h in a b; do ssh $h "cd $PWD && tprof run --hosts s.py" & done; wait\n```',
        "`tprof run --task`, `tprof summary …`",
    ],
)
def test_options_of_the_profiled_program_are_its_own(page, text):
    assert wrong_commands(page(text)) == []


@pytest.mark.parametrize("code", ["import tprof\ntprof.recrod()", "def f(:"])
def test_python_with_a_wrong_name_or_syntax_is_found(page, code):
    (block,) = blocks_of(page(f"```python\n{code}\n```"))

    with pytest.raises(ExampleError, match=r"page\.md:2"):
        compiled(block)


def test_marked_blocks_run_and_an_update_writes_what_they_print(page, tmp_path):
    path = page(PAGE)

    number = run_page(path, tmp_path / "first")
    run_page(path, tmp_path / "second", update=True)

    assert number == 1
    assert "$ python add.py    # prints\n2\n$ python -c" in path.read_text()
    assert path.read_text().endswith("heading  figures\ntask  12 J\n```\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("task  11 J", "tasks  11 J", "no longer prints tasks"),
        ("print(1 + 1)", "raise SystemExit(3)", "ended with status 3"),
    ],
)
def test_an_example_that_does_other_than_its_page_says_is_found(page, tmp_path, old, new, message):
    with pytest.raises(ExampleError, match=message):
        run_page(page(PAGE.replace(old, new)), tmp_path / "folder")


def test_an_example_may_leave_out_as_many_small_rows_as_it_says(page, tmp_path):
    documented = PAGE.replace("task  11 J\n", "task  11 J\nsmall  1 J\n")
    saying_so = documented.replace("task  12 J", "task  12 J\\n1 other: 1 J; tprof summary --all shows them")

    assert run_page(page(saying_so), tmp_path / "said") == 1
    with pytest.raises(ExampleError, match="no longer prints small"):
        run_page(page(documented), tmp_path / "silent")


def test_the_checks_run_on_the_installed_wheel():
    import tprof  # noqa: PLC0415 - what the checks see

    assert not Path(tprof.__file__).is_relative_to(ROOT / "tprof"), sys.path


def test_the_page_of_names_has_every_public_name():
    import tprof  # noqa: PLC0415 - as users have it

    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    shown = {line.rsplit(".", 1)[-1] for line in page.splitlines() if line.startswith("::: ")}

    assert set(tprof.__all__) <= shown


def test_the_pod_of_the_page_on_kubernetes_is_yaml_with_a_command_that_tprof_takes(page):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with dask and with the site's tools")
    (block,) = [one for one in blocks_of(ROOT / "docs" / "kubernetes.md") if one.language == "yaml"]

    pod = yaml.safe_load(block.code)

    (container,) = pod["spec"]["containers"]
    assert wrong_commands(page(f"`{shlex.join(container['command'])}`")) == []
    assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in pod["spec"]["volumes"]}
