"""The session of a process that owns it: makes the directory, reads the sensors, and ends it for all members.

The owner is the process of `tprof.record`, or a host recorder, which records no tasks itself.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from tprof import _core, log

from . import disk_helper, guarded, sums_keeper
from .ending import LACKED_THREAD, Ending, identity_of
from .preparation import prepare
from .process_state import Uninterrupted

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.trace.running import Lock

    from .companions import Origin
    from .membership import Plan
    from .options import RecordingOptions
    from .preparation import Preparation
    from .python_sensors import PythonSensors

IDLE_S = 1 / 3


class OwnedSession:
    """A session from its directory's creation to its end.

    Attributes
    ----------
    path : the session directory
    notes : sentences for the user on the chosen sensors and counters
    """

    def __init__(
        self, path: Path, options: RecordingOptions, *, origin: Origin | None = None, overwrite: bool = False
    ) -> None:
        """Choose sensors and counters, and make the directory. Raises SensorError, UsageError and TprofError."""
        from tprof.trace.directory import create_session  # noqa: PLC0415 - kept off `import tprof`

        self.path = path
        self._options = options
        self._prepared: Preparation = prepare(path, options, origin=origin)
        self.notes = self._prepared.notes
        create_session(path, overwrite=overwrite)
        self._pid, self._identity = os.getpid(), identity_of(path)
        self._lock: Lock | None = None
        self._sensors: PythonSensors | None = None

    @property
    def plan(self) -> Plan:
        """What every member records."""
        return self._prepared.plan

    def begin(self) -> int:
        """Begin to read the sensors, and read the idle machine; returns the owner's ordinal. Raises OSError."""
        from tprof.trace.directory import SUBDIRECTORIES  # noqa: PLC0415 - kept off `import tprof`
        from tprof.trace.manifest import write_manifest  # noqa: PLC0415
        from tprof.trace.running import Lock  # noqa: PLC0415

        prepared = self._prepared
        with Uninterrupted():
            for name in SUBDIRECTORIES:
                (self.path / name).mkdir(mode=0o700)
            write_manifest(self.path, prepared.manifest)
            process = _core.session_create(os.fspath(self.path))
            self._lock = Lock(self.path)
            _core.set_segment_bytes(self.plan.segment_bytes)
            _core.sensors_start(prepared.sources(), self._options.poller_share)
            self._sensors = prepared.python_sensors()
            disk_helper.start(self.path, self._options)
        log.debug("session", "a native thread reads %d sources of process %d", len(prepared.sources()), self._pid)
        self._sensors.start(strict=self._options.energy != "auto")
        if self._options.keeps_summary:
            sums_keeper.start(self.path)
        self._read_idle()
        return process

    def begin_block(self) -> None:
        """Let the recorded block begin: readings until here do not belong to it. Raises OSError.

        A child that joins finds a complete manifest in any case.
        """
        from tprof.trace.manifest import write_manifest  # noqa: PLC0415 - kept off `import tprof`

        self._prepared.manifest["clock"]["block_start_ns"] = _core.now_ns()
        write_manifest(self.path, self._prepared.manifest)

    def stop_sensors(self, *, native: bool = True) -> tuple[str, ...]:
        """Stop reading; returns sentences on what failed meanwhile. Without `native` the core's sensors go on."""
        notes = () if self._sensors is None else tuple(self._sensors.stop())
        lacked = (LACKED_THREAD,) if _core.sensors_refused() else ()
        if native:
            _core.sensors_stop()
        helped = self._options.looks_after_disk or self._options.keeps_summary
        killed = guarded.was_killed(self.path) if helped else None
        return (*notes, *lacked, *filter(None, [killed]))

    def ending(self, stopped: str, *, lost_definitions: int, notes: tuple[str, ...]) -> Ending:
        """Return what is written at the end."""
        readers_cpu_ns = 0 if self._sensors is None else self._sensors.cpu_ns
        return Ending(self.path, self._identity, self._pid, stopped, lost_definitions, notes, readers_cpu_ns)

    def unlock(self) -> None:
        """Let others see that the recording does not run any more."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def await_sums(self) -> list[str]:
        """Wait for the sums of all that was recorded, if they are kept; returns a sentence on a failure."""
        return sums_keeper.wait(self.path) if self._options.keeps_summary else []

    def await_disk(self) -> None:
        """Wait until what is to be compressed is; after `unlock`."""
        from tprof.trace.directory import await_disk_helper  # noqa: PLC0415 - kept off `import tprof`

        await_disk_helper(self.path)

    def undo(self) -> None:
        """Remove the files of a recording that could not begin."""
        import shutil  # noqa: PLC0415 - kept off the start of recordings

        if self._sensors is not None:
            self._sensors.stop()
        _core.sensors_stop()
        self.unlock()
        shutil.rmtree(self.path, ignore_errors=True)

    def _read_idle(self) -> None:
        """Read the sensor before the program runs: this separates static power from the tasks'."""
        measured = any(domain.quality == "measured" for domain in self._prepared.choice.domains)
        asked_s = self._options.idle_s
        idle_s = asked_s if asked_s is not None else IDLE_S if measured else 0.0
        if idle_s > 0:
            time.sleep(idle_s)
