"""Reads the sensors of a recording that Python reads, on one thread, each at its own rate.

Native sensors are read by the core (csrc/sensor_thread.c). Here a reader may be slow, hang or raise anything: the
program does not notice, and the end of the recording has a sentence on it. Only the process that made the session
reads; the thread ends before a fork and starts again after it.
"""

from __future__ import annotations

import errno
import math
import time
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.errors import SensorError
from tprof.sensors.contract import Quantity, Users
from tprof.trace.bounds import MAX_WATTS

from .own_thread import OwnThread
from .process_state import this_process
from .table_file import JsonLines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tprof.sensors.contract import Domain, Machine, Reader, Reading, Sensor

THREAD_NAME = "tprof-readers"
FIRST_S = 5.0
"""Longest wait for the first reading of every sensor: a driver's library may take a second to load."""
LAST_S = 0.5
"""Longest wait for a last reading, and for a change of values that update within that time."""
UPDATES = 2.5
"""Of a count that does not change for so many of its updates none is awaited any more: nothing is drawn."""
FORK_S = 0.05
"""Longest wait for a read in progress before a fork; a longer read goes on in the parent meanwhile."""
USUAL_READS = 3
"""A sensor whose reads take longer than `LAST_S` hangs if one takes so many times as long as the longest before it."""
SHORTEST_S, AGAIN_S = 0.001, 0.1
"""Least time between two reads, and from a failure to opening the sensor again."""
UNSEEN_PERIODS, UNSEEN_S = 5, 1.0
"""Power that was not read for so many periods, and so long, is unknown: it is not integrated over that time."""
FUTURE_NS = 1_000_000
"""By which a reading's time may be after now: clocks are converted."""
MOST_COUNT = (1 << 64) - 1


class DomainFile:
    """The file of a domain's readings: counts as they are read, or the integral of power in µJ."""

    def __init__(self, domain: Domain, source: dict[str, Any]) -> None:
        """Make the file. Raises OSError."""
        self.domain = domain
        self._file = _core.ReadingFile(source, round((domain.accuracy.update_s or 0.0) * 1e9))
        self._integrates = domain.accuracy.shows is Quantity.POWER
        self._longest_ns = round(UNSEEN_S * 1e9)
        self._before: tuple[int, float] | None = None
        self._gap_ns = 0
        self._energy_uj = 0.0
        self._last_ns = 0
        self.last: float | None = None
        self.changes = 0

    def expect(self, period_s: float) -> None:
        """Take note of the time between two reads."""
        usual_s = max(period_s, self.domain.accuracy.update_s or 0.0)
        self._longest_ns = round(max(UNSEEN_PERIODS * usual_s, UNSEEN_S) * 1e9)

    def take(self, reading: Reading, *, took_ns: int, reopened: bool) -> str | None:
        """Record a reading; returns None, or why it holds no value. One that cannot be true is a failed read."""
        now_ns = _core.now_ns()
        t_ns = now_ns if reading.t_ns is None else reading.t_ns
        if t_ns > now_ns + FUTURE_NS:
            self._file.take(now_ns, took_ns, 0, errno.EBADMSG)
            return f"gave a time that is {(t_ns - now_ns) * 1e-9:.3g} s in the future"
        if t_ns <= self._last_ns:
            return "gave a time that is not later than the one before" if reading.value != self.last else None
        value = _sound(reading.value, integrates=self._integrates)
        if value is None:
            number = errno.EIO if reading.value is None else errno.EBADMSG
            self._file.take(t_ns, took_ns, 0, number)
            return "gave no value"
        self.changes += value != self.last
        self.last, self._last_ns = value, t_ns
        reopened |= reading.reopened
        if self._integrates:
            count, reopened = self._integrated(t_ns, value, reopened=reopened)
        else:
            count = int(value)
        self._file.take(t_ns, took_ns, count, 0, reopened)
        return None

    def _integrated(self, t_ns: int, watts: float, *, reopened: bool) -> tuple[int, bool]:
        """Return the joules until now by the trapezoidal rule, and whether the power of the time before is unknown."""
        before, self._before = self._before, (t_ns, watts)
        if before is None:
            return int(self._energy_uj), self._energy_uj > 0 or reopened
        since_ns, since_w = before
        self._gap_ns = t_ns - since_ns
        if reopened or t_ns - since_ns > self._longest_ns:
            return int(self._energy_uj), True
        self._energy_uj += max(t_ns - since_ns, 0) * (since_w + watts) / 2000
        return int(self._energy_uj), reopened

    def hold(self) -> None:
        """Let the last power stand until now, if no newer one is due yet: a sensor shows it until its next update."""
        now_ns, update_ns = _core.now_ns(), round((self.domain.accuracy.update_s or 0.0) * 1e9)
        if self._before is None or not 0 < now_ns - self._before[0] <= max(update_ns, self._gap_ns):
            return
        count, _ = self._integrated(now_ns, self._before[1], reopened=False)
        self._file.take(now_ns, 0, count, 0, reopened=False)

    def fail(self, error: int) -> None:
        """Record a failed read."""
        self._file.take(_core.now_ns(), 0, 0, error)

    def close(self) -> None:
        """End the file."""
        self._file.close()


