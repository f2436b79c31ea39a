"""The slices of a trace of Perfetto, with what the table of instances says of each as debug annotations.

Packets are filled again and again instead of made anew, which is quicker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from .slices import END, MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from .flows import Flows
    from .perfetto_packets import Sequence
    from .slices import ThreadSlices

CHUNK = 50_000
EXACT = ("energy_j",)
ROUNDED = ("energy_low_j", "energy_high_j", "power_w")
"""Written with the 24 bits of a short float: their other bits are noise, and would take half of the file."""
WHERE_ANY = ("native_j", "gpu_j")
UNNAMED = "(unknown task)"


class SliceFigures:
    """What slices say of the instances of a part."""

    def __init__(self, tasks: pd.DataFrame, quality: str, flows: Flows) -> None:
        """Take it from the part's table of instances, with the arrows between them."""
        self.quality = quality
        self._names = [*map(str, tasks["task"].cat.categories), UNNAMED]
        self._code = tasks["task"].cat.codes.to_numpy()
        self.instance = tasks["instance"].to_numpy()
        self.flows = flows
        self.cpu = tasks["cpu"].to_numpy()
        self.failed = tasks["failed"].to_numpy(bool)
        self.key = tasks["key"].to_numpy() if "key" in tasks else None
        self.columns = {name: tasks[name].to_numpy() for name in EXACT}
        self.columns |= {name: tasks[name].to_numpy().astype(np.float32) for name in ROUNDED}
        for name in WHERE_ANY:
            if name in tasks:
                self.columns[name] = tasks[name].where(tasks[name] != 0).to_numpy().astype(np.float32)

    def name(self, row: int) -> str:
        """Return the name of an instance's task."""
        return self._names[int(self._code[row])]


class SliceWriter:
    """Writes the slices of one thread, part after part."""

    def __init__(self, sequence: Sequence, shift_ns: int, *, cpu_time: int | None) -> None:
        """Write to a sequence of packets, with times so much later.

        `cpu_time` is the track of the thread's CPU time, which it also has before its first slice and after its last.
        """
        self._sequence, self._shift_ns = sequence, shift_ns
        self._begin, self._later, self._end = _Begin(sequence), _Continuation(sequence), sequence.packet()
        self._end.track_event.type = TrackEvent.TYPE_SLICE_END
        self._mark = sequence.packet()
        self._mark.track_event.type, self._mark.track_event.track_uuid = TrackEvent.TYPE_COUNTER, cpu_time or 0
        self._cpu_ns = 0

    def write(self, one: ThreadSlices, figures: SliceFigures) -> Iterator[int]:
        """Write the slices of a part; yields how many instances were written since the last time."""
        begin, sequence = self._begin, self._sequence
        for at in range(0, len(one), CHUNK):
            part = slice(at, at + CHUNK)
            t_ns = (one.t_ns[part] + self._shift_ns).tolist()
            rows, continues = one.row[part], one.continues[part]
            cpu_ns = None
            if one.cpu_ns is not None:
                cpu_ns = np.diff(one.cpu_ns[part], prepend=self._cpu_ns).tolist()
                self._cpu_ns = int(one.cpu_ns[part][-1])
            begins = (rows >= 0) & ~continues
            begin.take(figures, rows[begins])
            for place, (row, again) in enumerate(zip(rows.tolist(), continues.tolist(), strict=True)):
                if row == MARK and cpu_ns is not None:
                    self._mark.track_event.counter_value = cpu_ns[place]
                    sequence.write(self._mark, t_ns[place])
                    continue
                if row == END:
                    packet = self._end
                elif again:
                    packet = self._later.packet(figures.name(row), int(figures.instance[row]))
                else:
                    packet = begin.next_packet()
                if cpu_ns is not None:
                    packet.track_event.extra_counter_values[:] = (cpu_ns[place],)
                sequence.write(packet, t_ns[place])
            yield int(begins.sum())


class _Shape:
    """A packet for all instances that lack the same values."""

    def __init__(self, sequence: Sequence, figures: SliceFigures, has: list[bool]) -> None:
        self.packet = sequence.packet()
        self.event = self.packet.track_event
        self.event.type = TrackEvent.TYPE_SLICE_BEGIN
        self.event.category_iids.append(sequence.number_of("event_categories", "task"))
        self.figures = [
            (self._annotation(sequence, name), index) for index, name in enumerate(figures.columns) if has[index]
        ]
        has_cpu, has_failed, has_key = has[len(figures.columns) :]
        self.instance = self._annotation(sequence, "instance")
        self.cpu = self._annotation(sequence, "cpu") if has_cpu else None
        quality = self._annotation(sequence, "quality")
        quality.string_value_iid = sequence.number_of("debug_annotation_string_values", figures.quality)
        if has_failed:
            self._annotation(sequence, "failed").bool_value = True
        self.key = self._annotation(sequence, "key") if has_key else None

    def _annotation(self, sequence: Sequence, name: str) -> Any:
        return self.event.debug_annotations.add(name_iid=sequence.number_of("debug_annotation_names", name))


class _Begin:
    """The packets with which instances begin, in order."""

    def __init__(self, sequence: Sequence) -> None:
        self._sequence = sequence
        self._shapes: dict[int, _Shape] = {}
        self._at = 0

    def take(self, figures: SliceFigures, rows: NDArray[np.int64]) -> None:
        """Take the instances of a part that begin next."""
        self._figures = figures
        values = [column[rows] for column in figures.columns.values()]
        keys = None if figures.key is None else figures.key[rows]
        has_key = np.zeros(len(rows), bool) if keys is None else np.array([key is not None for key in keys], bool)
        has = [~np.isnan(column) for column in values] + [figures.cpu[rows] >= 0, figures.failed[rows], has_key]
        self._shape = sum((bits.astype(np.int64) << place for place, bits in enumerate(has)), 0 * rows).tolist()
        self._count = len(has)
        self._values = [column.astype(np.float64).tolist() for column in values]
        self._cpu = figures.cpu[rows].tolist()
        self._keys = [] if keys is None else keys.tolist()
        self._instance = figures.instance[rows].tolist()
        self._name = [figures.name(row) for row in rows.tolist()]
        self._at = 0

    def next_packet(self) -> Any:
        """Return the packet of the next instance."""
        at, figures = self._at, self._figures
        self._at += 1
        shape = self._shapes.get(self._shape[at])
        if shape is None:
            has = [bool(self._shape[at] >> place & 1) for place in range(self._count)]
            shape = self._shapes[self._shape[at]] = _Shape(self._sequence, figures, has)
        event = shape.event
        event.name_iid = self._sequence.number_of("event_names", self._name[at])
        for annotation, index in shape.figures:
            annotation.double_value = self._values[index][at]
        shape.instance.uint_value = self._instance[at]
        if shape.cpu is not None:
            shape.cpu.int_value = self._cpu[at]
        if shape.key is not None:
            shape.key.string_value = str(self._keys[at])
        event.flow_ids[:] = figures.flows.leaving.get(self._instance[at], ())
        event.terminating_flow_ids[:] = figures.flows.arriving.get(self._instance[at], ())
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
