"""What a size limit removed from a recording, and the joules of that time, whose readings are still there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.trace.plain_values import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.quanta import Quanta

    from tprof.trace import Trace


def removed_part(trace: Trace, recorded: Sequence[Quanta]) -> dict[str, Any] | None:
    """Return what is gone of a trace, as plain values; None if it is whole.

    Parameters
    ----------
    trace : the trace, or a window of it
    recorded : the quanta of the whole recording

    Returns
    -------
    removed : dict or None
        ``until_s``, from the begin of the recording: samples before are gone; ``samples`` and ``threads``, their
        numbers; ``energy_j`` of the time before and ``total_j`` of the whole recording, None where they are not known;
        ``length_s`` of the whole recording; ``max_bytes``; ``most_bytes``, the largest size that the folder was found
        to have.
    """
    gone = trace.gone
    if gone is None:
        return None
    whole = trace if trace.recorded is None else trace.recorded
    begin_ns, kept_ns = whole.start_ns, trace.kept_ns
    return {
        "until_s": (kept_ns - begin_ns) * 1e-9,
        "samples": gone.samples,
        "threads": gone.threads,
        "energy_j": _joules(recorded, begin_ns, kept_ns),
        "total_j": _joules(recorded, begin_ns, whole.end_ns),
        "length_s": (whole.end_ns - begin_ns) * 1e-9,
        "max_bytes": gone.max_bytes,
        "most_bytes": gone.most_bytes,
    }


def _joules(quanta: Sequence[Quanta], begin_ns: int, end_ns: int) -> float | None:
    counted = [one for one in quanta if one.counted]
    joules = [part.measured_j for one in counted if len(part := one.between(begin_ns, end_ns)[0])]
    total_j = sum(joules, 0.0)
    return None if not counted or math.isnan(total_j) else float(total_j)


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


def is_all_kept(info: Mapping[str, Any]) -> bool:
    """Return whether the window of a profile is all that is kept."""
    begin_s, end_s = info["between_s"]
    return bool(begin_s == info["removed"]["until_s"] and end_s == info["removed"]["length_s"])
