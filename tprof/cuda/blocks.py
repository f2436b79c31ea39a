"""`tprof.gpu`: what its block launches on the GPU counts for the task in which it stands."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from tprof import _core
from tprof.errors import UsageError
from tprof.session.process_state import this_process

from .libraries import imported
from .marks import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .libraries import Library, Stream
    from .marks import Marks

P = ParamSpec("P")
R = TypeVar("R")


class GpuBlock:
    """The block of `tprof.gpu`; each thread, and each entry, has one of its own."""

    def __init__(self, streams: Sequence[Any] = ()) -> None:
        """Take the streams to mark; none: the current one of each library."""
        self._given = streams
        self._open: list[tuple[Library, Stream]] = []
        self._marks: Marks | None = None
        self._owner = Owner(0, 0)
        self._since_ns = 0

    def __enter__(self) -> Self:
        """Mark the streams, if something is recorded."""
        member = this_process.membership if _core.generation() else None
        if member is None:
            return self
        if self._marks is not None:
            raise UsageError("this tprof.gpu() block is open already: make a new one for each with-statement")
        marks, self._owner, self._since_ns = member.gpu(), Owner(*_core.running()), _core.now_ns()
        with marks.reporting():
            self._open = self._streams()
        self._marks = marks
        for library, stream in self._open:
            marks.open(library, stream, self, self._owner)
        return self

    def __exit__(self, *_: object) -> None:
        """Mark their ends."""
        marks, self._marks = self._marks, None
        if marks is None:
            return
        opened, self._open = self._open, []
        if not opened:
            with marks.reporting():
                opened = self._streams()  # if there are any now, the program's first work on a GPU was in this block
            for library, stream in opened:
                marks.open_late(library, stream, self, self._owner, self._since_ns)
        for library, stream in reversed(opened):
            marks.shut(library, stream, self)

    def _streams(self) -> list[tuple[Library, Stream]]:
        """Return the streams, each once: two libraries may share the default one."""
        found: dict[tuple[int, int], tuple[Library, Stream]] = {}
        begun = [library for library in imported() if library.has_begun()]
        if not self._given:
            for library in begun:
                stream = library.current()
                found.setdefault((stream.device, stream.number), (library, stream))
        for handle in self._given:
            known = [(library, one) for library in begun if (one := library.stream(handle)) is not None]
            if begun and not known:
                raise UsageError(f"tprof.gpu takes streams of torch.cuda, cupy.cuda or numba.cuda, got {handle!r}")
            for library, one in known[:1]:
                found.setdefault((one.device, one.number), (library, one))
        return list(found.values())


def gpu(*streams: Any) -> GpuBlock:
    """Let what a block launches on the GPU count for the task in which it stands: ``with tprof.gpu():``.

    CUDA events on the current stream mark where the task's work begins and ends there, so kernels that run after the
    task has returned still count for it. The GPU's joules above its idle power are then shared by the time in which the
    GPU worked for each instance. A task inside the block counts for itself only if it is marked too, by
    ``@tprof.task(gpu=True)`` or a block of its own. Without a recording the block does nothing.

    Parameters
    ----------
    *streams
        Streams of ``torch.cuda``, ``cupy.cuda`` or ``numba.cuda`` on which the block launches; by default the current
        stream of each of these libraries that the program has imported and used.

    Examples
    --------
    >>> import tprof
    >>> @tprof.task
    ... def train(batch):
    ...     with tprof.gpu():
    ...         return sum(batch)
    >>> train([1, 2])
    3
    """
    return GpuBlock(streams)


def launching(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs in a block of its own."""

    @functools.wraps(function)
    def in_block(*args: P.args, **kwargs: P.kwargs) -> R:
        with GpuBlock():
            return function(*args, **kwargs)

    return in_block
