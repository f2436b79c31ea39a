"""From a trace to a profile: the order of the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .busy import SeenTime, find_others, interval_edges
from .domain import Accounts, DomainAttribution
from .energies import DomainEnergies, InstanceEnergies
from .info import describe
from .instances import Instances, number_rows
from .models import Coefficients, choose_model
from .profile import Profile
from .quanta import MAX_POWER_W, Quanta, make_quanta
from .segments import Segments, make_segments
from .tables import tasks_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tprof.trace import Readings, Trace

    from .busy import Others
    from .models import Model

FIXED_COLUMNS = {"energy_uj", "cpu_ns"}


@dataclass
class ThreadPart:
    """A thread on its way through the steps."""

    index: int
    segments: Segments
    modelled: npt.NDArray[np.float64]
    row: npt.NDArray[np.int32]


def build_profile(
    trace: Trace,
    *,
    model: str = "auto",
    coefficients: str | Mapping[str, float] | Coefficients | None = None,
    max_power_w: float = MAX_POWER_W,
) -> Profile:
    """Attribute a trace's joules to its tasks.

    Parameters
    ----------
    trace
        From `tprof.load`.
    model
        "auto" or the name of a power model: "linear", "ipc", "fesc", "cputime".
    coefficients
        For `linear`: a name ("tprof-table1") or a mapping with a, b, c, C1 and C2.
    max_power_w
        What a domain cannot draw; a sensor that says more is at fault for that interval.

    Returns
    -------
    Profile

    Raises
    ------
    UsageError
        If the model is unknown or needs what the trace does not have.

    References
    ----------
    TProf, sections 3.1 to 3.4; docs/attribution.md.
    """
    chosen = choose_model(trace, model, coefficients)
    counters = _counters(trace)
    parts = _read_threads(trace, chosen.model, counters)
    seen = SeenTime(interval_edges(trace))
    for part in parts:
        seen.add(part.segments)
    others = find_others(trace, seen)
    rows = number_rows([part.segments.instance[part.segments.start] for part in parts])
    instances = Instances(rows, counters)
    for part in parts:
        part.row = instances.row_of_segments(part.segments)
        instances.add(part.index, part.segments, part.row)
    domains = [reading for reading in trace.readings.values() if reading.quantity == "energy"]
    attributed = [_attribute(trace, domain, domains, parts, others, instances, chosen.model, max_power_w) for domain in domains]
    energies = InstanceEnergies(rows.count)
    for domain, (_, _, domain_energies) in zip(domains, attributed, strict=True):
        if domain.counted:
            energies.add(domain_energies)
    quanta = {domain.name: result[0] for domain, result in zip(domains, attributed, strict=True)}
    accounts = {domain.name: result[1] for domain, result in zip(domains, attributed, strict=True)}
    info = describe(trace, chosen, quanta, others, [part.segments for part in parts], instances.twice)
    parts.clear()
    return Profile(
        trace=trace,
        tasks=tasks_frame(trace, instances, energies),
        accounts_by_domain=accounts,
        quanta=quanta,
        info=info,
    )


def _counters(trace: Trace) -> tuple[str, ...]:
    names = dict.fromkeys(name for thread in trace.threads for name in thread.columns)
    return tuple(name for name in names if name not in FIXED_COLUMNS)


def _read_threads(trace: Trace, model: Model, counters: tuple[str, ...]) -> list[ThreadPart]:
    parts = []
    for index, thread in enumerate(trace.threads):
        segments = make_segments(trace, thread, counters)
        if segments is not None:
            parts.append(ThreadPart(index, segments, model.energy(segments), np.zeros(0, np.int32)))
    _fill_missing(parts)
    return parts


def _fill_missing(parts: list[ThreadPart]) -> None:
    """Where the model has no counters to go by, a running second weighs as much as the mean of the others."""
    missing = [np.isnan(part.modelled) for part in parts]
    modelled = sum(float(part.modelled[~gone].sum()) for part, gone in zip(parts, missing, strict=True))
    seconds = sum(float(part.segments.running_s[~gone].sum()) for part, gone in zip(parts, missing, strict=True))
    mean_w = modelled / seconds if modelled > 0 and seconds > 0 else 1.0
    for part, gone in zip(parts, missing, strict=True):
        if modelled <= 0:
            part.modelled = part.segments.running_s
        elif gone.any():
            part.modelled[gone] = part.segments.running_s[gone] * mean_w


def _attribute(  # noqa: PLR0913 - what one domain's attribution needs
    trace: Trace,
    domain: Readings,
    domains: list[Readings],
    parts: list[ThreadPart],
    others: Others,
    instances: Instances,
    model: Model,
    max_power_w: float,
) -> tuple[Quanta, Accounts, DomainEnergies]:
    quanta = make_quanta(domain, max_power_w)
    if len(quanta.edges_ns) < 2:  # noqa: PLR2004 - nothing was measured
        edge = int(quanta.edges_ns[0]) if len(quanta.edges_ns) else trace.start_ns
        quanta = Quanta(quanta.name, np.array([edge, edge + 1]), np.array([np.nan]), quanta.warnings)
    packages = sorted({one.package for one in domains if one.scope == "package" and one.package is not None})
    package = domain.package if len(packages) > 1 else None
    attribution = DomainAttribution(quanta, package, _static_w(trace, domain, model))
    weights = [_weight(part.segments, package, len(packages)) for part in parts]
    placements = [
        attribution.add(part.segments, part.modelled, weight) for part, weight in zip(parts, weights, strict=True)
    ]
    attribution.settle(others, 1.0 if package is None else 1.0 / len(packages))
    energies = DomainEnergies(attribution, instances)
    for part, placement, weight in zip(parts, placements, weights, strict=True):
        energies.add(attribution.hand_out(part.segments, placement, part.modelled, weight), part.row)
    return quanta, attribution.accounts(), energies


def _static_w(trace: Trace, domain: Readings, model: Model) -> float:
    said = trace.manifest.get("static_power_w")
    watts: Any = said.get(domain.name) if isinstance(said, dict) else None
    if isinstance(watts, int | float) and np.isfinite(watts) and watts > 0:
        return float(watts)
    if domain.scope == "package" and model.package_w is not None:
        return max(model.package_w, 0.0)
    return 0.0


def _weight(segments: Segments, package: int | None, packages: int) -> npt.NDArray[np.float64] | float:
    """Return how much of each segment a package's domain covers: all, nothing, or half where it moved."""
    if package is None:
        return 1.0
    weight = np.where(segments.package == package, 1.0, 0.0)
    weight[segments.package < 0] = 1.0 / packages
    moved = segments.moved
    after = segments.package[np.minimum(moved + 1, len(weight) - 1)]
    weight[moved] = 0.5 * weight[moved] + 0.5 * (after == package)
    return weight
