"""What stands behind a profile's tables: sensors and their quality, model, losses, warnings, and limits of joules."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.attribution.accounts import Account
from tprof.analysis.attribution.meter_delay import delay_warning
from tprof.analysis.attribution.sharing import split_static
from tprof.analysis.display.frames import AccountsTable
from tprof.analysis.names import shown

from tprof import log
from tprof.trace import Quality
from tprof.trace.estimate import EXACT, most_watts, watts_error
from tprof.trace.kinds import least_certain
from tprof.trace.left_out import unread_sentences

from .intervals import Factors, common_error, widened
from .memory import GRAPH_BYTES, lacking
from .native_threads import native_warnings
from .profile_warnings import (
    failed_declarations,
    finding_text,
    fit_warnings,
    gpu_warnings,
    sample_warnings,
    static_warnings,
    unread_warnings,
)  # fmt: skip
from .task_graph import lifecycle_columns, read_events, read_instance_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tprof.analysis.attribution.blocks import ReadFacts
    from tprof.analysis.attribution.hidden import HiddenTime
    from tprof.analysis.attribution.quanta import Quanta

    from tprof.trace import Trace
    from tprof.trace.estimate import WattsError

    from .intervals import Floats
    from .recipe import Recipe
    from .task_graph import InstanceKeys, RuntimeEvents

OF_QUANTA = ("name", "scope", "package", "quality", "counted")
OF_READING = ("source", "covers", "integrated", "resolution_j", "relative_error")
UNRESOLVED = "no domain has a valid reading interval: energies are not resolved"


@dataclass(frozen=True)
class Said:
    """What a recording says of instances besides its samples.

    Attributes
    ----------
    events : of a task runtime
    keys : of an engine's tasks
    """

    events: RuntimeEvents
    keys: InstanceKeys

    @classmethod
    def of(cls, trace: Trace) -> Said:
        """Read it. Raises TraceError."""
        return cls(read_events(trace), read_instance_keys(trace))

    @property
    def names_waits(self) -> bool:
        """Whether it says what instances waited for."""
        return bool(len(self.events) or len(self.keys))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what is missing."""
        return (*self.events.notes, *self.keys.notes)


@dataclass(frozen=True)
class Found:
    """What sharing the joules found.

    Attributes
    ----------
    accounts : by domain
    stuck : sentences on sensors that stood still
    read : what the samples show
    instances, unnamed : how many there are, and how many of tasks that are in no table
    hidden : CPU time without samples
    native : facts on native threads; None if none serves a task
    said : what else the recording says of instances
    """

    accounts: Mapping[str, Account]
    stuck: Sequence[str]
    read: ReadFacts
    instances: int
    unnamed: int
    hidden: HiddenTime
    native: dict[str, Any] | None
    said: Said


def informed(trace: Trace, recipe: Recipe, found: Found) -> dict[str, Any]:
    """Return the `info` of a profile."""
    names = [entry.name for entry in trace.tasks]
    warnings = [*found.said.notes, *recipe.problems, *found.stuck]
    if found.said.names_waits and (lack := lacking(found.instances, GRAPH_BYTES)) is not None:
        warnings.append(f"what tasks waited for is not shown, since it {lack}: take a window of time, --between")
    warnings += sample_warnings(trace, found, recipe.model, lost=any(dropped_samples(trace).values()))
    for domain in recipe.quanta:
        warnings += unread_warnings(domain, trace.start_ns, integrated=trace.readings[domain.name].integrated)
    warnings += fit_warnings(recipe.fits, names) + static_warnings(recipe) + gpu_warnings(trace.gpu.notes)
    late = {name for name, delay in recipe.delays.items() if delay.delay_s is None}
    warnings += [delay_warning(one.name) for one in recipe.whole if one.name in late and one.valid.any()]
    measured_j = sum(found.accounts[domain.name].measured_j for domain in _counted(recipe))
    warnings += native_warnings(found.native, measured_j)
    return describe(trace, recipe, warnings) | {
        "native": found.native,
        "removed": removed_part(trace, recipe.recorded),
        "meters": {name: asdict(delay) for name, delay in recipe.delays.items()} or None,
        "static_power_w": recipe.static_power_w | {name: fit.level_w for name, fit in recipe.fits.items()},
        "static_error_w": recipe.static_error_w | {name: fit.static_error_w for name, fit in recipe.fits.items()},
    }


