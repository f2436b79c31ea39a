"""The native scheduler: dependences, queues, workers, waiting. Only `tprof.runtime` itself calls it."""

from collections.abc import Callable
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
        on_task: Callable[[int, Callable[..., Any], int], object] | None = None,
    ) -> Self: ...
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
