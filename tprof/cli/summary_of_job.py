"""The summary of a job: its hosts, and the tasks over all of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.trace.plain_values import counted

from .render import DASH, Column, clean, filled, fitting, lines_of, percent, plain, quantity, width_of
from .summary import TaskTable, answer_lines, legend_lines, shared_by, task_lines
from .summary_of_waits import chain_lines, path_as_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    from tprof.analysis import ClusterProfile

    Row = Mapping[Any, Any]

MOST_WARNINGS = 20
MOST_HOSTS = 8
_ACCOUNTS = ("tasks", "runtime", "other", "idle")


def job_as_plain(profile: ClusterProfile) -> dict[str, Any]:
    """Return hosts, accounts, tasks and info as plain values."""
    tables = {
        "hosts": profile.hosts,
        "accounts": profile.accounts,
        "tasks": profile.summary(),
        "tasks_by_host": profile.by_host(),
    }
    rows = {name: [plain(row) for row in table.reset_index().to_dict("records")] for name, table in tables.items()}
    from tprof.analysis.profile.answer import job_answer

    path = path_as_plain(profile.critical_path()) if _has_path(profile) else {}
    return {"answer": plain(job_answer(profile).as_plain()), **rows, **path, "info": plain(profile.info)}


def show_job(
    profile: ClusterProfile,
    stream: TextIO,
    *,
    columns: Sequence[str] | None = None,
    everything: bool = False,
) -> None:
    """Print the hosts, the tasks over all hosts, and warnings; the parameters are those of `summary.show`."""
    from tprof.analysis.profile.answer import job_answer

    width = width_of(stream)
    quality = profile.info["quality"]
    label = f" ({quality})"
    summary = profile.summary()
    answer = job_answer(profile)
    print(*answer_lines(answer, width), "", sep="\n", file=stream)
    further = _of_jobs(sorted(set(profile.hosts["quality"]) - {"missing", "none"}))
    print(*_hosts(profile, label, width), "", *_accounts(profile, width), sep="\n", file=stream)
    table = TaskTable(width, None, columns, everything, further)
    print(*task_lines(summary, shared_by(profile.info), table), sep="\n", file=stream)
    lines = [
        *legend_lines(summary),
        *_path(profile),
        _total(profile),
        *_sensors(profile),
        *_warnings(answer.unsaid(profile.info["warnings"])),
    ]
    print("", *(filled(text, width) for text in lines), sep="\n", file=stream)


def _has_path(profile: ClusterProfile) -> bool:
    return any(one.instances is not None for one in profile.parts)


def _path(profile: ClusterProfile) -> list[str]:
    """Return the longest chain over all hosts, and how much of it each host has; no lines without dependences."""
    if not _has_path(profile):
        return []
    path = profile.critical_path()
    by_host: dict[Any, Row] = path.chain_columns.by("host").head(MOST_HOSTS).to_dict("index")  # type: ignore[assignment]
    parts = [
        f"{clean(host)} {quantity(row['path_s'], 's')}, {_joules(row['energy_j'])}" for host, row in by_host.items()
    ]
    lines = chain_lines(path.facts(), f" ({path.quality})")
    changes = "once" if path.host_changes == 1 else f"{path.host_changes:,} times"
    if len(path.chain_columns.hosts()) < 2:
        return lines
    return [lines[0], f"By host: {'; '.join(parts)}; the chain changes hosts {changes}", *lines[1:]]


def _of_jobs(qualities: Sequence[str]) -> dict[str, tuple[str, Callable[[Row], str]]]:
    """Return the columns that only the tasks of a job have; unlike hosts stand apart."""
    found: dict[str, tuple[str, Callable[[Row], str]]] = {"hosts": ("hosts", lambda row: f"{int(row['hosts']):,}")}
    if len(qualities) > 1:
        for quality in qualities:
            found[quality] = (quality, lambda row, name=f"{quality}_j": _joules(row.get(name)))  # type: ignore[misc]
    return found


def _joules(value: Any) -> str:
    return DASH if value is None or math.isnan(float(value)) else quantity(float(value), "J")


def _hosts(profile: ClusterProfile, label: str, width: int | None) -> list[str]:
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


def _signed(value: float) -> str:
    return DASH if math.isnan(value) else f"{100 * value:+.1f} %"


def _accounts(profile: ClusterProfile, width: int | None) -> list[str]:
    """Return a line for each domain of a host; nothing where each host has one, as the table of hosts has it then."""
    accounts = profile.accounts
    if len(accounts) <= accounts.index.get_level_values("host").nunique():
        return []
    names = [f"{clean(host)} {clean(domain)}" for host, domain in accounts.index]
    columns = [
        Column(name, tuple(_joules(value) for value in accounts[f"{key}_j"]), 9 - place)
        for place, (name, key) in enumerate([("energy", "measured"), *((name, name) for name in _ACCOUNTS)])
    ]
    columns.insert(0, Column("quality", tuple(accounts["quality"]), 10))
    return ["Accounts", *lines_of("host and domain", names, fitting(names, columns, width), width), ""]


def _total(profile: ClusterProfile) -> str:
    sums = " and ".join(f"{quantity(joules, 'J')} {quality}" for quality, joules in profile.measured_j.items())
    count = int((profile.hosts["quality"] != "missing").sum())
    hosts = counted(count, "host")
    recordings = int(profile.hosts["recordings"].sum())
    hosts += f" ({recordings} recordings)" if recordings > count else ""
    return f"All hosts: {sums or 'no energy'} on {hosts} in {quantity(profile.info['duration_s'], 's')}"


def _sensors(profile: ClusterProfile) -> list[str]:
    """Return what stands behind the figures, hosts of which the same can be said together."""
    by_text: dict[str, list[str]] = {}
    for host, info in profile.info["hosts"].items():
        if info:
            by_text.setdefault(f"{clean(info['sensor'])}; {clean(info['model_why'])}", []).append(clean(host))
    return [f"{', '.join(hosts)}: {text}" for text, hosts in by_text.items()]


def _warnings(texts: Sequence[str]) -> list[str]:
    shown = [f"warning: {clean(text)}" for text in texts[:MOST_WARNINGS]]
    more = len(texts) - len(shown)
    return [*shown, *([f"and {more:,} more warnings: tprof summary --json prints them all"] if more else ())]
