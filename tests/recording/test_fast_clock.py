"""The clock of samples counts ticks from snapshots: within its stated error it is the system's, or that is asked.

The C code is compiled here and given clocks whose truth is known: rates that the kernel slews, a machine that slept, a
counter that jumped. On a real machine the two are compared through samples.
"""

import ctypes
import os
import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import record

import tprof
from tprof.trace import Kind

CSRC = Path(__file__).parents[2] / "tprof" / "csrc"
PERIOD_NS = 10_000_000
AGE_NS = 50_000_000
TICK_NS = 1 / 2.6
WIDTH_NS = 20
SLEW = 500e-6
ERROR_NS = 20_000  # the stated one: two snapshots' width, and a slew of 500 ppm for 20 ms or so


class Page(ctypes.Structure):
    _fields_ = (
        ("sequence", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("ticks", "t_ns", "rate", "most_ticks")),
    )


class Snapshot(ctypes.Structure):
    _fields_ = (("ticks", ctypes.c_uint64), ("t_ns", ctypes.c_uint64))


class Keeper(ctypes.Structure):
    _fields_ = (
        *((name, Snapshot) for name in ("older", "newer")),
        ("base_ns", ctypes.c_uint64),
        ("begun", ctypes.c_bool),
        ("contradictions", ctypes.c_int),
        ("source", ctypes.c_char_p),
        ("check_ns", ctypes.c_uint64),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None or not CSRC.is_dir():
        pytest.skip("there is no C compiler, or no source to compile")
    folder = tmp_path_factory.mktemp("clock")
    source, built = folder / "convert.c", folder / "clock.so"
    source.write_text(
        '#include "fast_clock.c"\n'
        "bool convert(const struct tprof_fast_clock *clock, uint64_t ticks, uint64_t *t_ns)\n"
        "{ return tprof_fast_clock_convert(clock, ticks, t_ns); }\n"
    )
    options = ["-shared", "-fPIC", "-std=gnu11", "-D_GNU_SOURCE", f"-I{CSRC}"]
    subprocess.run([compiler, *options, source, "-o", built], check=True)
    found = ctypes.CDLL(str(built))
    found.tprof_fast_clock_take.argtypes = (ctypes.POINTER(Page), ctypes.POINTER(Keeper), Snapshot)
    found.tprof_fast_clock_take.restype = ctypes.c_uint64
    found.convert.argtypes = (ctypes.POINTER(Page), ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
    found.convert.restype = ctypes.c_bool
    found.tprof_ticks_are_reliable.argtypes = (ctypes.c_char_p,)
    found.tprof_ticks_are_reliable.restype = ctypes.c_bool
    return found


@dataclass
class Machine:
    """A counter of ticks and a clock that the kernel slews; both begin somewhere."""

    library: ctypes.CDLL
    ticks: float = 1e12
    t_ns: float = 5e9
    slew: float = 0.0
    source: Path | None = None

    def __post_init__(self) -> None:
        self.page, self.keeper = Page(), Keeper()
        if self.source is not None:
            self.keeper.source = os.fsencode(self.source)

    def wait(self, ns):
        self.t_ns += ns
        self.ticks += ns / (1 + self.slew) / TICK_NS

    def renew(self, error_ns=0.0):
        """Return how long until the next one is due."""
        taken = Snapshot(int(self.ticks), int(self.t_ns + error_ns))
        return self.library.tprof_fast_clock_take(self.page, self.keeper, taken) - taken.t_ns

    def error_ns(self):
        """Return how far the fast clock is from the truth, or None if the system's call is made."""
        found = ctypes.c_uint64()
        if not self.library.convert(self.page, int(self.ticks), found):
            return None
        return found.value - self.t_ns

    def run(self, periods):
        for _ in range(periods):
            self.wait(PERIOD_NS)
            self.renew()


def test_without_a_base_the_call_of_the_system_is_made(library):
    machine = Machine(library)
    machine.renew()

    assert machine.error_ns() is None


@given(
    st.lists(
        st.tuples(st.floats(-SLEW, SLEW), st.floats(-WIDTH_NS, WIDTH_NS), st.floats(0.1, 4.0)), min_size=20, max_size=60
    )
)
def test_the_error_stays_within_width_and_slew(library, periods):
    machine = Machine(library)
    machine.renew()
    machine.run(5)
    for slew, error_ns, length in periods:
        machine.slew = slew
        machine.wait(length * PERIOD_NS)
        found = machine.error_ns()

        # A rate of before, of a change from one extreme to the other, and what snapshots 20 ms apart can err.
        assert found is None or abs(found) <= WIDTH_NS + 2 * SLEW * length * PERIOD_NS + 2 * WIDTH_NS * length + 2
        machine.renew(error_ns)


def test_a_clock_whose_rate_stays_is_exact_to_a_few_nanoseconds(library):
    machine = Machine(library, slew=37e-6)
    machine.renew()
    machine.run(300)
    machine.wait(PERIOD_NS)

    assert abs(machine.error_ns()) < 3


@given(st.floats(-SLEW, SLEW), st.lists(st.floats(-WIDTH_NS / 2, WIDTH_NS / 2), min_size=12, max_size=12))
def test_the_clock_is_fast_from_the_first_millisecond_on_within_five_snapshots_errors(library, slew, errors_ns):
    machine = Machine(library, slew=slew)
    due_ns, elapsed_ns, found = machine.renew(errors_ns[0]), 0, []
    for error_ns in errors_ns[1:]:
        machine.wait(due_ns)
        elapsed_ns += due_ns
        found.append((elapsed_ns, machine.error_ns()))
        due_ns = machine.renew(error_ns)

    assert all(error_ns is not None for elapsed_ns, error_ns in found if elapsed_ns > 1e6)
    assert all(error_ns is None or abs(error_ns) <= 5 * WIDTH_NS / 2 + 2 for _, error_ns in found)
    assert due_ns == PERIOD_NS


def test_a_kernel_that_leaves_the_counter_ends_the_fast_clock_for_good(library, tmp_path):
    source = tmp_path / "current_clocksource"
    own = {"x86_64": "tsc\n", "aarch64": "arch_sys_counter\n"}[platform.machine()]
    source.write_text(own)
    machine = Machine(library, source=source)
    machine.renew()
    machine.run(10)
    assert machine.error_ns() is not None

    source.write_text("hpet\n")
    machine.run(101)
    assert machine.error_ns() is None

    source.write_text(own)
    machine.run(300)
    assert machine.error_ns() is None


def test_an_old_snapshot_is_not_used(library):
    machine = Machine(library)
    machine.renew()
    machine.run(10)
    machine.wait(1.01 * AGE_NS)

    assert machine.error_ns() is None


@pytest.mark.parametrize("jump", [3e9, -3e9], ids=["it counted while the machine slept", "it began anew"])
def test_a_jump_of_the_counter_ends_the_fast_clock_until_it_has_a_new_base(library, jump):
    machine = Machine(library)
    machine.renew()
    machine.run(10)
    machine.ticks += jump / TICK_NS
    machine.wait(PERIOD_NS)
    assert machine.error_ns() is None

    machine.renew()
    assert machine.error_ns() is None

    machine.run(10)
    machine.wait(PERIOD_NS)
    assert abs(machine.error_ns()) < 3


def test_a_counter_that_keeps_jumping_is_left_for_good(library):
    machine = Machine(library)
    machine.renew()
    for _ in range(4):
        machine.run(10)
        machine.ticks += 1e7 / TICK_NS
        machine.wait(PERIOD_NS)
        machine.renew()
    machine.run(100)

    assert machine.error_ns() is None


def test_only_a_clock_source_of_the_same_counter_is_taken(library, tmp_path):
    path = tmp_path / "current_clocksource"
    own = {"x86_64": "tsc\n", "aarch64": "arch_sys_counter\n"}[platform.machine()]
    for text in (own, own.strip(), "kvm-clock\n", "hpet\n", ""):
        path.write_text(text)

        assert library.tprof_ticks_are_reliable(str(path).encode()) == (text == own)
    assert not library.tprof_ticks_are_reliable(str(tmp_path / "missing").encode())


def test_samples_lie_between_readings_of_the_systems_clock_around_them(tmp_path):
    around = []

    def body():
        end_s = time.monotonic() + 0.3
        while time.monotonic() < end_s:
            begin_ns = time.monotonic_ns()
            with tprof.region("nothing"):
                pass
            around.append((begin_ns, time.monotonic_ns()))
            time.sleep(0.0005)

    samples = record(tmp_path / "t.tprof", body).threads[0].read()
    t_ns = samples["t_ns"].astype("i8")[samples["kind"] != Kind.JOIN]
    begin_ns, end_ns = np.array(around).T

    assert len(around) > 20
    assert (t_ns[: 2 * len(around) : 2] >= begin_ns - ERROR_NS).all()
    assert (t_ns[1 : 2 * len(around) : 2] <= end_ns + ERROR_NS).all()
