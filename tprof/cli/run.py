"""`tprof run`: profile a script or module unchanged."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import TprofError, UsageError
from tprof.session.process_state import SESSION, TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from tprof.analysis import Profile
    from tprof.launch.program import Program
    from tprof.session.recording import Recording

_TOP = 10
_SUM_UP = "from tprof.cli.run import sum_up; sum_up()"
_HELP = """Profile a script, a module or a text; its source, arguments, output and exit status stay as they are.

Examples:

  tprof run blur.py --size 4096

  tprof run --task '__main__:*' --task 'mymodule:Filter.*' blur.py

  tprof run -o night.tprof --report night.html -m mypackage.job
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "run",
        help=_HELP,
        rich_help_panel="Record",
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
    )(run)


def run(  # noqa: PLR0913 - one parameter an option
    program: Annotated[
        list[str] | None, typer.Argument(metavar="(SCRIPT | -m MODULE | -c TEXT | -) [ARGS]...", help="The program.")
    ] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="SESSION", help="Session directory.")] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="PATTERN",
            help="Make tasks of functions: MODULE:FUNCTION with wildcards, mypackage.*, FILE.py, FILE.py:FUNCTION or "
            "re:EXPRESSION for module:function.",
        ),
    ] = None,
    require_tasks: Annotated[  # noqa: FBT002 - typer reads the default
        bool, typer.Option("--require-tasks", help="Exit with 1 if a --task meets no function.")
    ] = False,
    list_tasks: Annotated[
        str | None,
        typer.Option("--list-tasks", metavar="MODULE", help="Show what --task can take there; nothing is run."),
    ] = None,
    energy: Annotated[str, typer.Option(help="auto, perf, powercap, estimate or none.")] = "auto",
    counters: Annotated[str, typer.Option(help="auto, none, or names with commas.")] = "auto",
    watts: Annotated[str | None, typer.Option(metavar="IDLE,PER_CORE", help="Watts for the estimate.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier session.")] = False,  # noqa: FBT002
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a report too.")] = None,
    idle: Annotated[
        float | None, typer.Option("--idle", metavar="SECONDS", help="Idle to read before the program starts.")
    ] = None,
    best_effort: Annotated[  # noqa: FBT002 - typer reads the default
        bool, typer.Option("--best-effort", help="Run unprofiled when recording cannot start.")
    ] = False,
    no_summary: Annotated[  # noqa: FBT002 - see above
        bool, typer.Option("--no-summary", help="Print no summary after the program.")
    ] = False,
) -> None:
    """Record the program, then say where its joules went."""
    import tprof
    from tprof.launch.pattern import parse_patterns

    if list_tasks is not None:
        from .task_patterns import list_tasks as show_tasks

        show_tasks(list_tasks, task or [])
        return
    what = _program(program or [])
    parse_patterns(task or [])
    if require_tasks and not task:
        message = "--require-tasks needs a --task that it can require"
        raise UsageError(message)
    session = Path(output) if output else _free_name(what.stem)
    _check_report(report)
    names = [part.strip() for part in counters.split(",")]
    recording = tprof.record(
        session,
        energy=energy,
        counters=names if len(names) > 1 else counters,
        watts=watts,
        overwrite=overwrite,
        idle_s=idle,
    )
    end = _End(recording, shlex.join(program or []), report, summary=not no_summary, require_tasks=require_tasks)
    raise Start(_prepare(what, task or [], end, best_effort=best_effort))


def _program(words: list[str]) -> Program:
    from tprof.launch.program import Program

    if not words:
        message = "name the program to run: tprof run SCRIPT, -m MODULE, -c TEXT or - for standard input"
        raise UsageError(message)
    if words[0] == "-m":
        if len(words) == 1:
            message = "-m needs the name of a module after it"
            raise UsageError(message)
        return Program(words[1], tuple(words[2:]), is_module=True)
    if words[0] == "-c":
        if len(words) == 1:
            message = "-c needs the text of a program after it"
            raise UsageError(message)
        return Program(words[0], tuple(words[2:]), text=words[1])
    if words[0] == "-":
        return Program(words[0], tuple(words[1:]))
    if words[0].startswith("-"):
        message = f"there is no option {words[0]}: see tprof run --help; the program's own options go after the script"
        raise UsageError(message)
    return Program(words[0], tuple(words[1:]))