def describe(trace: Trace, recipe: Recipe, warnings: Sequence[str]) -> dict[str, Any]:
    """Collect the provenance of the tables, as plain values for JSON."""
    model, quanta, manifest = recipe.model, recipe.quanta, trace.manifest
    counted = [q for q in quanta if q.counted] or list(quanta)
    quality = least_certain({q.quality for q in counted})
    # A domain without a valid interval says why last.
    unread = [*unread_sentences(manifest), *(q.warnings[-1] for q in counted if q.warnings and not q.valid.any())]
    read = [q for q in recipe.whole if q.counted and len(q)]
    first_ns = min((int(q.edges_ns[0]) for q in read), default=trace.start_ns)
    last_ns = max((int(q.edges_ns[-1]) for q in read), default=trace.end_ns)
    sources = {_named(trace, q): trace.readings[q.name].source for q in counted}
    info: dict[str, Any] = {
        "sensor": sensor_text(manifest, quality, sources),
        "quality": quality,
        "domains": [_domain(trace, q) for q in quanta],
        "left_out": manifest.get("left_out") or [],
        "unread": unread,
        "counters": manifest.get("counters") or {},
        "model": model.name,
        "model_base": model.base,
        "model_why": f'model "{model.name}": {model.why}',
        "coefficients": asdict(model.coefficients) if model.coefficients is not None else None,
        "fitted": {"findings": _findings(recipe)} if recipe.fits else None,
        "coefficient_intervals": model.stored.intervals if model.stored is not None else None,
        "complete": trace.complete,
        "duration_s": max(trace.end_ns - trace.start_ns, 0) * 1e-9,
        "between_s": None if trace.between_s is None else list(trace.between_s),
        "lead_in_s": max(trace.start_ns - first_ns, 0) * 1e-9,
        "lead_in_j": joules_between(read, first_ns, trace.start_ns),
        "after_end_s": max(last_ns - trace.end_ns, 0) * 1e-9,
        "after_end_j": joules_between(read, trace.end_ns, last_ns),
        "estimate": _estimate(trace, recipe) if quality == Quality.ESTIMATED else None,
        "dropped": dropped_samples(trace),
        "lost_threads": trace.end.get("lost_threads", 0),
        "warnings": [
            *unread,
            *trace.notes,
            *(text for q in quanta for text in q.warnings if text not in unread),
            *warnings,
            *([] if any(q.counted and q.valid.any() for q in quanta) else [UNRESOLVED]),
            *failed_declarations(trace.tasks),
        ],
        "host": manifest.get("host") or {},
        "argv": manifest.get("argv") or [],
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
            **{name: value if math.isfinite(value) else None for name, value in sizes.items()},
            "text": finding_text(finding, domain, recipe.fits),
            "domain": domain,
        }
        for domain, fit in recipe.fits.items()
        for finding in fit.findings
        for sizes in [{name: float(getattr(finding, name)) for name in ("size", "low", "high")}]
    ]


def joules_between(quanta: Iterable[Quanta], begin_ns: int, end_ns: int) -> float | None:
    """Return the joules of some domains together between two times; None where they are not known."""
    total_j = sum((part.measured_j for one in quanta if len(part := one.between(begin_ns, end_ns)[0])), 0.0)
    return None if math.isnan(total_j) else float(total_j)


def removed_part(trace: Trace, recorded: Sequence[Quanta]) -> dict[str, Any] | None:
    """Return what a size limit removed from a recording, and the joules of that time, whose readings are still there.

    Parameters
    ----------
    trace : the trace, or a window of it
    recorded : the quanta of the whole recording

    Returns
    -------
    removed : dict of plain values, None if the trace is whole
        ``until_s``, from the begin of the recording: samples before are gone; ``samples`` and ``threads``, their
        numbers; ``energy_j`` of the time before and ``total_j`` of the whole recording, None where they are not known;
        ``length_s`` of the whole recording; ``max_bytes``; ``most_bytes``, the largest size that the folder was found
        to have.
    """
    if trace.gone is None:
        return None
    whole, counted = trace.recorded or trace, [one for one in recorded if one.counted]
    begin_ns, kept_ns, end_ns = whole.start_ns, trace.kept_ns, whole.end_ns
    return {
        "until_s": (kept_ns - begin_ns) * 1e-9,
        "energy_j": joules_between(counted, begin_ns, kept_ns) if counted else None,
        "total_j": joules_between(counted, begin_ns, end_ns) if counted else None,
        "length_s": (end_ns - begin_ns) * 1e-9,
        **{name: getattr(trace.gone, name) for name in ("samples", "threads", "max_bytes", "most_bytes")},
    }


def _estimate(trace: Trace, recipe: Recipe) -> dict[str, Any]:
    watts, joules, static_j = watts_error(trace.manifest), [], []
    counted = _counted(recipe)
    for domain in counted:
        static_w = recipe.static_power_w.get(domain.name, 0.0)
        joules.append(domain.energy_j.sum())
        static_j.append(split_static(domain.energy_j, static_w, np.diff(domain.edges_ns) * 1e-9)[0].sum())
    errors = [common_error([domain], watts) for domain in counted]
    each = Factors(*(np.array([getattr(one, name) for one in errors]) for name in ("idle", "busy")))
    return estimate_of(trace.manifest, watts, np.array(joules), np.array(static_j), each)