def _sound(value: object, *, integrates: bool) -> float | None:
    """Return the value if it can be one: a count of 64 bits, or watts."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    if integrates:
        return float(value) if 0 <= value <= MAX_WATTS else None
    return value if 0 <= value <= MOST_COUNT and value == int(value) else None


def _as_line(users: Users) -> dict[str, object]:
    return {"domain": users.domain, "since_ns": users.since_ns, "t_ns": users.t_ns, "processes": users.processes}


class OpenedSensor:
    """A sensor of the recording, opened on the thread and read when it is due."""

    def __init__(self, sensor: Sensor, machine: Machine, files: Sequence[DomainFile], users: JsonLines) -> None:
        """Store them; nothing is opened yet."""
        self.sensor = sensor
        self._users = users
        self.files = {file.domain.name: file for file in files}
        self.due_s = 0.0
        self.problem: str | None = None
        self.first_error: BaseException | None = None
        self.has_begun = False
        self.busy_since_s: float | None = None
        self.longest_s = 0.0
        self.failures = 0
        self._machine = machine
        self._reader: Reader | None = None
        self._in_a_row = 0
        self._opened = False
        self._reopened = False

    def poll(self) -> None:
        """Read once, on the thread; a failure is recorded and remembered, whatever it is."""
        self.busy_since_s = time.monotonic()
        try:
            if self._reader is None:
                self._open()
            self._read()
            self._in_a_row = 0
        except BaseException as error:  # noqa: BLE001 - a reader's failure, SystemExit too, must not end the thread
            self._failed(error)
        finally:
            self.has_begun = True
            self.busy_since_s = None

    def _open(self) -> None:
        domains = tuple(file.domain for file in self.files.values())
        self._reader = self.sensor.open(self._machine, domains)
        for file in self.files.values():
            file.expect(self._reader.period_s)
        self._reopened, self._opened = self._opened, True

    def _read(self) -> None:
        assert self._reader is not None  # noqa: S101 - `poll` has opened it
        begin_s, begin_ns = time.monotonic(), _core.now_ns()
        found = list(self._reader.read())
        took_ns = _core.now_ns() - begin_ns
        self.longest_s = max(self.longest_s, took_ns * 1e-9)
        self.due_s = begin_s + max(self._reader.period_s, SHORTEST_S)
        readings = [reading for reading in found if not isinstance(reading, Users)]
        for users in found:
            if isinstance(users, Users):
                self._users.append(_as_line(users))
        seen = set()
        for reading in readings:
            file = self.files.get(reading.domain)
            if file is not None:
                reopened = self._reopened and reading.domain not in seen
                problem = file.take(reading, took_ns=took_ns, reopened=reopened)
                if problem is None:
                    seen.add(reading.domain)
                else:
                    self._remember(f"a read of {reading.domain} {problem}", 1)
        if readings:
            self._reopened = False

    def _failed(self, error: BaseException) -> None:
        self.first_error = self.first_error or error
        self._remember(said_by(error), 1)
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
        for file in self.files.values():
            file.fail(number)
        self.due_s = time.monotonic() + AGAIN_S
        self._in_a_row += 1
        if self._in_a_row > 1:
            self.close()

    def _remember(self, problem: str, count: int) -> None:
        self.problem = self.problem or problem
        self.failures += count

    def awaits_change(self, changes: dict[str, int], waited_s: float) -> bool:
        """Return whether a count that should update has not changed since it had so many changes."""
        return self._in_a_row == 0 and any(
            file.changes == changes[name] and waited_s < UPDATES * (file.domain.accuracy.update_s or 0.0)
            for name, file in self.files.items()
            if file.domain.accuracy.shows is Quantity.ENERGY
        )

    def end(self) -> None:
        """Close the reader, on the thread, and let what it showed last stand until now."""
        self.close()
        if not self._in_a_row:
            for file in self.files.values():
                file.hold()

    def close(self) -> None:
        """Close the reader, on the thread."""
        reader, self._reader = self._reader, None
        if reader is not None:
            try:
                reader.close()
            except BaseException as error:  # noqa: BLE001 - as in `poll`
                self._remember(said_by(error), 0)


class PythonSensors:
    """The thread, and the files that it writes."""

    def __init__(self, machine: Machine, sensors: Sequence[tuple[Sensor, Sequence[DomainFile]]], users: Path) -> None:
        """Store them; `start` begins. `users` is the file of the processes that use devices."""
        self._users = JsonLines(users)
        self._opened = [OpenedSensor(sensor, machine, files, self._users) for sensor, files in sensors]
        self._thread: OwnThread | None = None
        self._stopping = self._ended = False
        self._problem: str | None = None
        self.cpu_ns = 0
        """CPU time of the thread until its last reading: a call of a GPU's driver may compute for some ms."""

    def start(self, *, strict: bool) -> None:
        """Start the thread, and wait until each sensor was read once, or for `FIRST_S`.

        Raises SensorError if one of them could not be opened and `strict`.
        """
        if not self._opened:
            return
        this_process.pause_around_forks(self)
        self.resume()
        _wait(lambda: self._thread is None or all(one.has_begun for one in self._opened), FIRST_S)
        failed = next((one for one in self._opened if one.first_error is not None), None)
        if strict and failed is not None:
            problem = failed.problem
            self.stop()
            raise SensorError(f"{failed.sensor.name} gives no energy: {problem}") from failed.first_error
        if strict and self._problem is not None:
            raise SensorError(f"{self._opened[0].sensor.name} gives no energy: {self._problem}")

    def stop(self) -> list[str]:
        """End the thread after a last reading; returns a sentence on each sensor that failed."""
        if not self._opened:
            return []
        this_process.pause_no_more(self)
        self._stopping = True
        self._end(2 * LAST_S)
        self._ended = True
        notes = [note for one in self._opened if (note := _note(one)) is not None]
        if self._problem is not None:
            notes = [f"sensors that Python reads have no energy from some time on: {self._problem}"]
        for one in self._opened:
            for file in one.files.values():
                file.close()
        self._users.close()
        return notes

    def pause(self) -> None:
        """End the thread until `resume`; one whose read takes longer goes on."""
        busy = [one.busy_since_s for one in self._opened if one.busy_since_s is not None]
        hangs = any(time.monotonic() - since_s > UNSEEN_S for since_s in busy)
        self._end(0 if hangs else FORK_S)

    def _end(self, timeout_s: float) -> None:
        thread = self._thread
        if thread is not None and not thread.is_this and thread.end(timeout_s):
            self._thread = None

    def resume(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None and not self._stopping:
            try:
                self._thread = OwnThread(self._run, THREAD_NAME)
            except RuntimeError as error:
                self._problem = f"no thread could be started ({error})"

    def _run(self, thread: OwnThread) -> None:
        due_s, earlier_ns = 0.0, self.cpu_ns
        while not (self._stopping or thread.is_over(max(due_s - time.monotonic(), 0.0))):
            for one in self._opened:
                if one.due_s <= time.monotonic() and not self._stopping:
                    one.poll()
            due_s = min(one.due_s for one in self._opened)
            self.cpu_ns = earlier_ns + time.thread_time_ns()
        if self._stopping:
            self._read_last()
            for one in self._opened:
                one.end()
        self.cpu_ns = earlier_ns + time.thread_time_ns()

    def _read_last(self) -> None:
        """Read the joules of the program's last moments, which appear at a sensor's next update."""
        begin_s = time.monotonic()
        before = [{name: file.changes for name, file in one.files.items()} for one in self._opened]
        # What takes long to read has just been read: reading it again would only delay the program's end.
        quick = [one.longest_s < LAST_S / 2 for one in self._opened]
        waiting = [
            pair for pair, is_quick in zip(zip(self._opened, before, strict=True), quick, strict=True) if is_quick
        ]
        while waiting and not self._ended:
            for one, _ in waiting:
                one.poll()
            waited_s = time.monotonic() - begin_s
            waiting = [(one, changes) for one, changes in waiting if one.awaits_change(changes, waited_s)]
            if not waiting or waited_s >= LAST_S:
                return
            time.sleep(max(min(one.due_s for one, _ in waiting) - time.monotonic(), SHORTEST_S))


def _note(one: OpenedSensor) -> str | None:
    name = one.sensor.name
    busy_s = 0.0 if one.busy_since_s is None else time.monotonic() - one.busy_since_s
    is_slow = one.longest_s >= LAST_S and busy_s <= USUAL_READS * one.longest_s
    if busy_s and not is_slow:
        return (
            f"{name} has not answered for {busy_s:.3g} s: its energy since then is "
            "missing, and that of sensors read after it"
        )
    if not one.has_begun:
        return f"{name} was not read: a sensor before it did not answer"
    if one.problem is None:
        silent = sorted(file.domain.name for file in one.files.values() if not file.changes)
        return f"{name} gave no value of {', '.join(silent)}" if silent else None
    if not one.failures:
        return f"{name} could not be closed: {one.problem}"
    times = "once" if one.failures == 1 else f"{one.failures} times"
    return f"{name} could not be read {times}, so energy may be missing: {one.problem}"


def said_by(error: BaseException) -> str:
    """Return what an exception says; the name of its class too, unless it was raised for users."""
    if isinstance(error, SensorError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


def _wait(condition: Callable[[], bool], longest_s: float) -> None:
    deadline_s = time.monotonic() + longest_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(SHORTEST_S)
