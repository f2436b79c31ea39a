"""The page of a comparison: what changed, by how much, and how sure; bars show the change of each task."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

from tprof.analysis.compare.comparison import ONE_RUN, side_name
from tprof.analysis.compare.figure_texts import (
    NO_BOUND,
    NOISE,
    NOT_DECIDED,
    WITHIN_NOISE,
    chance,
    change,
    counts_of,
    is_at_most,
    is_unbounded,
    pair,
    result,
    signed,
    total,
)
from tprof.analysis.compare.headline import headline
from tprof.analysis.quantities import AT_MOST_NOTE, quantity

from .embed import Parts, Section, clean, embed
from .embed import write_page as write

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import pandas as pd
    from tprof.analysis.compare import Comparison

    Row = Mapping[Any, Any] | pd.Series[Any]

MOST_TASKS = 500
WIDEST = 1.0
"""The change at which a bar is as long as it can be; beyond it the bar is cut."""
CLASSES = {"more": "worse", "only in B": "worse", "less": "better", "only in A": "better"}
STYLE = (
    ".change{position:relative;display:inline-block;width:9rem;height:1rem;vertical-align:middle;background:linear-gradient("
    "90deg,transparent calc(50% - .5px),var(--line) 0,var(--line) calc(50% + .5px),transparent 0)}"
    ".change i{position:absolute;top:15%;height:70%;background:#6c757d}.change b{position:absolute;top:45%;height:10%;"
    "background:var(--ink);min-width:1px}.worse .change i{background:#cc4c02}.better .change i{background:#00805a}"
    "#changes td,#totals td{color:var(--ink)}#changes th,#changes td{white-space:normal}"
    "#changes .word{text-align:left;min-width:14rem;overflow-wrap:break-word}"
)
SCRIPT = """
(() => {
drawing.data.qualities.forEach((one) => drawing.make(drawing.at("badges"), "span", one, "badge"));
document.documentElement.dataset.drawn = "yes";
})();
"""


def write_page(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the page to `path`, replacing a file that is there.

    Raises
    ------
    TprofError
        `path` is a directory or cannot be written.
    """
    write(path, render(comparison))


def render(comparison: Comparison) -> str:
    """Return the page's HTML."""
    sections = [
        Section("changes-section", "What changed, sure changes first", _tasks(comparison)),
        Section("totals-section", "Totals", _totals(comparison)),
        Section("measured-section", "How both were measured", _measured(comparison), folded=True),
    ]
    data = clean({"qualities": [comparison.info["quality"]]})
    return embed(
        Parts("tprof compare", "", SCRIPT, data, STYLE, sections=sections, lead=_lead(comparison), has_plots=False)
    )


def _lead(comparison: Comparison) -> str:
    """Return the answer in sentences, the number of tasks that changed, and the warnings."""
    names = [_text(side_name(side)) for side in (comparison.a, comparison.b)]
    answer = headline(comparison)
    further = "".join(f"<p>{_text(sentence)}</p>" for sentence in answer.sentences[1:])
    counts = comparison.tasks["change"].value_counts()
    changes = ", ".join(f"{count} {result(str(change_))}" for change_, count in counts.items()) or "none"
    kind = "Groups" if comparison.info["grouped_by"] else "Tasks"
    # The answer holds what one run a side leaves open.
    warnings = "".join(f"<li>{_text(text)}</li>" for text in comparison.info["warnings"] if text != ONE_RUN)
    unread = "".join(f"<p>{_text(text)}</p>" for text in comparison.info["unread"])
    return (
        '<section id="answer" class="answer" aria-labelledby="answer-title">'
        f"{unread}"
        f'<h2 id="answer-title">{_text(answer.program)}</h2>{further}'
        f"<p>A is {names[0]}, B is {names[1]}. {kind}: {_text(changes)}.</p>"
        f"{f'<ul>{warnings}</ul>' if warnings else ''}</section>"
    )


def _tasks(comparison: Comparison) -> str:
    by, groups = comparison.info["by"], comparison.info["grouped_by"]
    stem, is_energy = by[:-2], by.startswith("energy")
    each = ("Energy" if groups else "Energy of an instance") if is_energy else "Time of an instance"
    heads = [" ".join(groups) or "Task", "Result", each, "Bar", "Change (95 %)", "Noise", "Total"]
    heads += ["Own time" if groups else "Time", "Instances", "Power", "Cores"]
    time = "own_mean" if groups else "duration_mean"
    shown = comparison.tasks.head(MOST_TASKS)
    rows = "".join(_row(str(name), row, stem, time) for name, row in shown.iterrows())
    more = len(comparison.tasks) - len(shown)
    note = f"<p class='quiet'>And {more:,} more tasks: tprof compare --all --json.</p>" if more else ""
    return (
        f"{_table('changes', 'changes-section', heads, rows)}{note}"
        f"{_legend(comparison)}<p class='quiet'>The bar is the change, from \u2212100 % to +100 %, the line on it its "
        "95 % interval.</p>"
    )


