"""A series of matrix products on this machine's GPU: tprof's joules beside the counter read by hand, and beside Zeus.

Each size is multiplied for some seconds in a task of its own. Right before and after, the counter is read as it
updates, so that a window has whole updates; ZeusMonitor measures the same window where it is installed. Of tprof the
joules of the quanta in the window are taken. Task joules are compared with those of the window above idle power.
"""

from __future__ import annotations

import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import tprof
from tprof.cuda.libraries import imported
from tprof.errors import UsageError
from tprof.sensors.contract import Machine, Quantity, Unavailable
from tprof.sensors.registry import create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tprof.analysis import Profile

    from tprof.sensors.contract import Domain

    Row = dict[str, Any]

SIZES = (1024, 2048, 4096, 8192)
SECONDS = 3.0
IDLE_S = 2.0
"""Idle time before the series: the counter updates 10 to 50 times a second, and idle watts come from there."""
UPDATE_S = 1.0
"""Longest wait for an update of the counter."""
BATCH_S = 0.2
"""Work that is launched at a time, so that little is left when the time is over."""
NEEDS = (
    "scripts/bench validate --gpu multiplies matrices on an NVIDIA GPU with PyTorch or CuPy, and neither is installed "
    "here: pip install torch"
)


class Work(Protocol):
    """Matrix products on a GPU."""

    def prepare(self, size: int) -> None:
        """Make the matrices."""

    def multiply(self) -> None:
        """Launch a product; it returns before the product is made."""

    def wait(self) -> None:
        """Return when all is done."""


class TorchWork:
    """By PyTorch, in half precision."""

    def __init__(self) -> None:
        """Import it. Raises UsageError without a device."""
        self._torch: Any = import_module("torch")
        if not self._torch.cuda.is_available():
            raise UsageError(
                "scripts/bench validate --gpu finds no GPU that PyTorch can use: install one built for CUDA"
            )

    def prepare(self, size: int) -> None:
        """As `Work`."""
        self._a = self._torch.randn(size, size, device="cuda", dtype=self._torch.float16)
        self._out = self._torch.empty_like(self._a)

    def multiply(self) -> None:
        """As `Work`."""
        self._torch.mm(self._a, self._a, out=self._out)

    def wait(self) -> None:
        """As `Work`."""
        self._torch.cuda.synchronize()


class CuPyWork:
    """By CuPy, in single precision."""

    def __init__(self) -> None:
        """Import it."""
        self._cupy: Any = import_module("cupy")

    def prepare(self, size: int) -> None:
        """As `Work`."""
        self._a = self._cupy.random.random((size, size), dtype=self._cupy.float32)

    def multiply(self) -> None:
        """As `Work`."""
        self._cupy.matmul(self._a, self._a)

    def wait(self) -> None:
        """As `Work`."""
        self._cupy.cuda.Device().synchronize()


def installed() -> Work:
    """Return the work of the first library that is installed. Raises UsageError."""
    if find_spec("torch") is not None:
        return TorchWork()
    if find_spec("cupy") is not None:
        return CuPyWork()
    raise UsageError(NEEDS)


class _Counter:
    """NVML's counter of one GPU, read by hand."""

    def __init__(self, domain: Domain) -> None:
        self._nvml: Any = import_module("pynvml")
        self._nvml.nvmlInit()
        self._handle = self._nvml.nvmlDeviceGetHandleByUUID(dict(domain.details)["uuid"])

    def at_update(self) -> tuple[int, int]:
        """Return the time and the count, in mJ, as it changes."""
        deadline_s = time.monotonic() + UPDATE_S
        first = now = self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        while now == first:
            if time.monotonic() > deadline_s:
                raise UsageError(f"the GPU's count of energy has not changed for {UPDATE_S:g} s: nothing to compare")
            time.sleep(0.0005)
            now = self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        return time.monotonic_ns(), int(now)

    def close(self) -> None:
        """Close NVML."""
        self._nvml.nvmlShutdown()


