"""Options from pyproject.toml and variables: what wins, what is refused, and that the page lists all."""

import json
import re
import subprocess

import pytest
from pages.options import PAGE, updated
from support import programs, traces
from support.command_line import tprof

from tprof.cli.config import options_of_commands
from tprof.cli.run_start import Launch, options_of_run, read_launch
from tprof.configuration import GENERAL, variable_of

INTERNAL = {
    "TPROF_CONFIG", "TPROF_LOG", "TPROF_WATTS", "TPROF_SYSROOT", "TPROF_DASK", "TPROF_DASK_OPTIONS",
    "TPROF_SESSION", "TPROF_TASKS", "TPROF_RAY", "TPROF_WORKERS", "TPROF_PUBLIC_DATA", "TPROF_LAB",
}  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Give a function that writes the project's file; the working folder is a folder of the project."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    def write(text):
        (tmp_path / "pyproject.toml").write_text(text, "utf-8")
        return tmp_path / "pyproject.toml"

    return write


def launch(*words):
    return read_launch([*words, "a.py"])


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(project, monkeypatch):
    assert launch() == Launch(("a.py",))
    project('[tool.tprof]\nenergy = "perf"\ncounters = "none"\n[tool.tprof.run]\nidle = 1\nno-summary = true\n')
    assert launch() == Launch(("a.py",), energy="perf", counters="none", idle=1.0, no_summary=True)
    monkeypatch.setenv("TPROF_ENERGY", "nvml")
    monkeypatch.setenv("TPROF_RUN_IDLE", "2")
    monkeypatch.setenv("TPROF_RUN_NO_SUMMARY", "off")
    assert launch() == Launch(("a.py",), energy="nvml", counters="none", idle=2.0)
    monkeypatch.setenv("TPROF_RUN_ENERGY", "none")
    assert launch("--idle", "3").energy == "none"
    assert launch("--energy", "auto", "--idle", "3").idle == 3.0


def test_flags_replace_a_list(project):
    project('[tool.tprof.run]\ntask = ["a:*", "b:*"]\n')

    assert launch().task == ("a:*", "b:*")
    assert launch("--task", "c:*", "--task", "d:*").task == ("c:*", "d:*")


def test_every_command_takes_them(project, tmp_path):
    traces.write(tmp_path / "a.tprof")
    project('[tool.tprof]\nmodel = "cputime"\n[tool.tprof.summary]\njson = true\n')

    def model(*words, **env):
        return json.loads(tprof("summary", tmp_path / "a.tprof", *words, cwd=tmp_path, env=env).stdout)["info"][
            "model_why"
        ]

    assert model() == 'model "cputime": you asked for it'
    assert model("--model", "auto") != model()
    assert model(TPROF_SUMMARY_MODEL="auto") == model("--model", "auto")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[tool.tprof.run]\nidel = 1", "[tool.tprof.run] has no key 'idel'; did you mean idle?"),
        ("[tool.tprof]\nenergi = 'x'", "[tool.tprof] has no key 'energi'; did you mean energy?"),
        ("[tool.tprof.run]\nidle = '1'", "tool.tprof.run.idle must be a number, got '1'"),
        ("[tool.tprof.run]\nno-summary = 1", "tool.tprof.run.no-summary must be true or false, got 1"),
        ("[tool.tprof.run]\ntask = [1]", "tool.tprof.run.task must be a list of texts, got [1]"),
        ("[tool.tprof]\nrun = 1", "[tool.tprof] has no key 'run'"),
        ("[tool.tprof", "it is no TOML"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_with_its_place(project, tmp_path, text, sentence):
    file = project(text)

    done = tprof("run", "a.py", cwd=tmp_path / "below")

    assert done.returncode == 2
    assert str(file) in done.stderr
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_table_is_named(project, tmp_path):
    project("[tool.tprof.sumary]\nall = true")

    assert "has no key 'sumary'; did you mean summary?" in tprof("config", cwd=tmp_path / "below").stderr


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("TPROF_RUN_IDLE", "x", "the variable TPROF_RUN_IDLE must be a number, got 'x'"),
        (
            "TPROF_RUN_IDEL",
            "1",
            "the variable TPROF_RUN_IDEL sets no option of tprof run; did you mean TPROF_RUN_IDLE?",
        ),
        ("TPROF_RUN_MPI", "perhaps", "the variable TPROF_RUN_MPI must be true or false, got 'perhaps'"),
        ("TPROF_CONFIG", "/none.toml", "cannot read /none.toml: No such file or directory; TPROF_CONFIG=none"),
    ],
)
def test_a_mistake_in_a_variable_is_one_sentence(tmp_path, name, value, sentence):
    done = tprof("run", "a.py", cwd=tmp_path, env={name: value})

    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    "line", ['output = "a"', 'report = "/etc/x"', "overwrite = true", 'energy = "meter:tcp://a:1"']
)
def test_a_file_of_others_can_neither_write_nor_remove_nor_connect(project, line):
    project(f"[tool.tprof.run]\n{line}\n")

    with pytest.raises(Exception, match=r"cannot be set in a file|takes names of sensors without arguments"):
        launch()


