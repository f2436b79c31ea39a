"""The page of an analytic model: sentences, tables and figures in one self-contained file."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof.analysis.report.embed import Parts, clean, embed, write_page

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import plotly.graph_objects as go
    from tprof.analysis.text_table import Table

BAND_COLOUR = "#00805a"
ANSWER = '<section class="answer" aria-label="The answer"><ul id="sentences"></ul></section>\n'


class Axis(NamedTuple):
    """An axis: its title, the unit behind its numbers, and whether it is logarithmic."""

    title: str
    unit: str = ""
    log: bool = True


@dataclass(frozen=True)
class Figure:
    """A figure of a page: what plotly draws, in the colours of the page."""

    title: str
    plot: go.Figure
    note: str = ""


def curve(name: str, x: Sequence[float], y: Sequence[float], dash: str = "solid", *, points: bool = False) -> Any:
    """Return a line of a figure, or marks alone; NaN interrupts a line."""
    import plotly.graph_objects as go  # noqa: PLC0415 - a quarter of a second that tables do without

    mode = "markers" if points else "lines"
    return go.Scatter(name=_plain(name), x=x, y=y, mode=mode, line={"width": 2.5, "dash": dash}, marker={"size": 9})


def surface(name: str, x: Sequence[float], y: Sequence[float], z: Sequence[Sequence[float]]) -> Any:
    """Return values over two axes, rows of `z` along y; NaN is a gap."""
    import plotly.graph_objects as go  # noqa: PLC0415 - see above

    return go.Contour(
        x=x, y=y, z=z, colorscale="Viridis", reversescale=True, ncontours=24, connectgaps=False,
        colorbar={"title": {"text": _plain(name), "side": "right"}},
        contours={"coloring": "fill", "showlines": False},
        hovertemplate=f"%{{x:.4s}}, %{{y:.4s}}: %{{z:.3g}}<extra>{_plain(name)}</extra>",
    )  # fmt: skip


def figure(
    title: str, x: Axis, y: Axis, traces: Sequence[Any], note: str = "", band: tuple[float, float, str] | None = None
) -> Figure:
    """Return a figure of curves and surfaces; `band` shades x from … to, with a label."""
    import plotly.graph_objects as go  # noqa: PLC0415 - see above

    plot = go.Figure(list(traces))
    for one in plot.select_traces(selector={"type": "scatter"}):
        one.hovertemplate = f"%{{x:.4s}}: %{{y:.4s}}{y.unit}<extra>{one.name}</extra>"
    plot.update_layout(template="none", xaxis=_scale(x), yaxis=_scale(y), showlegend=True)
    plot.update_layout(height=520 if any(one.type == "contour" for one in plot.data) else 380)
    if band is not None:
        low, high, label = band
        plot.add_vrect(low, high, fillcolor=BAND_COLOUR, opacity=0.14, line_width=0)
        # Plotly takes the places of annotations, unlike those of shapes, in logarithms.
        middle = (math.log10(low) + math.log10(high)) / 2 if x.log else (low + high) / 2
        plot.add_annotation(x=middle, y=1, yref="paper", yanchor="bottom", text=_plain(label), showarrow=False)
    return Figure(title, plot, note)


def _plain(text: str) -> str:
    """Return text that Plotly, which knows some tags, shows as it is."""
    return html.escape(text, quote=False)


def _scale(axis: Axis) -> dict[str, Any]:
    scale: dict[str, Any] = {"title": {"text": _plain(axis.title)}}
    if axis.log:
        return scale | {"type": "log", "exponentformat": "power"}
    return scale | ({"exponentformat": "SI", "minexponent": 1, "ticksuffix": axis.unit} if axis.unit else {})


@dataclass(frozen=True)
class Page:
    """The content of a page, in this order."""

    title: str
    sentences: Sequence[str]
    figures: Sequence[Figure]
    tables: Sequence[Table]
    notes: Sequence[str] = field(default_factory=tuple)


def render(page: Page) -> str:
    """Return the page's HTML."""
    package = files(__package__)
    body, script = ((package / f"model_page.{kind}").read_text("utf-8") for kind in ("html", "js"))
    plots = [{**vars(one), "plot": one.plot.to_plotly_json()} for one in page.figures]
    for one in plots:
        del one["plot"]["layout"]["template"]
    data = {**vars(page), "figures": plots, "tables": [asdict(one) for one in page.tables]}
    return embed(Parts("tprof scaling", body, script, clean(data), lead=ANSWER))


def write(page: Page, path: str | os.PathLike[str]) -> None:
    """Write the page, replacing a file that is there. Raises TprofError if it cannot be written."""
    write_page(path, render(page))
