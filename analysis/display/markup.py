"""HTML of notebooks' outputs: escaped text, tables, and small pictures as inline SVG.

A notebook's page may be light or dark, and each editor has its own way to say so. So text has the colour of the page
around it, and areas have colours that can be told from white and from black. Names of tasks come from the program: they
are escaped, and characters that would turn text around are written as codes.
"""

from __future__ import annotations

import math
import unicodedata
from html import escape
from typing import TYPE_CHECKING

from tprof.analysis.quantities import quantity

from tprof.trace.short_names import LONGEST, brief, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BLUE, ORANGE, GREY, GREEN = "#3b8bd0", "#d9822b", "#8a8f98", "#2f9e6e"
BAR_WIDTH, BAR_HEIGHT = 140, 14
LINE_WIDTH, LINE_HEIGHT = 520, 72
LONGEST_SENTENCE = 2_000
_STYLE = (
    ".tprof{font-size:.9em;line-height:1.45;max-width:62em;overflow-x:auto}"
    ".tprof table{border-collapse:collapse;margin:.3em 0;border:0;font-variant-numeric:tabular-nums}"
    ".tprof th,.tprof td{text-align:right;padding:.15em .7em .15em 0;border:0;background:none;white-space:nowrap;"
    "color:inherit;vertical-align:middle}"
    ".tprof tr{background:none!important;color:inherit}"
    ".tprof th:first-child,.tprof td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;"
    "min-width:7em}"
    ".tprof thead th{font-weight:600;border-bottom:1px solid currentColor}"
    ".tprof .badge{border:1px solid currentColor;border-radius:.3em;padding:0 .4em;font-weight:600}"
    ".tprof .quiet{opacity:.75}.tprof svg{vertical-align:middle;overflow:visible;max-width:none}"
    ".tprof p{margin:.3em 0}.tprof summary{cursor:pointer}.tprof caption{text-align:left;font-weight:600}"
)


def output(*parts: str) -> str:
    """Return the whole of an output."""
    return f"<style>{_STYLE}</style><div class='tprof'>{''.join(parts)}</div>"


def text(value: object, longest: int = LONGEST) -> str:
    """Return a text of the program for HTML; hovering shows all of one whose middle is left out."""
    whole = str(value)
    cut = short(brief(whole), longest)
    return _escaped(cut) if cut == whole else f'<span title="{_escaped(whole)}">{_escaped(cut)}</span>'


def _escaped(value: str) -> str:
    return escape("".join(char if _is_plain(char) else repr(char)[1:-1] for char in value))


def _is_plain(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def badge(quality: str) -> str:
    """Return the label of figures: measured, estimated, simulated, given or mixed."""
    return f"<span class='badge'>{text(quality)}</span>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return a table of cells that are HTML already."""
    head = "".join(f"<th scope='col'>{one}</th>" for one in headings)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    named = f"<caption>{caption}</caption>" if caption else ""
    return f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(title: str, sentences: Sequence[str]) -> str:
    """Return sentences that unfold below a title; nothing without any."""
    if not sentences:
        return ""
    lines = "".join(f"<p>{text(one, LONGEST_SENTENCE)}</p>" for one in sentences)
    return f"<details><summary>{text(title)}</summary>{lines}</details>"


def bar(value: float, low: float, high: float, most: float, label: str) -> str:
    """Return a bar with its 95 % interval as a line, which is cut without an end at `most`, the full width.

    Nothing is drawn of what is not known.
    """
    if not (math.isfinite(value) and most > 0):
        return ""
    middle, whisker = BAR_HEIGHT / 2, ""
    if math.isfinite(low) and math.isfinite(high):
        left, right = _place(low, most), _place(high, most)
        caps = "".join(f"M{end} 3V{BAR_HEIGHT - 3}" for end, value in ((left, low), (right, high)) if value <= most)
        whisker = f"<path fill='none' stroke='currentColor' d='M{left} {middle}H{right}{caps}'/>"
    area = f"<rect y='2' width='{_place(value, most)}' height='{BAR_HEIGHT - 4}' fill='{BLUE}'/>"
    return _picture(BAR_WIDTH, BAR_HEIGHT, label, area + whisker)


def shares(parts: Sequence[tuple[str, float]]) -> str:
    """Return one bar of several parts, with a legend."""
    known = [(name, value) for name, value in parts if math.isfinite(value) and value > 0]
    whole = sum(value for _, value in known)
    if not whole > 0:
        return ""
    colours = dict(zip([name for name, _ in parts], (BLUE, GREEN, ORANGE, GREY, "#b05fb0", "#c0504d"), strict=False))
    areas, legend, left = [], [], 0.0
    for name, value in known:
        width = LINE_WIDTH * value / whole
        areas.append(f"<rect x='{left:.1f}' width='{width:.1f}' height='{BAR_HEIGHT}' fill='{colours[name]}'/>")
        square = f"<rect width='10' height='10' fill='{colours[name]}'/>"
        square = f"<svg width='10' height='10' aria-hidden='true'>{square}</svg>"
        legend.append(f"{square} {text(name)} {quantity(value, 'J')}")
        left += width
    label = "; ".join(f"{name} {quantity(value, 'J')}" for name, value in known)
    picture = _picture(LINE_WIDTH, BAR_HEIGHT, label, "".join(areas))
    return f"<p>{picture}<br><span>{' &nbsp; '.join(legend)}</span></p>"


def line(x: Sequence[float], y: Sequence[float], end: float, unit: str) -> str:
    """Return a line of values that each hold from their `x` to the next, with its least and greatest."""
    finite = [one for one in y if math.isfinite(one)]
    if not finite or not end > x[0]:
        return ""
    most = max(*finite, 1e-12)
    edges = [*x, end]
    path, drawn = [], False
    for place, value in enumerate(y):
        if not math.isfinite(value):
            drawn = False
            continue
        left, right = (LINE_WIDTH * (one - x[0]) / (end - x[0]) for one in edges[place : place + 2])
        height = LINE_HEIGHT * (1 - value / most)
        path.append(f"{'L' if drawn else 'M'}{left:.1f} {height:.1f}H{right:.1f}")
        drawn = True
    axis = f"<path d='M0 {LINE_HEIGHT}H{LINE_WIDTH}' stroke='currentColor' opacity='.5'/>"
    curve = f"<path d='{''.join(path)}' fill='none' stroke='{BLUE}' stroke-width='1.5'/>"
    label = f"{quantity(min(finite), unit)} to {quantity(most, unit)} over {quantity(end - x[0], 's')}"
    picture = _picture(LINE_WIDTH, LINE_HEIGHT, label, axis + curve)
    return f"<p>{picture}<br><span class='quiet'>{text(label)}</span></p>"


def _place(value: float, most: float) -> str:
    return f"{BAR_WIDTH * min(max(value / most, 0.0), 1.0):.1f}"


def _picture(width: int, height: int, label: str, inside: str) -> str:
    named = f"role='img' aria-label='{escape(label, quote=True)}'"
    return f"<svg width='{width}' height='{height}' {named}><title>{escape(label)}</title>{inside}</svg>"
