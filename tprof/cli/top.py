"""`tprof top`: watch where a recording's joules go while it runs, from outside."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tprof.errors import TprofError, UsageError

from .options import AsJson
from .render import clean, dump, percent, quantity

if TYPE_CHECKING:
    from tprof.live.snapshot import Snapshot
    from tprof.live.watch import Watch

SHORTEST_S, LONGEST_S = 0.05, 3600.0
MOST_NAMED = 3
_HELP = """Watch a recording while it runs: watts, joules of tasks, threads and what they run.

SESSION is a session directory, a job of several hosts, or one that will begin; PID a recorded process, one of its
children or ranks, or their launcher. Without either it is what runs now. Nothing is written into the session.

Examples:

  tprof top

  tprof top blur.tprof

  tprof top --once --json 4711
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("top", help=_HELP)(top)


def top(
    session: Annotated[str | None, typer.Argument(metavar="[SESSION|PID]", help="What to watch.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the figures of one interval, and end.")] = False,
    interval: Annotated[float, typer.Option(metavar="SECONDS", help="Between two reads.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Show it in the terminal; in what is none, a line an interval."""
    if not SHORTEST_S <= interval <= LONGEST_S:
        raise UsageError(f"--interval must be from {SHORTEST_S:g} to {LONGEST_S:g} seconds, got {interval:g}")
    from tprof.live.watch import Watch

    watch = Watch(_find(session))
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if has_terminal and not once and not as_json:
        _show(watch, interval)
    else:
        _print_each(watch, interval, once=once, as_json=as_json)


def _find(word: str | None) -> Path:
    """Return the session that a word means. Raises UsageError."""
    from tprof.live.watch import running_sessions, session_of

    if word is None:
        found = running_sessions()
        if len(found) == 1:
            return found[0]
        if not found:
            raise UsageError("no process of yours records now: start one with tprof run, or name a session to wait for")
        raise UsageError(f"several recordings run, name one of them: {', '.join(map(str, found))}")
    if word.isascii() and word.isdigit() and not Path(word).exists():
        return session_of(int(word))
    return Path(word)


def _show(watch: Watch, interval: float) -> None:
    from .top_view import TopApp
    from .top_widgets import end_by, own_terminal, signals_received

    app = TopApp(watch, interval)
    with signals_received(app.receive), own_terminal():
        problem = app.run(mouse=False)
    if app.ended_by is not None:
        end_by(app.ended_by)
    if problem is not None:
        raise TprofError(problem)


def _print_each(watch: Watch, interval: float, *, once: bool, as_json: bool) -> None:
    try:
        snapshot = watch.read()
        if once and snapshot.state == "waiting":
            from tprof.live.watch import running_sessions

            running = running_sessions()
            other = f", or name {running[0]}, which records now" if len(running) == 1 else ""
            raise UsageError(f"no recording has begun in {watch.path}: leave --once out to wait for it{other}")
        while True:
            if not snapshot.is_final:
                time.sleep(interval)
                snapshot = watch.read()
            _print(snapshot, as_json=as_json, once=once)
            if once or snapshot.is_final:
                return
    except (KeyboardInterrupt, BrokenPipeError):
        return


def _print(snapshot: Snapshot, *, as_json: bool, once: bool) -> None:
    if as_json and once:
        dump(as_plain(snapshot))
    elif as_json:
        from json import dumps

        from .render import plain

        print(dumps(plain(as_plain(snapshot)), allow_nan=False), flush=True)
    elif once:
        from .top_lines import Choices, lines_of_view

        for line in lines_of_view(snapshot, Choices(), 160, 10_000):
            print("".join(span.text for span in line).rstrip())
    else:
        print(clean(_sentence(snapshot)), flush=True)


def as_plain(snapshot: Snapshot) -> dict[str, object]:
    """Return all figures as plain values; docs/top.md has the keys."""
    return {"time_s": time.time(), **dataclasses.asdict(snapshot)}


def _sentence(snapshot: Snapshot) -> str:
    from .top_lines import Choices, elapsed, known_quantity, lacking, sorted_tasks, standing_of

    if snapshot.state == "waiting":
        return f"{snapshot.session}: {standing_of(snapshot)}"
    total_j = math.fsum(one.energy_j for one in snapshot.accounts if one.energy_j > 0)
    accounts = [
        f"{one.name} {percent(one.energy_j / total_j)}" for one in snapshot.accounts if total_j > 0 < one.energy_j
    ]
    tasks = [
        f"{one.name} {quantity(one.energy_j, 'J')} {known_quantity(one.power_w, 'W')}"
        for one in sorted_tasks(snapshot, Choices())[:MOST_NAMED]
    ]
    figures = f"{known_quantity(snapshot.power_w, 'W')} {known_quantity(snapshot.energy_j, 'J')} {snapshot.quality}"
    parts = [elapsed(snapshot.duration_s), figures, ", ".join(accounts), "; ".join(tasks), standing_of(snapshot)]
    parts += lacking(snapshot)
    return "  ".join(part for part in parts if part)
