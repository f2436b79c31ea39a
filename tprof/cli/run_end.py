"""The end of `tprof run`: ends the recording once the program has ended, and sums it up in another process.

Whatever the end needs is imported before the program starts. The program may change its root folder or its rights, and
an import that evaluates text (a named tuple does) makes Python lose the fact that Ctrl-C ended the program.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError
from tprof.session.process_state import SESSION, TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from tprof.analysis import Profile
    from tprof.launch.matches import Gathered
    from tprof.launch.pattern import Pattern
    from tprof.session.recording import Recording

_TOP = 10
_SUM_UP = "from tprof.cli.run_end import sum_up; sum_up()"


class End:
    """Ends the recording when the interpreter has ended all that the program left running, and has it summed up.

    Only in the process that began it: a fork ends by the same handlers.
    """

    def __init__(
        self, recording: Recording, program: str, report: Path | None, *, summary: bool, require_tasks: bool
    ) -> None:
        """Keep what the end needs; relative names refer to the present folder, even if the program changes it."""
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
        self._recording.before_replacement = self._end_before
        self._recording.__enter__()
        self.recorded_in = self._recording.path

    @property
    def must_record(self) -> bool:
        """Whether a program that is not recorded is not to run; a job would end without one of its ranks."""
        return self._recording.is_owner

    def at_exit(self, *, waits: bool = True) -> None:
        """End this process's part; unless it `waits`, also that of companions that go on to record."""
        if self.recorded_in is None:
            return
        self.recorded_in, problem = None, None
        try:
            self._recording.is_left_open = waits and self._has_companions()
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
        with suppress(OSError, KeyboardInterrupt):  # its reader has gone, or Ctrl-C ended the wait
            if problem is not None and self.ended_by is None:
                print(f"tprof: {problem}", file=stream)
            met = self._check_patterns(stream)
            stream.flush()
            self._sum_up(stream, met)

    def _end_before(self, program: str) -> None:
        """End before another program takes this process's place: the sensors are read here, and end with it."""
        stream = sys.__stderr__
        if os.getpid() == self._pid and stream is not None and not stream.closed:
            with suppress(OSError):
                print(f"tprof: {program} takes this program's place (os.exec) and is not recorded", file=stream)
        self.at_exit(waits=False)

    def _has_companions(self) -> bool:
        """Return whether others go on to record. A failed rank waits for none: its failure ends the job."""
        from tprof.session.companions import are_awaited, is_rank

        if os.getpid() != self._pid or not self._recording.is_owner or (self.failed and is_rank()):
            return False
        return are_awaited()

    def _check_patterns(self, stream: TextIO) -> dict[str, object]:
        """Return what the summary needs of the patterns; print here what they lack if no summary follows."""
        from tprof.launch.program import matches

        found = matches()
        if found is None:
            return {}
        gathered = found.gathered(self._recording.path)
        modules = _near_modules(gathered)
        if self._require_tasks and gathered.unmet():
            from tprof import _core

            _core.fail_at_exit(1)
        if not self._options["summary"] and self._require_tasks:
            for text in _texts(gathered, modules, None):
                print(f"tprof: {text}", file=stream)
        return {"tasks": [(one.text, one.shown) for one in gathered.patterns], "near_modules": modules}

    def _sum_up(self, stream: TextIO, met: dict[str, object]) -> None:
        """Sum up in another process: an interpreter that ends can neither import nor start what analysis needs."""
        if self._recording.is_left_open:
            self._end_later(met, stream)
            return
        if not self._options["summary"] and self._options["report"] is None:
            return
        if sys.stdout is not None and not sys.stdout.closed:
            with suppress(OSError):  # the interpreter reports it
                sys.stdout.flush()
        with _disposed(signal.SIGCHLD, signal.SIG_DFL):  # the program must not see this child end
            try:
                process = self._start({**self._options, **met}, stream)
            except OSError as error:  # the program changed its root folder or its rights, or used up its limits
                why = (error.strerror or str(error)).lower()
                name = self._options["name"]
                print(f"tprof: cannot sum up: {why}; print the summary by: tprof summary {name}", file=stream)
                return
            try:
                process.wait()
            finally:
                process.kill()

    def _end_later(self, met: dict[str, object], stream: TextIO | None) -> None:
        """Start a process that ends the recording when companions have left it, and sums up.

        To others this one ends now, except for its sensors, because ranks wait for each other at their very end.
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
    """Change the disposition of a signal inside the block."""
    former = signal.signal(number, disposition)
    try:
        yield
    finally:
        if former is not None:
            signal.signal(number, former)


def sum_up() -> None:
    """Print on standard error where the joules went: the process that `tprof run` leaves behind."""
    # Where this library is installed, pandas would load it for its strings: a fifth of all that this process does.
    sys.modules.setdefault("pyarrow", None)  # type: ignore[arg-type]
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
    """Print how functions become tasks, if only the program, its threads and processes are tasks."""
    if profile.trace.names_no_task:
        print(
            f"these are the whole program, its threads and processes; for its functions: "
            f"tprof run --task '__main__:*' {program}, or @tprof.task above them",
            file=sys.stderr,
        )


def _report_tasks(profile: Profile, given: dict[str, Any]) -> None:
    """Print what the patterns matched, here or in a child process, and what of it was called."""
    from tprof.launch.matches import Matches
    from tprof.launch.pattern import Pattern

    patterns = [replace(Pattern.parse(text), shown=shown) for text, shown in given.get("tasks", [])]
    gathered = Matches(patterns).gathered(Path(given["session"]))
    for text in _texts(gathered, given.get("near_modules", []), profile):
        print(f"tprof: {text}", file=sys.stderr)


def _near_modules(gathered: Gathered) -> list[str]:
    """Return modules of this process whose names resemble those of patterns that matched nothing."""
    known = ["__main__", *(name for name in sys.modules if not name.startswith("_"))]
    meant = [pattern.module for pattern in gathered.unmet() if pattern.module is not None]
    return sorted({name for module in meant for name in get_close_matches(module, known, 3, 0.6)})


def _unmet_text(pattern: Pattern, near: Sequence[str]) -> str:
    """Return the sentence on a pattern that matched no function."""
    if near:
        return f"--task {pattern} met no function; did you mean {' or '.join(near)}?"
    advice = "take the name of the module as it is imported (the program itself is __main__), and a function or "
    advice += "Class.method that this module defines"
    if pattern.expression is not None:
        advice = f"all of module:function must match {pattern.expression.pattern}; the module re is [r]e"
    return f"--task {pattern} met no function: {advice}; tprof run --list-tasks MODULE shows what there is"


def _texts(gathered: Gathered, modules: Sequence[str], profile: Profile | None) -> Iterator[str]:
    """Yield a sentence on each pattern that matched nothing, or of whose functions some were not called."""
    called = None if profile is None else _called(profile)
    for pattern, met in zip(gathered.patterns, gathered.met, strict=True):
        if not met:
            yield _unmet_text(pattern, gathered.near(pattern, modules))
        elif called is not None:
            ran = len({place for place in met if (place[1], place[2]) in called})
            if ran < len(met):
                functions = f"{len(met)} function{'' if len(met) == 1 else 's'}"
                were = "1 was" if ran == 1 else f"{ran or 'none'} {'were' if ran else 'was'}"
                yield f"--task {pattern} matched {functions}, {were} called"


def _called(profile: Profile) -> set[tuple[str | None, int | None]]:
    """Return where the functions stand that have instances."""
    names = set(profile.tasks["task"].unique())
    return {(entry.file, entry.line or 0) for entry in profile.trace.tasks if entry.name in names}
