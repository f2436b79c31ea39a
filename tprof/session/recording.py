"""A recording, from `tprof.record(...)` to the end of its with-block."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tprof import _core, log
from tprof.errors import TprofError, TraceError, UsageError

from .children import clear_ray_hook, set_ray_hook
from .membership import Plan, enter
from .options import RecordingOptions
from .process_state import SESSION, Uninterrupted, this_process
from .replacement import Replacement
from .results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from tprof.budgets.instances import InstanceBudgets
    from tprof.live import Energy

    from .ending import Ending
    from .launcher import Launched
    from .owned_session import OwnedSession

TEMPORARY = "recording.tprof"
OWN_RECORDING = "own recording"
"""How a recording of `tprof run` stopped whose program makes its own."""


class Recording(Results):
    """A recording of this process and the children that join it.

    Attributes
    ----------
    path : pathlib.Path
        The session directory; of a job the part of this host, once it is joined. Without a name it is a folder below
        ``$TMPDIR``, made at the begin of the block and removed at the end of the process.
    notes : list of str
        Sentences for the user on the chosen sensors and counters.
    unwritten : list of str
        Those of `notes` on what could not be written, so that the session does not have them.
    is_temporary : bool
        Whether the session is removed at the end of this process.
    is_owner : bool
        Whether it made the session; otherwise it joined that of a process started together with this one.
    is_left_open : bool
        Set before the end if companions still record: the sensors continue, and another process writes the end.
    before_replacement : callable or None
        What ends the recording, given a program's path, before that takes this process's place; None: nothing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        options: RecordingOptions,
        *,
        overwrite: bool = False,
        launched: Launched | None = None,
    ) -> None:
        """Store the arguments; nothing happens before the with-block.

        With `launched`, the path is a job, whose part of this host is recorded by a host recorder.
        """
        self.path = Path(path or "").absolute()
        self.is_temporary = path is None
        self._launched = launched
        self.notes: list[str] = []
        self.unwritten: list[str] = []
        self._options = options
        self._overwrite = overwrite
        self._environment: str | None = None
        self._pid = 0
        self._session: OwnedSession | None = None
        self._instances: InstanceBudgets | None = None
        self.is_owner = True
        self.is_left_open = False
        self.before_replacement: Callable[[str], None] | None = self._end_before
        self._replacement: Replacement | None = None
        self._ending: Ending | None = None
        self._own: str | None = None

    def __enter__(self) -> Self:
        """Make the session directory and begin to record, or join the session of a companion."""
        self._begin_alone()
        if self.is_temporary:
            from .temporary import make_place  # noqa: PLC0415 - kept off `import tprof`

            self.path = make_place() / TEMPORARY
        if not _core.claim():
            raise UsageError("another interpreter of this process records already: end that recording before another")
        try:
            self._enter()
        except BaseException:
            _core.release()
            raise
        return self

    def _enter(self) -> None:
        if self._launched is not None:
            self._enter_job(self._launched)
            return
        from tprof.trace.directory import one_at_a_time  # noqa: PLC0415 - kept off `import tprof`

        from .companions import shares  # noqa: PLC0415 - see above

        with one_at_a_time(self.path.parent):
            self.is_owner = not shares(self.path)
            if self.is_owner:
                self._create()
            else:
                self._join()

    def _enter_job(self, launched: Launched) -> None:
        """Join the host's part of a job."""
        from . import hosts  # noqa: PLC0415 - kept off `import tprof`

        hosts.enter_job(self.path, launched.launch, self._options)
        self.path = hosts.ensure(self.path, self._options)
        self.is_owner = False
        self._join()

    def _create(self) -> None:
        from .companions import Origin  # noqa: PLC0415 - kept off `import tprof`
        from .owned_session import OwnedSession  # noqa: PLC0415 - see above

        self._pid = os.getpid()
        session = self._session = OwnedSession(
            self.path, self._options, origin=Origin.of(self._pid), overwrite=self._overwrite
        )
        self.notes = list(session.notes)
        try:
            self._begin(session)
        except OSError as error:
            self._undo(session)
            raise TprofError(cannot_record(self.path, error)) from error
        except BaseException:
            self._undo(session)
            raise

    def _join(self) -> None:
        self._pid = os.getpid()
        try:
            with Uninterrupted():
                process = _core.session_join(os.fspath(self.path))
                enter(Plan.from_manifest(self.path), process).start()
                self._hand_to_children()
        except OSError as error:
            raise TprofError(
                f"{self.path} ended before process {self._pid} could join: tprof does not record this process"
            ) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the recording completely, however the block ends."""
        self._stop(kind, instead_of=error)

    def give_way(self, own: str) -> None:
        """End it for a recording of the program's own with this name."""
        self._own = own
        self._stop(None, instead_of=None)

    def _stop(self, kind: type[BaseException] | None, *, instead_of: BaseException | None) -> None:
        try:
            with Uninterrupted():
                problem = self._end(kind)
        except BaseException:
            with Uninterrupted():
                self._end(kind)  # a signal may have arrived before they were held
            raise
        if self._session is not None and self._pid == os.getpid() and not self.is_left_open:
            self._say(self._session.await_sums())
            self._session.await_disk()
        self._raise(problem, instead_of=instead_of)

    def _say(self, failures: list[str]) -> None:
        """Keep what could not be written to the session, so that only this process can tell it."""
        self.notes += failures
        self.unwritten += failures

    def _end(self, kind: type[BaseException] | None) -> Exception | None:
        """End all that still runs; returns the exception of the tasks' budgets, if any."""
        member = this_process.membership
        if member is None or member.plan.directory != self.path:
            return None
        end_ns = _core.now_ns()
        from .companions import describe_running  # noqa: PLC0415 - kept off `import tprof`

        this_process.leave()
        self._restore_environment()
        session = self._session
        if self._pid != os.getpid() or session is None:
            _core.release()
            return None  # the recording belongs to the parent of this forked child, or to a companion
        notes, stopped = session.stop_sensors(native=not self.is_left_open), _how_it_stopped(kind)
        if self._own is not None:
            stopped = OWN_RECORDING
            notes = (
                *notes,
                f"the recording ends where its program began one of its own ({self._own}), which has the rest",
            )
        self.notes += notes
        problem = self._instances.stop() if self._instances is not None else None
        self._ending = session.ending(stopped, lost_definitions=member.lost_definitions, notes=notes)
        if not self.is_left_open:
            self._say(self._ending.write(end_ns, running=describe_running(self._pid)))
            session.unlock()
        _core.release()
        log.info("session", "the recording %s ends", self.path)
        return problem

    def ending(self) -> dict[str, Any]:
        """Return the data with which another process writes the end of a recording that was left open."""
        return {} if self._ending is None else self._ending.as_json()

    def energy(self) -> Energy:
        """Return the joules so far, while the recording runs; from any thread.

        They are shared by CPU time (the model ``cputime``) up to a millisecond ago with a sensor, up to 20 with an
        estimate. Each call reads only what is new since the last one.

        Returns
        -------
        tprof.live.Energy
            `tasks` (by name: `energy_j`, `instances`), `tasks_j`, `runtime_j`, `other_j`, `idle_j`, `measured_j`,
            `quality`, `until_s`.

        Raises
        ------
        UsageError
            If the recording is not running.
        """
        member = this_process.membership
        if member is None or member.plan.directory != self.path:
            raise UsageError(f"the recording {self.path} does not run: after its with-block take its profile()")
        return member.meter().energy()

    def _begin_alone(self) -> None:
        """Let a recording around the program end here, or refuse to begin beside one of the program's own."""
        running = this_process.membership
        if running is None:
            return
        if this_process.make_way is None:
            raise UsageError(
                f"a recording already runs in this process ({running.plan.directory}): end it before another"
            )
        this_process.make_way("a temporary session" if self.is_temporary else self.path.name)

    def _begin(self, session: OwnedSession) -> None:
        process = session.begin()
        with Uninterrupted():
            session.begin_block()
            enter(session.plan, process).start()
            self._hand_to_children()
        log.info("session", "the recording %s begins", self.path)
        if self.before_replacement is not None:
            self._replacement = Replacement(self.before_replacement)
        self._watch_budgets()

    def _hand_to_children(self) -> None:
        self._environment = os.environ.get(SESSION)
        os.environ[SESSION] = os.fspath(self.path)
        set_ray_hook()

    def _watch_budgets(self) -> None:
        """Monitor tasks with a budget, from the first definition of one."""
        member = this_process.membership
        if member is None or self._instances is not None:
            return
        member.on_budget = self._watch_budgets
        if this_process.tasks.has_budgets():
            from tprof.budgets.instances import InstanceBudgets  # noqa: PLC0415 - brings NumPy

            self._instances = InstanceBudgets(member)

    def _raise(self, problem: Exception | None, *, instead_of: BaseException | None) -> None:
        """Raise the exception of the tasks' budgets; a failure to monitor them is a note."""
        if problem is None:
            return
        if isinstance(problem, TraceError):
            self.notes.append(f"the budgets of tasks were not watched to the end: {problem}")
        elif instead_of is None:
            raise problem

    def _end_before(self, program: str) -> None:
        self.__exit__(None, None, None)
        warnings.warn(
            f"this process replaces itself by {program}: the recording {self.path} ends here",
            RuntimeWarning,
            stacklevel=4,
        )

    def _restore_environment(self) -> None:
        if self._replacement is not None:
            self._replacement.close()
            self._replacement = None
        clear_ray_hook()
        if self._environment is None:
            os.environ.pop(SESSION, None)
        else:
            os.environ[SESSION] = self._environment

    def _undo(self, session: OwnedSession) -> None:
        """Remove the files of a recording that could not begin."""
        with Uninterrupted():
            this_process.leave()
            if os.environ.get(SESSION) == os.fspath(self.path):
                self._restore_environment()
            session.undo()


