"""Trace events as JSON, which Chrome defined and VizTracer and many others write: complete, begin and end, counters.

Events are parsed one after the other, so that a file may be larger than memory. What is not an event of these kinds is
left out and counted. Times are microseconds.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof.errors import TraceError

from .timeline import UNKNOWN, Counter, Slice, ThreadSlices, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .source import Source

MOST_VALUE_CHARACTERS = 256 << 20
MOST_BEFORE_EVENTS_BYTES = 16 << 20
"""Read without an event: few bytes of gzip may hold any amount of spaces."""
_SPACES = re.compile(r"[ \t\r\n]*")
ASYNCHRONOUS = "bneSTFpNOD"
WITHOUT_LENGTH = "iIRrsfPvVct"
FACTS = "tprof"
"""Key beside the events under which an export of tprof says what its figures are."""


class _Text:
    """A text that is parsed value by value, of which only what is not parsed yet is in memory."""

    def __init__(self, source: Source) -> None:
        self._source, self._text, self._at = source, "", 0
        self._decoder = json.JSONDecoder()
        self._bytes = b""
        self._ended = False
        self._read_bytes = 0
        self.has_events = False

    def peek(self) -> str:
        """Return the next character that is no space, "" at the end."""
        while True:
            spaces = _SPACES.match(self._text, self._at)
            self._at = self._at if spaces is None else spaces.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def skip(self) -> None:
        """Go over the next character."""
        self._at += 1

    def value(self) -> Any:
        """Parse the next value. Raises TraceError."""
        wanted = 0
        while True:
            self.peek()
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise TraceError("it is nested too deeply") from None
            except ValueError as error:
                if not self._ended and len(self._text) - self._at > MOST_VALUE_CHARACTERS:
                    raise TraceError("one of its values is larger than 256 MB") from None
                wanted = max(wanted, 2 * (len(self._text) - self._at))
                if self._ended:
                    raise TraceError(_fault(error, len(self._text))) from None
                while not self._ended and len(self._text) - self._at < wanted + 1:
                    self._more()
                continue
            # A number at the end of what was read may go on.
            if end == len(self._text) and self._more():
                continue
            self._at = end
            return value

    def _more(self) -> bool:
        """Read on; returns whether there was more."""
        block = self._source.read()
        self._read_bytes += len(block)
        if not self.has_events and self._read_bytes > MOST_BEFORE_EVENTS_BYTES:
            raise TraceError(f"its first {MOST_BEFORE_EVENTS_BYTES >> 20} MB have no trace event")
        whole = self._bytes + block
        self._ended = not block
        end = len(whole)
        if not self._ended:
            # A character may be cut between blocks.
            for back in range(1, min(4, len(whole)) + 1):
                if whole[-back] >= 0xC0:
                    end = len(whole) - back
                    break
        try:
            text = whole[:end].decode("utf-8")
        except UnicodeDecodeError:
            raise TraceError("it is no UTF-8 text") from None
        self._bytes = whole[end:]
        self._text, self._at = self._text[self._at :] + text, 0
        return bool(block)


def _fault(error: ValueError, length: int) -> str:
    position = getattr(error, "pos", None)
    if (position is not None and position >= length - 1) or "Unterminated string" in str(error):
        return "it is cut off in the middle of a value"
    return f"it is no JSON ({getattr(error, 'msg', error)})"


def _elements(text: _Text) -> Iterator[Any]:
    """Parse the elements of an array whose bracket comes next; the format permits that it is never closed."""
    text.skip()
    while True:
        mark = text.peek()
        if mark in {"", "]"}:
            text.skip()
            return
        if mark == ",":
            text.skip()
            continue
        yield text.value()


class _Key(NamedTuple):
    pid: int
    tid: int


class ChromeReader:
    """Collects the events of a file."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.timeline = Timeline()
        self._open: dict[_Key, list[tuple[int, str, int, dict[str, Any]]]] = {}
        self._last_ns = 0
        self._thread_names: dict[_Key, str] = {}

    def read(self, source: Source) -> Timeline:
        """Read a whole file. Raises TraceError with a clause."""
        text = _Text(source)
        mark = text.peek()
        if mark == "[":
            self._events(text)
        elif mark == "{":
            self._object(text)
        else:
            raise TraceError("it is no array of trace events")
        self._close()
        for key, name in self._thread_names.items():
            if key in self.timeline.threads:
                self.timeline.threads[key].name = name
        return self.timeline

    def _object(self, text: _Text) -> None:
        text.skip()
        found = False
        while (mark := text.peek()) != "}":
            if mark == ",":
                text.skip()
                continue
            if mark == "":
                raise TraceError("it is cut off: its object has no end")
            key = text.value()
            if not isinstance(key, str) or text.peek() != ":":
                raise TraceError("it is no JSON object")
            text.skip()
            if key == "traceEvents" and text.peek() == "[":
                found = True
                self._events(text)
            else:
                self._beside(key, text.value())
        if not found:
            raise TraceError("it has no traceEvents")

    def _beside(self, key: str, value: Any) -> None:
        if key == FACTS and isinstance(value, dict):
            self.timeline.facts = value

    def _events(self, text: _Text) -> None:
        for event in _elements(text):
            if isinstance(event, dict):
                text.has_events = True
                self._event(event)
            else:
                self.timeline.leave_out("values that are no events")

    def _event(self, event: dict[str, Any]) -> None:
        phase = event.get("ph")
        key = _Key(_number(event.get("pid")), _number(event.get("tid")))
        if phase == "M":
            self._metadata(key, event)
            return
        at_ns = _ns(event.get("ts"))
        if at_ns is None:
            self.timeline.leave_out("events without a time")
        elif phase == "X":
            self._complete(key, event, at_ns)
        elif phase == "B":
            cpu_ns = _ns(event.get("tts"))
            args = event.get("args")
            self._open.setdefault(key, []).append(
                (at_ns, _name(event), UNKNOWN if cpu_ns is None else cpu_ns, args if isinstance(args, dict) else {})
            )
        elif phase == "E":
            self._end(key, event, at_ns)
        elif phase == "C":
            self._counter(key, event, at_ns)
        elif isinstance(phase, str) and phase and phase in ASYNCHRONOUS:
            self.timeline.leave_out("asynchronous events")
        elif not (isinstance(phase, str) and phase and phase in WITHOUT_LENGTH):
            self.timeline.leave_out("events of unknown kind")

    def _complete(self, key: _Key, event: dict[str, Any], at_ns: int) -> None:
        length_ns = _ns(event.get("dur"))
        if length_ns is None:
            self.timeline.leave_out("events without a time")
            return
        self._last_ns = max(self._last_ns, at_ns + length_ns)
        cpu_ns, used_ns = _ns(event.get("tts")), _ns(event.get("tdur"))
        has_cpu = cpu_ns is not None and used_ns is not None
        begin_cpu_ns = cpu_ns if has_cpu and cpu_ns is not None else UNKNOWN
        end_cpu_ns = cpu_ns + used_ns if cpu_ns is not None and used_ns is not None else UNKNOWN
        args = event.get("args")
        self._add(key, (at_ns, at_ns + length_ns), (begin_cpu_ns, end_cpu_ns), (_name(event), args))

    def _end(self, key: _Key, event: dict[str, Any], at_ns: int) -> None:
        stack = self._open.get(key)
        if not stack:
            self.timeline.leave_out("ends without a begin")
            return
        self._last_ns = max(self._last_ns, at_ns)
        begin_ns, name, cpu_ns, args = stack.pop()
        end_cpu_ns = _ns(event.get("tts"))
        cpu = (cpu_ns, end_cpu_ns) if end_cpu_ns is not None and cpu_ns != UNKNOWN else (UNKNOWN, UNKNOWN)
        self._add(key, (begin_ns, at_ns), cpu, (name, args))

    def _add(self, key: _Key, times: tuple[int, int], cpu_ns: tuple[int, int], what: tuple[str, Any]) -> None:
        name, given = what
        args = given if isinstance(given, dict) else {}
        instance, cpu = args.get("instance"), args.get("cpu")
        thread = self.timeline.threads.setdefault(key, ThreadSlices(*key))
        self.timeline.add(
            thread,
            Slice(
                *times, name,
                instance=instance if type(instance) is int and 0 < instance < 1 << 64 else 0,
                cpu=cpu if type(cpu) is int and 0 <= cpu < 1 << 15 else UNKNOWN,
                failed=args.get("failed") is True,
                begin_cpu_ns=cpu_ns[0], end_cpu_ns=cpu_ns[1],
            ),
        )  # fmt: skip

    def _counter(self, key: _Key, event: dict[str, Any], at_ns: int) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            return
        for series, value in args.items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            name = _name(event)
            # The only series of a counter is usually called after its unit, or "value".
            full = name if len(args) == 1 else f"{name} {series}"
            unit = series if len(args) == 1 else ""
            counter = self.timeline.counters.setdefault((key.pid, full), Counter(full, unit))
            self.timeline.point(counter, at_ns, float(value) if abs(value) < 1 << 1000 else float("nan"))

    def _metadata(self, key: _Key, event: dict[str, Any]) -> None:
        args = event.get("args")
        name = args.get("name") if isinstance(args, dict) else None
        if event.get("name") == "thread_name" and isinstance(name, str):
            self._thread_names[key] = name[:200]

    def _close(self) -> None:
        """End what has no end with the last event."""
        for key, stack in self._open.items():
            for begin_ns, name, _, args in stack:
                self.timeline.leave_out("ends that are missing (the last event stands for them)")
                self._add(key, (begin_ns, max(self._last_ns, begin_ns)), (UNKNOWN, UNKNOWN), (name, args))


def _name(event: dict[str, Any]) -> str:
    name = event.get("name")
    return name[:1000] if isinstance(name, str) and name else "(unnamed)"


def _ns(value: object) -> int | None:
    """Return microseconds as nanoseconds; None for what is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e16:
        return None
    return value * 1000 if isinstance(value, int) else round(value * 1000)


def _number(value: object) -> int:
    """Return a process's or thread's number; what is none is kept apart by a number of its own."""
    if type(value) is int and 0 <= value < 1 << 31:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return 0 if value is None else zlib.crc32(repr(value).encode("utf-8", "replace")) & 0x3FFFFFFF
