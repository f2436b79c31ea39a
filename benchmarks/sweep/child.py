"""One run in a process of its own, recorded as a session: `tprof run` for a program, this module for a benchmark."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tprof.errors import TprofError
from tprof.session.process_state import SESSION

from .order import WORKERS, What

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.frequency import Guard

TPROF_WORKERS = "TPROF_WORKERS"
GRACE_S = 10.0
TAIL_BYTES = 1 << 16
_BENCHMARK = "from tprof.benchmarks.sweep.child import main; main()"
# As the installed command does it, whatever lies in the current folder: a user's program then finds its modules there.
_TPROF = (
    "import sys; first = [] if sys.flags.safe_path else [sys.path.pop(0)]; from tprof.cli import main; "
    "sys.path[:0] = first; main()"
)


class RunError(TprofError):
    """A run failed; others of the sweep may not."""


def command(what: What, workers: int, session: Path) -> list[str]:
    """Return what runs a point."""
    if what.kind == "benchmark":
        recording = {"energy": what.energy, "watts": what.watts, "counters": what.counters}
        given = json.dumps({"name": what.name, "size": what.size, "workers": workers, "recording": recording})
        return [sys.executable, "-P", "-c", _BENCHMARK, given, os.fspath(session)]
    options = [
        "--no-summary",
        "--output",
        os.fspath(session),
        "--overwrite",
        "--energy",
        what.energy,
        "--counters",
        what.counters,
    ]
    options += [] if what.watts is None else ["--watts", what.watts]
    options += [word for pattern in what.tasks for word in ("--task", pattern)]
    name = ["-m", what.name] if what.kind == "module" else [what.name]
    arguments = [word.replace(WORKERS, str(workers)) for word in what.arguments]
    return [sys.executable, "-c", _TPROF, "run", *options, *name, *arguments]


def run(words: list[str], workers: int, log: Path, *, guard: Guard, timeout_s: float | None = None) -> None:
    """Run a point to its end; whatever ends this process ends it too.

    Raises
    ------
    RunError
        If it ended with another status than 0, or not within `timeout_s`.
    """
    environment = {name: value for name, value in os.environ.items() if name != SESSION}
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the user's own program, under this interpreter
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, TPROF_WORKERS: str(workers)},
            process_group=0,  # Ctrl-C comes to the sweep alone, which ends the run in order
        )
        try:
            guard.also_ends(process.pid)
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            raise RunError(f"the run did not end within --timeout {timeout_s:g}; all it printed is in {log}") from None
        except BaseException:
            _end(process)
            raise
        finally:
            # The guard ends what still runs, because a signal can end this process anywhere, here too.
            if process.returncode is not None:
                guard.also_ends(None)
    if status != 0:
        raise RunError(f"the run ended with {_status(status)}{_last(log)}; all it printed is in {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a run and all that it started: asked first, killed after `GRACE_S`, or at once at a further Ctrl-C."""
    try:
        _signal(process.pid, signal.SIGTERM)
        _await(process.pid)
    finally:
        # The leader is not reaped yet, so the number of its group is no other's.
        _signal(process.pid, signal.SIGKILL)
        process.wait()


def _await(pid: int) -> None:
    ends = os.pidfd_open(pid)
    try:
        select.select([ends], [], [], GRACE_S)
    finally:
        os.close(ends)


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return  # it ended by itself


def _status(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"


def _last(log: Path) -> str:
    """Return the last line that a run printed, if any."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""


def main() -> None:
    """Record a benchmark as the arguments describe."""
    from tprof.benchmarks.programs.catalogue import PROGRAMS  # noqa: PLC0415

    import tprof  # noqa: PLC0415 - only the process needs it

    given = json.loads(sys.argv[1])
    try:
        recording = tprof.record(sys.argv[2], overwrite=True, **given["recording"])
        outcome = PROGRAMS[given["name"]].run(given["size"], given["workers"], during=recording)
    except TprofError as error:
        sys.stderr.write(f"tprof: {error}\n")
        sys.exit(1)
    sys.stdout.write(outcome.sentence() + "\n")
