"""What an export says of its figures: their quality, sensor, model and warnings, as plain values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tprof.analysis.names import shown

from tprof.trace.metadata import packages_of_cpus

from .counters import CPU_TIMES, cpu_time_name

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

MOST_WARNINGS = 50


def facts_of(profile: Profile) -> dict[str, Any]:
    """Return what an export says of its figures, as plain values."""
    info = profile.info
    facts = {
        "session": profile.trace.path.name,
        "quality": str(info["quality"]),
        "model": info["model"] if isinstance(info["model"], str) else ", ".join(info["model"]),
        "duration_s": info["duration_s"],
        "warnings": [shown(str(text)) for text in info["warnings"][:MOST_WARNINGS]],
    }
    if profile.job is not None:
        return facts | {
            "hosts": profile.hosts.index.tolist(),
            "measured_j": profile.measured_by_quality,
        }
    host = profile.trace.manifest.get("host") or {}
    return facts | {
        "sensor": info["sensor"],
        "host": {name: value for name, value in host.items() if isinstance(value, str | int | float)},
        "domains": {
            one.name: {"quality": str(one.quality), "counted": one.counted, "scope": one.scope, "package": one.package}
            for one in profile.quanta
        },
        "cpu_times": {
            cpu_time_name(one): {"quantity": one.quantity, "package": one.package}
            for one in profile.trace.readings.values()
            if one.quantity in CPU_TIMES
        },
        "topology": [
            {"cpu": cpu, "package": package}
            for cpu, package in enumerate(packages_of_cpus(profile.trace.manifest).tolist())
            if package >= 0
        ],
        "static_power_w": profile.trace.manifest.get("static_power_w") or {},
        "measured_j": profile.measured_j if profile.measured_j == profile.measured_j else None,
    }
