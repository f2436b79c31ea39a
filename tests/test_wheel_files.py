"""What is published: the wheel holds what runs, the source distribution what is tracked, the index page reads alone."""

import re
import subprocess
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution, files
from pathlib import Path

import pytest

import tprof

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".venv-wheel" / "bin"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INDEX_PAGE = ROOT / PROJECT["readme"]
DEADLINE_S = 800
PYTHONS = ("cp311", "cp312", "cp313", "cp314", "cp314t")
NO_TOOLS = 3
BESIDE = "tprof/testing/site"
"""What is installed beside the package."""
CHECKOUT_ONLY = {
    ("benchmarks", name) for name in ("__main__.py", "overhead", "peers", "published", "simulator", "validation")
}
"""What measures tprof itself runs from the checkout, by scripts/bench."""
FOLDERS = {"analysis": "tprof/analysis", "benchmarks": "tprof/benchmarks", "runtime": "tprof/runtime", "tprof": "tprof"}
EXTENSIONS = (
    "tprof/_core",
    "tprof/analysis/engine/_engine",
    "tprof/runtime/_scheduler",
    "tprof/benchmarks/kernels/_stress",
    "tprof/benchmarks/polybench/_polybench",
    "tprof/benchmarks/roofline/_polynomial",
)


def test_the_extra_all_brings_every_other_that_installs_anywhere():
    extras = PROJECT["optional-dependencies"]
    (brought,) = extras["all"]

    assert set(re.fullmatch(r"tprof-energy\[(.*)\]", brought)[1].split(",")) == extras.keys() - {"all", "papi", "ray"}


def tracked():
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout: what is tracked cannot be told")
    return {name for name in done.stdout.split("\0") if name}


def expected_in_wheel(names):
    """Return where the wheel holds each file of the four folders but the sources of extensions."""
    kept = [Path(name) for name in names if "csrc" not in Path(name).parts]
    beside = {path.name for path in kept if str(path.parent) == BESIDE}
    kept = [path for path in kept if str(path.parent) != BESIDE and path.parts[:2] not in CHECKOUT_ONLY]
    return beside | {str(Path(FOLDERS[path.parts[0]], *path.parts[1:])) for path in kept if path.parts[0] in FOLDERS}


def split_extensions(names):
    extensions = {name.split(".")[0] for name in names if name.endswith(".so")}
    return extensions, {name for name in names if not name.endswith(".so")}


def test_the_wheel_holds_the_packages_and_nothing_stray():
    names = [str(name) for name in files("tprof-energy") or [] if "__pycache__" not in str(name)]
    packaged = [name for name in names if name.startswith("tprof/")]

    assert "tprof/analysis/__init__.py" in packaged
    assert "tprof/py.typed" in packaged
    assert "tprof/sensors/watts.csv" in packaged
    assert "tprof/processors/tables/amd-zen.txt" in packaged
    assert any(name.startswith("tprof/_core") and name.endswith(".so") for name in packaged)
    assert not [name for name in packaged if tuple(name.split("/")[1:3]) in CHECKOUT_ONLY]
    assert not [name for name in packaged if name.endswith((".c", ".h")) or "csrc" in name or "/tests/" in name]


def test_both_commands_lead_to_the_command_line():
    commands = {point.name: point.value for point in distribution("tprof-energy").entry_points}

    assert commands == {"tprof": "tprof.cli:main", "tprof-energy": "tprof.cli:main"}


def test_the_version_is_one():
    said = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"))

    assert said is not None
    assert said.group(1) == PROJECT["version"] == distribution("tprof-energy").version == tprof.__version__


def test_the_index_page_needs_no_file_beside_it():
    """A package index shows the page alone: a relative link or picture would lead nowhere."""
    text = INDEX_PAGE.read_text(encoding="utf-8")

    targets = re.findall(r"\]\(([^)\s]+)", text) + re.findall(r"^\[[^\]]+\]:\s*(\S+)", text, re.MULTILINE)
    targets += re.findall(r"(?:src|href)=[\"']?([^\"'\s>]+)", text)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Build source distribution and wheel as they are published."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [ROOT / "scripts" / "wheel", folder], capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    if done.returncode == NO_TOOLS:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def committed():
    if subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, check=False).returncode != 0:
        pytest.skip("there are uncommitted changes, which a source distribution leaves out")
    return tracked()


@pytest.mark.thorough
class TestArchives:
    def test_the_source_distribution_holds_what_is_tracked(self, archives, committed):
        with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}

        folders = {str(parent) for name in committed for parent in Path(name).parents}
        assert names - folders - {""} == committed | {"PKG-INFO"}

    def test_the_wheel_holds_the_tracked_files_of_the_packages(self, archives, committed):
        with zipfile.ZipFile(next(archives.glob("*.whl"))) as archive:
            names = {name for name in archive.namelist() if not name.endswith("/")}

        extensions, others = split_extensions(names)
        info = f"tprof_energy-{PROJECT['version']}.dist-info"
        metadata = {
            f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
        }
        assert extensions == set(EXTENSIONS)
        assert others - metadata == expected_in_wheel(committed)
        assert metadata <= others

    def test_the_wheel_is_one_that_an_index_takes(self, archives):
        """An index refuses the tag linux_x86_64; auditwheel gives another only where the wheel keeps its promise."""
        name = next(archives.glob("*.whl")).name
        said = subprocess.run(
            [TOOLS / "auditwheel", "show", archives / name], capture_output=True, text=True, check=True
        )

        assert re.search(r"manylinux_2_\d+_(x86_64|aarch64)", name)
        assert "-linux_" not in name
        assert f"{name} is consistent with" in " ".join(said.stdout.split())

    def test_the_page_is_rendered_with_no_link_inside_the_package(self, archives):
        del archives  # they come with the tools
        done = subprocess.run(
            [TOOLS / "python", "-m", "readme_renderer", INDEX_PAGE], capture_output=True, text=True, check=True
        )

        assert "<h1" in done.stdout
        assert "<pre" in done.stdout
        targets = re.findall(r"(?:src|href)=\"([^\"]+)", done.stdout)
        assert [target for target in targets if not target.startswith(("https://", "#"))] == []

    def test_classifiers_are_known(self, archives):
        del archives
        code = "import trove_classifiers as known; print(*sorted(known.classifiers), sep='\\n')"
        done = subprocess.run([TOOLS / "python", "-c", code], capture_output=True, text=True, check=True)

        assert set(PROJECT["classifiers"]) <= set(done.stdout.splitlines())

    def test_wheels_are_built_for_every_python_and_both_processors(self, archives):
        del archives
        done = subprocess.run(
            [TOOLS / "cibuildwheel", "--platform", "linux", "--print-build-identifiers", ROOT],
            capture_output=True, text=True, check=True,
        )  # fmt: skip

        assert set(done.stdout.split()) == {
            f"{python}-manylinux_{machine}" for python in PYTHONS for machine in ("x86_64", "aarch64")
        }
