"""The help of every command names values in words and fits a terminal, and shells can complete the commands."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.command_line import tprof as run_tprof

from tprof.cli.app import PANELS, make_app

SCRIPTS = Path(sysconfig.get_path("scripts"))
DEADLINE_S = 60
WIDTH = 80
APP = make_app()
COMMANDS = [[], *([name] for name in sorted(APP.commands))]


def parameters(words):
    command = APP.commands[words[0]] if words else APP
    return command.get_params(command.make_context("tprof", [], resilient_parsing=True))


def help_of(words, folder):
    return run_tprof(*words, "--help", cwd=folder, env={"COLUMNS": str(WIDTH)})


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0] if words else "tprof")
class TestHelp:
    def test_names_values_in_words_and_not_as_python_types(self, words, tmp_path):
        said = help_of(words, tmp_path).stdout

        assert "--help" in said
        assert not any(mark in said for mark in ("<bool>", "<list[", "<str>", "<int>", "<float>", "<path>", "BOOLEAN"))

    def test_fits_eighty_columns(self, words, tmp_path):
        done = help_of(words, tmp_path)

        assert (done.returncode, done.stderr) == (0, "")
        assert max(map(len, done.stdout.splitlines())) <= WIDTH

    def test_is_also_asked_for_by_one_letter(self, words, tmp_path):
        assert (
            run_tprof(*words, "-h", cwd=tmp_path, env={"COLUMNS": str(WIDTH)}).stdout == help_of(words, tmp_path).stdout
        )

    def test_explains_every_parameter(self, words, tmp_path):
        del tmp_path

        assert [param.name for param in parameters(words) if not (param.help or "").strip()] == []

    def test_flags_take_nothing_and_options_a_word(self, words, tmp_path):
        del tmp_path
        for param in parameters(words):
            if param.param_type_name == "option":
                assert (param.metavar == "") == param.is_flag, param.name


USAGES = {
    "run": "[(SCRIPT | -m MODULE | -c TEXT | -) [ARGS]...]",
    "bench": "[NAME]...",
    "roofline": "[SESSION]",
    "summary": "SESSION",
    "export": "SESSION FORMAT",
}


@pytest.mark.parametrize("name", USAGES)
def test_the_usage_line_shows_arguments_as_they_are_typed(name, tmp_path):
    shown = " ".join(help_of([name], tmp_path).stdout.split())

    assert f"tprof {name} [OPTIONS] {USAGES[name]} " in shown


@pytest.mark.parametrize("program", ["tprof", "tprof-energy"])
def test_a_shell_completes_with_the_script_that_is_shown(program, tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash to complete in")
    env = os.environ | {"PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
    shown = subprocess.run(
        [program, "--show-completion", "bash"],
        env=env | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}, cwd=tmp_path,
        capture_output=True, text=True, check=True, timeout=DEADLINE_S,
    ).stdout  # fmt: skip

    function = f"_{program.replace('-', '_')}_completion"
    asked = f'COMP_WORDS=({program} summary --mo) COMP_CWORD=2; {function} {program}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        [bash, "--norc", "-c", f"{shown}\n{asked}"], env=env, cwd=tmp_path,
        capture_output=True, text=True, check=True, timeout=DEADLINE_S,
    )  # fmt: skip

    assert done.stdout.split() == ["--model"]


def test_completion_is_offered_and_installed_by_options():
    assert {"install_completion", "show_completion"} <= {param.name for param in parameters([])}


def test_the_list_of_commands_has_the_sentence_with_which_the_help_of_each_begins():
    listed = {name: text for commands in PANELS.values() for name, text in commands.items()}

    begins = {name: " ".join(command.help.split()).startswith(listed[name]) for name, command in APP.commands.items()}

    assert begins == dict.fromkeys(listed, True)


IMPORTS = "import sys; from tprof.cli.app import COMMANDS, make_app; app = make_app()\n"
LOADED = "print([name for name in COMMANDS if f'tprof.cli.{name}' in sys.modules])"


@pytest.mark.parametrize(
    ("words", "loaded"), [(["--help"], []), (["merge", "--help"], ["merge"]), (["sumary"], [])], ids=" ".join
)
def test_a_command_is_imported_only_when_it_is_named(words, loaded):
    code = f"{IMPORTS}try: app({words})\nexcept SystemExit: {LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=DEADLINE_S)

    assert done.stdout.splitlines()[-1] == str(loaded)


HEAVY = ("numpy", "pandas", "sklearn", "plotly", "scipy", "importlib.metadata")


def test_no_command_loads_what_is_heavy_for_its_help_and_the_list_not_even_rich():
    code = f"{IMPORTS}print([name for name in ('rich', 'pydantic', *{HEAVY}) if name in sys.modules])\n"
    code += f"list(app.commands.values()); print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=DEADLINE_S)

    assert done.stdout.splitlines() == ["[]", "[]"]


def test_python_m_is_the_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tprof", "--version"], cwd=tmp_path,
        capture_output=True, text=True, check=True, timeout=DEADLINE_S,
    )  # fmt: skip

    assert done.stdout == run_tprof("--version", cwd=tmp_path).stdout
    assert done.stdout.startswith("tprof-energy ")