def estimate_of(
    manifest: Mapping[str, Any], watts: WattsError, joules: Floats, static_j: Floats, errors: WattsError | Factors
) -> dict[str, Any]:
    """Return the inputs of an estimate, and the interval of all joules due to the error of its watts.

    Parameters
    ----------
    manifest : of the recording
    watts : the error of its watts
    joules, static_j : (k,) of each domain, and the part of them that is static power
    errors : of the joules of each domain
    """
    low_j, high_j = widened(joules, joules, static_j, errors)
    known = {"idle_factor": watts.idle, "per_core_factor": watts.busy}
    ends = {"energy_low_j": float(np.nansum(low_j)), "energy_high_j": float(np.nansum(high_j))}
    return {**(manifest.get("estimate") or {}), **known, **ends}


def _domain(trace: Trace, quanta: Quanta) -> dict[str, Any]:
    reading = trace.readings[quanta.name]
    processes = [one.get("processes") for one in trace.manifest.get("domains", ()) if one.get("name") == quanta.name]
    return {
        **{name: getattr(quanta, name) for name in OF_QUANTA},
        **{name: getattr(reading, name) for name in OF_READING},
        # By what the use of a GPU by single processes was known.
        **({"processes": processes[0]} if processes and isinstance(processes[0], str) else {}),
        "quanta": len(quanta),
        "invalid": len(quanta) - int(np.count_nonzero(quanta.valid)),
        "unread": 0 if quanta.unread is None else int(quanta.unread.sum()),
        "measured_j": quanta.measured_j if quanta.valid.any() else None,
    }


def sensor_text(manifest: Mapping[str, Any], quality: str, sources: Mapping[str, str]) -> str:
    """Describe the sensor, given the source of each domain that counts, and the inputs of an estimate."""
    if not sources:
        return "no energy sensor: energies are not known"
    assumed, estimate = "", manifest.get("estimate")
    if estimate:
        how = "as given and taken as exact"
        if not watts_error(manifest).is_none:
            processor = estimate.get("processor")
            how = f"typical of {processor if isinstance(processor, str) else 'an unknown processor'}"
        assumed = f" from {estimate.get('idle_w')} W idle and {estimate.get('per_core_w')} W a busy core, {how}"
    return f"{', '.join(sorted(set(sources.values())))} ({quality}{assumed}): {', '.join(sources)}"


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


def dropped_samples(trace: Trace) -> dict[str, int]:
    """Sum the losses of threads and of the whole session, by reason."""
    found: Counter[str] = Counter()
    for part in (*(thread.dropped for thread in trace.threads), trace.end.get("dropped", {})):
        found.update(part)
    return {reason: count for reason, count in found.items() if count}


def _counted(recipe: Recipe) -> list[Quanta]:
    return [domain for domain in recipe.quanta if domain.counted and len(domain)]


def limits_of(trace: Trace, recipe: Recipe) -> tuple[WattsError, float]:
    """Return the error that all joules share, and the most watts of a thread; infinite if these are not known."""
    counted = _counted(recipe)
    watts = common_error(counted, watts_error(trace.manifest)) if counted else EXACT
    only_estimated = all(domain.quality == Quality.ESTIMATED for domain in counted)
    return watts, most_watts(trace.manifest) if counted and only_estimated else np.inf


def accounts_table(recipe: Recipe, accounts: Mapping[str, Account]) -> AccountsTable:
    """Return the accounts of a profile."""
    frame = pd.DataFrame(map(vars, accounts.values()), columns=[*Account.__annotations__])
    return AccountsTable(frame.assign(quality=[domain.quality for domain in recipe.quanta]).set_index("domain"))


def completed(tasks: pd.DataFrame, trace: Trace, said: Said, quality: str) -> pd.DataFrame:
    """Return some rows of the table of instances with what their samples do not say: keys, events, and the quality."""
    columns: dict[str, Any] = {}
    if trace.key_files:
        keys = said.keys.made["text"].reindex(tasks["instance"])
        texts = [shown(key) if isinstance(key, str) else None for key in keys]
        # With a text at the end the type is that of texts in a part without keys, too.
        columns["key"] = pd.Series([*texts, ""]).array[:-1]
    if len(said.events):
        columns |= lifecycle_columns(said.events, trace, tasks)
    return with_quality(tasks.assign(**columns) if columns else tasks, quality)


def with_quality(tasks: pd.DataFrame, quality: str) -> pd.DataFrame:
    """Add the column `quality` to a table of instances."""
    tasks["quality"] = pd.Categorical.from_codes(np.zeros(len(tasks), np.int8), pd.Index([quality]))
    return tasks
