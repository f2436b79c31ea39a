"""NVIDIA GPUs by the driver's library NVML: a count of energy, or power where the GPU has no such count.

The count is of the whole board, in mJ since the driver was loaded. It moves every 20 to 100 ms, by GPU and driver, so
each GPU is polled closely around its next expected update only. NVML's power is a mean over up to a second on GPUs
since Ampere; the field of the instantaneous power is preferred to it. Both are documented in NVIDIA's "NVML API
Reference Guide", Device Queries; 5 % is the error that it states for the power.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError

from .advice import CONTAINER_GPUS, GPU_GROUP, GPU_RESET, INSTALL_NVML, NVIDIA_DRIVER, NVIDIA_MODULE, RESTART
from .contract import Accuracy, Domain, Found, Quality, Quantity, Reading, Sensor, Unavailable, Users
from .topology import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

    from .advice import Remedy
    from .contract import Machine

UNIT_J = 0.001
UPDATE_S = 0.1
"""The longest time between updates that is known; the shortest is about 20 ms."""
RELATIVE_ERROR = 0.05
NVIDIA, DISPLAY = "0x10de", "0x03"
POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, NO_DRIVER, NO_LIBRARY, NO_FUNCTION = 3, 4, 6, 9, 12, 13
LOST, NEEDS_RESET, BLOCKED, MISMATCH = 15, 16, 17, 18
_WHY: dict[int, tuple[str, tuple[Remedy, ...]]] = {
    NO_PERMISSION: ("this user may not talk to the NVIDIA driver", (GPU_GROUP,)),
    NO_DRIVER: ("the NVIDIA driver is not loaded", (NVIDIA_MODULE, CONTAINER_GPUS)),
    NO_LIBRARY: ("the NVIDIA driver's library libnvidia-ml.so.1 is not installed", (NVIDIA_DRIVER, CONTAINER_GPUS)),
    LOST: ("the GPU is lost: it fell off the bus or is shut down", (GPU_RESET, RESTART)),
    NEEDS_RESET: ("the GPU has to be reset before it answers", (GPU_RESET, RESTART)),
    BLOCKED: ("the operating system or the container blocks the NVIDIA driver", (CONTAINER_GPUS,)),
    MISMATCH: ("the NVIDIA driver and its library are of different versions, as after an update", (RESTART,)),
}


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML names it."""

    index: int
    uuid: str
    name: str
    pci: str

    @property
    def domain(self) -> str:
        """The name of its domain."""
        return f"gpu-{self.index}"


class Nvml(Sensor):
    """Every NVIDIA GPU of the machine."""

    name = "nvml"
    covers = "NVIDIA GPUs, each with its memory and board"
    subject = "gpu-nvidia"
    extra = "nvml"

    def find(self, machine: Machine) -> Found | Unavailable:
        """Ask the driver for its GPUs; those that CUDA_VISIBLE_DEVICES hides are measured, and not counted."""
        present = _on_pci(machine)
        try:
            nvml = _load()
        except SensorError as error:
            where = f" (NVIDIA GPU at {present})" if present else ""
            return Unavailable(f"{error}{where}", (INSTALL_NVML,), notable=present is not None)
        try:
            with _initialised(nvml):
                return _found(nvml, [_describe(nvml, index) for index in range(nvml.nvmlDeviceGetCount())])
        except nvml.NVMLError as error:
            why, remedies = explain(error)
            notable = present is not None or error.value not in (NO_LIBRARY, NO_DRIVER)
            return Unavailable(f"cannot read NVIDIA GPUs: {why}", remedies, notable=notable)

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> NvmlReader:
        """Open NVML for these domains, found again by their UUIDs."""
        del machine
        return NvmlReader(_load(), domains)


def explain(error: Any) -> tuple[str, tuple[Remedy, ...]]:
    """Return the reason of an NVMLError as a clause, and its remedies."""
    return _WHY.get(error.value, (f"NVML says: {str(error).rstrip('.')}", ()))


def _load() -> ModuleType:
    """Import the binding of NVML. Raises SensorError."""
    try:
        import pynvml  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SensorError("the package nvidia-ml-py is not installed") from error
    if not hasattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption"):
        raise SensorError("the installed pynvml is not that of nvidia-ml-py")
    module: ModuleType = pynvml
    return module


