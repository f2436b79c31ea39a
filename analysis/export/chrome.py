"""A profile as trace events in JSON, which chrome://tracing, Perfetto, speedscope and many other tools open.

A slice is a complete event with its joules as arguments and its CPU time as `tdur`. Where a recording is read in
windows, one that goes on in the next window has an event for its begin and one for its end. Times are microseconds with
three decimals: of CLOCK_MONOTONIC, of a job UNIX time. Events are written as they come.
"""

from __future__ import annotations

import json
import math
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from .counters import counters_of
from .facts import facts_of
from .flows import Flows
from .hosts import Host, hosts_of
from .slices import END, MARK, share_slices
from .whole_file import written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    import pandas as pd
    from tprof.analysis.profile import Profile

    from .formats import Progress
    from .slices import ThreadSlices

CHUNK = 50_000
DIGITS = {"energy_j": 17, "energy_low_j": 7, "energy_high_j": 7, "power_w": 7, "native_j": 7, "gpu_j": 7}
"""Significant digits of what slices say; joules are written whole."""
UNNAMED = "(unknown task)"


def write_chrome(profile: Profile, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
    """Write trace events as JSON.

    Raises
    ------
    TprofError
        The file cannot be written.
    """
    with written(path) as file:
        writer = _Writer(file, profile.sums.rows, progress)
        file.write(b'{"traceEvents":[\n')
        for host in hosts_of(profile):
            writer.write(host)
        file.write(b'\n],"displayTimeUnit":"ns","tprof":')
        file.write(json.dumps(facts_of(profile)).encode() + b"}\n")


class _Writer:
    """Writes the hosts one after the other, each process of each with a number of its own."""

    def __init__(self, file: IO[bytes], instances: int, progress: Progress | None) -> None:
        self._file, self._instances, self._progress = file, instances, progress
        self._written = 0
        self._begun = False
        self._pids: set[int] = set()

    def write(self, host: Host) -> None:
        """Write the events of a host."""
        counters_pid = self._pid(0, f"{host.program}: energy")
        pids: dict[int, int] = {}
        tids: set[tuple[int, int]] = set()
        threads: dict[int, _Thread] = {}
        quality, flows = str(host.profile.info["quality"]), Flows.of(host.profile)

        def take(tasks: pd.DataFrame, parts: Iterable[ThreadSlices]) -> None:
            figures = _Figures(tasks, quality, flows)
            for one in parts:
                thread = one.thread
                if thread.process not in pids:
                    pids[thread.process] = self._pid(thread.pid, host.program)
                if thread.ordinal not in threads:
                    pid, tid = pids[thread.process], thread.tid
                    while tid <= 0 or (pid, tid) in tids:
                        tid = (1 << 22) + len(tids) + 1
                    tids.add((pid, tid))
                    self._event({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": one.name}})
                    threads[thread.ordinal] = _Thread(f'"pid":{pid},"tid":{tid}', host.shift_ns)
                for text in threads[thread.ordinal].events(one, figures):
                    self._text(text)
                    self._count()
                if one.is_last:
                    del threads[thread.ordinal]

        share_slices(host.profile, take, self._progress)
        for counter in counters_of(host.profile):
            name, unit, _, t_ns, values = counter
            start = f'{{"ph":"C","name":{json.dumps(name)},"pid":{counters_pid},"ts":'
            series = json.dumps(unit)
            for at_ns, value in zip((t_ns + host.shift_ns).tolist(), values.tolist(), strict=True):
                self._text(f'{start}{_us(at_ns)},"args":{{{series}:{value!r}}}}}')

    def _pid(self, pid: int, name: str) -> int:
        """Name a process; returns its number, another one where it is not known or taken."""
        while pid <= 0 or pid in self._pids:
            pid = (1 << 22) + len(self._pids) + 1
        self._pids.add(pid)
        self._event({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        return pid

    def _event(self, event: dict[str, Any]) -> None:
        self._text(json.dumps(event, separators=(",", ":")))

    def _text(self, text: str) -> None:
        self._file.write((",\n" if self._begun else "").encode() + text.encode("utf-8", "replace"))
        self._begun = True

    def _count(self) -> None:
        self._written += 1
        if self._progress is not None and self._written % CHUNK == 0:
            self._progress("slices", self._written, self._instances)


class _Thread:
    """Makes the events of one thread's slices, part after part."""

    def __init__(self, where: str, shift_ns: int) -> None:
        self._where, self._shift_ns = where, shift_ns

    def events(self, one: ThreadSlices, figures: _Figures) -> Iterator[str]:
        """Yield the events of a part in the order in which slices begin, outer ones first.

        A slice that begins and ends in it is one event, any other has one for its begin and one for its end.
        """
        stack: list[_Begin] = []
        tree: list[str] = []
        cpu_ns = None if one.cpu_ns is None else one.cpu_ns.tolist()
        t_ns = (one.t_ns + self._shift_ns).tolist()
        for place, (row, again) in enumerate(zip(one.row.tolist(), one.continues.tolist(), strict=True)):
            if row == MARK:
                continue
            cpu = None if cpu_ns is None else cpu_ns[place]
            if row != END:
                stack.append(_Begin(len(tree), row, again, t_ns[place], cpu))
                tree.append("")
            elif stack:
                begin = stack.pop()
                tree[begin.place] = self._complete(begin, figures, t_ns[place], cpu)
            else:
                tree.append(f'{{"ph":"E",{self._where},"ts":{_us(t_ns[place])}{_tts(cpu)}}}')
            if not stack:
                yield from tree
                tree = []
        for begin in stack:
            tree[begin.place] = self._event("B", begin, figures, _tts(begin.cpu_ns))
        yield from tree

    def _complete(self, begin: _Begin, figures: _Figures, t_ns: int, cpu_ns: int | None) -> str:
        used = "" if cpu_ns is None or begin.cpu_ns is None else f',"tdur":{_us(cpu_ns - begin.cpu_ns)}'
        return self._event("X", begin, figures, f',"dur":{_us(t_ns - begin.t_ns)}{_tts(begin.cpu_ns)}{used}')

    def _event(self, phase: str, begin: _Begin, figures: _Figures, times: str) -> str:
        """Return the event of a slice, and arrows that leave or reach it."""
        row, again = begin.row, begin.again
        text = (
            f'{{"ph":"{phase}","cat":"task","name":{figures.name(row)},{self._where},"ts":{_us(begin.t_ns)}{times},'
            f'"args":{figures.args(row, again=again)}}}'
        )
        return text if again else text + "".join(figures.arrows(row, self._where, begin.t_ns))


class _Begin(NamedTuple):
    """Where a slice begins: its place among the events, the row of its instance, and whether it is a later piece."""

    place: int
    row: int
    again: bool
    t_ns: int
    cpu_ns: int | None


class _Figures:
    """What slices say of the instances of a part."""

    def __init__(self, tasks: pd.DataFrame, quality: str, flows: Flows | None) -> None:
        self._names = [json.dumps(str(name)) for name in tasks["task"].cat.categories] + [json.dumps(UNNAMED)]
        self._instance, self._cpu = tasks["instance"].to_numpy(), tasks["cpu"].to_numpy()
        self._failed = tasks["failed"].to_numpy(bool)
        self._key = tasks["key"].to_numpy() if "key" in tasks else None
        self._code = tasks["task"].cat.codes.to_numpy()
        self._values = {name: tasks[name].to_numpy() for name in DIGITS if name in tasks}
        self._quality = json.dumps(quality)
        self._flows = None if flows is None else flows.between(self._instance)

    def name(self, row: int) -> str:
        """Return the name of an instance's task as JSON."""
        return self._names[int(self._code[row])]

    def args(self, row: int, *, again: bool) -> str:
        """Return the arguments of a slice as JSON."""
        instance = f'"instance":{self._instance[row]}'
        if again:
            return f'{{{instance},"continues":true}}'
        parts = [
            f'"{name}":{values[row]:.{DIGITS[name]}g}'
            for name, values in self._values.items()
            if math.isfinite(values[row]) and not (name in {"native_j", "gpu_j"} and values[row] == 0)
        ]
        parts.append(instance)
        if self._cpu[row] >= 0:
            parts.append(f'"cpu":{self._cpu[row]}')
        parts.append(f'"quality":{self._quality}')
        if self._failed[row]:
            parts.append('"failed":true')
        if self._key is not None and self._key[row] is not None:
            parts.append(f'"key":{json.dumps(str(self._key[row]))}')
        return f"{{{','.join(parts)}}}"

    def arrows(self, row: int, where: str, t_ns: int) -> Iterator[str]:
        """Yield the events of the arrows that leave an instance, and of those that reach it."""
        leaving, arriving = ([], []) if self._flows is None else self._flows.of_row(row)
        for phase, numbers in (("s", leaving), ("f", arriving)):
            end = ',"bp":"e"' if phase == "f" else ""
            for number in numbers:
                name = f'"name":"dependence","cat":"dependence","id":{number}'
                yield f',\n{{"ph":"{phase}",{name},{where},"ts":{_us(t_ns)}{end}}}'


def _tts(cpu_ns: int | None) -> str:
    """Return a thread's CPU time as a field of an event."""
    return "" if cpu_ns is None else f',"tts":{_us(cpu_ns)}'


def _us(ns: int) -> str:
    """Return nanoseconds as microseconds, exactly."""
    return f"{ns // 1000}.{ns % 1000:03d}"
