"""A profile as trace events in JSON, which chrome://tracing, Perfetto, speedscope and many other tools open.

A slice is a complete event with its joules as arguments and its CPU time as `tdur`. Times are microseconds with three
decimals: of CLOCK_MONOTONIC, of a job UNIX time. Events are written as they come.
"""

from __future__ import annotations

import json
import math
from typing import IO, TYPE_CHECKING, Any

from .counters import counters_of
from .facts import facts_of
from .flows import Flows
from .hosts import Host, hosts_of, number_of_instances
from .slices import END, MARK, slices_by_thread
from .whole_file import written

if TYPE_CHECKING:
    import os

    from tprof.analysis.profile import ClusterProfile, Profile

    from .formats import Progress
    from .slices import ThreadSlices

CHUNK = 50_000
DIGITS = {"energy_j": 17, "energy_low_j": 7, "energy_high_j": 7, "power_w": 7, "native_j": 7, "gpu_j": 7}
"""Significant digits of what slices say; joules are written whole."""
UNNAMED = "(unknown task)"


def write_chrome(
    profile: Profile | ClusterProfile, path: str | os.PathLike[str], *, progress: Progress | None = None
) -> None:
    """Write trace events as JSON.

    Raises
    ------
    TprofError
        The file cannot be written.
    """
    with written(path) as file:
        writer = _Writer(file, number_of_instances(profile), progress)
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
        slices = _Slices(host.profile)
        counters_pid = self._pid(0, f"{host.program}: energy")
        pids: dict[int, int] = {}
        tids: set[tuple[int, int]] = set()
        for one in slices_by_thread(host.profile):
            thread = one.thread
            if thread.process not in pids:
                pids[thread.process] = self._pid(thread.pid, host.program)
            pid, tid = pids[thread.process], thread.tid
            while tid <= 0 or (pid, tid) in tids:
                tid = (1 << 22) + len(tids) + 1
            tids.add((pid, tid))
            self._event({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": one.name}})
            for text in slices.events(one, pid, tid, host.shift_ns):
                self._text(text)
                self._count()
        for counter in counters_of(host.profile):
            start = f'{{"ph":"C","name":{json.dumps(counter.name)},"pid":{counters_pid},"ts":'
            series = json.dumps(counter.unit)
            values = zip((counter.t_ns + host.shift_ns).tolist(), counter.values.tolist(), strict=True)
            for t_ns, value in values:
                self._text(f'{start}{_us(t_ns)},"args":{{{series}:{value!r}}}}}')

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


class _Slices:
    """The complete events of one profile."""

    def __init__(self, profile: Profile) -> None:
        tasks = profile.tasks
        self._names = [json.dumps(str(name)) for name in tasks["task"].cat.categories] + [json.dumps(UNNAMED)]
        self._instance, self._cpu = tasks["instance"].to_numpy(), tasks["cpu"].to_numpy()
        self._failed = tasks["failed"].to_numpy(bool)
        self._key = tasks["key"].to_numpy() if "key" in tasks else None
        self._code = tasks["task"].cat.codes.to_numpy()
        self._values = {name: tasks[name].to_numpy() for name in DIGITS if name in tasks}
        self._quality = json.dumps(str(profile.info["quality"]))
        self._flows = Flows.of(profile)

    def events(self, one: ThreadSlices, pid: int, tid: int, shift_ns: int) -> Any:
        """Yield the events of a thread in the order in which their slices begin, outer ones first."""
        where = f'"pid":{pid},"tid":{tid}'
        stack: list[int] = []
        tree: list[str] = []
        begins: list[tuple[int, int, bool]] = []
        cpu_ns = None if one.cpu_ns is None else one.cpu_ns.tolist()
        t_ns = (one.t_ns + shift_ns).tolist()
        for place, (row, again) in enumerate(zip(one.row.tolist(), one.continues.tolist(), strict=True)):
            if row == MARK:
                continue
            if row != END:
                stack.append(len(tree))
                tree.append("")
                begins.append((place, row, again))
                continue
            index = stack.pop()
            begin, begun_row, begun_again = begins[index]
            cpu = "" if cpu_ns is None else f',"tts":{_us(cpu_ns[begin])},"tdur":{_us(cpu_ns[place] - cpu_ns[begin])}'
            tree[index] = (
                f'{{"ph":"X","cat":"task","name":{self._names[self._code[begun_row]]},{where},"ts":{_us(t_ns[begin])},'
                f'"dur":{_us(t_ns[place] - t_ns[begin])}{cpu},"args":{self._args(begun_row, again=begun_again)}}}'
            )
            if not begun_again and self._flows is not None:
                tree[index] += "".join(self._arrows(begun_row, where, t_ns[begin]))
            if not stack:
                yield from tree
                tree, begins = [], []

    def _args(self, row: int, *, again: bool) -> str:
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

    def _arrows(self, row: int, where: str, t_ns: int) -> Any:
        leaving, arriving = ([], []) if self._flows is None else self._flows.of_row(row)
        for phase, numbers in (("s", leaving), ("f", arriving)):
            end = ',"bp":"e"' if phase == "f" else ""
            for number in numbers:
                name = f'"name":"dependence","cat":"dependence","id":{number}'
                yield f',\n{{"ph":"{phase}",{name},{where},"ts":{_us(t_ns)}{end}}}'


def _us(ns: int) -> str:
    """Return nanoseconds as microseconds, exactly."""
    return f"{ns // 1000}.{ns % 1000:03d}"
