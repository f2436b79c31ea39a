"""A profile as a trace of Perfetto: slices with joules, counters of watts and joules, arrows for dependences.

Times are CLOCK_MONOTONIC, of a job UNIX time, and the first packet says what the wall clock showed. Each thread writes
a sequence of packets of its own; those of a recording that is read in windows take turns. What a slice says stands in
its begin, so that its end is a time only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BUILTIN_CLOCK_MONOTONIC,
    BUILTIN_CLOCK_REALTIME,
    TracePacket,
    TrackEventDefaults,
)
from tprof.analysis.names import shown

from .flows import Flows
from .hosts import Host, hosts_of, wall_clock
from .perfetto_counters import write_counters
from .perfetto_facts import write_facts
from .perfetto_packets import PacketFile, Sequence, unique_id
from .perfetto_slices import SliceFigures, SliceWriter
from .slices import share_slices
from .whole_file import written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    import pandas as pd
    from tprof.analysis.profile import Profile

    from tprof.trace import Thread

    from .formats import Progress
    from .slices import ThreadSlices

ABOVE_PIDS = 1 << 22
"""The kernel gives no process and no thread a higher number."""


def write_perfetto(profile: Profile, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
    """Write a trace that https://ui.perfetto.dev and `trace_processor` open.

    Parameters
    ----------
    profile : of a session or a job
    path : the file, by custom `NAME.pftrace`; a file of that name is replaced
    progress : is told how many instances are written

    Raises
    ------
    TprofError
        The file cannot be written.
    """
    with written(path) as stream:
        file = PacketFile(stream)
        writer = _Writer(file, profile.sums.rows, progress)
        for host in hosts_of(profile):
            writer.write(host)
        write_facts(file, profile, writer.span_ns, (writer.clock, writer.next_sequence()))
        file.flush()


class _Writer:
    """Writes the hosts of a trace one after the other."""

    def __init__(self, file: PacketFile, instances: int, progress: Progress | None) -> None:
        self.clock = BUILTIN_CLOCK_MONOTONIC
        self._file, self._instances, self._progress = file, instances, progress
        self._sequences = self._written = 0
        self._used: set[int] = set()
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def span_ns(self) -> tuple[int, int]:
        """The begin of the first recorded block and the end of the last one."""
        return min(self._starts, default=0), max(self._ends, default=0)

    def next_sequence(self) -> int:
        """Return a number for a sequence of packets."""
        self._sequences += 1
        return self._sequences

    def write(self, host: Host) -> None:
        """Write the tracks, slices and counters of a host."""
        if not self._sequences:
            self.clock = BUILTIN_CLOCK_MONOTONIC if host.name is None else BUILTIN_CLOCK_REALTIME
            self._write_clocks(host)
        trace = host.profile.trace
        self._starts.append(trace.start_ns + host.shift_ns)
        self._ends.append(trace.end_ns + host.shift_ns)
        processes: dict[int, tuple[int, int]] = {}
        threads: dict[int, SliceWriter] = {}
        quality, flows = str(host.profile.info["quality"]), Flows.of(host.profile)

        def take(tasks: pd.DataFrame, parts: Iterable[ThreadSlices]) -> None:
            figures = SliceFigures(tasks, quality, flows)
            for one in parts:
                thread = one.thread
                if thread.process not in processes:
                    processes[thread.process] = self._process(host, thread)
                if thread.ordinal not in threads:
                    threads[thread.ordinal] = self._thread(host, one, processes[thread.process])
                for done in threads[thread.ordinal].write(one, figures):
                    self._written += done
                    if self._progress is not None:
                        self._progress("slices", self._written, self._instances)
                if one.is_last:
                    del threads[thread.ordinal]

        share_slices(host.profile, take, self._progress)
        write_counters(self._file, host, self.clock, self.next_sequence)

    def _write_clocks(self, host: Host) -> None:
        packet = TracePacket(trusted_packet_sequence_id=self.next_sequence())
        packet.clock_snapshot.primary_trace_clock = self.clock
        known = wall_clock(host)
        at, wall_ns = known or (host.profile.trace.start_ns, None)
        packet.clock_snapshot.clocks.add(clock_id=BUILTIN_CLOCK_MONOTONIC, timestamp=at)
        if wall_ns is not None:
            packet.clock_snapshot.clocks.add(clock_id=BUILTIN_CLOCK_REALTIME, timestamp=wall_ns)
        self._file.write(packet.SerializeToString())

    def _process(self, host: Host, thread: Thread) -> tuple[int, int]:
        """Describe a process; returns its track and its number in the trace."""
        pid = self._free(thread.pid)
        track = unique_id(host.profile.trace.path.name, host.name, "process", thread.process)
        packet = TracePacket(trusted_packet_sequence_id=1)
        packet.track_descriptor.uuid = track
        described = packet.track_descriptor.process
        described.pid, described.process_name = pid, host.program
        described.cmdline.extend(shown(str(word)) for word in host.profile.trace.manifest.get("argv") or ())
        labels = host.profile.trace.labels.get(thread.process, {})
        described.process_labels.extend(f"{name}={value}" for name, value in sorted(labels.items()))
        if pid != thread.pid and thread.pid:
            described.process_labels.append(f"pid={thread.pid}")
        self._file.write(packet.SerializeToString())
        return track, pid

    def _thread(self, host: Host, one: ThreadSlices, process: tuple[int, int]) -> SliceWriter:
        """Describe a thread and its CPU time, from where its slices begin; returns what writes these."""
        thread, (above, pid) = one.thread, process
        track = unique_id(above, "thread", thread.ordinal)
        packet = TracePacket(trusted_packet_sequence_id=1)
        packet.track_descriptor.uuid, packet.track_descriptor.parent_uuid = track, above
        described = packet.track_descriptor.thread
        described.pid, described.thread_name = pid, one.name
        is_main = thread.tid == thread.pid
        described.tid = pid if is_main and self._main(pid) else self._free(thread.tid)
        self._file.write(packet.SerializeToString())
        defaults = TrackEventDefaults(track_uuid=track)
        cpu_time = None if one.cpu_ns is None else self._cpu_time(track)
        if cpu_time is not None:
            defaults.extra_counter_track_uuids.append(cpu_time)
        begin_ns = int(one.t_ns[0]) + host.shift_ns
        sequence = Sequence(self._file, self.next_sequence(), begin_ns, self.clock, defaults=defaults)
        return SliceWriter(sequence, host.shift_ns, cpu_time=cpu_time)

    def _cpu_time(self, thread_track: int) -> int:
        packet = TracePacket(trusted_packet_sequence_id=1)
        track = packet.track_descriptor.uuid = unique_id(thread_track, "cpu time")
        packet.track_descriptor.parent_uuid = thread_track
        counter = packet.track_descriptor.counter
        counter.type, counter.unit = counter.COUNTER_THREAD_TIME_NS, counter.UNIT_TIME_NS
        counter.is_incremental = True
        self._file.write(packet.SerializeToString())
        return track

    def _main(self, pid: int) -> bool:
        """Return whether a main thread is the first one with its process's number, which it has then."""
        key = -pid - 1
        if key in self._used:
            return False
        self._used.add(key)
        return True

    def _free(self, number: int) -> int:
        """Return the number of a process or thread, another one where it is not known or taken.

        Perfetto joins what has the same number: threads of several hosts, and those that the kernel numbered again.
        """
        if number <= 0 or number in self._used:
            number = ABOVE_PIDS + len(self._used) + 1
        self._used.add(number)
        return number
