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
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError
from tprof.session.children import tell, tell_left
from tprof.session.process_state import SESSION, TASKS, this_process
from tprof.session.table_file import JsonLines
from tprof.trace.directory import MATCHES, UNMATCHED
from tprof.trace.plain_values import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import TextIO

    from tprof.analysis import Profile
    from tprof.launch.matches import Gathered
    from tprof.launch.pattern import Pattern
    from tprof.session.recording import Recording

_TOP = 10
_POLL_S = 0.05
_NOTABLE = 0.02
_PACKAGE = r"(?:site|dist)-packages/([^/:]+?)(?:\.py)?[/:]"
_ASKED = ("compare", "co2", "price")
"""Options of what the end prints besides."""
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
        self._gave_way = False
        self._recording = recording
        self._require_tasks = require_tasks
        self._job: Path | None = None
        self._reports = True
        self._options = {
            "summary": summary,
            "program": program,
            "report": None if report is None else os.fspath(report.absolute()),
            "report_name": None if report is None else os.fspath(report),
            **dict.fromkeys(_ASKED),
        }
        self._environment = {name: value for name, value in os.environ.items() if name not in (SESSION, TASKS)}
        self._python = sys.executable
        self._pid = os.getpid()

    def add(self, **options: object) -> None:
        """Add what the end is to print besides."""
        self._options |= options

    def begin(self) -> None:
        """Begin to record. Raises TprofError."""
        if self._require_tasks:
            from tprof import _core

            _core.fail_at_exit(0)  # registered before what the program registers, it is called last
        self._recording.before_replacement = self._end_before
        self._recording.__enter__()
        this_process.make_way = self._make_way
        self.recorded_in = path = self._recording.path
        self._options |= {"session": os.fspath(path), "name": _short(path)}

    def begin_in_job(self, job: Path, *, reports: bool) -> None:
        """Begin to record as one of the processes of a job on several hosts. Raises TprofError.

        Where it `reports`, a summary of the host's part follows when the last process of the host has ended.
        """
        self._job, self._reports = job.absolute(), reports
        self.begin()
        self._options |= {"job": _short(self._job)}

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
            if not self._gave_way:
                self._recording.is_left_open = waits and self._has_companions()
                self._recording.__exit__(self.ended_by, None, None)
        except TprofError as error:
            problem = error
        if os.getpid() != self._pid or not (self._recording.is_owner or self._job is not None):
            return
        if self._job is not None and not self._reports:
            self._end_part()
            return
        stream = sys.__stderr__
        if stream is None or stream.closed:
            if self._recording.is_left_open:
                self._end_later({}, None)
            return
        with suppress(OSError, KeyboardInterrupt):  # its reader has gone, or Ctrl-C ended the wait
            if problem is not None and self.ended_by is None:
                print(f"tprof: {problem}", file=stream)
            # Where the session is out of sight, the summary says so.
            for failure in self._recording.unwritten if self._recording.path.is_dir() else ():
                print(f"tprof: {failure}", file=stream)
            met = self._check_patterns(stream)
            stream.flush()
            self._sum_up(stream, met)

    def _end_before(self, program: str) -> None:
        """End before another program takes this process's place: the sensors are read here, and end with it."""
        if os.getpid() == self._pid:
            tell(f"{program} takes this program's place (os.exec) and is not recorded")
        self.at_exit(waits=False)

    def _make_way(self, own: str) -> None:
        """End the recording, since the program makes its own. Raises UsageError where other processes share it."""
        if os.getpid() != self._pid or not self._recording.is_owner:
            tell_left(own, self._recording.path)
        elif self._has_companions():
            raise UsageError(
                f"the program makes a recording of its own ({own}), though others share that of tprof run: take "
                "tprof.record out of it, or run it without tprof run"
            )
        else:
            tell(f"the program records itself from here on ({own}), so {self._recording.path.name} ends here")
            self._gave_way = True
        self._recording.give_way(own)

    def _end_part(self) -> None:
        """Wait for the end of the host's part if this was its last process: a launcher may kill what it leaves."""
        from tprof.session.hosts import await_end

        with suppress(KeyboardInterrupt):
            await_end(self._recording.path)

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
        if not this_process.tasks.has_own():
            _leave_reasons(self._recording.path, _texts(gathered, modules, ()))
        if self._require_tasks and gathered.unmet():
            from tprof import _core

            _core.fail_at_exit(1)
        if not self._options["summary"] and self._require_tasks:
            for text in _texts(gathered, modules):
                print(f"tprof: {text}", file=stream)
        return {"tasks": [(one.text, one.shown) for one in gathered.patterns], "near_modules": modules}

    def _sum_up(self, stream: TextIO, met: dict[str, object]) -> None:
        """Sum up in another process: an interpreter that ends can neither import nor start what analysis needs."""
        if self._recording.is_left_open:
            self._end_later(met, stream)
            return
        if self._job is not None:
            self._sum_up_part(met, stream)
            return
        if not any(self._options[name] for name in ("summary", "report", *_ASKED)):
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

    def _sum_up_part(self, met: dict[str, object], stream: TextIO) -> None:
        """Start a process that waits for the end of the host's part and sums it up; this one waits at its very end."""
        from tprof.session.companions import is_rank

        if not self._options["summary"] or (self.failed and is_rank()):  # a failed rank waits for none
            self._end_part()
            return
        self._start_later({**self._options, **met}, stream)

    def _end_later(self, met: dict[str, object], stream: TextIO | None) -> None:
        """Start a process that ends the recording when companions have left it, and sums up.

        To others this one ends now, except for its sensors, because ranks wait for each other at their very end.
        """
        quiet = {"summary": False} if stream is None else {}
        self._start_later({**self._options, **met, **quiet, "ending": self._recording.ending()}, stream)

    def _start_later(self, given: dict[str, object], stream: TextIO | None) -> None:
        """Start a process for whose end this one waits when its interpreter has ended."""
        from tprof import _core

        ours, theirs = socket.socketpair()
        process = self._start({**given, "channel": theirs.fileno()}, stream, theirs.fileno())
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
    from tprof.trace import load_one

    given = json.loads(sys.argv[1])
    if "ending" in given:
        from tprof.session.ending import end_later

        for problem in end_later(given["ending"], given["channel"]):
            print(f"tprof: {problem}", file=sys.stderr)
        if not given["summary"] and given["report"] is None:
            return
    if "job" in given:
        _await_part(given)
    try:
        profile = load_one(given["session"]).profile()
        _print_figures(profile, given)
        if given["report"] is not None:
            profile.to_html(given["report"])
            print(f"report: {given['report_name']}", file=sys.stderr)
            return
    except TprofError as error:
        print(f"tprof: {error}", file=sys.stderr)
    if "job" in given:
        print(f"all hosts: tprof summary {given['job']}", file=sys.stderr)
        return
    print(f"next: tprof report {given['name']}", file=sys.stderr)


