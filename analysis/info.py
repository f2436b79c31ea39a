"""What stands behind the figures: sensors and their quality, model, losses, warnings."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tprof.trace.estimate import assumed_words, watts_error

from .declared import failed_declarations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace import Trace

    from .models import Chosen
    from .quanta import Quanta

# The least trustworthy domain gives its name to the whole.
_DOUBT = ("estimated", "simulated", "given", "measured")


def describe(trace: Trace, model: Chosen, quanta: Sequence[Quanta], warnings: Sequence[str]) -> dict[str, Any]:
    """Collect what a reader of the tables must know; plain values only, fit for JSON."""
    counted = [q for q in quanta if q.counted] or list(quanta)
    qualities = {q.quality for q in counted}
    quality = next((name for name in _DOUBT if name in qualities), "none")
    duration_s = max(trace.end_ns - trace.start_ns, 0) * 1e-9
    return {
        "sensor": _sensor(trace, counted, quality),
        "quality": quality,
        "domains": [_domain(trace, q) for q in quanta],
        "left_out": trace.manifest.get("left_out") or [],
        "model": model.name,
        "model_why": f'model "{model.name}": {model.why}',
        "coefficients": asdict(model.coefficients) if model.coefficients is not None else None,
        "coefficient_intervals": model.stored.intervals if model.stored is not None else None,
        "complete": trace.complete,
        "duration_s": duration_s,
        "dropped": _dropped(trace),
        "lost_threads": _number(getattr(trace, "end", {}).get("lost_threads")),
        "warnings": [
            *trace.notes,
            *(text for q in quanta for text in q.warnings),
            *warnings,
            *_unresolved(quanta),
            *failed_declarations(trace.tasks),
        ],
        "host": trace.manifest.get("host") or {},
        "argv": trace.manifest.get("argv") or [],
    }


def _domain(trace: Trace, quanta: Quanta) -> dict[str, Any]:
    reading = trace.readings[quanta.name]
    return {
        "name": quanta.name,
        "scope": quanta.scope,
        "package": quanta.package,
        "source": reading.source,
        "quality": quanta.quality,
        "counted": quanta.counted,
        "quanta": len(quanta),
        "invalid": int((~quanta.valid).sum()),
        "measured_j": quanta.measured_j if quanta.valid.any() else None,
    }


def _sensor(trace: Trace, counted: Sequence[Quanta], quality: str) -> str:
    if not counted:
        return "no energy sensor: energies are not known"
    sources = sorted({trace.readings[q.name].source for q in counted})
    return f"{', '.join(sources)} ({quality}{_assumed(trace)}): {', '.join(q.name for q in counted)}"


def _assumed(trace: Trace) -> str:
    """Say what an estimate was made from."""
    said = trace.manifest.get("estimate")
    if not isinstance(said, dict):
        return ""
    processor, error = said.get("processor"), watts_error(trace.manifest)
    how = (
        "as given and taken as exact"
        if error.is_none
        else assumed_words(error, processor if isinstance(processor, str) else None)
    )
    return f" from {said.get('idle_w')} W idle and {said.get('per_core_w')} W a busy core, {how}"


def _dropped(trace: Trace) -> dict[str, int]:
    """Sum what threads and the session as a whole could not record, by reason."""
    out: dict[str, int] = {}
    said = getattr(trace, "end", {}).get("dropped")
    parts = [thread.dropped for thread in trace.threads] + ([said] if isinstance(said, dict) else [])
    for part in parts:
        for reason, count in part.items():
            if _number(count):
                out[str(reason)] = out.get(str(reason), 0) + _number(count)
    return out


def _number(value: object) -> int:
    return value if type(value) is int else 0


def _unresolved(quanta: Sequence[Quanta]) -> list[str]:
    if not any(q.counted and q.valid.any() for q in quanta):
        return ["no domain has a valid reading interval: energies are not resolved"]
    return []
