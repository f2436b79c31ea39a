"""A figure of a profile that can be zoomed: the joules of tasks with intervals, and the power over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.analysis.profile.host_figures import total_power

from tprof.trace.short_names import short

from .markup import BLUE, ORANGE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from tprof.analysis.profile import Profile

TASKS = 15
STEPS = 2_000


def plot(profile: Profile) -> Figure:
    """Return a plotly figure: above the joules of tasks with 95 % intervals, below the power over time.

    The title names the quality of the figures. A notebook shows it; `.show()` opens it elsewhere.
    """
    from plotly.subplots import make_subplots  # noqa: PLC0415 - a quarter of a second that tables do without

    quality = profile.info["quality"]
    titles = (f"joules by task ({quality})", f"power over time ({quality})")
    figure = make_subplots(rows=2, cols=1, subplot_titles=titles, vertical_spacing=0.16)
    summary = profile.summary().head(TASKS)
    instances = summary["energy_j"] / summary["energy_mean_j"]
    low_j, high_j = (summary[f"energy_mean_{end}_j"] * instances for end in ("low", "high"))
    names = [short(str(name)).replace("<", "&lt;") for name in summary.index]
    figure.add_bar(
        x=names,
        y=summary["energy_j"].tolist(),
        error_y={
            "array": (high_j - summary["energy_j"]).tolist(),
            "arrayminus": (summary["energy_j"] - low_j).tolist(),
            "color": ORANGE,
        },
        marker_color=BLUE,
        row=1,
        col=1,
    )
    power = total_power(profile, STEPS)
    if len(power):
        end_s = power["time_s"].iloc[-1] + power["duration_s"].iloc[-1]
        x, y = [*power["time_s"], end_s], [*power["power_w"], power["power_w"].iloc[-1]]
        figure.add_scatter(x=x, y=y, mode="lines", line={"shape": "hv", "color": BLUE}, row=2, col=1)
    figure.update_yaxes(title_text="J", row=1, col=1)
    figure.update_yaxes(title_text="W", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title_text="s", row=2, col=1)
    # Colours of the page around it: a figure with a ground of its own would shine in a dark notebook.
    grey = "#808890"
    figure.update_layout(
        showlegend=False, height=560, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font_color=grey
    )
    figure.update_xaxes(gridcolor="rgba(128,136,144,.3)")
    figure.update_yaxes(gridcolor="rgba(128,136,144,.3)")
    return figure
