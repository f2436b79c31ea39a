"""What must be here before kernels are run for their power: a sensor that measures, the counters of equation 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof import counters as counter_events
from tprof import sensors
from tprof.errors import SensorError

if TYPE_CHECKING:
    from pathlib import Path

ASK = 'see "tprof doctor" for what would grant it'
COUNTERS = (("llc_refs", "l2_refs"), ("llc_refs",))


def check_energy(energy: str, root: Path, *, what: str) -> None:
    """Refuse an estimate, or none. Raises SensorError, which says that `what` needs a sensor."""
    choice = sensors.choose(energy, root=root)
    packages = [domain for domain in choice.domains if domain.counted and domain.scope == "package"]
    if choice.estimate is not None or not packages:
        why = "this machine gives an estimate only" if choice.estimate is not None else "none was found"
        message = f"{what} needs a sensor that measures the package's energy, and {why}: {ASK}"
        raise SensorError(message)


def counters_here(root: Path, *, what: str) -> tuple[str, ...]:
    """Return the counters of equation 1 that count here; that of the L2 is known for Intel's processors only.

    Raises SensorError, which says that `what` needs them.
    """
    problem = ""
    for names in COUNTERS:
        try:
            counter_events.choose(names, root=root)
        except SensorError as error:
            problem = str(error).partition("; ")[0]
        else:
            return names
    message = f"{what} needs the processor's counters ({problem}): {ASK}"
    raise SensorError(message)
