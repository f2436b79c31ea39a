"""The start of `tprof run`: begins the recording and the program.

A program finds loaded what was imported for it, so this imports no library. The usual options are read here too, since
typer would load some hundred modules, pydantic among them. `run.py` declares the options, reads all others, explains
what is wrong and shows the help.
"""

from __future__ import annotations

import atexit
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tprof.mpi
from tprof.errors import TprofError, UsageError
from tprof.session.launcher import Launched
from tprof.session.options import RecordingOptions
from tprof.session.recording import Recording

from .run_end import End

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.launch.program import Program

_VALUES: dict[str, Callable[[str], Any]] = {
    "output": str,
    "task": str,
    "energy": str,
    "counters": str,
    "watts": str,
    "report": Path,
    "idle": float,
}
_FLAGS = (
    "hosts", "spans", "mpi", "require_tasks", "overwrite", "no_native_threads", "passive_pools", "best_effort",
    "no_summary",
)  # fmt: skip
_SHORT = {"-o": "--output"}
UNKNOWN_LINGER_S = 1.0
"""Wait for another process of the host where no launcher tells how many there are."""
_PASSIVE = {"OPENBLAS_THREAD_TIMEOUT": "20", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
"""OpenBLAS spins for 2 to the power of this many cycles. The last is for the OpenMP of Intel and LLVM."""


@dataclass(frozen=True)
class Launch:
    """What `tprof run` is asked to run and how; the help of the command explains each option."""

    program: tuple[str, ...]
    output: str | None = None
    hosts: bool = False
    task: tuple[str, ...] = ()
    spans: bool = False
    require_tasks: bool = False
    energy: str = "auto"
    counters: str = "auto"
    watts: str | None = None
    overwrite: bool = False
    report: Path | None = None
    idle: float | None = None
    no_native_threads: bool = False
    passive_pools: bool = False
    best_effort: bool = False
    no_summary: bool = False
    mpi: bool = False


def read_launch(words: Sequence[str]) -> Launch | None:
    """Read the words after `tprof run`; None where they need the command line's own parser, errors too."""
    given: dict[str, Any] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        word = rest.pop(0)
        name = _SHORT.get(word, word).removeprefix("--").replace("-", "_")
        if not _SHORT.get(word, word).startswith("--") or "_" in word:
            return None
        if name in _FLAGS:
            given[name] = True
            continue
        if name not in _VALUES or not rest or rest[0].startswith("-"):
            return None
        try:
            value = _VALUES[name](rest.pop(0))
        except ValueError:
            return None
        given[name] = (*given.get(name, ()), value) if name == "task" else value
    if not rest or (rest[0] in ("-m", "-c") and (len(rest) == 1 or rest[1].startswith("-"))):
        return None
    return Launch(tuple(rest), **given)


def prepare(launch: Launch) -> Callable[[], None]:
    """Begin to record, and return what runs the program. Raises TprofError."""
    from tprof.launch.pattern import parse_patterns
    from tprof.launch.program import find_program, run_program

    _check_working_folder()
    what = _program(launch.program)
    parse_patterns(launch.task)
    if launch.spans and not _has_module("opentelemetry.sdk"):
        raise UsageError("--spans needs OpenTelemetry's SDK: pip install opentelemetry-sdk")
    if launch.require_tasks and not launch.task:
        raise UsageError("--require-tasks needs a --task that it can require")
    launched = _launched(launch)
    session = Path(launch.output) if launch.output else _free_name(what.stem, launched)
    _check_report(launch.report)
    recording = Recording(session, _options(launch, launched), overwrite=launch.overwrite, launched=launched)
    if launch.mpi:
        tprof.mpi.follow()
    if launch.passive_pools:
        print(f"tprof: {make_pools_passive()}", file=sys.stderr)
    text = shlex.join(launch.program)
    end = End(recording, text, launch.report, summary=not launch.no_summary, require_tasks=launch.require_tasks)
    main = find_program(what)
    # What is registered first is called last: what the program leaves to its own end is recorded.
    atexit.register(end.at_exit)
    try:
        if launched is None:
            end.begin()
        else:
            end.begin_in_job(session, reports=not launched.rank)
    except TprofError as error:
        if end.must_record and not launch.best_effort:
            raise
        print(f"tprof: {error}; the program runs unprofiled", file=sys.stderr)

    def execute() -> None:
        try:
            run_program(what, main, launch.task, spans=launch.spans, recorded_in=end.recorded_in)
        except BaseException as error:
            end.ended_by = type(error)  # not the error, which would keep the program's objects alive
            end.failed = not (isinstance(error, SystemExit) and not error.code)
            raise

    return execute


def _launched(launch: Launch) -> Launched | None:
    """Return the place of this process in a job on several hosts; None if it is in none. Raises UsageError."""
    launched = Launched.here()
    if not (launch.hosts or launched.spans_hosts):
        return None
    if launch.report is not None:
        raise UsageError("--report needs the end of all hosts: write it afterwards by tprof report JOB")
    if launch.overwrite:
        raise UsageError("--overwrite cannot replace a job while several hosts begin: remove it first")
    return launched


def _options(launch: Launch, launched: Launched | None) -> RecordingOptions:
    names = [part.strip() for part in launch.counters.split(",")]
    members = 0 if launched is None else launched.local_size or 0
    return RecordingOptions(
        energy=launch.energy,
        counters=names if len(names) > 1 else launch.counters,
        watts=launch.watts,
        idle_s=launch.idle,
        attribute_native=not launch.no_native_threads,
        linger_s=0.0 if members else UNKNOWN_LINGER_S,
        members=members,
    )


def _has_module(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def make_pools_passive() -> str:
    """Let the threads of libraries loaded from now on sleep between calls; returns a sentence on what was set.

    A variable that the user has set stays, and so does what it decides: OMP_WAIT_POLICY decides KMP_BLOCKTIME too.
    """
    kept = [name for name in _PASSIVE if name in os.environ]
    decided = {*kept, "KMP_BLOCKTIME"} if "OMP_WAIT_POLICY" in kept else set(kept)
    new = {name: value for name, value in _PASSIVE.items() if name not in decided}
    os.environ.update(new)
    what = ", ".join(f"{name}={value}" for name, value in new.items()) or "nothing"
    stays = f"; {', '.join(kept)} as you set it" if kept else ""
    return f"--passive-pools sets {what} for the program{stays}"


def _program(words: Sequence[str]) -> Program:
    from tprof.launch.program import Program

    if not words:
        raise UsageError("name the program to run: tprof run SCRIPT, -m MODULE, -c TEXT or - for standard input")
    if words[0] == "-m":
        if len(words) == 1:
            raise UsageError("-m needs the name of a module after it")
        return Program(words[1], tuple(words[2:]), is_module=True)
    if words[0] == "-c":
        if len(words) == 1:
            raise UsageError("-c needs the text of a program after it")
        return Program(words[0], tuple(words[2:]), text=words[1])
    if words[0] == "-":
        return Program(words[0], tuple(words[1:]))
    if words[0].startswith("-"):
        raise UsageError(
            f"there is no option {words[0]}: see tprof run --help; the program's own options go after the script"
        )
    return Program(words[0], tuple(words[1:]))


def _check_working_folder() -> None:
    try:
        os.getcwd()  # noqa: PTH109 - os raises, and no Path is wanted
    except OSError as error:
        raise UsageError("the working folder was removed: change to one that exists") from error


def _check_report(report: Path | None) -> None:
    """Refuse a place for the report before the program runs, not after."""
    if report is None:
        return
    folder = report.absolute().parent
    if not os.path.isdir(folder) or os.path.isdir(report) or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write the report to {report}: name a file in a folder that can be written")


def _free_name(stem: str, launched: Launched | None) -> Path:
    from contextlib import nullcontext

    from tprof.session.companions import is_rank, shares
    from tprof.trace.directory import one_at_a_time
    from tprof.trace.hosts_table import clean_name

    if launched is not None:  # all hosts must come to the same name
        return Path(f"{stem}.tprof" if launched.launch is None else f"{stem}-{clean_name(launched.launch)}.tprof")
    number = 1
    path = Path(f"{stem}.tprof")
    # A session that another rank is about to create is there only once it is complete.
    with one_at_a_time(path.absolute().parent) if is_rank() else nullcontext():
        while os.path.lexists(path) and not (is_rank() and shares(path)):
            number += 1
            path = Path(f"{stem}-{number}.tprof")
    return path
