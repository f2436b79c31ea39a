"""An external power meter that writes lines of text: to a serial line, a pipe, a socket, or a file that grows.

A line is `watts` or `seconds,watts` by the meter's own clock. A value without a time is as old as the line's arrival.
Lines of one arrival were written one after the other since the arrival before, so they get equal distances.

The meter's clock runs at another rate than ours, from another zero, and its lines arrive late by an unknown and varying
time. Among the lines of the last seconds the one that was least late tells the offset of the clocks (as in the
minimum filter of RFC 5905, section 10, for the delay of packets). The least delay itself stays unknown here; the
profile finds it by the steps of the load (analysis/attribution/meter_delay.py), as the TProf paper's DRAM meter
(section 2.4) is compared with the program that it watches.
"""

from __future__ import annotations

import math
import os
import re
import socket
import stat
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tprof import _core
from tprof.errors import SensorError, UsageError

from .advice import DIALOUT, INSTALL_METER
from .contract import Accuracy, Domain, Found, Quality, Quantity, Reading, Sensor, Unavailable
from .nesting import AROUND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .contract import Machine

STANDARD_INPUT = "-"
OPTIONS = {
    "baud": "a rate such as 115200",
    "domain": "a name such as wall or dram",
    "delay": "seconds",
    "error": "a part",
}
DOMAIN, BAUD = "wall", 115_200
PERIOD_S = 0.02
CONNECT_S = 5.0
LAST_PORT = 65_535
BLOCK_BYTES, LONGEST_LINE = 1 << 16, 4096
MOST_LINES = 256
"""Lines of an arrival that are read; of more of them each second, third, … one, or they would slow the program down."""
MOST_HEADINGS = 20
"""Lines without a number before the first value: more of them are no heading."""
LATEST_S = 1e16
"""Later than any clock, also one that counts microseconds since 1970."""
MEMORY_NS = 10_000_000_000
"""Time over which the least late line tells the clocks' offset: a rate that is 100 ppm off changes it by 1 ms."""
JUMP_NS = 1_000_000_000
"""A change of the offset that no clock makes by itself: the meter was started again or set."""
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LINE = re.compile(rf"\s*(?:({_NUMBER})\s*[,;\s]\s*)?({_NUMBER})\s*W?\s*$")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*$")


class Place(NamedTuple):
    """Where the lines come from, and what the user said of the meter."""

    path: str
    baud: int
    domain: str
    delay_s: float
    error: float | None


class Meter(Sensor):
    """A meter at the plug, at a power rail or around a memory module."""

    name = "meter"
    covers = "an external meter: lines of `watts` or `seconds,watts`"
    argument_words = "a serial device, a file that grows, - or tcp://HOST:PORT, then ,baud= ,domain= ,delay= ,error="
    extra = "meter"

    def __init__(self, argument: str = "") -> None:
        """Read the argument."""
        super().__init__(argument)
        self.place = _parsed(argument) if argument else None

    def find(self, machine: Machine) -> Found | Unavailable:
        """Look for the device or file; whether lines come shows in the first second of a recording."""
        del machine
        if self.place is None:
            return Unavailable('none is named: energy="meter:/dev/ttyUSB0", a file that grows, - or tcp://HOST:PORT')
        problem = _problem(self.place)
        if problem is not None:
            return problem
        scope = self.place.domain if self.place.domain in AROUND else self.place.domain.partition("-")[0]
        accuracy = Accuracy(
            relative_error=self.place.error, shows=Quantity.POWER, covers=f"what {self.place.path} measures"
        )
        return Found((Domain(self.place.domain, scope, None, self.name, Quality.MEASURED, accuracy=accuracy),))

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> LineReader:
        """Open it. Raises SensorError and OSError."""
        del machine, domains
        assert self.place is not None  # noqa: S101 - without a place `find` found no domain
        return LineReader(self.place)


def _parsed(argument: str) -> Place:
    """Return the place and its options. Raises UsageError."""
    path, *words = argument.split(",")
    options = dict.fromkeys(OPTIONS, "")
    for word in words:
        key, _, value = word.partition("=")
        if key not in options or not value:
            allowed = ", ".join(f"{name}= ({what})" for name, what in OPTIONS.items())
            raise UsageError(f"energy=meter:{path} takes {allowed}, got {word!r}")
        options[key] = value
    domain = options["domain"] or DOMAIN
    if not path or not _NAME.match(domain):
        raise UsageError(f"energy=meter takes {Meter.argument_words}, got {argument!r}")
    return Place(
        path, int(_value(options["baud"] or str(BAUD), "baud", 50, 1e8)), domain,
        _value(options["delay"] or "0", "delay", 0, 60),
        _value(options["error"], "error", 0, 1) if options["error"] else None,
    )  # fmt: skip


