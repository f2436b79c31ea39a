"""The slices of a trace of Perfetto, with what the table of instances says of each as debug annotations.

Packets are filled again and again instead of made anew, which is quicker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from .flows import Flows
from .slices import END, MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile

    from .perfetto_packets import Sequence
    from .slices import ThreadSlices

CHUNK = 50_000
EXACT = ("energy_j",)
ROUNDED = ("energy_low_j", "energy_high_j", "power_w")
"""Written with the 24 bits of a short float: their other bits are noise, and would take half of the file."""
WHERE_ANY = ("native_j", "gpu_j")
UNNAMED = "(unknown task)"


class Slices:
    """Writes threads of one profile."""

    def __init__(self, profile: Profile) -> None:
        """Take from the tables what slices say."""
        tasks = profile.tasks
        self.quality = str(profile.info["quality"])
        self._names = [*map(str, tasks["task"].cat.categories), UNNAMED]
        self._code = tasks["task"].cat.codes.to_numpy()
        self.instance = tasks["instance"].to_numpy()
        self.cpu = tasks["cpu"].to_numpy()
        self.failed = tasks["failed"].to_numpy(bool)
        self.key = tasks["key"].to_numpy() if "key" in tasks else None
        self.values = {name: tasks[name].to_numpy() for name in EXACT}
        self.values |= {name: tasks[name].to_numpy().astype(np.float32) for name in ROUNDED}
        for name in WHERE_ANY:
            if name in tasks:
                self.values[name] = tasks[name].where(tasks[name] != 0).to_numpy().astype(np.float32)
        self.flows = Flows.of(profile)

    def write(self, sequence: Sequence, one: ThreadSlices, shift_ns: int, *, cpu_time: int | None) -> Iterator[int]:
        """Write a thread's slices; yields how many instances were written since the last time.

        `cpu_time` is the track of its CPU time, which it also has before its first slice and after its last one.
        """
        begin, later, end = _Begin(sequence, self), _Continuation(sequence), sequence.packet()
        end.track_event.type = TrackEvent.TYPE_SLICE_END
        mark = sequence.packet()
        mark.track_event.type, mark.track_event.track_uuid = TrackEvent.TYPE_COUNTER, cpu_time or 0
        last_cpu_ns = 0
        for at in range(0, len(one), CHUNK):
            part = slice(at, at + CHUNK)
            t_ns = (one.t_ns[part] + shift_ns).tolist()
            rows, continues = one.row[part], one.continues[part]
            cpu_ns = None
            if one.cpu_ns is not None:
                cpu_ns = np.diff(one.cpu_ns[part], prepend=last_cpu_ns).tolist()
                last_cpu_ns = int(one.cpu_ns[part][-1])
            begins = (rows >= 0) & ~continues
            begin.take(rows[begins])
            for place, (row, again) in enumerate(zip(rows.tolist(), continues.tolist(), strict=True)):
                if row == MARK and cpu_ns is not None:
                    mark.track_event.counter_value = cpu_ns[place]
                    sequence.write(mark, t_ns[place])
                    continue
                if row == END:
                    packet = end
                elif again:
                    packet = later.packet(self.name(row), int(self.instance[row]))
                else:
                    packet = begin.next_packet()
                if cpu_ns is not None:
                    packet.track_event.extra_counter_values[:] = (cpu_ns[place],)
                sequence.write(packet, t_ns[place])
            yield int(begins.sum())

    def name(self, row: int) -> str:
        """Return the name of an instance's task."""
        return self._names[int(self._code[row])]


class _Shape:
    """A packet for all instances that lack the same values."""

    def __init__(self, sequence: Sequence, slices: Slices, has: list[bool]) -> None:
        self.packet = sequence.packet()
        self.event = self.packet.track_event
        self.event.type = TrackEvent.TYPE_SLICE_BEGIN
        self.event.category_iids.append(sequence.number_of("event_categories", "task"))
        self.values = [
            (self._annotation(sequence, name), index) for index, name in enumerate(slices.values) if has[index]
        ]
        has_cpu, has_failed, has_key = has[len(slices.values) :]
        self.instance = self._annotation(sequence, "instance")
        self.cpu = self._annotation(sequence, "cpu") if has_cpu else None
        quality = self._annotation(sequence, "quality")
        quality.string_value_iid = sequence.number_of("debug_annotation_string_values", slices.quality)
        if has_failed:
            self._annotation(sequence, "failed").bool_value = True
        self.key = self._annotation(sequence, "key") if has_key else None

    def _annotation(self, sequence: Sequence, name: str) -> Any:
        return self.event.debug_annotations.add(name_iid=sequence.number_of("debug_annotation_names", name))


class _Begin:
    """The packets with which instances begin, in order."""

    def __init__(self, sequence: Sequence, slices: Slices) -> None:
        self._sequence, self._slices = sequence, slices
        self._shapes: dict[int, _Shape] = {}
        self._at = 0

    def take(self, rows: NDArray[np.int64]) -> None:
        """Take the instances that begin next."""
        slices = self._slices
        values = [column[rows] for column in slices.values.values()]
        keys = None if slices.key is None else slices.key[rows]
        has_key = np.zeros(len(rows), bool) if keys is None else np.array([key is not None for key in keys], bool)
        has = [~np.isnan(column) for column in values] + [slices.cpu[rows] >= 0, slices.failed[rows], has_key]
        self._shape = sum((bits.astype(np.int64) << place for place, bits in enumerate(has)), 0 * rows).tolist()
        self._count = len(has)
        self._values = [column.astype(np.float64).tolist() for column in values]
        self._cpu = slices.cpu[rows].tolist()
        self._keys = [] if keys is None else keys.tolist()
        self._instance = slices.instance[rows].tolist()
        self._name = [slices.name(row) for row in rows.tolist()]
        self._rows, self._at = rows.tolist(), 0

    def next_packet(self) -> Any:
        """Return the packet of the next instance."""
        at, slices = self._at, self._slices
        self._at += 1
        shape = self._shapes.get(self._shape[at])
        if shape is None:
            has = [bool(self._shape[at] >> place & 1) for place in range(self._count)]
            shape = self._shapes[self._shape[at]] = _Shape(self._sequence, slices, has)
        event = shape.event
        event.name_iid = self._sequence.number_of("event_names", self._name[at])
        for annotation, index in shape.values:
            annotation.double_value = self._values[index][at]
        shape.instance.uint_value = self._instance[at]
        if shape.cpu is not None:
            shape.cpu.int_value = self._cpu[at]
        if shape.key is not None:
            shape.key.string_value = str(self._keys[at])
        if slices.flows is not None:
            event.flow_ids[:], event.terminating_flow_ids[:] = slices.flows.of_row(self._rows[at])
        return shape.packet


class _Continuation:
    """The packets with which later pieces of suspended instances begin."""

    def __init__(self, sequence: Sequence) -> None:
        self._sequence = sequence
        self._packet: Any = None

    def packet(self, name: str, instance: int) -> Any:
        """Return the packet of a piece."""
        sequence = self._sequence
        if self._packet is None:
            self._packet = sequence.packet()
            event = self._packet.track_event
            event.type = TrackEvent.TYPE_SLICE_BEGIN
            event.category_iids.append(sequence.number_of("event_categories", "task"))
            event.debug_annotations.add(name_iid=sequence.number_of("debug_annotation_names", "instance"))
            again = event.debug_annotations.add(name_iid=sequence.number_of("debug_annotation_names", "continues"))
            again.bool_value = True
        event = self._packet.track_event
        event.name_iid = sequence.number_of("event_names", name)
        event.debug_annotations[0].uint_value = instance
        return self._packet
