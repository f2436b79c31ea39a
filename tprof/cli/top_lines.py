"""The view of `tprof top` as lines of text, cut to a terminal's width and height."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from tprof.trace.left_out import GRANT
from tprof.trace.plain_values import counted

from .render import DASH, LEAST_NAME, Column, clean, fitting, percent, quantity, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.live.snapshot import DomainFigures, HostFigures, Snapshot, TaskFigures, ThreadFigures

SPARKS = "▁▂▃▄▅▆▇█"
SORTS = {"energy": "energy", "power": "power", "instances": "inst", "name": "task"}
"""Orders of the tasks, with the headings that they mark."""
STATES = {
    "waiting": "waiting",
    "running": "running",
    "ended": "ended",
    "killed": "was killed",
}
LEAST_ROWS = 3
"""Of a table of tasks or threads, with its heading, before the other one gives way."""
MOST_DOMAINS, MOST_HOSTS = 4, 4
_LINE = 80


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line; `role` is what it is drawn as: plain, title, dim, heading, spark, good, warning."""

    text: str
    role: str = "plain"


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose to see.

    Attributes
    ----------
    sort : one of `SORTS`
    filter : of tasks and threads, a part of their names
    threads_first : whether threads, not tasks, get the rows that are left, and are scrolled
    offset : rows of that table that are scrolled over
    paused : whether the figures stand still
    """

    sort: str = "energy"
    filter: str = ""
    threads_first: bool = False
    offset: int = 0
    paused: bool = False


def lines_of_view(snapshot: Snapshot, choices: Choices, width: int, height: int) -> list[Line]:
    """Return at most `height` lines of at most `width` cells."""
    lines = [*_head(snapshot, choices, width), *_hosts(snapshot, width), *_domains(snapshot, width)]
    lines += _accounts(snapshot, width)
    tasks, threads = sorted_tasks(snapshot, choices), sorted_threads(snapshot, choices)
    left = height - len(lines)
    for_tasks, for_threads = _shares(left, len(tasks) + 1, len(threads) + 1 if threads else 0, choices)
    first_tasks, first_threads = (0, choices.offset) if choices.threads_first else (choices.offset, 0)
    lines += _tasks(snapshot, tasks[first_tasks:][: max(for_tasks - 1, 0)], choices, width)[:for_tasks]
    lines += _threads(snapshot, threads[first_threads:][: max(for_threads - 1, 0)], width)[:for_threads]
    return [_fitted(line, width) for line in lines[:height]]


def rows_scrolled(snapshot: Snapshot, choices: Choices) -> int:
    """Return how many rows the table has that is scrolled."""
    return len(sorted_threads(snapshot, choices) if choices.threads_first else sorted_tasks(snapshot, choices))


def sorted_tasks(snapshot: Snapshot, choices: Choices) -> list[TaskFigures]:
    """Return the tasks that pass the filter, in their order."""
    keys: dict[str, Callable[[TaskFigures], tuple[float, str]]] = {
        "energy": lambda task: (-_known(task.energy_j), task.name),
        "power": lambda task: (-_known(task.power_w), task.name),
        "instances": lambda task: (-task.instances, task.name),
        "name": lambda task: (0.0, task.name),
    }
    wanted = choices.filter.casefold()
    return sorted((task for task in snapshot.tasks if wanted in task.name.casefold()), key=keys[choices.sort])


def sorted_threads(snapshot: Snapshot, choices: Choices) -> list[ThreadFigures]:
    """Return the threads that pass the filter, the busiest first, or by name."""
    wanted = choices.filter.casefold()
    found = [one for one in snapshot.threads if wanted in f"{one.name} {one.labels} {one.task or ''}".casefold()]
    if choices.sort == "name":
        return sorted(found, key=lambda one: (one.name, one.host, one.pid, one.tid))
    return sorted(found, key=lambda one: (-_known(one.busy), one.host, one.pid, one.tid))


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the latest values as blocks, from 0 to the highest of them."""
    shown = values[-width:] if width > 0 else ()
    highest = max(shown, default=0.0)
    if highest <= 0:
        return SPARKS[0] * len(shown)
    return "".join(SPARKS[min(int(max(value, 0.0) / highest * len(SPARKS)), len(SPARKS) - 1)] for value in shown)


