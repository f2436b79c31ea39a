"""What is global in this process, in one object, and its one hook around forks of the program.

A fork must neither lose nor print anything. Python drops exceptions that a signal handler raises inside a fork hook,
and counts threads for its warning only after the hooks. So the core holds signals and defers slow work until the fork
has returned (csrc/binding_forks.c). Our own threads end before a fork and start again after it.
"""

from __future__ import annotations

import os
import threading

from tprof import _core

from .registry import Registry
from .runtimes import Runtimes

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from tprof.budgets.throttling import Pauses, WorkerLimit
    from tprof.launch.monitored import Monitored
    from tprof.work import Sums

    from .membership import Membership
    from .recording import Recording
    from .runtimes import Runs

    class Guard(Protocol):
        """A guard of the processor's frequency, which ends with this process."""

        def forget(self) -> None:
            """Let it not wait for this process, which is a forked child."""

    class Pausing(Protocol):
        """An object with a thread."""

        def pause(self) -> None:
            """End the thread."""

        def resume(self) -> None:
            """Start it again, if it was paused and not stopped."""


SESSION = "TPROF_SESSION"
"""The variable with the session directory, while a recording runs: a child process that imports tprof joins it."""

TASKS = "TPROF_TASKS"
"""The variable with the options of `tprof run --task`, for the Python processes that the program starts."""


class SharedByBudgets:
    """What the budgets of a process share.

    Attributes
    ----------
    recording : the private one, for budgets outside any recording; None while no budget needs it.
    recording_users : number of blocks that use it.
    recording_lock : guards both.
    worker_limits, pauses : what budgets request of runtimes and of tasks; guarded by `throttle_lock`.
    guards : those that restore the processor's frequency.
    """

    def __init__(self) -> None:
        """Begin without budgets."""
        self.recording: Recording | None = None
        self.recording_users = 0
        # Re-entrant: a signal handler may begin a budget while another one begins.
        self.recording_lock = threading.RLock()
        self.worker_limits: dict[Runs, WorkerLimit] = {}
        self.pauses: dict[Pauses, float] = {}
        self.throttle_lock = threading.Lock()
        self.guards: set[Guard] = set()


class ProcessState:
    """The state of this process as its main interpreter knows it; another interpreter has one of its own tasks.

    Attributes
    ----------
    tasks : the tasks that are defined.
    runtimes : the task runtimes that run.
    membership : in the session that is recorded, or None.
    make_way : ends or leaves a recording around the program for its own one of some name; None: there is none.
    sums : of the tasks' declared work, while a recording runs.
    budgets : what budgets share.
    monitored : the tool that marks unchanged code as tasks, or None.
    selects : whether a pattern of `tprof run` makes instances of a function's calls; None without patterns.
    parents : the membership of the parent, in a forked child that has not joined yet.
    labels : of this process, which it writes into each session that it joins.
    shows_metrics : whether it shows metrics, beside which the latest span of each name stands.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.tasks = Registry()
        self.runtimes = Runtimes()
        self.membership: Membership | None = None
        self.make_way: Callable[[str], None] | None = None
        self.sums: Sums | None = None
        self.budgets = SharedByBudgets()
        self.monitored: Monitored | None = None
        self.selects: Callable[[object], bool] | None = None
        self.parents: Membership | None = None
        self.labels: dict[str, str] = {}
        self.shows_metrics = False
        self._follows_forks = False
        self._pausing: list[Pausing] = []
        self._resets: list[Callable[[], object]] = []
        self._joins: list[Callable[[], object]] = []

    def leave(self) -> None:
        """End the membership, if there is one."""
        member, self.membership = self.membership, None
        self.make_way = None
        if member is not None:
            member.stop()

    def pause_around_forks(self, pausing: Pausing) -> None:
        """Register an object whose thread must not run during a fork."""
        self._follow_forks()
        self._pausing.append(pausing)

    def pause_no_more(self, pausing: Pausing) -> None:
        """Unregister an object."""
        if pausing in self._pausing:
            self._pausing.remove(pausing)

    def reset_in_child(self, reset: Callable[[], object]) -> None:
        """Register a function for each forked child, called before other code of ours: locks may have been held."""
        self._follow_forks()
        self._resets.append(reset)

    def join_in_child(self, join: Callable[[], object]) -> None:
        """Register a function for forked children of a recording process, called when the fork has returned."""
        self._follow_forks()
        self._joins.append(join)

    def _follow_forks(self) -> None:
        """Register the hook at its first use: Python calls the latest one first, and from there signals are held."""
        if self._follows_forks:
            return
        self._follows_forks = True
        _core.set_fork_work((self._pause, self._resume, self._reset, self._join))
        if _core.is_main_interpreter():  # no other one can fork
            os.register_at_fork(
                before=_core.fork_before, after_in_parent=_core.fork_in_parent, after_in_child=_core.fork_in_child
            )

    def _pause(self) -> None:
        for pausing in self._pausing.copy():
            pausing.pause()

    def _resume(self) -> None:
        for pausing in self._pausing.copy():
            pausing.resume()

    def _reset(self) -> None:
        """Take the parent's state out of a forked child."""
        self._pausing.clear()
        self.labels = {}
        self.tasks.reset()
        self._leave_parents_session()
        for guard in self.budgets.guards:
            guard.forget()  # otherwise it would also wait for the child's end
        self.budgets = SharedByBudgets()  # the parent's do not cover its child
        for reset in self._resets:
            reset()

    def _leave_parents_session(self) -> None:
        self.parents, self.membership, self.sums = self.membership, None, None
        _core.set_pause(0)  # the budgets that throttle the parent do not cover its child
        if self.parents is not None:
            self.parents.close_table()

    def _join(self) -> None:
        for join in self._joins:
            join()


this_process = ProcessState()
"""The one of this interpreter."""


class Uninterrupted:
    """Defers the handlers of signals, Ctrl-C's too, to the end of its block, which must be short.

    An exception of a handler is raised at the end of the block. Blocks may be nested.
    """

    def __enter__(self) -> None:
        _core.hold_signals()

    def __exit__(self, *_: object) -> None:
        _core.release_signals()
