"""What stands behind a profile: sensor, model, losses, warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tprof.trace import Quality

if TYPE_CHECKING:
    from .busy import Others
    from .models import Chosen
    from .quanta import Quanta
    from .segments import Segments
    from tprof.trace import Readings, Trace

UNSEEN_LIMIT = 0.05


def describe(  # noqa: PLR0913 - everything a profile knows about itself
    trace: Trace,
    chosen: Chosen,
    quanta: dict[str, Quanta],
    others: Others,
    segments: list[Segments],
    twice: int,
) -> dict[str, Any]:
    """Make `Profile.info`."""
    manifest, end = trace.manifest, trace.end
    counted = [reading for reading in trace.readings.values() if reading.quantity == "energy" and reading.counted]
    dropped: dict[str, int] = {}
    for thread in trace.threads:
        for reason, count in thread.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    return {
        "sensor": _sensor_line(counted, manifest),
        "quality": str(_quality(counted)),
        "domains": [_domain(reading) for reading in trace.readings.values() if reading.quantity == "energy"],
        "left_out": _left_out(manifest),
        "model": chosen.model.name,
        "model_why": chosen.why,
        "coefficients": chosen.model.describe(),
        "complete": trace.complete,
        "duration_s": max(trace.end_ns - trace.start_ns, 0) * 1e-9,
        "threads": len(trace.threads),
        "samples": sum(thread.count for thread in trace.threads),
        "dropped": dropped,
        "lost_threads": end.get("lost_threads", 0),
        "static_power_w": manifest.get("static_power_w") or {},
        "unseen_share": others.unseen_share,
        "host": manifest.get("host") or {},
        "argv": manifest.get("argv") or [],
        "created": manifest.get("created"),
        "energy_filtering": manifest.get("energy_filtering", "unknown"),
        "warnings": _warnings(trace, quanta, others, segments, twice),
    }


def _quality(counted: list[Readings]) -> Quality:
    """Return the least trustworthy of the counted domains' qualities."""
    order = (Quality.ESTIMATED, Quality.SIMULATED, Quality.GIVEN, Quality.MEASURED)
    return min((reading.quality for reading in counted), key=order.index, default=Quality.GIVEN)


def _sensor_line(counted: list[Readings], manifest: dict[str, Any]) -> str:
    if not counted:
        return "no energy sensor"
    names = ", ".join(sorted(reading.name for reading in counted))
    sources = ", ".join(sorted({reading.source for reading in counted}))
    quality = _quality(counted)
    if quality != Quality.ESTIMATED:
        return f"{sources} ({names}), {quality}"
    estimate = manifest.get("estimate")
    if not isinstance(estimate, dict):
        return f"ESTIMATE ({names})"
    how = "given" if estimate.get("given") else "assumed"
    return f"ESTIMATE: {estimate.get('idle_w')} W idle + {estimate.get('per_core_w')} W per busy core, {how}"


def _domain(reading: Readings) -> dict[str, Any]:
    return {
        "name": reading.name,
        "scope": reading.scope,
        "package": reading.package,
        "source": reading.source,
        "quality": str(reading.quality),
        "counted": reading.counted,
        "readings": len(reading.t_ns),
    }


def _left_out(manifest: dict[str, Any]) -> list[dict[str, str]]:
    said = manifest.get("left_out")
    return [
        {"name": str(entry.get("name")), "why": str(entry.get("why"))}
        for entry in (said if isinstance(said, list) else [])
        if isinstance(entry, dict)
    ]


def _warnings(
    trace: Trace, quanta: dict[str, Quanta], others: Others, segments: list[Segments], twice: int
) -> list[str]:
    told = list(trace.notes)
    for one in quanta.values():
        told += one.warnings
    if others.unseen_share > UNSEEN_LIMIT:
        told.append(
            f"{others.unseen_share:.0%} of the program's CPU time ran on threads that no task shows (BLAS or OpenMP "
            "pools, or code outside tasks); it counts as runtime: hold pools to one thread with threadpoolctl or "
            "OMP_NUM_THREADS=1, or make tasks of what runs there"
        )
    moved = sum(len(one.moved) for one in segments)
    if moved:
        told.append(f"{moved} segments moved to another package while they ran: half of each counts on either")
    unordered = sum(one.unordered for one in segments)
    if unordered:
        told.append(f"{unordered} samples were not in order of time and have been sorted")
    if any(one.scaled for one in segments):
        told.append("hardware counters were shared with other users and are scaled up from a part of the time")
    if twice:
        told.append(f"{twice} instances begin more than once in the trace; the earliest start counts")
    return told
