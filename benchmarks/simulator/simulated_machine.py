"""A machine that is simulated while programs run on it: its frequency can be set, its joules follow from both.

Its process receives what tasks did at which frequency, and advances `energy_uj`. A task reports each slice of its work
by a datagram to an abstract socket whose name stands in the tree of files: what it is, the frequency that the tree
held, its CPU time. It draws the power of its law for just that CPU time, so that what the tasks draw in all is known
even where other programs take the processor away from them; besides there is a little idle power. The count is
overwritten in place by one write of constant length: a reader never sees an empty file.

The law goes through the two ends that the TProf paper prints. With ``x = f / f_max``, a task takes ``t(f) = t_max ((1 -
m) / x + m)``: a part m of its time waits for memory, which no frequency changes, the rest goes with it. It draws ``P(f)
= P_max x^n``. The paper prints time and energy at 1.6 GHz against those at 3.61 GHz, which gives m and n exactly;
between the two ends the law is an assumption, chosen so that the energy of none of these tasks has a minimum in
between, as in the paper's figure.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks.published import FREQUENCIES, HIGHEST_HZ, LOWEST_HZ, Ratios, ratios
from tprof.frequency.cpufreq import CPUFREQ, KHZ
from tprof.sensors.choose import SYSROOT
from tprof.sensors.powercap import SIMULATED
from tprof.session.process_state import SESSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


PERIOD_S = 0.001
IDLE_W = 0.05
"""Next to nothing: then a task's energy is its law's, and no part of it is static."""
TEXT_BYTES = 24
READY = "ready"
START = "from benchmarks.simulator.simulated_machine import main; main()"
_STEP_HZ = 1_000_000
FREQUENCIES_HZ = tuple(
    (LOWEST_HZ + (HIGHEST_HZ - LOWEST_HZ) * place // (FREQUENCIES - 1)) // _STEP_HZ * _STEP_HZ
    for place in range(FREQUENCIES)
)
"""The paper prints both ends and how many there are; the rest is spread evenly."""
POWER_W = 10.0
"""Of each task at the highest frequency. Invented: the paper prints ratios."""
_SLOWEST = LOWEST_HZ / HIGHEST_HZ
RANGE_UJ = 262_143_328_850  # 32 bits of 2^-14 J, as the kernel prints it
ZONE = "sys/class/powercap/intel-rapl:0"
ENERGY = f"{ZONE}/energy_uj"
FIRST = f"{CPUFREQ}/policy0"


class Machine:
    """A machine below a folder, as a context manager; programs see it with its `environment`."""

    def __init__(self, root: Path, shape: Shape) -> None:
        """Make its files."""
        self.root = root
        self._address = f"tprof-machine-{secrets.token_hex(8)}"
        make_tree(root, shape, self._address)

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to see the machine: the present environment and the root of its /sys."""
        return {**os.environ, SYSROOT: str(self.root)}

    def __enter__(self) -> Self:
        """Start it and wait until it receives reports."""
        environment = {name: value for name, value in os.environ.items() if name != SESSION}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", "-c", START, str(self.root), self._address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._process.stdout.readline()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it: it ends with its standard input."""
        self._process.communicate()