@contextmanager
def _initialised(nvml: ModuleType) -> Iterator[None]:
    """Hold NVML open; it counts its users, so that of the program stays open."""
    nvml.nvmlInit()
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def _on_pci(machine: Machine) -> str | None:
    """Return the address of an NVIDIA GPU, whether its driver is installed or not."""
    for device in sorted((machine.root / "sys/bus/pci/devices").glob("*")):
        if read_text(device / "vendor") == NVIDIA and (read_text(device / "class") or "").startswith(DISPLAY):
            return device.name
    return None


def _describe(nvml: ModuleType, index: int) -> tuple[Gpu, Any] | tuple[int, str]:
    """Return a GPU with its handle, or its index and why it cannot be read."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        pci = _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
        uuid, name = _text(nvml.nvmlDeviceGetUUID(handle)), _text(nvml.nvmlDeviceGetName(handle))
    except nvml.NVMLError as error:
        return index, explain(error)[0]
    return Gpu(index, uuid, name, pci), handle


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _found(nvml: ModuleType, described: Sequence[tuple[Gpu, Any] | tuple[int, str]]) -> Found | Unavailable:
    domains: list[Domain] = []
    left_out: list[tuple[str, str]] = []
    gpus = [one[0] for one in described if isinstance(one[0], Gpu)]
    visible = visible_gpus(gpus, os.environ, lambda text: _parent_of_mig(nvml, text))
    for one, other in described:
        if not isinstance(one, Gpu):
            left_out.append((f"gpu-{one}", f"cannot read it: {other}"))
            continue
        domain = _domain(nvml, one, other)
        if isinstance(domain, str):
            left_out.append((one.domain, f"cannot read it: {domain}"))
            continue
        hidden = visible is not None and one.index not in visible
        if hidden:
            left_out.append((one.domain, "CUDA_VISIBLE_DEVICES hides it from this program: others may use it"))
        domains.append(replace(domain, counted=not hidden))
        left_out += _mig(nvml, one, other)
    if domains:
        return Found(tuple(domains), tuple(left_out))
    why = "; ".join(f"{name}: {reason}" for name, reason in left_out) or "the driver finds none"
    remedies = next((pair[1] for pair in _WHY.values() if pair[0] in why), ())
    return Unavailable(f"cannot read NVIDIA GPUs: {why}", remedies, notable=bool(left_out))


def _domain(nvml: ModuleType, gpu: Gpu, handle: Any) -> Domain | str:
    """Return the domain of a GPU, or why it has none."""
    shows, resolution = Quantity.ENERGY, UNIT_J
    try:
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except nvml.NVMLError as error:
        if error.value not in (NOT_SUPPORTED, NO_FUNCTION):
            return explain(error)[0]
        shows, resolution = Quantity.POWER, 0.001
        try:
            power_w(nvml, handle)
        except nvml.NVMLError as error:
            if error.value == NOT_SUPPORTED:
                return "it shows neither energy nor power (a GPU of before 2011, a virtual one, or a MIG instance)"
            return explain(error)[0]
    covers = gpu.name if shows is Quantity.ENERGY else f"{gpu.name}, power integrated (it has no count of energy)"
    return Domain(
        gpu.domain,
        "gpu",
        None,
        Nvml.name,
        Quality.MEASURED,
        unit_j=UNIT_J,
        accuracy=Accuracy(UPDATE_S, resolution, RELATIVE_ERROR, shows, covers),
        details=(("uuid", gpu.uuid), ("model", gpu.name), ("pci", gpu.pci)),
    )


def power_w(nvml: ModuleType, handle: Any) -> float:
    """Return the GPU's watts, instantaneous ones if it shows them. Raises NVMLError."""
    try:
        value = nvml.nvmlDeviceGetFieldValues(handle, [POWER_INSTANT])[0]
        if value.nvmlReturn == 0:
            return float(value.value.uiVal) / 1000
    except nvml.NVMLError as error:
        if error.value not in (NOT_SUPPORTED, NO_FUNCTION):
            raise
    return float(nvml.nvmlDeviceGetPowerUsage(handle)) / 1000