def _print_figures(profile: Profile, given: dict[str, Any]) -> None:
    """Print the summary with what the patterns matched, and what was asked for besides."""
    from .footprint import rates_of, show_footprint
    from .summary import show

    if not profile.has_instances:
        if given["summary"]:
            show(profile, sys.stderr)
        show_footprint(profile, rates_of(given["co2"], given["price"]), sys.stderr)
        return
    gathered = _gathered(given)
    texts = [f"tprof: {one}" for one in _texts(gathered, given.get("near_modules", []), _called(profile))]
    if given["summary"] and profile.trace.unmatched:
        texts = []  # the answer begins with them
    # Where no function became a task, the patterns are the reason, which stands first.
    stands_first = profile.sums.rows == 0 or profile.trace.names_no_task
    if (taken := given.get("taken")) is not None and given["summary"]:
        print(f"{taken} existed already, so this run is in {given['name']} (--overwrite replaces it)", file=sys.stderr)
    _print_all(texts if stands_first else ())
    if given["summary"]:
        show(profile, sys.stderr, top=_TOP)
    _print_all(() if stands_first else texts)
    _show_asked(profile, gathered, given)
    if given["summary"]:
        _suggest_names(profile, given["program"], given.get("packages"))


def _show_asked(profile: Profile, gathered: Gathered, given: dict[str, Any]) -> None:
    """Print the comparison of two functions, carbon and cost, if they were asked for."""
    from .footprint import rates_of, show_footprint
    from .two_tasks import show_two_tasks

    if given["compare"]:
        show_two_tasks(profile, gathered, sys.stderr)
    show_footprint(profile, rates_of(given["co2"], given["price"]), sys.stderr)