def _how_it_stopped(kind: type[BaseException] | None) -> str:
    if kind is None:
        return "end"
    if issubclass(kind, KeyboardInterrupt):
        return "interrupted"
    return "exit" if issubclass(kind, SystemExit) else "error"


def cannot_record(path: Path, error: OSError) -> str:
    """Return the sentence on a session that could not be made."""
    reason = error.strerror or str(error)
    return f"cannot record to {path}: {reason}; choose another place with -o SESSION or tprof.record(path)"


def record(  # noqa: PLR0913 - one parameter an option
    path: str | os.PathLike[str] | None = None,
    *,
    energy: str | Sequence[str] = "auto",
    counters: str | Sequence[str] = "auto",
    watts: tuple[float, float] | str | None = None,
    overwrite: bool = False,
    idle_s: float | None = None,
    poller_share: float = 0.01,
    attribute_native: bool = True,
    stacks: bool = False,
    keep: str = "all",
    span_s: float = 1.0,
    max_size: int | str | None = None,
    compress: bool = False,
) -> Recording:
    """Record the tasks of a block of the program, and their energy.

    Parameters
    ----------
    path
        The session directory to make, by convention ``NAME.tprof``. Without one the session is in a folder below
        ``$TMPDIR`` until this process ends; `Recording.save` keeps it.
    energy
        ``"auto"``: the best sensor of the processor, and those of hardware beside it; ``"none"``; ``"estimate"``; or
        the name of a sensor such as ``"perf"``, with an argument as ``"NAME:argument"``; several of them as a list, or
        with commas.
    counters
        ``"auto"``, ``"none"`` (clock and CPU time only) or the names of counters.
    watts
        For the estimate: watts of the idle machine and watts per busy core, taken as exact; by default assumed from the
        kind of processor, and then intervals include the error of the assumption.
    overwrite
        Replace an existing session.
    idle_s
        Seconds of idle time to read before the block, which separate static power from the tasks'; by default a third
        of a second with a sensor, else none. They are not part of the figures; a profile's ``info`` has them as
        ``lead_in_s`` and ``lead_in_j``.
    poller_share
        Part of one core that polling the sensors may use, 0 to 1. The sensors are polled once per millisecond; the rest
        of this part goes to closer polling around updates, with which `fitted` separates short tasks. If wake-ups cost
        too much, polls come less often, down to one per second. 0 polls once per millisecond at any cost, and never
        more closely.
    attribute_native
        Record native threads too, in every process of the recording: threads without samples, such as those of the
        pools of BLAS and OpenMP. Their CPU clocks are read about every 5 ms, in at most about 1 % of a core, and calls
        of ``pthread_create`` in the process's libraries note who creates a thread. False does without both.
    stacks
        Sample the Python stacks of all threads, in every process of the recording, about a hundred times a second, so
        that flame graphs show Python functions below the tasks.
    keep
        ``"all"``, or ``"summary"`` for programs that run for weeks: sums by task, process and span are kept (by thread
        too with ``"threads"``), and samples are removed as soon as they are in them, so the session hardly grows.
        Energy is shared by CPU time (the model ``cputime``), counters are not kept, and the energy of native threads is
        in the account `runtime_j`.
    span_s
        Seconds of each of these spans.
    max_size
        Most bytes of the session's folder, such as ``"2GB"``; at least 16 MB. Before that the oldest samples of all
        threads go, so that from some moment on the recording is whole; profiles count from there and say what is gone.
        The joules of the whole recording stay known.
    compress
        Compress samples while the program runs, by a process of lowest priority; the end of the block awaits the rest.

    Returns
    -------
    Recording
        A context manager; after its block, `Recording.profile` attributes the energy.

    Raises
    ------
    UsageError
        If a recording already runs or the path is taken.
    SensorError
        If the requested sensor cannot be read.

    Examples
    --------
    >>> import tempfile, tprof
    >>> @tprof.task
    ... def add(a, b):
    ...     return a + b
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with tprof.record(directory + "/add.tprof", energy="estimate") as recording:
    ...         total = add(1, 2)
    ...     len(recording.profile().tasks)
    1
    """
    options = RecordingOptions(
        energy=energy,
        counters=counters,
        watts=watts,
        idle_s=idle_s,
        poller_share=poller_share,
        attribute_native=attribute_native,
        stacks=stacks,
        keep=keep,
        span_s=span_s,
        max_size=max_size,
        compress=compress,
    )
    return Recording(path, options, overwrite=overwrite)
