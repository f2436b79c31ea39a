"""The decisions of a runtime's policy, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from tprof.analysis.names import shown

if TYPE_CHECKING:
    from tprof.trace import Trace

COLUMNS = (
    "kind",
    "policy",
    "why",
    "task",
    "frequency_hz",
    "former_hz",
    "cpus",
    "workers",
    "energy_j",
    "instance_s",
    "quality",
)


def decisions_table(trace: Trace) -> pd.DataFrame:
    """Return one row per decision, in order of time.

    Returns
    -------
    DataFrame
        time_s (from the begin of the recorded block), process; kind: ``chosen`` (a frequency is best for a task),
        ``set`` (processors got a frequency), ``allowed`` (the highest that a cap on the power leaves), ``workers`` (so
        many are active), ``released`` (nothing is held any more), ``acted`` (what a budget did), ``cut``
        (what follows was not written);
        policy, why, task, frequency_hz, former_hz, cpus (numbers with spaces between), workers, and energy_j and
        instance_s of a mean instance as the policy knew it, with the quality of these joules. What does not belong to
        a kind is NaN or empty.
    """
    rows = [
        {
            "time_s": (one.t_ns - trace.start_ns) * 1e-9,
            "process": one.process,
            "kind": one.kind,
            "policy": shown(one.policy),
            "why": shown(one.why or ""),
            "task": shown(one.task or ""),
            "frequency_hz": one.frequency_hz,
            "former_hz": one.former_hz,
            "cpus": " ".join(map(str, one.cpus)),
            "workers": one.workers,
            "energy_j": one.energy_j,
            "instance_s": one.time_s,
            "quality": shown(one.quality or ""),
        }
        for one in trace.decisions
    ]
    table = pd.DataFrame(rows, columns=["time_s", "process", *COLUMNS])
    numbers = ["frequency_hz", "former_hz", "workers", "energy_j", "instance_s"]
    return table.astype(dict.fromkeys(numbers, float))
