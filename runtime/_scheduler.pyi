"""The native scheduler: dependences, queues, workers, waiting. Only `tprof.runtime` itself calls it."""

from collections.abc import Callable, Sequence
from typing import Any, Self

from tprof.declarations import Access

class Work:
    """A task instance in the graph; the native half of `tprof.runtime.Task`."""

    number: int
    callable: Callable[..., Any]
    @property
    def error(self) -> BaseException | None:
        """The exception of the task, or of a child that was not acknowledged, once the task has ended."""

    @property
    def cause(self) -> Work | None:
        """The cause of its cancellation: the work that failed or was cancelled first."""

    @property
    def state(self) -> str:
        """`pending`, `queued`, `running`, `finished`, `failed` or `cancelled`."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Wait for its end; returns False after the timeout."""

    def result(self, timeout: float | None = None) -> Any:
        """Return what it returned, or call `_raise`."""

    def cancel(self) -> bool:
        """Cancel it if it has not begun; returns whether it is cancelled."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Call it with this object once it has ended."""

    def acknowledge(self) -> None:
        """Mark its failure as handled."""

class Group:
    """Works that were spawned inside a with-block."""

    def __new__(cls, scheduler: Scheduler) -> Self: ...
    @property
    def outer(self) -> Group | None:
        """The group in whose block this one was opened."""

    def open(self, outer: object, waits: bool, /) -> None:
        """Add works that are spawned here from now on, once; `waits`: it collects failures, not the enclosing group."""

    def close(self) -> None:
        """Add no more works."""

    def is_around(self) -> bool:
        """Return whether works spawned here belong to it while the group variable holds it."""

    def wait(self) -> None: ...
    def cancel(self) -> None: ...
    def take_failures(self) -> list[Work]: ...

class Scheduler:
    """A graph of works and the slots of the threads that run them."""

    def __new__(
        cls,
        *,
        slot_count: int,
        future_type: type[Work],
        start_thread: Callable[[], object],
        on_slot_taken: Callable[[int], object],
        group_variable: object,
        note: Callable[[BaseException, Any], object],
        most_unfinished: int,
        graph: list[Any] | None,
    ) -> Self: ...
    def operate(self, gate: Gate, /) -> None:
        """Report the tasks of all threads to a policy's gate; before any thread serves."""

    def serve(self) -> None:
        """Work on the calling thread until the scheduler stops."""

    def submit(self, callable: Callable[..., Any], access: Access, /, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        """Spawn a work; returns it, or None if the runtime has ended."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Wait for the children of the running task, or for the program's works; returns False after the timeout."""

    def wait_on(self, data: object, /) -> Work | None:
        """Wait for those that touch the data; returns the one whose failure left it unwritten."""

    def take_failures(self) -> list[Work]:
        """Return those that failed and were not acknowledged, in the order of their ends, and acknowledge them."""

    def cancel(self) -> None: ...
    def stop(self) -> None:
        """Let the threads end once no work is left."""

    def abandon(self) -> None:
        """Forget the threads, in a forked child."""

    def set_active(self, number: int, /) -> None:
        """Set the number of active slots; a thread in another leaves it after its task."""

    def active(self) -> int:
        """Return the number of active slots."""

    def counts(self) -> dict[str, int]:
        """Return spawned, executed, stolen, peak_unfinished, unfinished, threads."""

class Gate:
    """Knows what runs, and asks a policy where that may change something; csrc/gate.h explains it.

    `on_event(moment, place, task, slot)` is called by the thread that reported. Moments are those of
    `policy.control`; for the first four the event has not been applied, and `on_event` calls `begin` and so on. A place
    is a thread's. All but `report` are called under the policy's lock.
    """

    def __new__(
        cls,
        on_event: Callable[[int, int, int, int], object],
        controls: Sequence[int],
        *,
        times: bool = False,
        clock_ns: Callable[[], int] | None = None,
    ) -> Self:
        """Begin with the control of each slot; `times`: measure `busy_ns`. By default the clock is CLOCK_MONOTONIC."""

    def place(self) -> int:
        """Return a number for one more thread; threads of a scheduler get theirs by themselves."""

    def report(self, moment: int, place: int, task: int = 0, slot: int = 0, /) -> None:
        """Report an event, as threads of a scheduler do."""

    def begin(self, place: int, task: int, slot: int, /) -> int:
        """Apply the begin of a task; returns the instance's depth on its thread, or -1 without memory."""

    def end(self, place: int, task: int, /) -> int:
        """Apply the end of a task; returns the depth that it had, or -1 if the innermost is another."""

    def pause(self, place: int, /) -> bool:
        """Apply a pause; returns whether there is anything to pause."""

    def resume(self, place: int, slot: int, /) -> bool:
        """Apply the end of a pause; returns whether there was one."""

    def running(self) -> list[tuple[int, int, int, int]]:
        """Return place, depth, task and control of each thread's innermost instance."""

    def ended(self) -> dict[int, int]:
        """Return how many instances of each task have ended."""

    def busy_ns(self) -> int:
        """Return the time in which some task ran."""

    def set_due(self, due_ns: int, /) -> None:
        """Ask about the first event from this time on."""

    def set_kind(self, task: int, kind: int, /) -> None:
        """Set how the policy treats the task's later instances."""

    def unsettle(self, place: int, /) -> list[tuple[int, int, int, int]]:
        """Ask about each begin on the control of a thread until `hold`; returns what `running` does from then on."""

    def hold(self, control: int, hz: int, /) -> None:
        """Note the control's frequency."""

    def remember(self, control: int, tasks: Sequence[int], /) -> None:
        """Do not ask while these tasks run on the control at the frequency that it has now."""

    def renew(self) -> None:
        """Forget what was remembered."""

    def close(self) -> None:
        """Ask nothing any more."""

def spawn(task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Spawn a call of the task if there is a current scheduler that takes works, else call it."""

def set_default(scheduler: Scheduler | None, /) -> None:
    """Set the scheduler of threads that run no task and have entered none."""

def enter_scheduler(scheduler: Scheduler, /) -> None:
    """Make it the current scheduler of the calling thread while that runs its present task."""

def leave_scheduler(scheduler: Scheduler, /) -> None:
    """Undo `enter_scheduler`."""

def current_scheduler() -> Scheduler | None:
    """Return the scheduler that receives a call of a task here."""

def current_slot() -> int | None:
    """Return the slot of the calling thread, -1 without one, None for other threads than workers."""

def forget_thread() -> None:
    """Make the calling thread no worker any more, in a forked child."""

def share_memory(one: object, other: object, /) -> bool:
    """Return whether two buffers have a byte in common."""
