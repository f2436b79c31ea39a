"""The Bokeh document of the dashboard's page on energy, as dask's own pages are made."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bokeh.layouts import row
from bokeh.models import ColumnDataSource, HoverTool, NumeralTickFormatter
from bokeh.plotting import figure
from distributed.dashboard.components import DashboardComponent, add_periodic_callback
from distributed.dashboard.components.scheduler import BOKEH_THEME, env
from distributed.dashboard.core import BokehApplication
from distributed.dashboard.scheduler import template_variables
from distributed.dashboard.utils import update
from distributed.diagnostics.progress_stream import color_of
from tornado.ioloop import IOLoop

from .panel import EACH_S, MOST_TASKS, PAGE

if TYPE_CHECKING:
    from bokeh.document import Document
    from bokeh.models import Model
    from distributed import Scheduler

    from .panel import Panel

BLUE = "#1f77b4"
_ATTRIBUTE = "_tprof_page"


def add_page(scheduler: Scheduler, panel: Panel) -> None:
    """Add the page to a running dashboard, and to its bar of pages; a scheduler without a dashboard stays without."""
    if hasattr(scheduler, _ATTRIBUTE):  # of an earlier recording
        setattr(scheduler, _ATTRIBUTE, panel)
        return
    setattr(scheduler, _ATTRIBUTE, panel)
    variables = template_variables(scheduler)
    if PAGE.strip("/") not in variables["pages"]:
        variables["pages"].insert(-1, PAGE.strip("/"))
    application = BokehApplication({PAGE: energy_doc}, scheduler, template_variables=variables)
    scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()


def energy_doc(scheduler: Scheduler, extra: dict[str, Any], doc: Document) -> None:
    """Fill a document for one who opened the page."""
    component = Energy(scheduler, partial(getattr, scheduler, _ATTRIBUTE))
    component.update()
    add_periodic_callback(doc, component, int(EACH_S * 1000))
    doc.title = "Dask: energy"
    doc.add_root(component.root)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    doc.theme = BOKEH_THEME


class Energy(DashboardComponent):
    """Watts of each worker's process, and joules of tasks."""

    def __init__(self, scheduler: Scheduler, panel_of: partial[Panel]) -> None:
        """Make empty figures."""
        self._scheduler, self._panel_of = scheduler, panel_of
        self.watts, self._watts_figure = _bars("W", "watts")
        self.tasks, self._tasks_figure = _bars("J", "joules")
        self.source = self.tasks
        self.root: Model = row(self._watts_figure, self._tasks_figure, sizing_mode="stretch_both")

    def update(self) -> None:
        """Show the latest figures, and ask for newer ones."""
        panel = self._panel_of()
        panel.ask_soon(self._scheduler)
        figures = panel.figures
        largest = sorted(figures.tasks_j.items(), key=lambda pair: pair[1], reverse=True)[:MOST_TASKS]
        _show(self.watts, self._watts_figure, figures.watts, dict.fromkeys(figures.watts, BLUE))
        _show(self.tasks, self._tasks_figure, dict(largest), {name: color_of(name) for name, _ in largest})
        about = f" ({figures.quality})" if figures.quality else ": no worker records"
        self._watts_figure.title.text = f"Power of workers: {sum(figures.watts.values()):.3g} W{about}"
        self._tasks_figure.title.text = f"Energy of tasks: {sum(figures.tasks_j.values()):.4g} J{about}"


def _bars(unit: str, what: str) -> tuple[ColumnDataSource, Any]:
    """Return a source and a figure with a bar for each name."""
    source = ColumnDataSource({"name": [], "value": [], "color": []})
    made = figure(y_range=[], x_axis_label=unit, tools="", toolbar_location=None, sizing_mode="stretch_both")
    made.hbar(y="name", right="value", height=0.8, color="color", source=source)
    made.x_range.start = 0
    made.xaxis.formatter = NumeralTickFormatter(format="0.[000]")
    made.ygrid.visible = False
    made.add_tools(HoverTool(tooltips=f"@name: @value{{0.000}} {what}", point_policy="follow_mouse"))
    return source, made


def _show(source: ColumnDataSource, shown: Any, values: dict[str, float], colors: dict[str, str]) -> None:
    names = list(values)[::-1]  # the first at the top
    if shown.y_range.factors != names:
        shown.y_range.factors = names
    columns = {"name": names, "value": [values[name] for name in names], "color": [colors[name] for name in names]}
    update(source, columns)