def _check_report(report: Path | None) -> None:
    """Refuse a place for the report before the program runs, not after."""
    if report is None:
        return
    folder = report.absolute().parent
    if not os.path.isdir(folder) or os.path.isdir(report) or not os.access(folder, os.W_OK):
        message = f"cannot write the report to {report}: name a file in a folder that can be written"
        raise UsageError(message)


def _free_name(stem: str) -> Path:
    from tprof.session.companions import is_rank, shares

    number = 1
    path = Path(f"{stem}.tprof")
    while os.path.lexists(path) and not (is_rank() and shares(path)):
        number += 1
        path = Path(f"{stem}-{number}.tprof")
    return path


class Start(BaseException):
    """Takes a program out of the command line, which would see its exceptions and stand in its tracebacks."""

    def __init__(self, program: Callable[[], None]) -> None:
        """Take what runs it."""
        self.program = program


def _prepare(what: Program, tasks: list[str], end: _End, *, best_effort: bool) -> Callable[[], None]:
    """Begin to record, and return what runs the program."""
    from tprof.launch.program import find_program, run_program

    main = find_program(what)
    # What is registered first is called last: what the program leaves to its own end is recorded.
    atexit.register(end.at_exit)
    try:
        end.begin()
    except TprofError as error:
        if end.must_record and not best_effort:
            raise
        print(f"tprof: {error}; the program runs unprofiled", file=sys.stderr)

    def execute() -> None:
        try:
            run_program(what, main, tasks, recorded_in=end.recorded_in)
        except BaseException as error:
            end.ended_by = type(error)  # not the error, which would keep the program's objects alive
            end.failed = not (isinstance(error, SystemExit) and not error.code)
            raise

    return execute


class _End:
    """Ends the recording when the interpreter has ended all that the program left running, and lets it be summed up.

    Only in the process that began it: a fork ends by the same handlers.
    """

    def __init__(
        self, recording: Recording, program: str, report: Path | None, *, summary: bool, require_tasks: bool
    ) -> None:
        """Take note; names are meant as they are now, wherever the program goes."""
        self.recorded_in: Path | None = None
        self.ended_by: type[BaseException] | None = None
        self.failed = False
        self._recording = recording
        self._require_tasks = require_tasks
        here = recording.path.parent == Path.cwd()
        self._options = {
            "session": os.fspath(recording.path),
            "name": recording.path.name if here else os.fspath(recording.path),
            "summary": summary,
            "program": program,
            "report": None if report is None else os.fspath(report.absolute()),
            "report_name": None if report is None else os.fspath(report),
        }
        self._environment = {name: value for name, value in os.environ.items() if name not in (SESSION, TASKS)}
        self._python = sys.executable
        self._pid = os.getpid()

    def begin(self) -> None:
        """Begin to record. Raises TprofError."""
        if self._require_tasks:
            from tprof import _core

            _core.fail_at_exit(0)  # registered before what the program registers, it is called last
        self._recording.__enter__()
        self.recorded_in = self._recording.path

    @property
    def must_record(self) -> bool:
        """Whether a program that is not recorded is not to run; a job would end without one of its ranks."""
        return self._recording.is_owner

    def at_exit(self) -> None:
        """End this process's part."""
        if self.recorded_in is None:
            return
        problem = None
        try:
            self._recording.is_left_open = self._has_companions()
            self._recording.__exit__(self.ended_by, None, None)
        except TprofError as error:
            problem = error
        if os.getpid() != self._pid or not self._recording.is_owner:
            return
        stream = sys.__stderr__
        if stream is None or stream.closed:
            if self._recording.is_left_open:
                self._end_later({}, None)
            return
        with suppress(OSError, KeyboardInterrupt):  # nobody is there to read it, or to wait for it
            if problem is not None and self.ended_by is None:
                print(f"tprof: {problem}", file=stream)
            met = self._look_at_tasks(stream)
            stream.flush()
            self._sum_up(stream, met)

    def _has_companions(self) -> bool:
        """Tell whether others go on to record. A rank that failed waits for none: its job is to end by that."""
        from tprof.session.companions import are_awaited, is_rank

        if os.getpid() != self._pid or not self._recording.is_owner or (self.failed and is_rank()):
            return False
        return are_awaited()

    def _look_at_tasks(self, stream: TextIO) -> dict[str, object]:
        """Return what is to be said of the patterns; what they lack is said here where nothing follows."""
        from tprof.launch.program import matches

        from .task_patterns import near_modules, texts

        found = matches()
        if found is None:
            return {}
        gathered = found.gathered(self._recording.path)
        modules = near_modules(gathered)
        if self._require_tasks and gathered.unmet():
            from tprof import _core

            _core.fail_at_exit(1)
        if not self._options["summary"] and self._require_tasks:
            for text in texts(gathered, modules, None):
                print(f"tprof: {text}", file=stream)
        return {"tasks": [(one.text, one.shown) for one in gathered.patterns], "near_modules": modules}

    def _sum_up(self, stream: TextIO, met: dict[str, object]) -> None:
        """Let another process do it: an interpreter that ends imports and starts no more what the analysis needs."""
        if self._recording.is_left_open:
            self._end_later(met, stream)
            return
        if not self._options["summary"] and self._options["report"] is None:
            return
        if sys.stdout is not None and not sys.stdout.closed:
            with suppress(OSError):  # the interpreter will say so
                sys.stdout.flush()
        with _disposed(signal.SIGCHLD, signal.SIG_DFL):  # the program knows nothing of this child
            process = self._start({**self._options, **met}, stream)
            try:
                process.wait()
            finally:
                process.kill()

    def _end_later(self, met: dict[str, object], stream: TextIO | None) -> None:
        """Let another process end the recording when companions have left it, and sum up.

        This one ends now, but for its sensors, as far as others see it: ranks wait for each other at their very end.
        """
        from tprof import _core

        ours, theirs = socket.socketpair()
        quiet = {"summary": False} if stream is None else {}
        given = {**self._options, **met, **quiet, "ending": self._recording.ending(), "channel": theirs.fileno()}
        process = self._start(given, stream, theirs.fileno())
        theirs.close()
        _core.await_at_exit(process.pid, ours.detach())
        process.returncode = 0  # it is waited for there

    def _start(self, given: dict[str, object], stream: TextIO | None, *descriptors: int) -> subprocess.Popen[bytes]:
        words = [self._python, "-P", "-c", _SUM_UP, json.dumps(given)]
        output = subprocess.DEVNULL if stream is None else stream
        with _disposed(signal.SIGINT, signal.SIG_IGN):  # which this process ends, without a traceback
            return subprocess.Popen(  # noqa: S603 - this interpreter and this module
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=self._environment,
                pass_fds=descriptors,
            )


