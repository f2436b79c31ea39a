"""NVIDIA's library NVML by the package nvidia-ml-py: loaded when it is needed, its errors as clauses with remedies.

NVML's numbers of errors and fields are part of its documented interface ("NVML API Reference Guide").
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError

from .advice import CONTAINER_GPUS, GPU_GROUP, GPU_RESET, NVIDIA_DRIVER, NVIDIA_MODULE, RESTART

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from .advice import Remedy

POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, NO_DRIVER, NO_LIBRARY, NO_FUNCTION = 3, 4, 6, 9, 12, 13
LOST, NEEDS_RESET, BLOCKED, MISMATCH = 15, 16, 17, 18
ERRORS: dict[int, tuple[str, tuple[Remedy, ...]]] = {
    NO_PERMISSION: ("this user may not talk to the NVIDIA driver", (GPU_GROUP,)),
    NO_DRIVER: ("the NVIDIA driver is not loaded", (NVIDIA_MODULE, CONTAINER_GPUS)),
    NO_LIBRARY: ("the NVIDIA driver's library libnvidia-ml.so.1 is not installed", (NVIDIA_DRIVER, CONTAINER_GPUS)),
    LOST: ("the GPU is lost: it fell off the bus or is shut down", (GPU_RESET, RESTART)),
    NEEDS_RESET: ("the GPU has to be reset before it answers", (GPU_RESET, RESTART)),
    BLOCKED: ("the operating system or the container blocks the NVIDIA driver", (CONTAINER_GPUS,)),
    MISMATCH: ("the NVIDIA driver and its library are of different versions, as after an update", (RESTART,)),
}


def load() -> ModuleType:
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
def initialised(nvml: ModuleType) -> Iterator[None]:
    """Hold NVML open; it counts its users, so that of the program stays open."""
    nvml.nvmlInit()
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def explain(error: Any) -> tuple[str, tuple[Remedy, ...]]:
    """Return the reason of an NVMLError as a clause, and its remedies."""
    return ERRORS.get(error.value, (f"NVML says: {str(error).rstrip('.')}", ()))


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


def text(value: str | bytes) -> str:
    """Return a text of NVML, which older packages give as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
