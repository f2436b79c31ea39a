"""Sentences on where figures are from: sensors and models, what was found, what is gone, and what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tprof.analysis.attribution.idle_power import LEAST_IDLE_S
from tprof.analysis.quantities import quantity, reach

from tprof.trace.plain_values import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .profile import Profile


def _by_host(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return each text once, after the hosts of which it is true."""
    hosts: dict[str, list[str]] = {}
    for host, text in texts:
        hosts.setdefault(text, []).append(host)
    return [f"{', '.join(names)}: {text}" for text, names in hosts.items()]


def unread_texts(info: Mapping[str, Any]) -> list[str]:
    """Return the sentences on what could not be read; of a job each once, after the hosts of which it is true."""
    if "hosts" not in info:
        return list(info["unread"])
    return _by_host((host, text) for host, one in info["hosts"].items() for text in one.get("unread", ()))


def source_texts(profile: Profile) -> list[str]:
    """Return what stands behind the figures, hosts of a job together of which the same can be said."""
    texts = {host: f"{info['sensor']}; {info['model_why']}" for host, info in profile.host_infos.items()}
    if profile.job is not None:
        return _by_host(texts.items())
    if profile.kept is None:
        return [*texts.values()]
    by = "thread" if profile.kept.by_thread else "process"
    return [*texts.values(), f"the sums are by task, {by} and {profile.info['span_s']:g} s; tprof export has them"]


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
    gone, between_s = info["removed"], info["between_s"]
    removed = removed_text(info)
    if between_s is not None and not (removed and between_s == [gone["until_s"], gone["length_s"]]):
        window = f"of the recording only {between_s[0]:.6g} to {between_s[1]:.6g} s: all figures are of that window"
        return window if removed is None else f"{window}; {removed}"
    if removed is not None or info["lead_in_s"] < LEAST_IDLE_S:
        return removed
    joules = "its joules are not known" if info["lead_in_j"] is None else quantity(info["lead_in_j"], "J")
    lead_in = quantity(info["lead_in_s"], "s")
    return f"{lead_in} were read before the block began ({joules}): they are in none of these figures"


def removed_text(info: Mapping[str, Any]) -> str | None:
    """Return a sentence on what is gone; None if nothing is, and the folder was never over its limit."""
    removed = info.get("removed")
    if removed is None:
        return None
    limit = f"{removed['max_bytes'] / 1e6:,.0f} MB"
    over = ""
    if removed["most_bytes"] > removed["max_bytes"]:
        over = f"; the folder had up to {removed['most_bytes'] / 1e6:,.0f} MB, since less could not be removed in time"
    if not removed["until_s"] > 0:
        return f"the recording has a limit of {limit}{over}" if over else None
    joules = removed["energy_j"], removed["total_j"]
    energy = "" if None in joules else f", {joules[0]:.4g} J of {joules[1]:.4g} J"
    return (
        f"gone by --max-size ({limit}): the {counted(removed['samples'], 'sample')} of 0 to "
        f"{removed['until_s']:.6g} s{energy}: all figures count from {removed['until_s']:.6g} s{over}"
    )


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
