"""A counter that may not be read, or whose read fails in the kernel: said with its errno, and got over."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import fake_trees
from support.fake_sensor import FakeSensor, is_missing, is_reopened, raw_readings

MODULUS = fake_trees.RANGE_UJ + 1
DEADLINE_S = 60

SHARED = """
import ctypes, errno, json, mmap, os, sys
from pathlib import Path
import tprof
from support.fake_sensor import is_missing, raw_readings, wait_for

energy, session = Path(sys.argv[1]), Path(sys.argv[2])

@tprof.task
def work(n):
    return sum(range(n))

def readings():
    return raw_readings(session)

def more_good():
    before = len(readings())
    wait_for(lambda: (~is_missing(readings()[before:])).sum() > 1, "good readings")

def drop_capabilities():
    # Root reads any file by these rights; without them a mode of 0 holds for its owner too.
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(header, none) == 0, os.strerror(ctypes.get_errno())
"""


def run(tmp_path, tree, program, *arguments, **environment):
    """Run a program that records below the tree; returns what it printed."""
    path = tmp_path / "program.py"
    path.write_text(SHARED + program)
    own = {"TPROF_SYSROOT": str(tree.root), "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    done = subprocess.run(
        [sys.executable, str(path), tree.energy_of("intel-rapl:0"), tmp_path / "t.tprof", *arguments],
        env=os.environ | own | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path):
    tree = fake_trees.machine(tmp_path / "root", fake_trees.INTEL, {0: range(2)})
    tree.zone("intel-rapl:0", "package-0")
    return tree


FORBIDDEN = """
drop_capabilities()
energy.chmod(0)
try:
    tprof.record(session, energy="powercap").__enter__()
except tprof.SensorError as error:
    print(error)
"""


def test_a_counter_that_may_not_be_read_is_refused_in_one_sentence(tmp_path, tree):
    said = run(tmp_path, tree, FORBIDDEN)

    path = tree.energy_of("intel-rapl:0")
    assert said == (
        f"powercap gives no energy: cannot read {path}: permission denied; "
        'run `tprof doctor`, or record with energy="estimate"'
    )
    assert not (tmp_path / "t.tprof").exists()


LOST = """
drop_capabilities()
with tprof.record(session, energy="powercap", counters="none"):
    more_good()
    energy.chmod(0)
    more_good()
    kept = bool(is_missing(readings()).any())
    energy.rename(energy.with_name("gone"))
    energy.write_text("500000\\n")
    energy.chmod(0)
    wait_for(lambda: is_missing(readings()).sum() > 1, "failures")
    result = work(100)
    energy.chmod(0o400)
    more_good()
print(json.dumps([kept, result]))
"""


def test_rights_that_are_lost_show_when_the_counter_is_opened_again(tmp_path, tree):
    """A descriptor outlives the rights it was opened with; a zone that comes back needs them anew."""
    lost_early, result = json.loads(run(tmp_path, tree, LOST))

    readings = raw_readings(tmp_path / "t.tprof")
    missing = is_missing(readings)
    back = np.flatnonzero(missing)[-1] + 1
    assert result == 4950
    assert not lost_early
    assert set(readings["error"][missing]) == {errno.EACCES}
    assert is_reopened(readings)[back]
    assert not is_missing(readings)[back:].any()


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int *wanted;

__attribute__((constructor)) static void begin(void)
{
    const int fd = open(getenv("FAULT_FILE"), O_RDONLY);
    wanted = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
}

ssize_t pread64(int fd, void *to, size_t size, off64_t at)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path);
    if (*wanted != 0 && length > 9 && memcmp(path + length - 9, "energy_uj", 9) == 0) {
        errno = *wanted;
        return -1;
    }
    ssize_t (*real)(int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pread64");
    return real(fd, to, size, at);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    return pread64(fd, to, size, at);
}
"""

FAILING = """
fault = os.open(os.environ["FAULT_FILE"], os.O_RDWR)
results = []
with tprof.record(session, energy="powercap", counters="none"):
    for number in json.loads(sys.argv[3]):
        more_good()
        os.pwrite(fault, number.to_bytes(4, sys.byteorder), 0)
        wait_for(lambda: readings()["error"][-1] == number, "the fault")
        results.append(work(100))
        os.pwrite(fault, bytes(4), 0)
        more_good()
print(json.dumps(results))
"""


@pytest.fixture
def faulty(tmp_path):
    """Return what makes reads of energy_uj fail in a child."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make failing reads with")
    (tmp_path / "shim.c").write_text(SHIM)
    library = tmp_path / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "shim.c", "-ldl"], check=True)
    (tmp_path / "fault").write_bytes(bytes(4096))
    return {"LD_PRELOAD": str(library), "FAULT_FILE": str(tmp_path / "fault")}


def test_a_read_that_fails_is_missing_with_the_kernels_errno(tmp_path, tree, faulty):
    numbers = [errno.EIO, errno.EINVAL, errno.ENODEV, errno.ESTALE, errno.ENXIO]
    sensor = FakeSensor(watts=100.0, modulus=MODULUS).drives(tree.energy_of("intel-rapl:0"))
    with sensor:
        results = json.loads(run(tmp_path, tree, FAILING, json.dumps(numbers), **faulty))

    readings = raw_readings(tmp_path / "t.tprof")
    missing = is_missing(readings)
    ends = np.flatnonzero(missing[:-1] & ~missing[1:])
    steps_uj = np.diff(readings["value"][~missing].astype("i8"))
    assert results == [4950] * len(numbers)
    assert [int(readings["error"][end]) for end in ends] == numbers
    assert [bool(is_reopened(readings)[end + 1]) for end in ends] == [False, False, True, True, True]
    assert set(readings["value"][missing]) == {0}
    assert (steps_uj >= 0).all()
