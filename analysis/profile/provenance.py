"""Provenance of the figures: sensors and their quality, model, losses, warnings."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.attribution.idle_power import LEAST_IDLE_S
from tprof.analysis.attribution.sharing import split_static
from tprof.analysis.profile.profile_warnings import failed_declarations, finding_text
from tprof.analysis.quantities import quantity, reach

from tprof import log
from tprof.trace import Quality
from tprof.trace.estimate import watts_error
from tprof.trace.kinds import least_certain
from tprof.trace.left_out import unread_sentences

from .intervals import common_error, widened
from .removed import is_all_kept, removed_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.quanta import Quanta

    from tprof.trace import Trace

    from .profile import Profile
    from .recipe import Recipe


def describe(trace: Trace, recipe: Recipe, warnings: Sequence[str]) -> dict[str, Any]:
    """Collect the provenance of the tables, as plain values for JSON."""
    model, quanta = recipe.model, recipe.quanta
    counted = [q for q in quanta if q.counted] or list(quanta)
    qualities = {q.quality for q in counted}
    quality = least_certain(qualities)
    duration_s = max(trace.end_ns - trace.start_ns, 0) * 1e-9
    # A domain without a valid interval says why last.
    unread = [*unread_sentences(trace.manifest), *(q.warnings[-1] for q in counted if q.warnings and not q.valid.any())]
    info: dict[str, Any] = {
        "sensor": _sensor(trace, counted, quality),
        "quality": quality,
        "domains": [_domain(trace, q) for q in quanta],
        "left_out": trace.manifest.get("left_out") or [],
        "unread": unread,
        "counters": trace.manifest.get("counters") or {},
        "model": model.name,
        "model_base": model.base,
        "model_why": f'model "{model.name}": {model.why}',
        "coefficients": asdict(model.coefficients) if model.coefficients is not None else None,
        "fitted": {"findings": _findings(recipe)} if recipe.fits else None,
        "coefficient_intervals": model.stored.intervals if model.stored is not None else None,
        "complete": trace.complete,
        "duration_s": duration_s,
        "between_s": None if trace.between_s is None else list(trace.between_s),
        **_around(trace, [q for q in recipe.whole if q.counted]),
        "estimate": _estimate(trace, recipe) if quality == Quality.ESTIMATED else None,
        "dropped": dropped_samples(trace),
        "lost_threads": _number(getattr(trace, "end", {}).get("lost_threads")),
        "warnings": [
            *unread,
            *trace.notes,
            *(text for q in quanta for text in q.warnings if text not in unread),
            *warnings,
            *_unresolved(quanta),
            *failed_declarations(trace.tasks),
        ],
        "host": trace.manifest.get("host") or {},
        "argv": trace.manifest.get("argv") or [],
    }
    for text in info["warnings"]:
        log.warning("analysis", "%s", text)
    return info


def _findings(recipe: Recipe) -> list[dict[str, Any]]:
    """Return what the fits of all domains found, as plain values; a size that is not known is None."""
    return [
        {
            "kind": finding.kind,
            "tasks": list(finding.tasks),
            **{name: _finite(getattr(finding, name)) for name in ("size", "low", "high")},
            "text": finding_text(finding, domain, recipe.fits),
            "domain": domain,
        }
        for domain, fit in recipe.fits.items()
        for finding in fit.findings
    ]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def unread_texts(info: Mapping[str, Any]) -> list[str]:
    """Return the sentences on what could not be read; of a job each once, after the hosts of which it is true."""
    if "hosts" not in info:
        return list(info["unread"])
    by_text: dict[str, list[str]] = {}
    for host, of_host in info["hosts"].items():
        for text in (of_host or {}).get("unread", ()):
            by_text.setdefault(text, []).append(host)
    return [f"{', '.join(names)}: {text}" for text, names in by_text.items()]


def source_texts(profile: Profile) -> list[str]:
    """Return what stands behind the figures, hosts of a job together of which the same can be said."""
    by_text: dict[str, list[str]] = {}
    for host, info in profile.host_infos.items():
        by_text.setdefault(f"{info['sensor']}; {info['model_why']}", []).append(host)
    if profile.job is not None:
        return [f"{', '.join(hosts)}: {text}" for text, hosts in by_text.items()]
    kept = []
    if profile.kept is not None:
        by = "thread" if profile.kept.by_thread else "process"
        kept = [f"the sums are by task, {by} and {profile.info['span_s']:g} s; tprof export has them"]
    return [*by_text, *kept]


def finding_texts(info: Mapping[str, Any]) -> list[str]:
    """Return the sentences of what a fit found, none where nothing was fitted."""
    return [] if info.get("fitted") is None else [one["text"] for one in info["fitted"]["findings"]]


def warning_texts(info: Mapping[str, Any]) -> list[str]:
    """Return the warnings that are not among the findings already."""
    found = set(finding_texts(info))
    return [text for text in info["warnings"] if text not in found]


def lead_in_text(info: Mapping[str, Any]) -> str | None:
    """Return a sentence on what is gone, the window, or the idle time before the block; None if there is hardly any."""
    if "between_s" not in info:  # of kept sums, and of a job
        return None
    removed = removed_text(info)
    if info["between_s"] is not None:
        begin_s, end_s = info["between_s"]
        window = f"of the recording only {begin_s:.6g} to {end_s:.6g} s: all figures are of that window"
        return window if removed is None else removed if is_all_kept(info) else f"{window}; {removed}"
    if removed is not None:
        return removed
    if info["lead_in_s"] < LEAST_IDLE_S:
        return None
    joules = "its joules are not known" if info["lead_in_j"] is None else quantity(info["lead_in_j"], "J")
    lead_in = quantity(info["lead_in_s"], "s")
    return f"{lead_in} were read before the block began ({joules}): they are in none of these figures"


def uncertainty_text(info: Mapping[str, Any]) -> str | None:
    """Return a sentence on the uncertainty of all joules due to assumed watts, or None without any."""
    estimate = info.get("estimate")
    if estimate is None or estimate["idle_factor"] == estimate["per_core_factor"] == 1.0:
        return None
    low_j, high_j = estimate["energy_low_j"], estimate["energy_high_j"]
    if not high_j > 0:
        return None
    return (
        f"the watts are assumed: the total could be {reach(low_j, high_j, 'J')} (95 %), and every interval includes "
        "this error; shares and ratios of tasks hardly depend on it"
    )


def _around(trace: Trace, counted: Sequence[Quanta]) -> dict[str, float | None]:
    """Return seconds and joules read before the recorded block, and after it until the sensors' next update."""
    found: dict[str, float | None] = {}
    first_ns = min((int(q.edges_ns[0]) for q in counted if len(q)), default=trace.start_ns)
    last_ns = max((int(q.edges_ns[-1]) for q in counted if len(q)), default=trace.end_ns)
    for name, begin_ns, end_ns in (
        ("lead_in", first_ns, trace.start_ns),
        ("after_end", trace.end_ns, last_ns),
    ):
        joules = [part.measured_j for q in counted if len(part := q.between(begin_ns, end_ns)[0])]
        found[f"{name}_s"] = max(end_ns - begin_ns, 0) * 1e-9
        found[f"{name}_j"] = None if any(math.isnan(one) for one in joules) else sum(joules, 0.0)
    return found