@contextmanager
def _disposed(number: int, disposition: signal.Handlers) -> Iterator[None]:
    """Let a signal have another effect."""
    former = signal.signal(number, disposition)
    try:
        yield
    finally:
        if former is not None:
            signal.signal(number, former)


def sum_up() -> None:
    """Print on standard error where the joules went, as the arguments say: the process that `tprof run` leaves."""
    from tprof.trace import load

    from .summary import show

    given = json.loads(sys.argv[1])
    if "ending" in given:
        from tprof.session.ending import end_later

        for problem in end_later(given["ending"], given["channel"]):
            print(f"tprof: {problem}", file=sys.stderr)
        if not given["summary"] and given["report"] is None:
            return
    try:
        profile = load(given["session"]).profile()
        if given["summary"]:
            show(profile, sys.stderr, top=_TOP)
        _report_tasks(profile, given)
        if given["summary"]:
            _suggest_names(profile, given["program"])
        if given["report"] is not None:
            profile.to_html(given["report"])
            print(f"report: {given['report_name']}", file=sys.stderr)
            return
    except TprofError as error:
        print(f"tprof: {error}", file=sys.stderr)
    print(f"next: tprof report {given['name']}", file=sys.stderr)


def _suggest_names(profile: Profile, program: str) -> None:
    """Where only the program, its threads and processes are tasks, say how its functions become some."""
    if profile.trace.names_no_task:
        print(
            f"these are the whole program, its threads and processes; for its functions: "
            f"tprof run --task '__main__:*' {program}, or @tprof.task above them",
            file=sys.stderr,
        )


def _report_tasks(profile: Profile, given: dict[str, Any]) -> None:
    """Say what the patterns met, here or in a child process, and what of it was called."""
    from tprof.launch.matches import Matches
    from tprof.launch.pattern import Pattern

    from .task_patterns import texts

    patterns = [replace(Pattern.parse(text), shown=shown) for text, shown in given.get("tasks", [])]
    gathered = Matches(patterns).gathered(Path(given["session"]))
    for text in texts(gathered, given.get("near_modules", []), profile):
        print(f"tprof: {text}", file=sys.stderr)