def test_no_file_is_read_above_a_repository_or_from_another_program(project, tmp_path, monkeypatch):
    file = project('[tool.tprof]\nenergy = "perf"\n')
    (tmp_path / "below" / "pyproject.toml").write_text("[project]\nname = 'tprof-user'\n", "utf-8")
    assert launch().energy == "perf"
    (tmp_path / "below" / ".git").mkdir()
    assert launch().energy == "auto"
    monkeypatch.setenv("TPROF_CONFIG", str(file))
    assert launch().energy == "perf"
    monkeypatch.setenv("TPROF_CONFIG", "none")
    assert launch().energy == "auto"


def test_config_shows_what_is_set_and_where(project, tmp_path):
    file = project('[tool.tprof]\nenergy = "perf"\n')

    done = tprof("config", "run", "--json", cwd=tmp_path / "below", env={"TPROF_RUN_IDLE": "1"})

    assert json.loads(done.stdout) == {
        "file": str(file),
        "settings": [
            {"command": "run", "option": "energy", "value": "perf", "source": f"{file}: tool.tprof.energy"},
            {"command": "run", "option": "idle", "value": 1.0, "source": "TPROF_RUN_IDLE"},
        ],
    }  # fmt: skip


def test_the_program_has_the_environment_and_arguments_that_it_has_without_a_file(project, tmp_path, monkeypatch):
    monkeypatch.delenv("TPROF_GROUPS", raising=False)  # for scripts/setup, where these tests run in CI
    program = programs.write(tmp_path, "import os, sys; print([n for n in os.environ if 'TPROF' in n], sys.argv)")
    project('[tool.tprof.run]\nno-summary = true\nenergy = "none"\n')

    done = subprocess.run([programs.TPROF, "run", program, "-x"], capture_output=True, text=True, check=False)

    assert done.stdout == f"['TPROF_SESSION', 'TPROF_TASKS'] {[str(program), '-x']}\n"
    assert done.stderr == ""


def test_every_option_of_run_is_the_same_for_both_readers_of_its_words():
    slow = {one.key: one for one in options_of_commands("run")["run"].values()}

    assert {one.key: one for one in options_of_run()} == {key: slow[key] for key in slow if key != "list-tasks"}


def test_no_variable_of_an_option_is_one_that_tprof_uses_otherwise():
    options = options_of_commands(None)
    of_options = {variable_of(one.key, command) for command in options for one in options[command].values()}
    prefixes = tuple(f"{variable_of('', command)}_" for command in options)

    assert not INTERNAL & (of_options | set(map(variable_of, GENERAL)))
    assert [name for name in INTERNAL if name.startswith(prefixes)] == []


def test_the_page_lists_all_options():
    page = PAGE.read_text("utf-8")

    assert updated(page) == page, "run python -m pages.options"
    assert INTERNAL - {"TPROF_PUBLIC_DATA", "TPROF_LAB"} <= set(re.findall("TPROF_[A-Z_]+", page))
