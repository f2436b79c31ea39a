"""The start of `tprof run`: begins the recording and the program.

A program finds loaded what was imported for it, so this imports no library. The usual options are read here too, since
typer would load some hundred modules, pydantic among them. `run.py` declares the options, reads all others, explains
what is wrong and shows the help.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tprof.mpi
from tprof import log
from tprof.configuration import GENERAL, Kind, Option, configured
from tprof.errors import TprofError, UsageError
from tprof.session.launcher import Launched
from tprof.session.options import EVERYTHING, RecordingOptions
from tprof.session.recording import Recording

from .run_end import End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tprof.launch.program import Main, Program

_VALUES: dict[str, Callable[[str], Any]] = {
    "output": str,
    "task": str,
    "energy": str,
    "counters": str,
    "watts": str,
    "report": Path,
    "idle": float,
    "metrics": int,
    "compare": str,
    "co2": str,
    "price": str,
    "keep": str,
    "span": float,
    "max_size": str,
}
_FLAGS = (
    "hosts", "spans", "mpi", "require_tasks", "overwrite", "no_native_threads", "passive_pools", "best_effort",
    "no_summary", "stacks", "compress", "verbose",
)  # fmt: skip
_SHORT = {"-o": "--output", "-v": "--verbose"}
_KINDS: dict[object, Kind] = {str: Kind.TEXT, Path: Kind.TEXT, float: Kind.NUMBER, int: Kind.COUNT}
_BY_USER_ONLY = frozenset({"output", "report", "overwrite", "metrics"})
_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*t?")
_BINARY = b"\x7fELF"
UNKNOWN_LINGER_S = 1.0
"""Wait for another process of the host where no launcher tells how many there are."""
OTHERS_PRINT_S = 2.0
"""How long a rank stays that leaves the printing to another one."""
_TYPED = {"idle_s": "--idle", "span_s": "--span", "keep": "--keep"}
"""Parameters of Python's interface that are options here."""
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
    stacks: bool = False
    max_size: str | None = None
    compress: bool = False
    metrics: int | None = None
    compare: str | None = None
    co2: str | None = None
    price: str | None = None
    keep: str = EVERYTHING
    span: float = 1.0
    live: bool = False
    verbose: bool = False


def read_launch(words: Sequence[str]) -> Launch | None:
    """Read the words after `tprof run`; None where they need the command line's own parser, errors too."""
    try:
        given = _configured()
    except UsageError:
        if "--best-effort" not in words:
            raise
        given = {}  # `_recorded` raises it again, when it is known how the program is to run
    configured_tasks = given.get("task")
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        word = rest.pop(0)
        name = _SHORT.get(word, word).removeprefix("--").replace("-", "_")
        if not _SHORT.get(word, word).startswith("--") or "_" in word:
            return None
        if name in _FLAGS or name == "live":
            given[name] = True
            continue
        if name not in _VALUES or not rest or rest[0].startswith("-"):
            return None
        try:
            value = _VALUES[name](rest.pop(0))
        except ValueError:
            return None
        if name == "task":
            earlier = given.get(name, ())
            value = (value,) if earlier is configured_tasks else (*earlier, value)
        given[name] = value
    if not rest or (rest[0] in ("-m", "-c") and (len(rest) == 1 or rest[1].startswith("-"))):
        return None
    return Launch(tuple(rest), **given)


def options_of_run() -> list[Option]:
    """Return the options of `run` as the file and variables set them."""
    return [
        Option(
            name.replace("_", "-"),
            Kind.FLAG if name in _FLAGS else Kind.LIST if name == "task" else _KINDS[_VALUES[name]],
            is_general=name in GENERAL,
            by_user_only=name in _BY_USER_ONLY,
        )
        for name in (*_VALUES, *_FLAGS)
    ]


def _configured() -> dict[str, Any]:
    """Return what the file and the environment have for these options, by the fields of `Launch`. Raises UsageError."""
    found = {key.replace("-", "_"): setting.value for key, setting in configured("run", options_of_run()).items()}
    if "task" in found:
        found["task"] = tuple(found["task"])
    if "report" in found:
        found["report"] = Path(found["report"])
    return found


