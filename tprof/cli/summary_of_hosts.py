"""The part of a summary on the hosts of a job, and what its tasks say of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.trace.plain_values import counted

from .render import DASH, Column, clean, filled, fitting, lines_of, percent, quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tprof.analysis import Profile

    Row = Mapping[Any, Any]

_ACCOUNTS = ("tasks", "runtime", "other", "idle")


def host_lines(profile: Profile, label: str, width: int | None) -> list[str]:
    """Return a line for each host of a job, and for each that is missing; no lines of one host's recording."""
    if profile.job is None:
        return []
    hosts = profile.hosts[profile.hosts["quality"] != "missing"]
    is_mixed = hosts["quality"].nunique() > 1
    columns = [
        Column("energy", tuple(quantity(float(value), "J") for value in hosts["energy_j"]), 9),
        Column("power", tuple(DASH if math.isnan(value) else quantity(value, "W") for value in hosts["power_w"]), 8),
        *(
            Column(name, tuple(_joules(value) for value in hosts[f"{name}_j"]), 5 - place)
            for place, name in enumerate(_ACCOUNTS)
        ),
        Column("busy", tuple(percent(float(value)) for value in hosts["busy_share"]), 7),
        Column("imbalance", tuple(_signed(float(value)) for value in hosts["imbalance"]), 6),
    ]
    if is_mixed:
        columns.insert(0, Column("quality", tuple(hosts["quality"]), 10))
    names = [clean(name) for name in hosts.index]
    missing = [f"{clean(host)}: {clean(why)}" for host, why in profile.info["missing"].items()]
    return [
        f"Hosts{'' if is_mixed else label}",
        *lines_of("host", names, fitting(names, columns, width), width),
        *(f"missing: {filled(text, width)}" for text in missing),
    ]


def host_columns(profile: Profile) -> dict[str, tuple[str, Callable[[Row], str]]]:
    """Return the columns that only the tasks of a job have; unlike hosts stand apart."""
    if profile.job is None:
        return {}
    found: dict[str, tuple[str, Callable[[Row], str]]] = {"hosts": ("hosts", lambda row: f"{int(row['hosts']):,}")}
    qualities = sorted(set(profile.hosts["quality"]) - {"missing", "none"})
    for quality in qualities if len(qualities) > 1 else ():
        found[quality] = (quality, lambda row, name=f"{quality}_j": _joules(row.get(name)))  # type: ignore[misc]
    return found


def job_energy(profile: Profile) -> str:
    """Return the energy of all hosts by quality, and how many hosts there are."""
    sums = " and ".join(f"{quantity(joules, 'J')} {quality}" for quality, joules in profile.measured_by_quality.items())
    count = int((profile.hosts["quality"] != "missing").sum())
    recordings = int(profile.hosts["recordings"].sum())
    more = f" ({recordings} recordings)" if recordings > count else ""
    return f"All hosts: {sums or 'no energy'} on {counted(count, 'host')}{more}"


def _joules(value: Any) -> str:
    return DASH if value is None or math.isnan(float(value)) else quantity(float(value), "J")


def _signed(value: float) -> str:
    return DASH if math.isnan(value) else f"{100 * value:+.1f} %"
