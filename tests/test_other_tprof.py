"""Another distribution installs a package and a command `tprof` too: whoever meets both reads one clear sentence."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

DEADLINE_S = 120
OTHER = "tprof 1.5.0"
OTHER_FILES = {
    "tprof/__init__.py": "from tprof.api import tprof\n",
    "tprof/__main__.py": "from tprof.main import main\nmain()\n",
    "tprof/api.py": "def tprof():\n    return 'times'\n",
    "tprof/main.py": "def main():\n    print('the other command')\n",
    "tprof/py.typed": "",
    "tprof-1.5.0.dist-info/METADATA": "Metadata-Version: 2.4\nName: tprof\nVersion: 1.5.0\n",
    "tprof-1.5.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tprof-1.5.0.dist-info/entry_points.txt": "[console_scripts]\ntprof = tprof.main:main\n",
}
MENDED_BY = "pip uninstall -y tprof tprof-energy && pip install tprof-energy"


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory):
    """Return a folder with all that is installed here but this package, which would hide that it is damaged."""
    folder = tmp_path_factory.mktemp("dependencies")
    for path in Path(distribution("tprof-energy").locate_file("")).iterdir():
        if not path.name.startswith("tprof"):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Return a wheel of this distribution, packed from what is installed, and one of a small other `tprof`."""
    folder = tmp_path_factory.mktemp("wheels")
    own = distribution("tprof-energy")
    wanted = [path for path in own.files if path.parts[0] != ".." and "__pycache__" not in path.parts]
    written = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
    contents = {str(path): path.locate().read_bytes() for path in wanted if path.name not in written}
    tag = next(line for line in own.read_text("WHEEL").splitlines() if line.startswith("Tag: "))[5:]
    return {
        "ours": pack(folder / f"tprof_energy-{own.version}-{tag}.whl", contents),
        "other": pack(
            folder / "tprof-1.5.0-py3-none-any.whl", {name: text.encode() for name, text in OTHER_FILES.items()}
        ),
    }