def prepare(launch: Launch) -> Callable[[], None]:
    """Begin to record, and return what runs the program. Raises TprofError."""
    from tprof.launch.program import find_program, run_program

    _log(launch)
    what = _program(launch.program)
    find = cache(partial(find_program, what))  # which reads a program on the standard input, so once
    try:
        return _recorded(launch, what, find)
    except Exception as error:  # whatever it is, the program comes first
        if not launch.best_effort:
            raise
        main = find()
        why = str(error) if isinstance(error, TprofError) else f"cannot record: {type(error).__name__}: {error}"
        print(f"tprof: {why}; the program runs unprofiled", file=sys.stderr)
        return partial(run_program, what, main, ())


def _recorded(launch: Launch, what: Program, find: Callable[[], Main]) -> Callable[[], None]:
    """Begin to record, and return what runs the program and notes how it ends."""
    from tprof.launch.pattern import parse_patterns
    from tprof.launch.program import run_program
    from tprof.session.companions import is_rank

    _configured()
    _check_working_folder()
    tasks = (*launch.task, *pair_of(launch.compare))
    parse_patterns(tasks)
    _check_options(launch)
    launched = _launched(launch)
    session = Path(launch.output or _default_name(what.stem, launched, overwrite=launch.overwrite))
    _check_report(launch.report)
    recording = Recording(session, _options(launch, launched), overwrite=launch.overwrite, launched=launched)
    if launch.mpi:
        tprof.mpi.follow()
    if launch.passive_pools:
        print(f"tprof: {make_pools_passive()}", file=sys.stderr)
    text = shlex.join(launch.program)
    end = End(recording, text, launch.report, summary=not launch.no_summary, require_tasks=launch.require_tasks)
    end.add(compare=bool(launch.compare), co2=launch.co2, price=launch.price)
    main = find()
    end.add(packages=None if main.defines_functions else main.imported_packages())
    if launch.output is None and launched is None and session.name != f"{what.stem}.tprof":
        end.add(taken=f"{what.stem}.tprof")
    # Ranks of a host have one page, so who serves it is known when they record.
    serves_late = launched is not None or is_rank()
    if not serves_late:
        _serve_metrics(launch)
    # What is registered first is called last: what the program leaves to its own end is recorded.
    atexit.register(end.at_exit)
    _begin(end, launch, None if launched is None else partial(end.begin_in_job, session, reports=not launched.rank))
    if serves_late:
        _try_metrics(launch)

    def execute() -> None:
        try:
            run_program(what, main, tasks, spans=launch.spans)
        except BaseException as error:
            end.ended_by = type(error)  # not the error, which would keep the program's objects alive
            end.failed = not (isinstance(error, SystemExit) and not error.code)
            raise

    return execute


def _check_options(launch: Launch) -> None:
    """Raise UsageError for options that cannot be met."""
    if launch.spans and not _has_module("opentelemetry.sdk"):
        raise UsageError("--spans needs OpenTelemetry's SDK: pip install opentelemetry-sdk")
    if launch.keep != EVERYTHING and launch.compare:
        raise UsageError("--compare needs single instances: leave it or --keep out")
    if launch.require_tasks and not launch.task:
        raise UsageError("--require-tasks needs a --task that it can require")
    if launch.co2 is not None or launch.price is not None:
        from tprof.analysis.emissions import Rates

        Rates.of(launch.co2, launch.price)


def pair_of(text: str | None) -> tuple[str, ...]:
    """Return the patterns of the two functions to compare; those without a module are of the program itself.

    Raises
    ------
    UsageError
        If they are not two.
    """
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UsageError(
            f"--compare takes two functions such as before,after or mymodule:old,mymodule:new, got {text!r}"
        )
    return tuple(name if ":" in name else f"__main__:{name}" for name in names)


def _begin(end: End, launch: Launch, begin_in_job: Callable[[], None] | None) -> None:
    """Begin to record; a process that would join a recording of others runs without it too. Raises TprofError."""
    try:
        (begin_in_job or end.begin)()
    except TprofError as error:
        if launch.best_effort:
            raise
        if end.must_record:
            _leave_to_first_rank(error)
            raise
        print(f"tprof: {error}; the program runs unprofiled", file=sys.stderr)


def _log(launch: Launch) -> None:
    if launch.verbose:
        log.print_from("debug")
    log.debug("cli", "%s", launch)


