"""AMD GPUs by the library AMD SMI, which comes with ROCm: a count of energy where the kernel's driver has only power.

`amdsmi_get_energy_count` gives the accumulator and the µJ of its count (15.3 on MI200, "AMD SMI", Power Queries). GPUs
whose accumulator is not supported are left to the kernel's driver (`energy="amd_gpu"`).
"""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError
from tprof.sensors import Accuracy, Domain, Found, Quality, Reading, Sensor, Unavailable
from tprof.sensors.advice import Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from tprof.sensors import Machine

INSTALL = Remedy("pip install /opt/rocm/share/amd_smi")
PERIOD_S, UPDATE_S = 0.01, 0.1
NAMES = ("energy_accumulator", "power")
"""The accumulator in versions from 6.1 on, and before."""


class AmdSmi(Sensor):
    """All GPUs that the library lists."""

    name = "amd_smi"
    covers = "AMD GPUs, by ROCm's library AMD SMI"
    subject = "gpu-amd"

    def find(self, machine: Machine) -> Found | Unavailable:
        """Ask the library for GPUs that count energy."""
        del machine
        if find_spec("amdsmi") is None:
            return Unavailable("the Python package amdsmi is not installed", (INSTALL,))
        try:
            library = _Library()
        except (OSError, SensorError) as error:
            return Unavailable(str(error))
        try:
            counts = library.counts()
        finally:
            library.close()
        domains = tuple(
            Domain(
                _domain(place),
                "gpu",
                None,
                self.name,
                Quality.MEASURED,
                resolution_j,
                accuracy=Accuracy(update_s=UPDATE_S, resolution=resolution_j, covers="an AMD GPU with its memory"),
            )
            for place, (_, resolution_j) in counts.items()
        )
        return Found(domains) if domains else Unavailable("AMD SMI lists no GPU that counts its energy")

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> AmdSmiReader:
        """Open the library. Raises SensorError."""
        del machine
        return AmdSmiReader({domain.name for domain in domains})


class AmdSmiReader:
    """Reads the accumulators."""

    period_s = PERIOD_S

    def __init__(self, names: set[str]) -> None:
        """Open the library. Raises SensorError."""
        self._names = names
        self._library = _Library()

    def read(self) -> list[Reading]:
        """Return the counts; that of a GPU that gives none is missing."""
        counts = {_domain(place): count for place, (count, _) in self._library.counts().items()}
        if not counts:
            raise SensorError("AMD SMI gives no energy of any GPU")
        return [Reading(name, counts.get(name)) for name in sorted(self._names)]

    def close(self) -> None:
        """Close the library."""
        self._library.close()


class _Library:
    """AMD SMI, which is not to be loaded before it is needed."""

    def __init__(self) -> None:
        self._module = _imported()
        try:
            self._module.amdsmi_init()
            self._gpus = list(self._module.amdsmi_get_processor_handles())
        except self._module.AmdSmiException as error:
            raise SensorError(f"AMD SMI cannot be used: {error}") from error

    def counts(self) -> dict[int, tuple[int, float]]:
        """Return count and joules of a count, by the GPU's place in the list."""
        found = {}
        for place, gpu in enumerate(self._gpus):
            with suppress(self._module.AmdSmiException):  # no accumulator, or it cannot be read now
                said: Mapping[str, Any] = self._module.amdsmi_get_energy_count(gpu)
                count = next((said[name] for name in NAMES if name in said), None)
                unit_j = said.get("counter_resolution")
                if isinstance(count, int) and isinstance(unit_j, int | float) and unit_j > 0:
                    found[place] = (count, unit_j * 1e-6)
        return found

    def close(self) -> None:
        with suppress(self._module.AmdSmiException):  # it is gone already
            self._module.amdsmi_shut_down()


def _imported() -> ModuleType:
    try:
        import amdsmi  # noqa: PLC0415 - loads ROCm
    except (ImportError, OSError, KeyError) as error:  # without ROCm it fails as it searches for its library
        raise SensorError(f"the Python package amdsmi cannot be loaded: {error}") from error
    module: ModuleType = amdsmi
    return module


def _domain(place: int) -> str:
    return f"gpu-amd-{place}"