class _Zeus:
    """ZeusMonitor on the same GPU, which it names as CUDA does; nothing where it is not installed."""

    def __init__(self, library: str, device: int) -> None:
        self._monitor = None
        if "zeus" in sys.modules or find_spec("zeus") is not None:
            kind = import_module("zeus.monitor").ZeusMonitor
            self._monitor = kind(gpu_indices=[device], sync_execution_with=library)

    def begin(self, name: str) -> None:
        """Begin a window."""
        if self._monitor is not None:
            self._monitor.begin_window(name)

    def end(self, name: str) -> float | None:
        """Return its joules."""
        return None if self._monitor is None else float(self._monitor.end_window(name).total_energy)


def measure(
    work: Work | None = None,
    *,
    sizes: tuple[int, ...] = SIZES,
    seconds: float = SECONDS,
    idle_s: float = IDLE_S,
    progress: Callable[[str, int, int], None],
) -> list[Row]:
    """Run the series; returns a row for each size.

    Raises
    ------
    UsageError
        If this machine has no such GPU, or no library to work on it.
    """
    found = create("nvml").find(Machine(Path("/")))
    if isinstance(found, Unavailable):
        raise UsageError(f"scripts/bench validate --gpu needs an NVIDIA GPU, and none can be used here: {found.why}")
    work = installed() if work is None else work
    work.prepare(sizes[0])
    work.multiply()
    work.wait()
    library = next(one for one in imported() if one.has_begun())
    device = library.current().device
    domain = _domain_of(library.device_names(device), found.domains)
    if domain.accuracy.shows is Quantity.POWER:
        raise UsageError("scripts/bench validate --gpu needs a GPU with a count of energy: NVIDIA's since Volta")
    counter = _Counter(domain)
    zeus = _Zeus(library.name, device)
    try:
        with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
            recording = tprof.record(Path(folder) / "gpu.tprof", energy="nvml", counters="none", idle_s=idle_s)
            with recording:
                windows = list(_windows(work, counter, zeus, sizes, seconds, progress))
            return list(_compared(recording.profile(), domain.name, windows))
    finally:
        counter.close()


def _domain_of(names: tuple[str, ...], domains: tuple[Domain, ...]) -> Domain:
    """Return the GPU of one of these names; the first where none is known."""
    matching = [one for one in domains if set(names) & set(dict(one.details).values())]
    return (matching or list(domains))[0]


def _windows(
    work: Work, counter: _Counter, zeus: _Zeus, sizes: tuple[int, ...], seconds: float, progress: Callable[..., None]
) -> Iterator[Row]:
    for done, size in enumerate(sizes):
        progress(f"{size} x {size}", done, len(sizes))
        work.prepare(size)
        count = _count(work)
        begin_ns, begin_mj = counter.at_update()
        zeus.begin(f"{size}")
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            with tprof.region(_name(size)), tprof.gpu():
                for _ in range(count):
                    work.multiply()
            work.wait()
        end_ns, end_mj = counter.at_update()
        yield {
            "size": size,
            "begin_ns": begin_ns,
            "end_ns": end_ns,
            "by_hand_j": (end_mj - begin_mj) * 1e-3,
            "zeus_j": zeus.end(f"{size}"),
        }


def _count(work: Work) -> int:
    """Return how many products take about `BATCH_S`."""
    work.multiply()
    work.wait()
    begin_s = time.monotonic()
    work.multiply()
    work.wait()
    return max(round(BATCH_S / max(time.monotonic() - begin_s, 1e-6)), 1)


def _name(size: int) -> str:
    return f"matmul {size}"


def _compared(profile: Profile, name: str, windows: list[Row]) -> Iterator[Row]:
    """Return each window with tprof's joules, and its task's beside those above idle power."""
    whole = next(one for one in profile.recipe.whole if one.name == name)
    idle_w = profile.info["static_power_w"].get(name)
    tasks = profile.summary()
    for window in windows:
        begin_ns, end_ns = window["begin_ns"], window["end_ns"]
        seconds = (end_ns - begin_ns) * 1e-9
        yield {
            "size": window["size"],
            "seconds": seconds,
            "by_hand_j": window["by_hand_j"],
            "tprof_j": whole.between(begin_ns, end_ns)[0].measured_j,
            "zeus_j": window["zeus_j"],
            "above_idle_j": None if idle_w is None else window["by_hand_j"] - idle_w * seconds,
            "tasks_j": float(tasks["gpu_j"].loc[_name(window["size"])]),
        }
