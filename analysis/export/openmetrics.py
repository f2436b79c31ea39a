"""The sums of a session as OpenMetrics text, by the names that live metrics have: for a push gateway or a test run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd
from tprof.analysis.profile import ClusterProfile

from tprof.trace.metric_names import ACCOUNT_ENERGY, ACCOUNTS, METRICS, POWER, TASK_ENERGY, TASK_INSTANCES

from .whole_file import written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from tprof.analysis.profile import Profile

    from tprof.trace.metric_names import Metric

    from .formats import Progress

HOST = "host"
COLUMNS = dict(zip(ACCOUNTS, ("tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"), strict=True))
"""Columns of the accounts by the values of the label `account`."""
_ESCAPES = str.maketrans(
    {chr(code): rf"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
    | {"\\": r"\\", '"': r"\"", "\n": r"\n"}
)
"""Those of the format; other control characters become text, since they would act on a terminal that shows the file."""
Sample = tuple[dict[str, str], float]


def write_openmetrics(
    profile: Profile | ClusterProfile, path: str | os.PathLike[str], *, progress: Progress | None = None
) -> None:
    """Write joules and instances of tasks, joules of accounts, and the mean watts of domains over the recording.

    Metrics of a job have the label `host` too; what is not known is left out.

    Raises
    ------
    TprofError
        The file cannot be written.
    """
    del progress  # one line for each task: it takes no time
    samples = _samples(profile)
    with written(path) as file:
        for metric in METRICS:
            file.write("".join(_family(metric, samples[metric.name])).encode("utf-8", "replace"))
        file.write(b"# EOF\n")


def _samples(profile: Profile | ClusterProfile) -> dict[str, list[Sample]]:
    """Return the samples of each metric."""
    found: dict[str, list[Sample]] = {metric.name: [] for metric in METRICS}
    tasks = profile.by_host() if isinstance(profile, ClusterProfile) else profile.summary()
    for row in tasks.reset_index().to_dict("records"):
        labels = {"task": str(row["task"])} | _host(row)
        found[TASK_ENERGY.name].append((labels | {"quality": str(row["quality"])}, float(row["energy_j"])))
        found[TASK_INSTANCES.name].append((labels, float(row["instances"])))
    for row in profile.accounts.reset_index().to_dict("records"):
        labels = {"domain": str(row["domain"]), "quality": str(row["quality"])} | _host(row)
        found[ACCOUNT_ENERGY.name] += [
            ({"account": account} | labels, float(row[column])) for account, column in COLUMNS.items() if column in row
        ]
        seconds = _duration_s(profile, row.get(HOST))
        if seconds > 0:
            found[POWER.name].append((labels, float(row["measured_j"]) / seconds))
    return found


def _host(row: dict[object, object]) -> dict[str, str]:
    return {HOST: str(row[HOST])} if HOST in row else {}


def _duration_s(profile: Profile | ClusterProfile, host: object) -> float:
    if isinstance(profile, ClusterProfile):
        return float(profile.hosts["duration_s"].to_dict()[str(host)])
    return float(profile.info["duration_s"])


def _family(metric: Metric, samples: list[Sample]) -> Iterator[str]:
    name = metric.of_prometheus
    unit = next((word for word in ("joules", "watts", "seconds") if name.endswith(word)), None)
    yield f"# TYPE {name} {'counter' if metric.is_counter else 'gauge'}\n"
    if unit is not None:
        yield f"# UNIT {name} {unit}\n"
    yield f"# HELP {name} {metric.help.translate(_ESCAPES)}\n"
    for labels, value in samples:
        if math.isfinite(value):
            text = ",".join(f'{key}="{one.translate(_ESCAPES)}"' for key, one in labels.items() if not pd.isna(one))
            yield f"{metric.of_sample}{{{text}}} {value:.17g}\n"