def _value(text: str, name: str, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise UsageError(f"the meter's {name}= takes a number from {least:g} to {most:g}, got {text!r}")
    return value


def _problem(place: Place) -> Unavailable | None:
    """Return why nothing can be read there; nothing is opened, since that restarts some meters."""
    path = place.path
    if path.startswith("tcp://"):
        return None if _address(path) else Unavailable(f"{path} has no port: write tcp://HOST:PORT")
    if path == STANDARD_INPUT:
        return Unavailable("standard input is a terminal: pipe the meter's lines in") if os.isatty(0) else None
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - as it is named
    except OSError as error:
        return Unavailable(f"cannot read {path}: {(error.strerror or str(error)).lower()}")
    is_serial = stat.S_ISCHR(mode)
    problem = None
    if stat.S_ISDIR(mode):
        problem = Unavailable(f"cannot read {path}: it is a folder; name the file that the meter's lines go to")
    elif not os.access(path, os.R_OK):
        problem = Unavailable(f"cannot read {path}: permission denied", (DIALOUT,) if is_serial else ())
    elif is_serial and not _has_pyserial():
        problem = Unavailable(f"{path} is a serial line, which needs pyserial", (INSTALL_METER,))
    return problem


def _has_pyserial() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - kept off `import tprof`

    return find_spec("serial") is not None


def _address(path: str) -> tuple[str, int] | None:
    host, _, port = path.removeprefix("tcp://").rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdecimal() and int(port) <= LAST_PORT else None


class Stream(Protocol):
    """Bytes as they come; `joined_inside` says whether the first line may lack its beginning."""

    joined_inside: bool

    def read(self) -> bytes:
        """Return what has come, without waiting. Raises OSError and SensorError if no more will."""

    def close(self) -> None:
        """End it."""


class Descriptor:
    """A pipe, standard input or a socket's descriptor, read without waiting."""

    def __init__(self, descriptor: int, path: str, *, joined_inside: bool, release: Callable[[], None]) -> None:
        """Take it over."""
        self.joined_inside = joined_inside
        self._descriptor, self._path, self._release = descriptor, path, release
        os.set_blocking(descriptor, False)

    def read(self) -> bytes:
        """Return what has come."""
        try:
            data = os.read(self._descriptor, BLOCK_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            raise SensorError(f"the meter's lines from {self._path} have ended: keep what writes them running")
        return data

    def close(self) -> None:
        """Give it back."""
        self._release()


class GrowingFile:
    """A file to which another program writes; what it had before the recording is of no known time."""

    def __init__(self, path: str) -> None:
        """Open it at its end."""
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - `close` ends it
        self._at = self._file.seek(0, os.SEEK_END)
        self.joined_inside = self._at > 0 and os.pread(self._file.fileno(), 1, self._at - 1) != b"\n"

    def read(self) -> bytes:
        """Return what was appended; a file that was cut begins anew."""
        if os.fstat(self._file.fileno()).st_size < self._at:
            self._file.seek(0)
            self._at = 0
        data = self._file.read(BLOCK_BYTES)
        self._at += len(data)
        return data

    def close(self) -> None:
        """Close it."""
        self._file.close()


class SerialLine:
    """A serial device, by pyserial; it is nobody else's while it is open."""

    joined_inside = True

    def __init__(self, path: str, baud: int) -> None:
        """Open it."""
        import serial  # noqa: PLC0415 - an extra

        self._line = serial.Serial(path, baud, timeout=0, exclusive=True)

    def read(self) -> bytes:
        """Return what has come."""
        # The kernel gives 4096 bytes at once, and keeps more for later: what was left there would be late.
        data = bytes(self._line.read(BLOCK_BYTES))
        while len(data) < BLOCK_BYTES and (more := self._line.read(BLOCK_BYTES)):
            data += more
        return data

    def close(self) -> None:
        """Close it."""
        self._line.close()


def _opened(place: Place) -> Stream:
    path = place.path
    if path == STANDARD_INPUT:
        return _standard_input()
    if path.startswith("tcp://"):
        address = _address(path)
        assert address is not None  # noqa: S101 - `find` refuses it
        connection = socket.create_connection(address, CONNECT_S)
        return Descriptor(connection.fileno(), path, joined_inside=True, release=connection.close)
    mode = os.stat(path).st_mode  # noqa: PTH116
    if stat.S_ISCHR(mode):
        return SerialLine(path, place.baud)
    if stat.S_ISFIFO(mode):
        # Open for writing too: no writer has come yet, or one follows another.
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        return Descriptor(descriptor, path, joined_inside=False, release=lambda: os.close(descriptor))
    return GrowingFile(path)


def _standard_input() -> Stream:
    """Take standard input over: the program finds an empty one, or it would take the meter's lines."""
    descriptor = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return Descriptor(descriptor, "standard input", joined_inside=False, release=lambda: os.close(descriptor))


class MeterClock:
    """Converts times of the meter's clock by the line that was least late among those of the last seconds."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._least: deque[tuple[int, int]] = deque()  # arrival and offset, both increasing
        self._last_ns: int | None = None

    def note(self, meter_ns: int, arrival_ns: int) -> bool:
        """Take note of a line's time and arrival; returns whether the meter's clock was set since the line before."""
        offset_ns = arrival_ns - meter_ns
        was_set = self._last_ns is not None and (meter_ns < self._last_ns or offset_ns < self._least[0][1] - JUMP_NS)
        if was_set:
            self._least.clear()
        self._last_ns = meter_ns
        while self._least and self._least[-1][1] >= offset_ns:
            self._least.pop()
        self._least.append((arrival_ns, offset_ns))
        while self._least[0][0] < arrival_ns - MEMORY_NS:
            self._least.popleft()
        return was_set

    def converted(self, meter_ns: int) -> int:
        """Return the time by CLOCK_MONOTONIC, ns, of a line that was noted."""
        return meter_ns + self._least[0][1]

    def arrived(self, times_ns: Sequence[int | None], arrival_ns: int) -> tuple[list[int | None], set[int]]:
        """Return the times by CLOCK_MONOTONIC of the lines of an arrival, and before which of them the clock was set.

        The last lines are the least late, and tell the times of the others back to where the clock was set.
        """
        found: list[int | None] = []
        was_set: set[int] = set()
        for number, meter_ns in enumerate(times_ns):
            offset_ns = self._least[0][1] if self._least else 0
            if meter_ns is not None and self.note(meter_ns, arrival_ns):
                was_set.add(number)
                found += [None if one is None else one + offset_ns for one in times_ns[len(found) : number]]
        found += [None if one is None else self.converted(one) for one in times_ns[len(found) :]]
        return found, was_set


class LineReader:
    """Reads the lines that have come, each with its time."""

    period_s = PERIOD_S

    def __init__(self, place: Place) -> None:
        """Open the place. Raises SensorError and OSError."""
        self._place = place
        self._stream = _opened(place)
        self._clock = MeterClock()
        self._rest = b""
        self._drop_first = self._stream.joined_inside
        self._begun = self._was_set = self._has_clock = False
        self._headings = 0
        self._arrival_ns: int | None = None
        self._last_ns = 0

    def read(self) -> list[Reading]:
        """Return the values of the lines that are whole; a line that is none is a failed read, a heading is nothing."""
        data = self._rest + self._stream.read()
        now_ns = _core.now_ns()
        *lines, self._rest = data.split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise SensorError(f"{self._place.path} gives no lines of text: check baud= and what the meter writes")
        if lines and self._drop_first:
            del lines[0]
            self._drop_first = False
        step = -(-len(lines) // MOST_LINES) or 1
        found = list(self._values(lines[(len(lines) - 1) % step :: step] if lines else lines))
        since_ns, self._arrival_ns = self._arrival_ns, now_ns if lines else self._arrival_ns
        self._has_clock |= any(at_ns is not None for at_ns, _ in found)
        times_ns, was_set = self._clock.arrived([at_ns for at_ns, _ in found], now_ns)
        readings = []
        for number, (at_ns, (_, watts)) in enumerate(zip(times_ns, found, strict=True), 1):
            self._was_set |= number - 1 in was_set
            if at_ns is not None:
                t_ns = at_ns
            elif watts is None and self._has_clock:
                t_ns = self._last_ns + 1 + round(self._place.delay_s * 1e9)
            elif since_ns is not None:
                t_ns = since_ns + (now_ns - since_ns) * number // len(found)
            elif number == len(found):
                t_ns = now_ns
            else:
                continue  # of an unknown time before
            t_ns -= round(self._place.delay_s * 1e9)
            if t_ns > self._last_ns:
                readings.append(Reading(self._place.domain, watts, t_ns, self._was_set))
                self._last_ns, self._was_set = t_ns, False
        return readings

    def _values(self, lines: Iterable[bytes]) -> Iterable[tuple[int | None, float | None]]:
        for line in lines:
            text = line.decode("ascii", "replace").strip()
            match = _LINE.match(text)
            if match is not None:
                self._begun = True
                seconds, watts = match.groups()
                if seconds is not None and abs(float(seconds)) > LATEST_S:
                    yield None, None
                    continue
                # Around no load the offset of a current sensor shows as power below 0.
                yield None if seconds is None else round(float(seconds) * 1e9), max(float(watts), 0.0)
            elif self._begun and text and not text.startswith("#"):
                yield None, None
            elif text and not text.startswith("#"):
                self._headings += 1
                if self._headings > MOST_HEADINGS:
                    raise SensorError(
                        f"{self._place.path} gives lines that are no numbers, such as {text[:40]!r}: "
                        "check baud= and what the meter writes"
                    )

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