def _estimate(trace: Trace, recipe: Recipe) -> dict[str, Any]:
    """Return the inputs of an estimate, and the interval of all joules due to the error of its watts."""
    estimate, watts = trace.manifest.get("estimate") or {}, watts_error(trace.manifest)
    low_j = high_j = 0.0
    for domain in recipe.quanta:
        if domain.counted:
            energy_j, static_w = domain.energy_j, recipe.static_power_w.get(domain.name, 0.0)
            static_j = split_static(energy_j, static_w, np.diff(domain.edges_ns) * 1e-9)[0].sum()
            low, high = widened(energy_j.sum(), energy_j.sum(), static_j, common_error([domain], watts))
            low_j, high_j = low_j + float(low), high_j + float(high)
    known = {"idle_factor": watts.idle, "per_core_factor": watts.busy}
    return {**estimate, **known, "energy_low_j": low_j, "energy_high_j": high_j}


def _domain(trace: Trace, quanta: Quanta) -> dict[str, Any]:
    reading = trace.readings[quanta.name]
    return {
        "name": quanta.name,
        "scope": quanta.scope,
        "package": quanta.package,
        "source": reading.source,
        "quality": quanta.quality,
        "counted": quanta.counted,
        "covers": reading.covers,
        **_processes(trace, quanta.name),
        "integrated": reading.integrated,
        "resolution_j": reading.resolution_j,
        "relative_error": reading.relative_error,
        "quanta": len(quanta),
        "invalid": len(quanta) - int(np.count_nonzero(quanta.valid)),
        "unread": 0 if quanta.unread is None else int(quanta.unread.sum()),
        "measured_j": quanta.measured_j if quanta.valid.any() else None,
    }


def _processes(trace: Trace, name: str) -> dict[str, str]:
    """Return by what the use of a GPU by single processes was known."""
    domains = trace.manifest.get("domains")
    for one in domains if isinstance(domains, list) else ():
        if isinstance(one, dict) and one.get("name") == name and isinstance(one.get("processes"), str):
            return {"processes": one["processes"]}
    return {}


def _sensor(trace: Trace, counted: Sequence[Quanta], quality: str) -> str:
    if not counted:
        return "no energy sensor: energies are not known"
    sources = sorted({trace.readings[q.name].source for q in counted})
    names = ", ".join(_named(trace, q) for q in counted)
    return f"{', '.join(sources)} ({quality}{assumed_text(trace.manifest)}): {names}"


def _named(trace: Trace, quanta: Quanta) -> str:
    """Return a domain's name, and what a reader must know of its joules."""
    reading = trace.readings[quanta.name]
    how = ["power integrated by tprof"] if reading.integrated else []
    if reading.relative_error:
        how.append(f"all of it within {100 * quanta.relative_error:.3g} %")
    elif reading.integrated:
        step = f" beyond its steps of {reading.resolution_w:.3g} W" if reading.resolution_w else ""
        how.append(f"its own error{step} is not stated")
    return f"{quanta.name} ({', '.join(how)})" if how else quanta.name


def assumed_text(manifest: Mapping[str, Any]) -> str:
    """Describe the inputs of an estimate."""
    estimate = manifest.get("estimate")
    if not isinstance(estimate, dict):
        return ""
    processor, error = estimate.get("processor"), watts_error(manifest)
    how = (
        "as given and taken as exact"
        if error.is_none
        else f"typical of {processor if isinstance(processor, str) else 'an unknown processor'}"
    )
    return f" from {estimate.get('idle_w')} W idle and {estimate.get('per_core_w')} W a busy core, {how}"


def dropped_samples(trace: Trace) -> dict[str, int]:
    """Sum the losses of threads and of the whole session, by reason."""
    out: dict[str, int] = {}
    dropped = getattr(trace, "end", {}).get("dropped")
    parts = [thread.dropped for thread in trace.threads] + ([dropped] if isinstance(dropped, dict) else [])
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
