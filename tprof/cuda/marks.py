"""Marks on streams: from here on this stream works for this instance. Their times come later, from CUDA events.

A mark is an event that is recorded behind the work that the stream already has, so asynchronous kernels count for the
task that launched them. Two marks of a stream that follow each other make a segment. No call here waits for the
program's work, and none is made by a thread of our own: both would disturb it, and end the capture of a graph. Whether
an event is done is asked at the next mark, and at the end of the recording for up to `LAST_S`.

An event's time is the time since a base event on a stream of our own, where it is done at once: the host's clock just
before and after it gives the base. A base is renewed before the two clocks have drifted apart by a tenth of a
millisecond.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof import _core
from tprof.errors import UsageError
from tprof.session.table_file import JsonLines

from .libraries import imported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .libraries import Library, Stream

BASE_NS = 5_000_000_000
"""A base serves this long: clocks drift by some µs in a second."""
BASE_TRIES = 3
BASE_WAIT_NS = 1_000_000
"""Longest wait for a base, which is behind work if a program has more streams than the device has queues."""
LAST_S = 2.0
MOST_EVENTS = 100_000
"""Marks of a stream whose times are not known yet; a program that never lets the device come to them loses more."""
MOST_IN_LINE = 512
"""Segments in a line, which has at most 128 KiB."""
FLUSH_NS = 1_000_000_000
FIRST = 1000
"""Of multiprocessing's finalizers: before those that may end a library."""


class Owner(NamedTuple):
    """The instance for which a stream works, and its task; instance 0: of none, which the account `runtime` gets."""

    instance: int
    task: int


@dataclass
class _Base:
    """An event whose time on the host's clock is known within `error_ns`."""

    event: Any
    t_ns: int
    error_ns: int
    read_ns: int


@dataclass
class _Mark:
    """A mark that has an event, or a time; owner None: the stream works for nobody from here on."""

    device: _Device
    owner: Owner | None
    event: Any = None
    base: _Base | None = None
    t_ns: int = 0

    def is_done(self) -> bool:
        """Return whether its time is known, from now on in `t_ns`."""
        if self.base is None:
            return True
        if not self.device.library.is_done(self.event):
            return False
        since_ms = self.device.library.elapsed_ms(self.base.event, self.event)
        self.t_ns = self.base.t_ns + round(since_ms * 1e6)
        self.device.spare.append(self.event)
        return True


@dataclass
class _Queue:
    """The marks of one stream, the blocks that are open on it, and since when it works for whom."""

    stream: Stream
    marks: deque[_Mark] = field(default_factory=deque)
    blocks: list[tuple[object, int, Owner]] = field(default_factory=list)
    since_ns: int = 0
    works_for: Owner | None = None

    def follow(self, mark: _Mark) -> None:
        """Take the next mark, and end the segment before it."""
        t_ns = max(mark.t_ns, self.since_ns)
        if self.works_for is not None and t_ns > self.since_ns:
            segment = (self.since_ns, t_ns - self.since_ns, *self.works_for, self.stream.number)
            mark.device.segments.append(segment)
        self.since_ns, self.works_for = t_ns, mark.owner


