"""Two sensors as another package adds them: a count of energy and a meter of power, each a file in a folder.

Their argument is the folder. `install` writes the metadata of a distribution that names them in its entry points.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tprof.errors import SensorError
from tprof.sensors import Accuracy, Domain, Found, Machine, Quality, Quantity, Reading, Sensor, Unavailable

from .sensor_conformance import CountBench, PowerBench

if TYPE_CHECKING:
    import pytest

NAME = "added-sensors"
UNIT_J = 0.001
MODULUS = 1 << 20


class FileReader:
    """Reads the file on each call."""

    period_s = 0.002

    def __init__(self, path: Path, domain: str) -> None:
        self.path, self.domain = path, domain

    def read(self) -> list[Reading]:
        """Return its number."""
        text = self.path.read_text()
        try:
            return [Reading(self.domain, float(text))]
        except ValueError:
            return [Reading(self.domain, None)]

    def close(self) -> None:
        """Nothing is open."""


class _FileSensor(Sensor):
    argument_words = "a folder"
    file: ClassVar[str]
    domain: ClassVar[Domain]

    def find(self, machine: Machine) -> Found | Unavailable:
        """Look for the file."""
        del machine
        try:
            (Path(self.argument) / self.file).read_text()
        except OSError as error:
            return Unavailable(f"cannot read {error.filename}: {error.strerror.lower()}")
        return Found((self.domain,))

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> FileReader:
        """Open it."""
        del machine, domains
        if not Path(self.argument).is_dir():
            raise SensorError(f"{self.argument} is gone: bring it back")
        return FileReader(Path(self.argument) / self.file, self.domain.name)


class Counter(_FileSensor):
    """A counter of a GPU's energy."""

    name = "added_counter"
    covers = "an accelerator, for tests"
    file = "count"
    domain = Domain(
        "gpu-0", "gpu", None, "added_counter", Quality.MEASURED, UNIT_J, MODULUS,
        accuracy=Accuracy(update_s=0.002, resolution=UNIT_J),
    )  # fmt: skip


class Meter(_FileSensor):
    """A meter of the whole machine's power."""

    name = "added_meter"
    covers = "the machine at its plug, for tests"
    file = "watts"
    domain = Domain(
        "wall", "wall", None, "added_meter", Quality.MEASURED,
        accuracy=Accuracy(resolution=0.1, relative_error=0.01, shows=Quantity.POWER),
    )  # fmt: skip


def install(place: Path, monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    """Put a distribution with these entry points on the path."""
    metadata = place / "added_sensors-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in entries.items())
    (metadata / "entry_points.txt").write_text(f"[tprof.sensors]\n{lines}")
    monkeypatch.syspath_prepend(str(place))


class _FileBench:
    def _make(self, place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        install(place / "packages", monkeypatch, added_counter=f"{__name__}:Counter", added_meter=f"{__name__}:Meter")
        self.file, self.away = place / "sensor" / name, place / "away"
        self.file.parent.mkdir()
        self.energy = f"{self.energy}:{self.file.parent}"

    def show(self, value: float) -> None:
        """Replace the file at once."""
        self.shown = value
        if self.file.parent.exists():
            new = self.file.with_suffix(".new")
            new.write_text(str(value))
            new.replace(self.file)

    def remove(self) -> None:
        """Take the folder away."""
        self.file.parent.rename(self.away)

    def put_back(self) -> None:
        """Bring it back."""
        self.away.rename(self.file.parent)
        self.show(self.shown)

    def forbid(self) -> None:
        """A folder in the file's place is one that root cannot read either."""
        self.file.unlink(missing_ok=True)
        self.file.mkdir()


class CounterBench(_FileBench, CountBench):
    """Of `added_counter`."""

    energy, domain, modulus, unit_j = "added_counter", "gpu-0", MODULUS, UNIT_J

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        self._make(place, monkeypatch, "count")


class MeterBench(_FileBench, PowerBench):
    """Of `added_meter`."""

    energy, domain = "added_meter", "wall"

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        self._make(place, monkeypatch, "watts")