def _await_part(given: dict[str, Any]) -> None:
    """Wait until a host recorder has ended the part, and print whose figures follow."""
    from tprof.trace.running import is_running

    part = Path(given["session"])
    while is_running(part):
        time.sleep(_POLL_S)
    print(f"tprof: host {part.name} of {given['job']}", file=sys.stderr)


def _short(path: Path) -> str:
    """Return the path as it is shown: without the working folder."""
    return path.name if path.parent == Path.cwd() else os.fspath(path)


def _suggest_names(profile: Profile, program: str, packages: Sequence[str] | None) -> None:
    """Print how functions become tasks, if only the program, its threads and processes are tasks.

    Where the program defines no function, `packages` are those that it imports; else None.
    """
    if not profile.trace.names_no_task:
        return
    stacks = "the report" if profile.trace.stack_files else f"tprof run --stacks {program}"
    ways = f"To see its functions: {stacks}, tprof run --task '__main__:*' {program}, or @tprof.task above them"
    if packages is not None:
        patterns = "".join(f" --task '{one}.*'" for one in _working(profile, packages))
        also = f", or tprof run{patterns} {program}" if patterns else ""
        ways = f"It defines no function of its own. To see the functions of libraries that it calls: {stacks}{also}"
    print(f"The tasks above are the whole program, its threads and processes. {ways}", file=sys.stderr)


def _working(profile: Profile, packages: Sequence[str]) -> list[str]:
    """Return the packages whose functions took a notable part by the stacks, most first; without stacks all of them."""
    if not profile.trace.stack_files:
        return list(packages)
    functions = profile.flame().functions()
    found = functions["place"].str.extract(_PACKAGE, expand=False)
    shares = functions["share"].groupby(found).sum().sort_values(ascending=False)
    return [name for name in shares[shares >= _NOTABLE].index if name in packages]


def _print_all(texts: Iterable[str]) -> None:
    for text in texts:
        print(text, file=sys.stderr)


def _gathered(given: dict[str, Any]) -> Gathered:
    """Return what the patterns matched, here or in a child process."""
    from tprof.launch.matches import Matches
    from tprof.launch.pattern import Pattern

    patterns = [replace(Pattern.parse(text), shown=shown) for text, shown in given.get("tasks", [])]
    return Matches(patterns).gathered(Path(given["session"]))


def _leave_reasons(session: Path, texts: Iterable[str]) -> None:
    """Write into the session why no function became a task, for all who look at it later."""
    file = JsonLines(session / MATCHES / UNMATCHED)
    for text in texts:
        file.append({"reason": text})
    file.close()


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


def _texts(
    gathered: Gathered, modules: Sequence[str], called: Collection[tuple[str | None, int | None]] | None = None
) -> Iterator[str]:
    """Yield a sentence on each pattern that matched nothing, or of whose functions some were not `called`."""
    for pattern, met in zip(gathered.patterns, gathered.met, strict=True):
        if not met:
            yield _unmet_text(pattern, gathered.near(pattern, modules))
        elif called is not None:
            ran = len({place for place in met if (place[1], place[2]) in called})
            if ran < len(met):
                functions = counted(len(met), "function")
                were = "1 was" if ran == 1 else f"{ran or 'none'} {'were' if ran else 'was'}"
                yield f"--task {pattern} matched {functions}, {were} called"


def _called(profile: Profile) -> set[tuple[str | None, int | None]]:
    """Return where the functions stand that have instances."""
    names = set(profile.tasks["task"].unique())
    return {(entry.file, entry.line or 0) for entry in profile.trace.tasks if entry.name in names}