class _Device:
    """A device of one library: its base, events that can be used again, and segments that are not written yet."""

    def __init__(self, library: Library, number: int) -> None:
        self.library, self.number = library, number
        self.names = library.device_names(number)
        self.spare: list[Any] = []
        self.segments: list[tuple[int, int, int, int, int]] = []
        self._private: Stream | None = None
        self._base: _Base | None = None

    def base(self) -> _Base | None:
        """Return a base that is young enough; an older one, or None, if the device does not come to a new one."""
        now_ns = _core.now_ns()
        if self._base is None or now_ns - self._base.read_ns > BASE_NS:
            tries = [one for _ in range(BASE_TRIES) if (one := self._try_base()) is not None]
            if tries:
                self._base = min(tries, key=lambda one: one.error_ns)
            elif self._base is not None:
                self._base.read_ns = now_ns
        return self._base

    def _try_base(self) -> _Base | None:
        if self._private is None:
            self._private = self.library.private(self.number)
        before_ns = _core.now_ns()
        event = self.library.record(None, self._private)
        while not self.library.is_done(event):
            if _core.now_ns() - before_ns > BASE_WAIT_NS:
                return None
        after_ns = _core.now_ns()
        return _Base(event, (before_ns + after_ns) // 2, (after_ns - before_ns) // 2, after_ns)


class Marks:
    """The marks of this process, and the file of its segments on devices. Any thread may call it."""

    def __init__(self, path: Path) -> None:
        """Store the path; the file is made with its first line."""
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal handler may open a block while another one opens
        self._devices: dict[tuple[str, int], _Device] = {}
        self._queues: dict[tuple[int, int], _Queue] = {}
        self._file = JsonLines(path)
        self._closed = self._ended = self._overlapped = False
        self._lost = self._captured = 0
        self._problem: str | None = None
        self._used: list[str] = []
        self._flushed_ns = _core.now_ns()
        # A forked child does not leave the session by Python; multiprocessing's runs its own finalizers only.
        atexit.register(self.close)
        if (util := sys.modules.get("multiprocessing.util")) is not None:
            util.Finalize(None, self.close, exitpriority=FIRST)

    def open(self, library: Library, stream: Stream, block: object, owner: Owner) -> None:
        """Let the stream work for an instance until `shut`."""
        with self._lock, self.reporting():
            queue = self._queues.setdefault((stream.device, stream.number), _Queue(stream))
            thread = threading.get_ident()
            self._overlapped |= any(other != thread for _, other, _ in queue.blocks)
            queue.blocks.append((block, thread, owner))
            self._mark(library, queue, owner)

    def open_late(self, library: Library, stream: Stream, block: object, owner: Owner, since_ns: int) -> None:
        """Do the same for a stream of a device that had no work at all before `since_ns`."""
        with self._lock, self.reporting():
            queue = self._queues.setdefault((stream.device, stream.number), _Queue(stream))
            queue.blocks.append((block, threading.get_ident(), owner))
            queue.marks.append(_Mark(self._device(library, stream.device), owner, t_ns=since_ns))

    def shut(self, library: Library, stream: Stream, block: object) -> None:
        """End what `open` began; an outer block goes on."""
        with self._lock, self.reporting():
            queue = self._queues[stream.device, stream.number]
            queue.blocks = [one for one in queue.blocks if one[0] is not block]
            self._mark(library, queue, queue.blocks[-1][2] if queue.blocks else None)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Keep an error of a library from the program, which finds it itself, and mark nothing after it."""
        try:
            yield
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - the libraries raise what they like; `close` writes it
            self._problem = self._problem or f"{type(error).__name__}: {error}"
            self._closed = True

    def _device(self, library: Library, number: int) -> _Device:
        key = (library.name, number)
        device = self._devices.get(key)
        if device is None:
            device = self._devices[key] = _Device(library, number)
        return device

    def _mark(self, library: Library, queue: _Queue, owner: Owner | None) -> None:
        if self._closed:
            return
        if library.is_capturing(queue.stream):
            self._captured += 1
            return
        device = self._device(library, queue.stream.device)
        base = device.base()
        if base is None or len(queue.marks) >= MOST_EVENTS:
            self._lost += 1
        else:
            event = library.record(device.spare.pop() if device.spare else None, queue.stream)
            queue.marks.append(_Mark(device, owner, event, base))
        self._resolve(queue)
        if _core.now_ns() - self._flushed_ns > FLUSH_NS or len(device.segments) >= MOST_IN_LINE:
            self._flush()

    def _resolve(self, queue: _Queue) -> None:
        """Turn the marks to which the device has come into segments, in their order."""
        while queue.marks and queue.marks[0].is_done():
            queue.follow(queue.marks.popleft())

    def close(self) -> None:
        """Wait for the work that is marked, and write the rest; what is not done by then ends now."""
        if self._ended or self._pid != os.getpid():
            return
        self._ended = True
        atexit.unregister(self.close)
        deadline_s = time.monotonic() + LAST_S
        while not self._are_done() and time.monotonic() < deadline_s:
            time.sleep(0.001)
        with self._lock:
            self._closed = True
            for queue in self._queues.values():
                self._end(queue)
            self._flush()
            with self.reporting():
                self._used = [one.name for one in imported() if one.has_begun()]
            self._write_note()
            self._file.close()

    def _are_done(self) -> bool:
        with self._lock, self.reporting():
            for queue in self._queues.values():
                self._resolve(queue)
            return not any(queue.marks for queue in self._queues.values())
        return True

    def _end(self, queue: _Queue) -> None:
        """End a stream's last segment now; what follows a mark whose time is not known is lost."""
        if queue.marks:
            self._lost += len(queue.marks)
            queue.follow(_Mark(queue.marks[0].device, None, t_ns=_core.now_ns()))
            queue.marks.clear()
        elif queue.works_for is not None:
            device = next(one for one in self._devices.values() if one.number == queue.stream.device)
            queue.follow(_Mark(device, None, t_ns=_core.now_ns()))

    def _write_note(self) -> None:
        note: dict[str, Any] = {"used": self._used}
        counts = {"lost": self._lost, "captured": self._captured}
        note |= {name: count for name, count in counts.items() if count}
        if self._overlapped:
            note["overlapped"] = True
        if self._problem is not None:
            note["problem"] = self._problem
        if note["used"] or len(note) > 1:
            self._file.append(note)

    def _flush(self) -> None:
        self._flushed_ns = _core.now_ns()
        for device in self._devices.values():
            segments, device.segments = device.segments, []
            for begin in range(0, len(segments), MOST_IN_LINE):
                part = segments[begin : begin + MOST_IN_LINE]
                self._file.append({"device": device.names, "number": device.number, "segments": part})
