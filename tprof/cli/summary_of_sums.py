"""The summary of a recording that kept sums: accounts and tasks, without what needs single instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .render import clean, filled, plain, reason_lines, width_of
from .summary import TaskTable, account_lines, legend_lines, shared_by, task_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from tprof.analysis import SumsProfile


def sums_as_plain(profile: SumsProfile) -> dict[str, Any]:
    """Return accounts, tasks and info as plain values."""
    tables = {"accounts": profile.accounts, "tasks": profile.summary()}
    rows = {name: table.reset_index().to_dict("records") for name, table in tables.items()}
    return {**rows, "info": plain(profile.info)}


def show_sums(
    profile: SumsProfile, stream: TextIO, *, columns: Sequence[str] | None = None, everything: bool = False
) -> None:
    """Print accounts, tasks, what stands behind them and warnings; the parameters are those of `summary.show`."""
    from tprof.analysis.profile.provenance import uncertainty_text

    width, info = width_of(stream), profile.info
    label = f" ({info['quality']})"
    summary = profile.summary()
    tasks = task_lines(summary, shared_by(info), TaskTable(width, None, columns, everything))
    for line in reason_lines(info["unread"], width):
        print(line, file=stream)
    print(*account_lines(profile, label, width), "", *tasks, "", sep="\n", file=stream)
    lines = [
        *legend_lines(summary),
        f"{info['duration_s']:.4g} s, of which sums by {info['span_s']:g} s were kept; tprof export has them",
        f"{clean(info['sensor'])}; {clean(info['model_why'])}",
        *filter(None, [uncertainty_text(info)]),
        *(f"warning: {clean(warning)}" for warning in info["warnings"] if warning not in info["unread"]),
    ]
    print(*(filled(text, width) for text in lines), sep="\n", file=stream)
