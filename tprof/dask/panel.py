"""The page `/tprof` of dask's dashboard: watts of each worker's process, and joules of the tasks by name.

The scheduler asks the workers once a second while the page is open. The figures are shared by CPU time, as those of a
running recording are; a profile may use a better model.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin

from .live import HANDLER
from .worker_plugin import NAME as TOPIC

if TYPE_CHECKING:
    from distributed import Scheduler

PAGE = "/tprof"
EACH_S = 1.0
MOST_TASKS = 30
PLUGIN = "tprof-panel"


@dataclass
class Figures:
    """What the workers answered last.

    Attributes
    ----------
    watts : of each process, by the addresses of its workers
    tasks_j : joules of tasks so far, by name
    quality : measured, estimated, or both; empty while nothing is recorded
    """

    watts: dict[str, float] = field(default_factory=dict)
    tasks_j: dict[str, float] = field(default_factory=dict)
    quality: str = ""


class Panel(SchedulerPlugin):
    """Adds the page to the dashboard and asks the workers for it; a scheduler without bokeh has no page.

    Attributes
    ----------
    figures : the latest
    """

    name = PLUGIN
    idempotent = True

    def __init__(self) -> None:
        """Begin without figures."""
        self.figures = Figures()
        self._asked_s = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def start(self, scheduler: Scheduler) -> None:
        """Add the page."""
        try:
            from .page import add_page  # noqa: PLC0415 - needs bokeh
        except ImportError:
            return
        add_page(scheduler, self)

    def ask_soon(self, scheduler: Scheduler) -> None:
        """Let the workers be asked, unless that happens now or happened within a second; called in the event loop."""
        is_asking = self._asking is not None and not self._asking.done()
        if not is_asking and time.monotonic() - self._asked_s >= EACH_S:
            self._asked_s = time.monotonic()
            self._asking = asyncio.ensure_future(self.ask(scheduler))

    async def ask(self, scheduler: Scheduler) -> None:
        """Ask all workers, and one of each host for its tasks as well."""
        first = await _answers(scheduler, [])
        chosen = {answer["part"]: answer["worker"] for answer in reversed(first)}
        answers = await _answers(scheduler, list(chosen.values())) if chosen else []
        self.figures = combine(answers)

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()


async def _answers(scheduler: Scheduler, workers_with_tasks: list[str]) -> list[dict[str, Any]]:
    reports = [event for _, event in scheduler.get_events(TOPIC)]
    workers = {report["worker"] for report in reports if report["problem"] is None} & set(scheduler.workers)
    message = {"op": HANDLER, "workers_with_tasks": workers_with_tasks}
    answers = await scheduler.broadcast(msg=message, workers=workers, on_error="ignore")
    return [answer for answer in answers.values() if isinstance(answer, dict) and "part" in answer]


def combine(answers: list[dict[str, Any]]) -> Figures:
    """Return the figures of all hosts from the answers of their workers."""
    found = Figures()
    processes: dict[tuple[str, int], list[str]] = {}
    for answer in answers:
        processes.setdefault((answer["part"], answer["process"]), []).append(answer["worker"])
    for answer in answers:
        workers = processes[answer["part"], answer["process"]]
        found.watts[", ".join(workers)] = answer["watts"]
        for name, joules in (answer["tasks"] or {}).items():
            found.tasks_j[name] = found.tasks_j.get(name, 0.0) + joules
    found.quality = " and ".join(sorted({answer["quality"] for answer in answers} - {"none"}))
    return found