def _legend(comparison: Comparison) -> str:
    """Return what the words of the table stand for, those that are in it."""
    within = "; between these two runs only" if comparison.info["within_run"] else ""
    words = [f"{NOISE}{within} ({comparison.info['method']})"]
    words += [
        text
        for change_, text in (("unclear", WITHIN_NOISE), ("unknown", NOT_DECIDED))
        if (comparison.tasks["change"] == change_).any()
    ]
    rows: list[Row] = list(comparison.tasks.head(MOST_TASKS).to_dict("records"))
    words += [AT_MOST_NOTE] if any(is_at_most(row) for row in rows) else []
    words += [NO_BOUND] if any(is_unbounded(row, f"{comparison.info['by'][:-2]}_") for row in rows) else []
    words += filter(None, [comparison.info["model_why"]])
    return "".join(f"<p class='quiet'>{_text(text[0].upper() + text[1:])}.</p>" for text in words)


def _row(name: str, row: pd.Series[Any], stem: str, time: str) -> str:
    unit = "J" if stem.startswith("energy") else "s"
    cells = [
        result(str(row["change"])),
        pair(row, stem, unit),
        None,
        change(row, f"{stem}_"),
        chance(float(row[f"{stem}_noise"])),
        total(row, is_judged=stem == "energy_mean"),
        pair(row, time, "s"),
        counts_of(row),
        pair(row, "power", "W"),
        _cores(row),
    ]
    drawn = [f"<td>{_bar(row, stem)}</td>" if cell is None else f"<td>{_text(cell)}</td>" for cell in cells]
    kind = CLASSES.get(str(row["change"]), "")
    return f'<tr class="{kind}"><th scope="row" class="word">{_breakable(name)}</th>{"".join(drawn)}</tr>'


def _breakable(name: str) -> str:
    """Return a name that lines may break after dots and colons."""
    return _text(name).replace(".", ".<wbr>").replace(":", ":<wbr>")


def _cores(row: Row) -> str:
    a, b = (len(row[f"cores_{side}"]) for side in "ab")
    return str(a) if row["cores_a"] == row["cores_b"] else f"{a} \u2192 {b}"


def _bar(row: Row, stem: str) -> str:
    """Return the change as a bar from the middle, with its interval as a line."""
    ratio, low, high = (float(row[f"{stem}_{part}"]) for part in ("ratio", "ratio_low", "ratio_high"))
    if math.isnan(ratio):
        return ""
    bar = _span("i", 1.0, ratio)
    line = "" if math.isnan(low) else _span("b", low, 1 + WIDEST if math.isnan(high) else high)
    return f'<span class="change" aria-hidden="true">{bar}{line}</span>'


def _span(tag: str, one: float, other: float) -> str:
    places = sorted(50 + 50 * max(min(ratio - 1, WIDEST), -WIDEST) / WIDEST for ratio in (one, other))
    return f'<{tag} style="left:{places[0]:.2f}%;width:{places[1] - places[0]:.2f}%"></{tag}>'


def _totals(comparison: Comparison) -> str:
    names = {"energy_j": "all energy", "program_j": "program", "duration_s": "time"}
    rows = ""
    for name in ["program_j", *(one for one in comparison.totals.index if one != "program_j")]:
        row = comparison.totals.loc[name]
        unit = "s" if name == "duration_s" else "J"
        if not (abs(float(row["a"])) > 0 or abs(float(row["b"])) > 0):
            continue
        cells = [*(quantity(float(row[side]), unit) for side in "ab"), signed(float(row["difference"]), unit)]
        cells += [change(row, ""), chance(float(row["chance"]))]
        drawn = "".join(f"<td>{_text(cell)}</td>" for cell in cells)
        rows += f'<tr><th scope="row" class="word">{names.get(str(name), str(name)[:-2])}</th>{drawn}</tr>'
    return _table("totals", "totals-section", ["Total", "A", "B", "Difference", "Change (95 %)", "Noise"], rows)


def _measured(comparison: Comparison) -> str:
    keys = list(dict.fromkeys(key for run in (*comparison.a, *comparison.b) for key in run.circumstances))
    sides = (("A", comparison.a), ("B", comparison.b))
    heads = ["", *(f"{letter}: {run.name}" for letter, side in sides for run in side)]
    rows = ""
    for key in keys:
        cells = "".join(f"<td>{_text(str(run.circumstances.get(key, '')))}</td>" for _, side in sides for run in side)
        rows += f'<tr><th scope="row" class="word">{_text(key)}</th>{cells}</tr>'
    return _table("measured", "measured-section", heads, rows)


def _table(name: str, section: str, heads: list[str], rows: str) -> str:
    titles = "".join(f'<th scope="col">{_text(head)}</th>' for head in heads)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{section}-title">'
        f'<table id="{name}"><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _text(value: str) -> str:
    return html.escape(value)