def _mig(nvml: ModuleType, gpu: Gpu, handle: Any) -> list[tuple[str, str]]:
    try:
        enabled = nvml.nvmlDeviceGetMigMode(handle)[0]
    except nvml.NVMLError:
        return []
    why = f"NVML does not measure them apart: {gpu.domain} is the whole GPU, with what other instances draw"
    return [(f"MIG instances of {gpu.domain}", why)] if enabled else []


def _parent_of_mig(nvml: ModuleType, uuid: str) -> str | None:
    """Return the UUID of the GPU in which a MIG instance is."""
    try:
        parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml.nvmlDeviceGetHandleByUUID(uuid))
        return _text(nvml.nvmlDeviceGetUUID(parent))
    except nvml.NVMLError:
        return None


def visible_gpus(gpus: Sequence[Gpu], environment: Mapping[str, str], parent_of_mig: Any) -> set[int] | None:
    """Return the indices of the GPUs that CUDA_VISIBLE_DEVICES leaves to this program; None: all, or unknown.

    CUDA takes the entries up to the first that it does not know. Its own numbers are NVML's where the order is by PCI
    address, or all GPUs are alike; elsewhere the fastest is first, which NVML cannot tell.
    """
    given = environment.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return None
    found: set[int] = set()
    for entry in (part.strip() for part in given.split(",")):
        if entry.isdigit():
            by_pci = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
            if not by_pci and len({gpu.name for gpu in gpus}) > 1:
                return None
            chosen = [gpu.index for gpu in gpus if gpu.index == int(entry)]
        elif entry.startswith("MIG-"):
            uuid = parent_of_mig(entry)
            if uuid is None:
                return None
            chosen = [gpu.index for gpu in gpus if gpu.uuid == uuid]
        else:
            chosen = [gpu.index for gpu in gpus if entry and gpu.uuid.startswith(entry)]
        if len(chosen) != 1:
            break
        found.update(chosen)
    return found


SHORTEST_S, LONGEST_S = 0.002, 0.1
"""Time between polls: around an expected update, and where updates are not known."""
EARLIEST, LATEST = 0.85, 1.5
"""Close polling begins and ends at these parts of the usual time between updates."""
CLOSE_SHARE = 0.05
"""Part of the time that close polling may spend in calls of NVML, which take 20 µs to some ms."""
USUAL_S = 0.01
KEPT = 15 / 16


class Updates:
    """When to poll a value that updates at regular times which are not known at first."""

    def __init__(self) -> None:
        """Begin without any update."""
        self.gap_s: float | None = None
        self._value: float | None = None
        self._changed_s: float | None = None
        self._polled_s: float | None = None
        self._is_exact = False

    def next_s(self, now_s: float, took_s: float, value: float) -> float:
        """Return when to poll next, after a poll at `now_s` that took so long and gave this value."""
        close_s = min(max(SHORTEST_S, took_s / CLOSE_SHARE), LONGEST_S)
        window_s = None if self._polled_s is None else now_s - self._polled_s
        changed = self._value is not None and value != self._value
        self._value, self._polled_s = value, now_s
        if changed and window_s is not None:
            is_exact = window_s <= max(2 * close_s, USUAL_S + close_s)
            if is_exact and self._is_exact and self._changed_s is not None:
                self._learn(now_s - self._changed_s)
            self._changed_s, self._is_exact = now_s, is_exact
            return now_s + max(close_s, EARLIEST * self.gap_s if self.gap_s is not None else 0.0)
        if self.gap_s is not None and self._changed_s is not None and now_s - self._changed_s < LATEST * self.gap_s:
            return now_s + close_s
        return now_s + max(close_s, USUAL_S)

    def _learn(self, gap_s: float) -> None:
        """A gap that is far longer than usual had updates in it that were not seen, or none came."""
        if self.gap_s is None or gap_s < self.gap_s / LATEST:
            self.gap_s = gap_s
        elif gap_s < LATEST * self.gap_s:
            self.gap_s = KEPT * self.gap_s + (1 - KEPT) * gap_s


USERS_S = 0.5
"""Time between questions who uses the GPU; the driver's own sample period is 1/6 to 1 s."""


