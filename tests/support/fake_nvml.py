"""A module in the place of pynvml, with GPUs that a test drives, and the bench of the sensor that reads them.

Errors have NVML's numbers and, where nvidia-ml-py is installed, are what that package raises for them:
tests/sensors/test_nvml.py compares the two.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from .sensor_conformance import CountBench, PowerBench

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, GPU_IS_LOST = 3, 4, 6, 9, 12, 15
UNINITIALISED, NO_DEVICE = 1, 6
WORDS = {
    UNINITIALISED: "Uninitialized",
    NOT_SUPPORTED: "Not Supported",
    NO_PERMISSION: "Insufficient Permissions",
    NOT_FOUND: "Not Found",
    DRIVER_NOT_LOADED: "Driver Not Loaded",
    LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
    GPU_IS_LOST: "GPU is lost",
}


class NVMLError(Exception):
    """An error with NVML's number."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        """Say it as nvidia-ml-py does."""
        return WORDS.get(self.value, f"NVML Error with code {self.value}")


@dataclass
class FakeGpu:
    """A GPU; `energy_mj` or `power_mw` is None where it has no such value.

    Attributes
    ----------
    error : what every call on it raises; None: nothing.
    users : (pid, SM utilisation in percent) since the last question; None: utilisation is not supported.
    running : processes that have it open.
    accounted : of each process its utilisation over its life, in percent, and that life in seconds, below 0 once it is
        over; None: accounting is off.
    """

    uuid: str
    name: str = "NVIDIA H200"
    pci: str = "00000000:01:00.0"
    energy_mj: int | None = 5000
    power_mw: int | None = 90_000
    instant_mw: int | None = None
    mig: bool | None = None
    error: int | None = None
    users: list[tuple[int, int]] | None = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    accounted: dict[int, tuple[int, float]] | None = None


class FakeNvml(ModuleType):
    """The module."""

    NVMLError = NVMLError

    def __init__(self, *gpus: FakeGpu) -> None:
        super().__init__("pynvml")
        self.gpus = list(gpus)
        self.opened = 0
        self.init_error: int | None = None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
        """Let `import pynvml` find it."""
        monkeypatch.setitem(sys.modules, "pynvml", self)
        return self

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names, here and below
        """Open it."""
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        """Close it."""
        if not self.opened:
            raise NVMLError(UNINITIALISED)
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        """Return the number of GPUs."""
        self._check()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        """Return a GPU."""
        return self._sound(self.gpus[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:  # noqa: N802
        """Return a GPU."""
        self._check()
        for gpu in self.gpus:
            if uuid in {gpu.uuid, f"MIG-{gpu.uuid}"}:
                return self._sound(gpu)
        raise NVMLError(NOT_FOUND)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: FakeGpu) -> FakeGpu:  # noqa: N802
        """Return the GPU of a MIG instance."""
        return handle

    def nvmlDeviceGetPciInfo(self, handle: FakeGpu) -> Any:  # noqa: N802
        """Return its address."""
        return SimpleNamespace(busId=self._sound(handle).pci)

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:  # noqa: N802
        """Return its UUID."""
        return self._sound(handle).uuid

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str:  # noqa: N802
        """Return its name."""
        return self._sound(handle).name

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: FakeGpu) -> int:  # noqa: N802
        """Return its count."""
        return _value(self._sound(handle).energy_mj)

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:  # noqa: N802
        """Return its power."""
        return _value(self._sound(handle).power_mw)

    def nvmlDeviceGetFieldValues(self, handle: FakeGpu, fields: list[int]) -> list[Any]:  # noqa: N802
        """Return the instantaneous power."""
        instant = self._sound(handle).instant_mw
        missing = instant is None or fields != [186]
        return [SimpleNamespace(nvmlReturn=NOT_SUPPORTED * missing, value=SimpleNamespace(uiVal=instant or 0))]

    def nvmlDeviceGetMigMode(self, handle: FakeGpu) -> list[int]:  # noqa: N802
        """Return the current mode and the one after a reset."""
        return [_value(None if handle.mig is None else int(handle.mig))] * 2

    def nvmlDeviceGetProcessUtilization(self, handle: FakeGpu, since_us: int) -> list[Any]:  # noqa: N802
        """Return who used it."""
        users = self._sound(handle).users
        if not users:
            raise NVMLError(NOT_SUPPORTED if users is None else NOT_FOUND)
        return [SimpleNamespace(pid=pid, smUtil=part, timeStamp=since_us + 1) for pid, part in users]

    def nvmlDeviceGetAccountingMode(self, handle: FakeGpu) -> int:  # noqa: N802
        """Return whether it is on."""
        return int(self._sound(handle).accounted is not None)

    def nvmlDeviceGetAccountingStats(self, handle: FakeGpu, pid: int) -> Any:  # noqa: N802
        """Return a process's figures; its time is 0 until it ends."""
        known = self._sound(handle).accounted or {}
        if pid not in known:
            raise NVMLError(NOT_FOUND)
        percent, life_s = known[pid]
        begin_us, time_ms = (round((time.time() - life_s) * 1e6), 0) if life_s > 0 else (0, round(-life_s * 1000))
        return SimpleNamespace(gpuUtilization=percent, startTime=begin_us, time=time_ms, isRunning=int(life_s > 0))

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> list[Any]:  # noqa: N802
        """Return who has it open."""
        return [SimpleNamespace(pid=pid) for pid in self._sound(handle).running]

    def _check(self) -> None:
        if not self.opened:
            raise NVMLError(UNINITIALISED)

    def _sound(self, gpu: FakeGpu) -> FakeGpu:
        self._check()
        if gpu.error is not None:
            raise NVMLError(gpu.error)
        return gpu


def _value(value: int | None) -> int:
    if value is None:
        raise NVMLError(NOT_SUPPORTED)
    return value


class _GpuBench:
    def _make(self, place: Path, monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu) -> None:
        monkeypatch.setenv("TPROF_SYSROOT", str(place / "root"))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        self.gpu = gpu
        self.nvml = FakeNvml(FakeGpu("GPU-other"), gpu).install(monkeypatch)
        self.nvml.gpus[0].error = NO_PERMISSION

    def remove(self) -> None:
        """Let it fall off the bus."""
        self.gpu.error = GPU_IS_LOST

    def put_back(self) -> None:
        """Reset it; it has the same UUID."""
        self.gpu.error = None
        self.show(self.shown)

    def forbid(self) -> None:
        """Let the driver refuse."""
        self.gpu.error = NO_PERMISSION


class NvmlCountBench(_GpuBench, CountBench):
    """A GPU with a count of energy, beside one that may not be read."""

    energy, domain, unit_j = "nvml", "gpu-1", 0.001

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        self._make(place, monkeypatch, FakeGpu("GPU-one"))

    def show(self, value: float) -> None:
        """Show a count."""
        self.shown = value
        self.gpu.energy_mj = int(value)

    def put_back(self) -> None:
        """Reset it; its count begins anew."""
        self.shown = self.count
        super().put_back()


class NvmlPowerBench(_GpuBench, PowerBench):
    """A GPU with power only."""

    energy, domain = "nvml", "gpu-1"

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        self._make(place, monkeypatch, FakeGpu("GPU-one", energy_mj=None))

    def show(self, value: float) -> None:
        """Show watts."""
        self.shown = value
        self.gpu.power_mw = round(value * 1000)
