"""What a notebook shows of a profile and of a recording."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tprof.analysis.profile.answer import answer_of
from tprof.analysis.profile.host_figures import total_power
from tprof.analysis.profile.provenance import finding_texts, lead_in_text, source_texts, uncertainty_text, warning_texts
from tprof.analysis.quantities import DASH, percent, quantity

from tprof.trace.plain_values import counted

from .frames import account_bar, tasks_table
from .markup import LONGEST_SENTENCE, badge, folded, line, output, table, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd
    from tprof.analysis.profile import Profile

TASKS = 10
BINS = 130
LISTED = 20


def profile_html(profile: Profile) -> str:
    """Return the answer first: joules, who took them, the power over time, and what stands behind the figures."""
    info, hosts = profile.info, profile.hosts if profile.job is not None else ()
    sums = [f"<b>{quantity(joules, 'J')}</b> {badge(kind)}" for kind, joules in profile.measured_by_quality.items()]
    seconds = float(info["duration_s"])
    watts = quantity(profile.measured_j / seconds, "W") if seconds > 0 else DASH
    on = f"on {counted(len(hosts), 'host')}, " if len(hosts) else ""
    head = (
        f"<p><b>{text(profile.trace.path.name)}</b>: {', '.join(sums) or 'no energy'} {on}in {quantity(seconds, 's')}, "
        f"{watts} on average, {counted(profile.sums.rows, 'instance')} of tasks</p>"
    )
    answer = answer_of(profile)
    warnings = answer.unsaid(warning_texts(info))
    sources = [*source_texts(profile), *filter(None, (uncertainty_text(info), lead_in_text(info)))]
    return output(
        head,
        *(
            f"<p>{text(one, LONGEST_SENTENCE)}</p>"
            for one in (*answer.reasons, answer.headline, answer.certainty)
            if one
        ),
        _hosts(profile.hosts) if profile.job is not None else "",
        tasks_table(profile.summary(), TASKS),
        account_bar(profile.counted_accounts),
        power_line(profile) if profile.job is None else "",
        folded("what would help", [one.text for one in answer.remedies]),
        folded("findings", finding_texts(info)),
        folded(counted(len(warnings), "warning"), warnings),
        folded("what stands behind the figures", sources),
    )


def power_line(profile: Profile) -> str:
    """Return the power of all counted domains over time, in at most `BINS` means."""
    power = total_power(profile, BINS)
    if power.empty:
        return ""
    end_s = float(power["time_s"].iloc[-1] + power["duration_s"].iloc[-1])
    return line(power["time_s"].tolist(), power["power_w"].tolist(), end_s, "W")


def _hosts(hosts: pd.DataFrame) -> str:
    headings = ("host", "energy", "power", "time", "busy", "instances", "quality")
    cells = [
        (
            text(name),
            _known(row["energy_j"], "J"),
            _known(row["power_w"], "W"),
            _known(row["duration_s"], "s"),
            percent(float(row["busy_share"])),
            DASH if math.isnan(float(row["instances"])) else f"{int(row['instances']):,}",
            badge(str(row["quality"])),
        )
        for name, row in hosts.head(LISTED).iterrows()
    ]
    more = f"<p class='quiet'>and {counted(len(hosts) - LISTED, 'more host')}</p>" if len(hosts) > LISTED else ""
    return table(headings, cells) + more


def _known(value: float, unit: str) -> str:
    return DASH if math.isnan(float(value)) else quantity(float(value), unit)


def recording_html(path: Path, state: str, notes: Sequence[str]) -> str:
    """Return where a recording is and whether it runs; its figures take a profile."""
    head = f"<p><b>Recording</b> <code>{text(path)}</code>: {text(state)}</p>"
    hint = "<p class='quiet'>its figures: <code>recording.profile()</code></p>" if state.startswith("ended") else ""
    return output(head, hint, folded("notes", list(notes)))