class _OpenGpu:
    """A GPU that is read: its handle, and when it is due."""

    def __init__(self, nvml: ModuleType, domain: Domain) -> None:
        self.nvml, self.domain = nvml, domain
        self.uuid = dict(domain.details)["uuid"]
        self.is_counted = domain.accuracy.shows is Quantity.ENERGY
        self.due_s = self.users_due_s = 0.0
        self._handle: Any = None
        self._updates = Updates()
        self.is_away = False
        self._has_utilisation = True
        self._seen_us = 0
        self._asked_ns: int | None = None

    def read(self) -> Reading:
        """Read its count or power. Raises NVMLError."""
        try:
            begin_s = time.monotonic()
            if self._handle is None:
                self._handle = self.nvml.nvmlDeviceGetHandleByUUID(self.uuid)
            if self.is_counted:
                value = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
            else:
                value = power_w(self.nvml, self._handle)
        except self.nvml.NVMLError:
            self._handle, self.is_away, self._updates = None, True, Updates()
            self.due_s = time.monotonic() + LONGEST_S
            raise
        t_ns = time.monotonic_ns()
        self.due_s = self._updates.next_s(t_ns * 1e-9, t_ns * 1e-9 - begin_s, value)
        reopened, self.is_away = self.is_away, False
        return Reading(self.domain.name, value, t_ns, reopened)

    def users(self) -> Users | None:
        """Return which processes used it since the last call; None if the driver does not say."""
        self.users_due_s = time.monotonic() + USERS_S
        try:
            processes = self._processes()
        except self.nvml.NVMLError:
            return None
        now_ns = time.monotonic_ns()
        since_ns, self._asked_ns = self._asked_ns, now_ns
        return None if since_ns is None else Users(self.domain.name, since_ns, now_ns, processes)

    def _processes(self) -> tuple[tuple[int, float | None], ...]:
        running = {int(one.pid) for one in self.nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
        used = self._used() if self._has_utilisation else None
        if used is None:
            return tuple((pid, None) for pid in sorted(running))
        return tuple((pid, used.get(pid, 0.0)) for pid in sorted(running | used.keys()))

    def _used(self) -> dict[int, float] | None:
        """Return the utilisation of each process that used it; None if the driver does not sample it."""
        try:
            samples = self.nvml.nvmlDeviceGetProcessUtilization(self._handle, self._seen_us)
        except self.nvml.NVMLError as error:
            if error.value == NOT_FOUND:  # nobody
                return {}
            if error.value not in {NOT_SUPPORTED, NO_FUNCTION, NO_PERMISSION}:
                raise
            self._has_utilisation = False
            return None
        self._seen_us = max([self._seen_us, *(int(one.timeStamp) for one in samples)])
        used: dict[int, float] = {}
        for one in samples:
            used[int(one.pid)] = max(used.get(int(one.pid), 0.0), min(int(one.smUtil) / 100, 1.0))
        return {pid: part for pid, part in used.items() if pid}


class NvmlReader:
    """The open GPUs."""

    period_s = SHORTEST_S

    def __init__(self, nvml: ModuleType, domains: tuple[Domain, ...]) -> None:
        """Open NVML. Raises SensorError."""
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise SensorError(f"cannot read NVIDIA GPUs: {explain(error)[0]}") from error
        self._nvml = nvml
        self._gpus = [_OpenGpu(nvml, domain) for domain in domains]

    def read(self) -> list[Reading | Users]:
        """Read the GPUs that are due. Raises SensorError if none can be read."""
        found: list[Reading | Users] = []
        failed: list[tuple[_OpenGpu, Any]] = []
        for gpu in self._gpus:
            now_s = time.monotonic()
            if gpu.due_s > now_s and gpu.is_counted:  # power is read each time, so that its integral has its ends
                continue
            try:
                found.append(gpu.read())
            except self._nvml.NVMLError as error:
                failed.append((gpu, error))
                continue
            if gpu.users_due_s <= now_s and (users := gpu.users()) is not None:
                found.append(users)
        if failed and all(gpu.is_away for gpu in self._gpus):
            raise SensorError(f"cannot read {failed[0][0].domain.name}: {explain(failed[0][1])[0]}")
        self.period_s = max(min(gpu.due_s for gpu in self._gpus) - time.monotonic(), SHORTEST_S)
        return found + [Reading(gpu.domain.name, None) for gpu, _ in failed]

    def close(self) -> None:
        """Close NVML."""
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            raise SensorError(f"cannot close NVML: {explain(error)[0]}") from error
