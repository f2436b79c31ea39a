"""NVIDIA GPUs by the driver's library NVML: a count of energy, or power where the GPU has no such count.

The count is of the whole board, in mJ since the driver was loaded, and moves every 20 to 100 ms. NVML's power is a mean
over up to a second on GPUs since Ampere; the field of the instantaneous power is preferred to it. Both are documented
in NVIDIA's "NVML API Reference Guide", Device Queries; 5 % is the error that it states for the power.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError

from .advice import INSTALL_NVML
from .contract import Accuracy, Domain, Found, LeftOut, Omission, Quality, Quantity, Sensor, Unavailable
from .nvml_library import (
    ERRORS,
    NO_DRIVER,
    NO_FUNCTION,
    NO_LIBRARY,
    NOT_SUPPORTED,
    explain,
    initialised,
    load,
    power_w,
    text,
)
from .nvml_reader import NvmlReader
from .nvml_users import UNKNOWN, how_known
from .topology import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from .advice import Remedy
    from .contract import Machine

UNIT_J = 0.001
UPDATE_S = 0.1
"""The longest time between updates that is known; the shortest is about 20 ms."""
RELATIVE_ERROR = 0.05
NVIDIA, DISPLAY = "0x10de", "0x03"


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
            nvml = load()
        except SensorError as error:
            where = f" (NVIDIA GPU at {present})" if present else ""
            return Unavailable(f"{error}{where}", (INSTALL_NVML,), notable=present is not None)
        try:
            with initialised(nvml):
                return _found(nvml, [_describe(nvml, index) for index in range(nvml.nvmlDeviceGetCount())])
        except nvml.NVMLError as error:
            why, remedies = explain(error)
            notable = present is not None or error.value not in (NO_LIBRARY, NO_DRIVER)
            return Unavailable(f"cannot read NVIDIA GPUs: {why}", remedies, notable=notable)

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> NvmlReader:
        """Open NVML for these domains, found again by their UUIDs."""
        del machine
        return NvmlReader(load(), domains)


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
        pci = text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower()
        uuid, name = text(nvml.nvmlDeviceGetUUID(handle)), text(nvml.nvmlDeviceGetName(handle))
    except nvml.NVMLError as error:
        return index, explain(error)[0]
    return Gpu(index, uuid, name, pci), handle


def _found(nvml: ModuleType, described: Sequence[tuple[Gpu, Any] | tuple[int, str]]) -> Found | Unavailable:
    domains: list[Domain] = []
    left_out: list[LeftOut] = []
    gpus = [one[0] for one in described if isinstance(one[0], Gpu)]
    visible = visible_gpus(gpus, os.environ, lambda uuid: _parent_of_mig(nvml, uuid))
    for one, other in described:
        if not isinstance(one, Gpu):
            left_out.append(_unreadable(f"gpu-{one}", str(other)))
            continue
        domain = _domain(nvml, one, other)
        if isinstance(domain, str):
            left_out.append(_unreadable(one.domain, domain))
            continue
        hidden = visible is not None and one.index not in visible
        if hidden:
            left_out.append(LeftOut(one.domain, "CUDA_VISIBLE_DEVICES hides it from this program: others may use it"))
        domains.append(replace(domain, counted=not hidden))
        left_out += _mig(nvml, one, other)
    if domains:
        return Found(tuple(domains), tuple(left_out))
    why = "; ".join(f"{one.name}: {one.why}" for one in left_out) or "the driver finds none"
    remedies = _remedies(why)
    return Unavailable(f"cannot read NVIDIA GPUs: {why}", remedies, notable=bool(left_out))


def _unreadable(name: str, why: str) -> LeftOut:
    return LeftOut(name, f"cannot read it: {why}", Omission.UNREADABLE, next(iter(_remedies(why)), None))


def _remedies(why: str) -> tuple[Remedy, ...]:
    return next((remedies for reason, remedies in ERRORS.values() if reason in why), ())


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
    try:
        how = how_known(nvml, handle)
    except nvml.NVMLError as error:
        return explain(error)[0]
    covers = gpu.name if shows is Quantity.ENERGY else f"{gpu.name}, power integrated (it has no count of energy)"
    if how == UNKNOWN:
        covers += ", for all who use it (the driver tells no process's use)"
    return Domain(
        gpu.domain,
        "gpu",
        None,
        Nvml.name,
        Quality.MEASURED,
        unit_j=UNIT_J,
        accuracy=Accuracy(UPDATE_S, resolution, RELATIVE_ERROR, shows, covers),
        details=(("uuid", gpu.uuid), ("model", gpu.name), ("pci", gpu.pci), ("processes", how)),
    )


def _mig(nvml: ModuleType, gpu: Gpu, handle: Any) -> list[LeftOut]:
    try:
        enabled = nvml.nvmlDeviceGetMigMode(handle)[0]
    except nvml.NVMLError:
        return []
    why = f"NVML does not measure them apart: {gpu.domain} is the whole GPU, with what other instances draw"
    return [LeftOut(f"MIG instances of {gpu.domain}", why)] if enabled else []


def _parent_of_mig(nvml: ModuleType, uuid: str) -> str | None:
    """Return the UUID of the GPU in which a MIG instance is."""
    try:
        parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml.nvmlDeviceGetHandleByUUID(uuid))
        return text(nvml.nvmlDeviceGetUUID(parent))
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