def _leave_to_first_rank(error: TprofError) -> None:
    """End silently for a mistake of the user that another rank prints; launchers end all ranks when the first ends."""
    if isinstance(error, UsageError) and not Launched.here().speaks:
        time.sleep(OTHERS_PRINT_S)
        raise SystemExit(2)


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
    """Return the options of the recording. Raises UsageError with their names as they are typed."""
    try:
        return _recording_options(launch, launched)
    except UsageError as error:
        name, space, rest = str(error).partition(" ")
        raise UsageError(f"{_TYPED.get(name, name)}{space}{rest}") from None


def _recording_options(launch: Launch, launched: Launched | None) -> RecordingOptions:
    names = [part.strip() for part in launch.counters.split(",")]
    members = 0 if launched is None else launched.local_size or 0
    return RecordingOptions(
        energy=launch.energy,
        counters=names if len(names) > 1 else launch.counters,
        watts=launch.watts,
        idle_s=launch.idle,
        attribute_native=not launch.no_native_threads,
        stacks=launch.stacks,
        keep=launch.keep,
        span_s=launch.span,
        max_size=launch.max_size,
        compress=launch.compress,
        linger_s=0.0 if members else UNKNOWN_LINGER_S,
        members=members,
    )


def _serve_metrics(launch: Launch) -> None:
    """Serve metrics for as long as this process runs, if they are asked for. Raises UsageError."""
    if launch.metrics is None:
        return
    with standard_modules_first():
        import tprof.metrics

        port = tprof.metrics.start(launch.metrics)
    if port is not None:
        print(f"tprof: metrics are at http://127.0.0.1:{port}/metrics", file=sys.stderr)


@contextmanager
def standard_modules_first() -> Iterator[None]:
    """Let tprof import standard modules though the program's folder has others of their names, such as its own http.py.

    What these hide is forgotten again, so that the program imports its own.
    """
    before, folder = set(sys.modules), sys.path[0]
    is_programs = not sys.flags.safe_path
    if is_programs:
        del sys.path[0]
    try:
        yield
    finally:
        if is_programs:
            sys.path.insert(0, folder)
            new = {name: name.partition(".")[0] for name in set(sys.modules) - before}
            hidden = {top for top in set(new.values()) & sys.stdlib_module_names if _has_own(folder, top)}
            for name, top in new.items():
                if top in hidden:
                    del sys.modules[name]


def _has_own(folder: str, name: str) -> bool:
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, [folder])
    return spec is not None and spec.loader is not None


def _try_metrics(launch: Launch) -> None:
    try:
        _serve_metrics(launch)
    except UsageError as error:
        print(f"tprof: {error}; there are no metrics", file=sys.stderr)


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
    if _is_interpreter(words[0]):
        raise UsageError(
            f"leave out {words[0]}: tprof run takes the program alone, as in tprof run "
            f"{shlex.join(words[1:]) or 'SCRIPT'}, and runs it by the Python that has tprof"
        )
    return Program(words[0], tuple(words[1:]))


def _is_interpreter(word: str) -> bool:
    """Return whether this names Python itself, not a script that has such a name."""
    if _INTERPRETER.fullmatch(os.path.basename(word)) is None:  # noqa: PTH119 - a name
        return False
    try:
        with open(word, "rb") as file:  # noqa: PTH123 - see above
            return file.read(len(_BINARY)) == _BINARY
    except OSError:
        return not os.path.exists(word)


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


def _default_name(stem: str, launched: Launched | None, *, overwrite: bool) -> Path:
    """Return the name of a session that was given none: that of the program, if it is free or may be replaced."""
    from contextlib import nullcontext

    from tprof.session.companions import is_rank, shares
    from tprof.trace.directory import one_at_a_time
    from tprof.trace.hosts_table import clean_name

    if launched is not None:  # all hosts must come to the same name
        return Path(f"{stem}.tprof" if launched.launch is None else f"{stem}-{clean_name(launched.launch)}.tprof")
    number = 1
    path = Path(f"{stem}.tprof")
    if overwrite:
        return path
    # A session that another rank is about to create is there only once it is complete.
    with one_at_a_time(path.absolute().parent) if is_rank() else nullcontext():
        while os.path.lexists(path) and not (is_rank() and shares(path)):
            number += 1
            path = Path(f"{stem}-{number}.tprof")
    return path
