"""The adapter over pyRAPL, on the real package: in a namespace with another /sys, since it reads /sys itself."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import fake_trees

from tprof.sensors import Machine, Unavailable
from tprof.sensors.advice import INSTALL_PYRAPL
from tprof.sensors.pyrapl import Pyrapl
from tprof.sensors.registry import create

READ = """
import json, logging, sys
from pathlib import Path
from tprof.sensors import Machine
from tprof.sensors.pyrapl import Pyrapl

def show(zone, text):
    Path(f"/sys/class/powercap/{zone}/energy_uj").write_text(text)

machine = Machine(Path("/"))
found = Pyrapl().find(machine)
said = {"why": getattr(found, "why", None), "handlers": len(logging.root.handlers)}
if said["why"] is None:
    reader = Pyrapl().open(machine, found.domains)
    said["domains"] = [(one.name, one.modulus, one.counted) for one in found.domains]
    said["left_out"] = [one[:3] for one in found.left_out]
    said["first"] = [(one.domain, one.value) for one in reader.read()]
    show("intel-rapl:0", "1500000\\n")
    said["second"] = [(one.domain, one.value) for one in reader.read()]
    show("intel-rapl:0", "\\n")
    said["empty"] = [(one.domain, one.value) for one in reader.read()]
    reader.close()
print(json.dumps(said))
"""
RECORD = """
import json, sys
from pathlib import Path
import tprof

@tprof.task
def work():
    return sum(range(1000))

energy = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
with tprof.record(sys.argv[1], energy="pyrapl", counters="none", idle_s=0):
    work()
    energy.write_text("6000000\\n")
    work()
profile = tprof.load(sys.argv[1]).profile()
(package,) = (one for one in profile.recipe.whole if one.name == "package-0")
print(json.dumps({"sensor": profile.info["sensor"], "joules": float(package.energy_j.sum())}))
"""


COST = """
import json, sys
from pathlib import Path
from benchmarks.overhead.sensor_thread_cost import measure_pyrapl, pyrapl_problem
print(json.dumps([pyrapl_problem(), measure_pyrapl(Path(sys.argv[1]), duration_s=0.05, rounds=2)]))
"""


def run(tree, program, *arguments):
    """Run a program in a namespace whose /sys is the tree's; returns what it prints."""
    pytest.importorskip("pyRAPL", reason="pyRAPL is not installed")
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    (tree.root / "sys/class/powercap/intel-rapl").symlink_to(tree.root / "sys/devices/virtual/powercap/intel-rapl")
    file = tree.root / "program.py"
    file.write_text(program)
    inside = 'mount --bind "$1" /sys || exit 77; shift; exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", inside, "sh", tree.root / "sys", sys.executable, file, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode == 77 or done.stderr.startswith("unshare:"):
        pytest.skip("nothing can be mounted in a namespace here")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])


def server(root):
    tree = fake_trees.server(root)
    tree.write("sys/devices/system/cpu/present", "0-7")
    return tree


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Read a server by pyRAPL, of which each test tells another part."""
    return run(server(tmp_path_factory.mktemp("server")), READ)


def test_packages_and_dram_are_read_by_pyrapl(said):
    modulus, dram = fake_trees.RANGE_UJ + 1, fake_trees.DRAM_RANGE_UJ + 1
    assert said["domains"] == [
        ["package-0", modulus, True], ["package-1", modulus, True], ["dram-0", dram, True], ["dram-1", dram, True],
    ]  # fmt: skip
    names = [name for name, _, _ in said["domains"]]
    assert said["first"] == [[name, 1_000_000] for name in names]
    assert said["second"] == [["package-0", 1_500_000], *([name, 1_000_000] for name in names[1:])]
    assert said["left_out"] == []


def test_a_text_that_is_no_number_is_a_failed_read(said):
    assert dict(said["empty"])["package-0"] is None
    assert dict(said["empty"])["dram-1"] == 1_000_000


def test_a_machine_without_dram_says_what_pyrapl_says(tmp_path):
    tree = fake_trees.laptop(tmp_path)
    tree.write("sys/devices/system/cpu/present", "0-7")

    said = run(tree, READ)

    assert [name for name, _, _ in said["domains"]] == ["package-0"]
    assert said["left_out"] == [["dram", "pyRAPL finds no dram here: PyRAPLCantInitDeviceAPI", "absent"]]


def test_pyrapls_warnings_do_not_set_up_the_programs_logging(said):
    assert said["handlers"] == 0


def test_a_recording_by_pyrapl_has_its_joules(tmp_path):
    said = run(server(tmp_path), RECORD, tmp_path / "t.tprof")

    assert said["joules"] == pytest.approx(5.0)
    assert "pyrapl" in said["sensor"]


def test_what_it_costs_can_be_measured(tmp_path):
    problem, shares = run(server(tmp_path), COST, tmp_path)

    assert problem is None
    assert len(shares) == 2


def test_without_powercap_the_reason_is_pyrapls(tmp_path):
    tree = fake_trees.virtual_machine(tmp_path)
    tree.write("sys/devices/system/cpu/present", "0-1")
    (tmp_path / "sys/class/powercap").mkdir(parents=True)

    assert run(tree, READ)["why"] == "pyRAPL finds no package here: PyRAPLCantInitDeviceAPI"


def test_another_root_is_refused(tmp_path):
    found = Pyrapl().find(Machine(tmp_path))

    assert isinstance(found, Unavailable)
    assert found.why == f"pyRAPL reads /sys of this machine itself, not of {tmp_path}"


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyRAPL", None)

    found = create("pyrapl").find(Machine(Path("/")))

    assert (found.why, found.remedies) == ("the package pyRAPL is not installed", (INSTALL_PYRAPL,))