def pack(path, contents):
    info = next(name.split("/")[0] for name in contents if ".dist-info/" in name)
    lines = [f"{name},sha256={digest(data)},{len(data)}" for name, data in contents.items()]
    record = "\n".join([*lines, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in {**contents, f"{info}/RECORD": record.encode()}.items():
            wheel.writestr(name, data)
    return path


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def install(wheels):
    """Do what installers do: the later wheel overwrites files of the earlier one."""

    def unpack(*order, site):
        for name in order:
            with zipfile.ZipFile(wheels[name]) as wheel:
                wheel.extractall(site)
        return site

    return unpack


@pytest.fixture(scope="module")
def alone(install, tmp_path_factory):
    return install("ours", site=tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def other_last(install, tmp_path_factory):
    return install("ours", "other", site=tmp_path_factory.mktemp("other_last"))


@pytest.fixture(scope="module")
def python(dependencies):
    """Run code that finds packages in these folders, and what they depend on."""

    def run(code, *folders):
        env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*folders, dependencies])), "COLUMNS": "1000"}
        words = [sys.executable, "-S", "-c", code]
        return subprocess.run(words, env=env, cwd="/", capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    return run


@pytest.fixture(scope="module")
def command(python):
    def run(site, *words):
        return python(f"import sys; sys.argv = ['tprof', *{words!r}]; from tprof.cli import main; main()", site)

    return run


def overwritten(site):
    return (
        f"{OTHER}, another distribution with the import name tprof, replaced files of tprof-energy: "
        f"{site}/tprof/__init__.py, {site}/tprof/__main__.py; keep one of them, for example by {MENDED_BY}"
    )


@pytest.mark.parametrize("words", [("doctor",), ("--version",), ("run", "x.py")], ids=lambda words: words[0])
def test_after_the_other_every_command_of_this_one_names_the_files_and_ends(other_last, command, words):
    done = command(other_last, *words)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tprof: {overwritten(other_last)}\n"


@pytest.mark.parametrize("line", ["from tprof.runtime import Runtime", "from tprof.task import task"])
def test_after_the_other_this_ones_modules_refuse_to_mix(other_last, python, line):
    said = python(line, other_last).stderr.splitlines()

    assert said[-1] == f"ImportError: {overwritten(other_last)}"


def test_after_the_other_the_other_works(other_last, python):
    assert python("from tprof import tprof; print(tprof())", other_last).stdout == "times\n"


def installation(done):
    assert done.returncode == 0, done.stderr
    groups = {group["title"]: group["facts"] for group in json.loads(done.stdout)["groups"]}
    return {fact["what"]: fact for fact in groups["Installation"]}


def test_before_this_one_the_doctor_names_the_files_and_all_else_works(install, python, command, tmp_path):
    site = install("other", "ours", site=tmp_path)

    fact = installation(command(site, "doctor", "--json"))["import name"]

    assert fact["state"] == "limited"
    assert fact["why"] == (
        f"{OTHER}, another distribution with the import name tprof, lost files to tprof-energy, which lie in the same "
        f"folder: {site}/tprof/__init__.py, {site}/tprof/__main__.py. "
        f"Its files in {site}/tprof: __init__.py, __main__.py, api.py, main.py, py.typed"
    )
    assert [remedy["command"] for remedy in fact["remedies"]] == [MENDED_BY]
    assert python("import tprof; print(tprof.task.__module__)", site).stdout == "tprof.task\n"


def test_alone_the_doctor_finds_no_other(alone, command):
    assert list(installation(command(alone, "doctor", "--json"))) == ["tprof-energy"]


def test_in_another_folder_of_the_path_the_doctor_names_the_folder(install, python, tmp_path):
    ours, other = (install(name, site=tmp_path / name) for name in ("ours", "other"))
    code = "from tprof.conflicts import find_conflicts; print(*(one.describe() for one in find_conflicts()))"

    assert python(code, ours, other).stdout.strip() == (
        f"{OTHER}, another distribution with the import name tprof, is installed in {other}/tprof too: "
        "the order of sys.path decides which is imported"
    )


def test_once_the_other_was_uninstalled_with_shared_files_the_rest_says_what_to_do(install, command, tmp_path):
    """An uninstallation takes away what the list of the uninstalled one names, whoever wrote it last."""
    site = install("other", "ours", site=tmp_path)
    for name in OTHER_FILES:
        (site / name).unlink()
    shutil.rmtree(site / "tprof-1.5.0.dist-info")

    done = command(site, "doctor")

    assert done.returncode == 1
    assert done.stderr == (
        "tprof: the __init__.py of tprof-energy is missing or changed: run pip install --force-reinstall tprof-energy\n"
    )


def test_the_other_ones_function_is_refused_by_name(alone, python):
    said = python("from tprof import tprof", alone).stderr.splitlines()[-1]

    assert said.startswith(
        "ImportError: this tprof is an energy profiler (the distribution tprof-energy); the targeting"
    )
    assert python("import tprof; print(hasattr(tprof, 'tprof'))", alone).stdout == "False\n"


@pytest.mark.thorough
@pytest.mark.parametrize("order", [("ours", "other"), ("other", "ours")], ids="-then-".join)
def test_installed_by_pip_in_either_order_a_command_says_who_replaced_whom(wheels, dependencies, tmp_path, order):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=DEADLINE_S)
    site = next(venv.glob("lib/python3*/site-packages"))
    (site / "dependencies.pth").write_text(f"{dependencies}\n", encoding="utf-8")
    for name in order:
        words = ["--python", venv, "install", "--quiet", "--no-deps", "--no-index", wheels[name]]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=DEADLINE_S)

    done, other = (
        subprocess.run(
            [venv / "bin" / name, *words], capture_output=True, text=True, check=False, timeout=DEADLINE_S,
            cwd=tmp_path, env=os.environ | {"COLUMNS": "1000"},
        )
        for name, words in (("tprof-energy", ["doctor"]), ("tprof", []))
    )  # fmt: skip

    paths = [Path(venv, "bin", "tprof"), site / "tprof" / "__init__.py", site / "tprof" / "__main__.py"]
    said = done.stderr if order[-1] == "other" else done.stdout
    assert done.returncode == (1 if order[-1] == "other" else 0)
    assert OTHER in said
    assert all(str(path) in said for path in paths)
    assert MENDED_BY in said
    assert ("the other command" in other.stdout) == (order[-1] == "other")
