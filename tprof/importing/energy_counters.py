"""Which counters of a foreign trace are energy or power, and their joules by domain."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import UsageError
from tprof.trace.plain_values import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from .timeline import Counter, Timeline

ENERGY_UNITS = {
    "J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "µJ": 1e-6, "nJ": 1e-9, "Ws": 1.0, "uWs": 1e-6, "Wh": 3600.0, "mWh": 3.6,
    "uWh": 3.6e-3, "kWh": 3.6e6,
}  # fmt: skip
POWER_UNITS = {"W": 1.0, "mW": 1e-3, "uW": 1e-6, "µW": 1e-6, "kW": 1e3}
UNITS = ENERGY_UNITS | POWER_UNITS
_SPELT = {"joule": "J", "joules": "J", "watt": "W", "watts": "W"} | {unit.lower(): unit for unit in UNITS}
_SPELT |= {"mw": "mW", "mj": "mJ"}
_DOMAINS = (
    (r"psys|platform", "psys"),
    (r"dram|(?<![a-z])ram", "dram"),
    (r"uncore|pp1", "uncore"),
    (r"cores?(?![a-z])|pp0", "core"),
    (r"gpu", "gpu"),
    (r"package|pkg|intel-rapl(?!:\d+:)|rapl|socket", "package"),
    (r"^batt", "machine"),
)
_NAME_OF_UNIT = re.compile(r"^(.*?)[\s_.:(\[-]+([a-zµ]+)[)\]]?$", re.IGNORECASE)
LISTED = 8


@dataclass(frozen=True)
class Energy:
    """The joules of a domain, as `write_trace` takes them.

    Attributes
    ----------
    t_ns, energy_j : cumulative from 0
    counter : name of the counter that they come from
    falls : how often a counter of energy fell, whose joules there are not known
    """

    t_ns: NDArray[np.int64]
    energy_j: NDArray[np.float64]
    counter: str
    falls: int


@dataclass(frozen=True)
class Asked:
    """A counter that the user names: `NAME=DOMAIN:UNIT`."""

    counter: str
    domain: str
    unit: str


def parse_counter(text: str) -> Asked:
    """Return what a user says of a counter. Raises UsageError."""
    name, equals, rest = text.rpartition("=")
    domain, colon, unit = rest.rpartition(":")
    if not (equals and colon and name and domain) or _unit(unit) is None:
        units = ", ".join(dict.fromkeys(UNITS))
        raise UsageError(
            f"--counter must be NAME=DOMAIN:UNIT such as pkg=package-0:uJ, with one of {units}; got {shown(text)}"
        )
    return Asked(name, domain, _unit(unit) or unit)


def energy_of(timeline: Timeline, asked: Sequence[Asked], end_ns: int) -> dict[str, Energy]:
    """Return the joules by domain: of the counters that were named, else of those whose names and units tell.

    Raises UsageError if a counter that was named is not there.
    """
    counters = [one for one in timeline.counters.values() if len(one.t_ns)]
    found: dict[str, tuple[Counter, str]] = {}
    for one in asked:
        counter = next((counter for counter in counters if counter.name == one.counter), None)
        if counter is None:
            raise UsageError(f"there is no counter {shown(one.counter)}; {listed(counters)}")
        if one.domain in found:
            raise UsageError(f"two counters cannot both be the domain {shown(one.domain)}: leave one of them out")
        found[one.domain] = (counter, one.unit)
    for counter in () if asked else sorted(counters, key=_is_power):
        what = _told(counter, timeline.facts.get("domains"))
        if what is not None:
            found.setdefault(what[0], (counter, what[1]))
    return {domain: _joules(counter, unit, end_ns) for domain, (counter, unit) in found.items()}


def cpu_times_of(timeline: Timeline) -> list[tuple[str, dict[str, Any], tuple[Any, Any]]]:
    """Return counters of CPU time, as an export of tprof describes them: name, description, times and nanoseconds."""
    told = timeline.facts.get("cpu_times")
    found = []
    for counter in timeline.counters.values():
        what = told.get(counter.name) if isinstance(told, dict) else None
        if not isinstance(what, dict) or what.get("quantity") not in {"busy", "program"}:
            continue
        package = what.get("package")
        described = {"quantity": what["quantity"], "package": package if type(package) is int else None}
        t_ns = np.array(counter.t_ns, np.int64)
        cpu_ns = np.maximum.accumulate(np.maximum(np.rint(np.array(counter.value) * 1e9), 0.0))
        if len(t_ns) and bool((np.diff(t_ns) >= 0).all()) and float(cpu_ns[-1]) < 2.0**62:
            found.append((counter.name.split(" CPU time")[0], described, (t_ns, cpu_ns.astype(np.uint64))))
    return found


def listed(counters: Iterable[Counter]) -> str:
    """Return the names of the counters that a file has, as a clause."""
    names = sorted({one.name for one in counters})
    if not names:
        return "the file has no counters"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"the file has {', '.join(map(shown, names[:LISTED]))}{more}"


def _unit(text: str) -> str | None:
    return text if text in UNITS else _SPELT.get(text.lower())


def _is_power(counter: Counter) -> bool:
    """Order counters of energy before those of power, which say less."""
    unit = _told_unit(counter)
    return unit in POWER_UNITS if unit is not None else True


def _told_unit(counter: Counter) -> str | None:
    if counter.unit and _unit(counter.unit) is not None:
        return _unit(counter.unit)
    match = _NAME_OF_UNIT.match(counter.name)
    return None if match is None else _unit(match.group(2))


def _told(counter: Counter, own: object) -> tuple[str, str] | None:
    """Return the domain and the unit of a counter whose name and unit tell them."""
    unit = _told_unit(counter)
    if unit is None:
        return None
    if isinstance(own, dict):
        # An export of tprof names its domains; what a policy set is no energy.
        domain, _, kind = counter.name.rpartition(" ")
        return (domain, unit) if domain in own and kind in {"energy", "power"} else None
    if counter.unit == "uWs" and counter.name.startswith("power."):
        rail = re.sub(r"[^A-Za-z0-9_.-]", "_", counter.name.removeprefix("power."))
        return f"rail-{rail}"[:60], unit
    name = counter.name.lower()
    for pattern, scope in _DOMAINS:
        match = re.search(pattern, name)
        if match is not None:
            number = re.search(r"[-_: ]?(\d+)", name[match.end() :])
            numbered = scope not in {"psys", "machine"}
            return (f"{scope}-{int(number.group(1)) if number else 0}" if numbered else scope), unit
    return None


def _joules(counter: Counter, unit: str, end_ns: int) -> Energy:
    t_ns, value = np.array(counter.t_ns, np.int64), np.array(counter.value, np.float64)
    order = np.argsort(t_ns, kind="stable")
    t_ns, value = t_ns[order], value[order] * UNITS[unit]
    if unit in POWER_UNITS:
        # A value holds until the next one, and the last one until the trace ends.
        t_ns = np.append(t_ns, max(end_ns, int(t_ns[-1])))
        steps_j, falls = np.diff(t_ns) * 1e-9 * np.maximum(value, 0.0), 0
    else:
        steps_j = np.diff(value) * (-1 if counter.falls else 1)
        falls = int((steps_j < 0).sum())
        steps_j = np.maximum(steps_j, 0.0)
    return Energy(t_ns, np.concatenate(([0.0], np.cumsum(steps_j))), counter.name, falls)