def elapsed(seconds: float) -> str:
    """Write a duration: seconds up to two minutes, then hours, minutes and seconds."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def known_quantity(value: float, unit: str) -> str:
    """Write a figure; a dash where it is not known yet."""
    return DASH if math.isnan(value) else quantity(value, unit)


def standing_of(snapshot: Snapshot) -> str:
    """Return a clause on how far the figures are to be trusted."""
    if snapshot.state == "waiting":
        return "no recording has begun there yet"
    if snapshot.is_final:
        return "final, by the model cputime; tprof summary chooses the model"
    if snapshot.state != "running":
        return "reading the whole recording for its final figures"
    lag_s = max((host.lag_s for host in snapshot.hosts), default=0.0)
    behind = f"; {elapsed(lag_s)} behind" if lag_s > 1 else ""
    return f"preliminary, shared by CPU time{behind}"


def _fitted(line: Line, width: int) -> Line:
    """Return as much of a line as fits."""
    fitted = []
    for span in line:
        text = _cut(span.text, width) if cell_len(span.text) > width else span.text
        fitted.append(Span(text, span.role))
        width -= cell_len(text)
    return tuple(fitted)


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _cut(text: str, width: int) -> str:
    return set_cell_size(text, width).rstrip() if width > 0 else ""


def _head(snapshot: Snapshot, choices: Choices, width: int) -> list[Line]:
    state = "paused" if choices.paused else STATES[snapshot.state]
    name = clean(snapshot.session.rstrip("/").rpartition("/")[2])
    figures = f"  {state}  {elapsed(snapshot.duration_s)}"
    if not math.isnan(snapshot.power_w):
        figures += f"  {quantity(snapshot.power_w, 'W')}"
    if not math.isnan(snapshot.energy_j):
        figures += f"  {quantity(snapshot.energy_j, 'J')}"
    room = max(width - len(figures), 12)
    shown = _cut(name, room) if len(name) <= room else f"…{name[len(name) - room + 1 :]}"
    second = (
        f"{snapshot.quality}: " if snapshot.quality != "none" else "" if not snapshot.hosts else "no energy sensor: "
    )
    counts = ""
    if snapshot.hosts:
        processes, threads = (sum(getattr(one, what) for one in snapshot.hosts) for what in ("processes", "threads"))
        counts = f"; {counted(processes, 'process', 'processes')}, {counted(threads, 'thread')}"
    return [
        (Span(shown, "title"), Span(_cut(figures, width - len(shown)), "warning" if choices.paused else "plain")),
        (Span(_cut(f"{second}{standing_of(snapshot)}{counts}", width), "dim"),),
        *((Span(line, "warning"),) for text in lacking(snapshot) for line in textwrap.wrap(text, max(width, 20))),
    ]


def lacking(snapshot: Snapshot) -> list[str]:
    """Return what could not be read, without the long commands that grant it, which `tprof doctor` prints."""
    several, found = len(snapshot.hosts) > 1, []
    for host in snapshot.hosts:
        for one in host.unread:
            text, _, command = one.partition(GRANT)
            where = f"{host.name}: " if several else ""
            found.append(clean(f"{where}{text}{'; tprof doctor prints the command that grants it' if command else ''}"))
    return found


def _hosts(snapshot: Snapshot, width: int) -> list[Line]:
    if len(snapshot.hosts) < 2:
        return []
    hosts = sorted(snapshot.hosts, key=lambda host: -_known(host.power_w))
    shown: list[HostFigures] = hosts[:MOST_HOSTS]
    columns = [
        Column("power", tuple(known_quantity(one.power_w, "W") for one in shown), 9),
        Column("energy", tuple(known_quantity(one.energy_j, "J") for one in shown), 8),
        Column("time", tuple(elapsed(one.duration_s) for one in shown), 5),
        Column("state", tuple(one.state for one in shown), 7),
        Column("quality", tuple(one.quality for one in shown), 6),
    ]
    return _table(f"host ({len(hosts)})", [clean(one.name) for one in shown], columns, width)


def _domains(snapshot: Snapshot, width: int) -> list[Line]:
    several = len(snapshot.hosts) > 1
    domains = sorted(snapshot.domains, key=lambda one: not one.counted)[:MOST_DOMAINS]
    names = [f"{clean(one.host)} {clean(one.name)}" if several else clean(one.name) for one in domains]
    longest = max(map(len, names), default=0)
    return [_domain(one, name.ljust(longest), width) for one, name in zip(domains, names, strict=True)]


def _domain(domain: DomainFigures, name: str, width: int) -> Line:
    role = "plain" if domain.counted else "dim"
    figures = f"{known_quantity(domain.power_w, 'W'):>8}  {quantity(domain.energy_j, 'J'):>8}  {domain.quality}"
    if not domain.counted:
        figures += ", not in totals"
    room = width - len(name) - len(figures) - 4
    sparks = sparkline(domain.history_w, room)
    if room < 8:
        return (Span(_cut(f"{name}  {figures}", width), role),)
    return (Span(f"{name}  {figures}  ", role), Span(sparks, "spark"))


def _accounts(snapshot: Snapshot, width: int) -> list[Line]:
    shown = [one for one in snapshot.accounts if one.energy_j > 0]
    total_j = math.fsum(one.energy_j for one in shown)
    if total_j <= 0:
        return []
    shares = [f"{one.name} {percent(one.energy_j / total_j)}" for one in shown]
    long = [f"{share} {known_quantity(one.power_w, 'W')}" for share, one in zip(shares, shown, strict=True)]
    text = "   ".join(long)
    return [(Span(_cut(text if len(text) <= width else "  ".join(shares), width)),)]


def _tasks(snapshot: Snapshot, tasks: Sequence[TaskFigures], choices: Choices, width: int) -> list[Line]:
    if not snapshot.hosts:
        return []
    total_j = math.fsum(one.energy_j for one in snapshot.tasks if not math.isnan(one.energy_j))
    columns = [
        Column(_marked("energy", choices), tuple(known_quantity(one.energy_j, "J") for one in tasks), 9),
        Column("share", tuple(percent(one.energy_j / total_j) if total_j > 0 else DASH for one in tasks), 6),
        Column(_marked("power", choices), tuple(known_quantity(one.power_w, "W") for one in tasks), 8),
        Column(_marked("inst", choices), tuple(f"{one.instances:,}" for one in tasks), 5),
        Column("per s", tuple(_per_s(one.instances_per_s) for one in tasks), 4),
        Column("each", tuple(_each(one) for one in tasks), 3),
        Column("threads", tuple(str(one.threads or "") for one in tasks), 7),
    ]
    if any(one.budget_j is not None for one in tasks):
        budgets = tuple(DASH if one.budget_j is None else quantity(one.budget_j, "J") for one in tasks)
        columns.insert(6, Column("budget each", budgets, 4))
    heading = _marked("task", choices)
    if choices.filter:
        heading += f" with {clean(choices.filter)!r}"
    return _table(heading, [clean(one.name) for one in tasks], columns, width)


def _marked(heading: str, choices: Choices) -> str:
    return f"{heading}▾" if SORTS[choices.sort] == heading else heading


def _per_s(rate: float) -> str:
    return DASH if math.isnan(rate) else f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _each(task: TaskFigures) -> str:
    return quantity(task.energy_j / task.instances, "J") if task.instances and task.energy_j > 0 else DASH


def _threads(snapshot: Snapshot, threads: Sequence[ThreadFigures], width: int) -> list[Line]:
    if not threads:
        return []
    several = len(snapshot.hosts) > 1
    names = [f"{one.host} {one.name}" if several else one.name for one in threads]
    columns = [
        Column("pid", tuple(str(one.pid) for one in threads), 5),
        Column("tid", tuple(str(one.tid) for one in threads), 4),
        Column("busy", tuple(DASH if math.isnan(one.busy) else percent(one.busy) for one in threads), 8),
        Column("for", tuple(DASH if one.task is None else elapsed(one.running_s) for one in threads), 6),
        Column("runs", tuple(_short(one.task or DASH) for one in threads), 9),
    ]
    if any(one.labels for one in threads):
        columns.insert(2, Column("labels", tuple(clean(one.labels) for one in threads), 7))
    return _table("thread", [clean(name) for name in names], columns, width)


def _short(name: str) -> str:
    name = clean(name)
    return name if len(name) <= _LINE // 2 else f"{name[:12]}…{name[-(_LINE // 2 - 13) :]}"


def _table(heading: str, names: Sequence[str], columns: Sequence[Column], width: int) -> list[Line]:
    """Return a line of headings and one a row: a name that does not fit is cut in its middle."""
    kept = fitting([_cut(name, LEAST_NAME) for name in (heading, *names)], columns, width)
    room = min(max(map(cell_len, (heading, *names))), max(width - sum(column.width for column in kept), 1))
    rows = zip((heading, *names), *((column.heading, *column.cells) for column in kept), strict=True)
    widths = [column.width for column in kept]
    lines = ["".join((_named(name, room), *map(_right, cells, widths))) for name, *cells in rows]
    return [(Span(_cut(line, width), "heading" if place == 0 else "plain"),) for place, line in enumerate(lines)]


def _named(name: str, room: int) -> str:
    return set_cell_size((shortened([name], room) or [name])[0], room)


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def _shares(left: int, tasks: int, threads: int, choices: Choices) -> tuple[int, int]:
    """Divide rows between the two tables: what comes first gets what it needs, but for the least of the other."""
    first, second = (threads, tasks) if choices.threads_first else (tasks, threads)
    given = min(first, max(left - min(second, max(LEAST_ROWS, left // 3)), 0))
    rest = max(min(left - given, second), 0)
    return (rest, given) if choices.threads_first else (given, rest)