class Package:
    """The joules so far."""

    def __init__(self, root: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Begin to count below a root."""
        self._fd = os.open(root / ENERGY, os.O_WRONLY)
        self._clock_s = clock_s
        self._joules, self._since_s = 0.0, clock_s()

    def add(self, message: str) -> None:
        """Add what a slice drew (TASK HZ NANOSECONDS)."""
        task, hz, cpu_ns = message.split()
        self._joules += RESPONSES[task].power_w(int(hz)) * int(cpu_ns) * 1e-9

    def advance(self) -> None:
        """Add the idle power since the last time, and show it all."""
        now_s = self._clock_s()
        self._joules += IDLE_W * (now_s - self._since_s)
        self._since_s = now_s
        text = f"{int(self._joules * 1e6) % (RANGE_UJ + 1)}\n".ljust(TEXT_BYTES, "\n")
        os.pwrite(self._fd, text.encode(), 0)


def main() -> None:
    """Run the machine until standard input ends."""
    import selectors  # noqa: PLC0415 - only the process needs it

    root, address = sys.argv[1:]
    reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    reports.bind(f"\0{address}")
    package = Package(Path(root))
    with selectors.DefaultSelector() as selector:
        for source in (reports, sys.stdin):
            selector.register(source, selectors.EVENT_READ)
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        while True:
            for key, _ in selector.select(PERIOD_S):
                if key.fileobj is sys.stdin:
                    return
                package.add(reports.recv(256).decode())
            package.advance()


@dataclass(frozen=True)
class TaskLaw(Ratios):
    """A task of the paper with its law between the two frequencies at which the paper gives it."""

    @property
    def waiting(self) -> float:
        """Part of its time at the highest frequency that no frequency changes."""
        return (1 / _SLOWEST - self.time_ratio) / (1 / _SLOWEST - 1)

    @property
    def exponent(self) -> float:
        """Of the frequency in its power."""
        return math.log(self.energy_ratio / self.time_ratio) / math.log(_SLOWEST)

    def time(self, hz: float) -> float:
        """Return its time against that at the highest frequency."""
        return (1 - self.waiting) * HIGHEST_HZ / hz + self.waiting

    def power_w(self, hz: float) -> float:
        """Return its watts."""
        return float(POWER_W * (hz / HIGHEST_HZ) ** self.exponent)

    def energy(self, hz: float) -> float:
        """Return its energy against that at the highest frequency."""
        return self.power_w(hz) / POWER_W * self.time(hz)


RESPONSES = {one.task: TaskLaw(**asdict(one)) for one in ratios()}
"""By the task's name."""


def response(task: str) -> TaskLaw:
    """Return the response of a task of the paper."""
    return RESPONSES[task]


@dataclass(frozen=True)
class Shape:
    """What the machine looks like.

    Attributes
    ----------
    frequencies_hz : ascending.
    cpus, policies : processors, and how many policies share them evenly.
    driver : one that lists its frequencies (acpi-cpufreq), or not.
    """

    frequencies_hz: tuple[int, ...]
    cpus: int = 2
    policies: int = 1
    driver: str = "acpi-cpufreq"


def make_tree(root: Path, shape: Shape, address: str) -> None:
    """Write every file; `address` is where tasks report, and its file marks all of it as simulated."""
    _write(root, SIMULATED, address)
    # Only the tasks draw power here, so nothing else may appear to run.
    _write(root, "proc/stat", "\n".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in range(shape.cpus)))
    _write(root, f"{ZONE}/name", "package-0")
    _write(root, f"{ZONE}/max_energy_range_uj", RANGE_UJ)
    _write(root, ENERGY, 0)
    _write(root, "sys/devices/system/cpu/online", f"0-{shape.cpus - 1}")
    for cpu in range(shape.cpus):
        for name, value in (("physical_package_id", 0), ("die_id", 0), ("core_id", cpu)):
            _write(root, f"sys/devices/system/cpu/cpu{cpu}/topology/{name}", value)
    each = shape.cpus // shape.policies
    for first in range(0, shape.cpus, each):
        _make_policy(root, shape, range(first, first + each))


def _make_policy(root: Path, shape: Shape, cpus: range) -> None:
    lowest, highest = shape.frequencies_hz[0] // KHZ, shape.frequencies_hz[-1] // KHZ
    members = " ".join(map(str, cpus))
    files = {
        "affected_cpus": members,
        "related_cpus": members,
        "scaling_driver": shape.driver,
        "scaling_governor": "schedutil",
        "scaling_available_governors": "schedutil performance powersave",
        "cpuinfo_min_freq": lowest,
        "cpuinfo_max_freq": highest,
        "scaling_min_freq": lowest,
        "scaling_max_freq": highest,
        "scaling_cur_freq": highest,
        "scaling_setspeed": "<unsupported>",
    }
    if shape.driver == "acpi-cpufreq":
        files["scaling_available_frequencies"] = " ".join(str(hz // KHZ) for hz in reversed(shape.frequencies_hz))
    for name, value in files.items():
        _write(root, f"{CPUFREQ}/policy{cpus.start}/{name}", value)


def _write(root: Path, name: str, value: object) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n", encoding="ascii")
