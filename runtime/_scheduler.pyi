"""The native scheduler: dependences, queues, workers, waiting. Only `tprof.runtime` itself calls it."""

from collections.abc import Callable
from typing import Any, Self

from tprof.access import Access

class Work:
    """A task instance in the graph; the native half of `tprof.runtime.Task`."""

    number: int
    callable: Callable[..., Any]
    @property
    def error(self) -> BaseException | None:
        """What it raised, or a child that nobody asked about, once it has ended."""

    @property
    def cause(self) -> Work | None:
        """Why it is or will be cancelled: the work that failed or was cancelled first."""

    @property
    def state(self) -> str:
        """`pending`, `queued`, `running`, `finished`, `failed` or `cancelled`."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Wait for its end; returns whether it came in time."""

    def result(self, timeout: float | None = None) -> Any:
        """Return what it returned, or call `_raise`."""

    def cancel(self) -> bool:
        """Let it not run, if it has not begun; returns whether it will not."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Call it with this object once it has ended."""

    def acknowledge(self) -> None:
        """Note that somebody knows of its failure."""

class Group:
    """Works that were spawned inside a with-block."""

    def __new__(cls, scheduler: Scheduler) -> Self: ...
    @property
    def outer(self) -> Group | None:
        """The group in whose block this one was opened."""

    def open(self, outer: object, waits: bool, /) -> None:
        """Let what is spawned here belong to it, once; `waits`: it hears of failures, not whoever waits around it."""

    def close(self) -> None:
        """Let nothing more belong to it."""

    def is_around(self) -> bool:
        """Return whether what is spawned here, while the group variable holds it, belongs to it."""

    def wait(self) -> None: ...
    def cancel(self) -> None: ...
    def take_failures(self) -> list[Work]: ...

class Scheduler:
    """A graph of works and the seats of the threads that run them."""

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
        """Spawn a work; returns it, or None where the runtime has ended."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Wait for all works of the task that runs here, or of the program; returns whether they ended in time."""

    def wait_on(self, data: object, /) -> Work | None:
        """Wait for those of them that touch the data; returns the one whose failure left it unwritten."""

    def take_failures(self) -> list[Work]:
        """Return those of them that failed and that nobody has asked about, in the order of their ends."""

    def cancel(self) -> None: ...
    def stop(self) -> None:
        """Let the threads end once nothing is left to run."""

    def abandon(self) -> None:
        """Forget the threads, in a forked child."""

    def set_active(self, number: int, /) -> None:
        """Let so many of the seats be taken; whoever sits on another leaves it after its task."""

    def active(self) -> int:
        """Return how many of the seats are taken."""

    def counts(self) -> dict[str, int]:
        """Return spawned, executed, stolen, peak_unfinished, unfinished, threads."""

def spawn(task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Spawn a call of the task where a scheduler is current and takes works, else make the call."""

def set_default(scheduler: Scheduler | None, /) -> None:
    """Set the scheduler that calls of other threads than its own go to."""

def enter_scheduler(scheduler: Scheduler, /) -> None:
    """Let what the calling thread spawns go to this scheduler, as long as it runs the task that it runs now."""

def leave_scheduler(scheduler: Scheduler, /) -> None:
    """Undo it."""

def current_scheduler() -> Scheduler | None:
    """Return the scheduler that a call of a task here would go to."""

def current_slot() -> int | None:
    """Return the seat of the calling thread, -1 without one, None for other threads than workers."""

def forget_thread() -> None:
    """Let the calling thread be no worker any more, in a forked child."""

def share_memory(one: object, other: object, /) -> bool:
    """Return whether two buffers have a byte in common."""
