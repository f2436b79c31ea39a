"""What scripts/editable installs is found by Python and by type checkers, which run no import hook."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 500
PROGRAM = """\
import tprof
from tprof.analysis import Profile
from tprof.runtime import Runtime


@tprof.task
def double(number: int) -> int:
    return 2 * number


def use(runtime: Runtime, profile: Profile) -> None:
    reveal_type(double(1))
    reveal_type(profile.summary)
"""

pytestmark = pytest.mark.thorough


def run(words, **how):
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=DEADLINE_S, **how
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return an environment's Python in which a copy of this checkout was installed, and the copy."""
    folder = tmp_path_factory.mktemp("editable")
    copy = folder / "checkout"
    names = run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
    if names.returncode != 0:
        pytest.skip("not a git checkout: what belongs to it cannot be told")
    for name in names.stdout.splitlines():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    run([sys.executable, "-m", "venv", folder / "venv"])
    python = folder / "venv" / "bin" / "python"
    done = run([copy / "scripts" / "editable", python, "--no-deps"])
    if "meson-python" in done.stderr and done.returncode != 0:
        pytest.skip(f"meson-python could not be installed: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    give_dependencies(folder / "venv")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    return python, copy


def give_dependencies(venv):
    site = next(venv.glob("lib/python3*/site-packages"))
    for path in Path(distribution("tprof-energy").locate_file("")).iterdir():
        if not path.name.startswith("tprof") and not (site / path.name).exists():
            (site / path.name).symlink_to(path)


def test_python_imports_the_checkout(environment, tmp_path):
    python, copy = environment
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    done = run(
        [python, "-c", "import tprof, tprof.analysis as a; print(tprof.__file__, a.__file__)"], cwd=tmp_path, env=env
    )

    assert done.stdout.split() == [f"{copy}/tprof/__init__.py", f"{copy}/analysis/__init__.py"], done.stderr


def test_mypy_finds_all_of_it(environment, tmp_path):
    python, copy = environment
    words = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, copy.parent / "program.py"]

    done = run(words, cwd=tmp_path)

    assert done.returncode == 0, done.stdout
    assert 'Revealed type is "int"' in done.stdout
    assert "DataFrame" in done.stdout


def test_pyright_finds_all_of_it(environment, tmp_path):
    python, copy = environment
    pyright = ROOT / ".venv-wheel" / "bin" / "pyright"
    if not pyright.exists():
        pytest.skip("pyright is not there: scripts/wheel installs it with its tools")
    done = run([pyright, "--pythonpath", python, copy.parent / "program.py"], cwd=tmp_path)
    if "0 errors" not in done.stdout and "error:" not in done.stdout:
        pytest.skip(f"pyright does not run here: {done.stderr.strip()[-200:]}")

    assert "0 errors" in done.stdout, done.stdout
    assert 'Type of "double(1)" is "int"' in done.stdout
    assert "DataFrame" in done.stdout
