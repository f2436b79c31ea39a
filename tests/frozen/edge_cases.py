"""The recordings that are compressed, cut, thinned or out of order, and what a fit shares besides the time of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from frozen import programs
from frozen.programs import FIRST_TID, MS, PID, SECOND, US
from frozen.recordings import (
    BOTH,
    CALLS,
    KINDS,
    LENGTH_NS,
    LENGTHS,
    LINEAR,
    add_busy_times,
    add_stacks,
    calling,
    frozen,
    mark_gpus,
    on_one_package,
    package,
    with_gpus,
    write,
)
from support import segmented, traces

from tprof.trace import Flag, Kind, layout
from tprof.trace.compress import compress
from tprof.trace.ring import LOW, Ring

if TYPE_CHECKING:
    from pathlib import Path

# What became of the files.


@frozen({"model": "cputime"}, {"model": "ipc", "start_s": 0.11, "end_s": 0.23})
def compressed(path: Path) -> None:
    write(path, programs.nested(110, events=900), package(110), native=programs.pool(110, users=CALLS, noted=True))
    add_busy_times(path, 111, 3)
    add_stacks(path, 112, [FIRST_TID, FIRST_TID + 1], lambda t_ns, _: t_ns)
    compress(path)


GOING_BYTES = 51_000


@frozen({"model": "cputime"}, {"model": "ipc"}, {"model": "cputime", "start_s": 0.2})
def old_blocks_gone(path: Path) -> None:
    """Of a size limit: samples, native threads' clocks and stacks of the first part are gone, readings are sparse."""
    energy = {"package-0": programs.random_readings(114, MS), "package-1": programs.random_readings(115, 2 * MS)}
    write(path, programs.nested(113, events=900), energy, native=programs.pool(113, users=CALLS))
    add_busy_times(path, 116, 3)
    add_stacks(path, 117, [FIRST_TID, FIRST_TID + 1], lambda t_ns, _: t_ns)
    segmented.split(path, 64)
    # Sizes of folders differ between file systems, and count: so many bytes go whatever they are.
    size = sum(one.lstat().st_size for one in path.rglob("*"))
    Ring(path, int((size - GOING_BYTES) / LOW)).keep()


@frozen({"model": "cputime"})
def samples_lost_at_both_ends(path: Path) -> None:
    """One thread loses its first samples, one those after its last, and one is lost from the first moment on."""
    threads = on_one_package(programs.nested(118))
    for thread, kept in zip(threads, (slice(25, None), slice(None, -25), slice(0, 2)), strict=True):
        thread |= {name: values[kept] for name, values in thread.items() if isinstance(values, np.ndarray)}
    write(path, threads, package(118))
    for number, (lost, first_ns) in enumerate(((25, 1), (25, int(threads[1]["t_ns"][-1])), (70, 1))):
        file = path / "threads" / f"{number:08d}.samples"
        traces.set_header(file, dropped_enospc=lost, first_drop_ns=first_ns, end_ns=LENGTH_NS)
    traces.set_json(path / "end.json", dropped={"enospc": 120}, end_ns=LENGTH_NS)


# Times and ids.


def _swap(path: Path, number: int, *pairs: tuple[int, int]) -> None:
    """Give the samples at one place of a thread the times of those at another, counted from either end."""
    file = path / "threads" / f"{number:08d}.samples"
    content = bytearray(file.read_bytes())
    t_ns = np.frombuffer(content, np.uint8, offset=layout.HEADER_BYTES).reshape(-1, 64)[:, :8]
    for place, other in pairs:
        t_ns[place] = t_ns[other]
    file.write_bytes(bytes(content))


@frozen({"model": "cputime"}, {"model": "cputime", "start_s": 0.05, "end_s": 0.25})
def times_that_go_backwards_at_the_ends(path: Path) -> None:
    """The first sample of a thread is late, the last of another early, and some in the middle of a third are early."""
    write(path, on_one_package(programs.nested(120, events=300, moves=False)), package(120))
    _swap(path, 0, (0, 30))
    _swap(path, 1, (-1, -20))
    _swap(path, 2, (40, 20), (41, 20), (60, 5))


def _again(seed: int, *, in_others: bool) -> list[dict[str, Any]]:
    threads = programs.nested(seed, events=400, moves=False)
    for thread in threads:
        own = 0 if in_others else (thread["tid"] - FIRST_TID + 1) << 8
        thread["instance"] = np.where(thread["instance"] > 0, thread["instance"] % 7 + own + 1, 0)
    return threads


@frozen({"model": "cputime"}, {"model": "cputime", "start_s": 0.1, "end_s": 0.2})
def ids_that_come_again_in_a_thread(path: Path) -> None:
    write(path, on_one_package(_again(121, in_others=False)), package(121))


@frozen({"model": "cputime"}, {"model": "ipc"})
def ids_that_come_again_in_others(path: Path) -> None:
    """Two threads run instances of one id after the other, or at the same time, on two packages."""
    energy = {"package-0": programs.random_readings(123, 9 * MS), "package-1": programs.random_readings(124, 13 * MS)}
    write(path, _again(122, in_others=True), energy)


GUESTS = (
    # Thread, time, instance, task and kind of each sample: until the next one this instance runs there.
    (2, 5 * MS, 1, 0, Kind.START), (2, 12 * MS, 0, -1, Kind.SUSPEND), (2, 40 * MS, 2, 1, Kind.START),
    (2, 41 * MS, 0, -1, Kind.FINISH), (2, 60 * MS, 3, 1, Kind.START), (2, 75 * MS, 0, -1, Kind.SUSPEND),
    (2, 170 * MS, 4, 2, Kind.RESUME), (2, 171 * MS, 0, -1, Kind.SUSPEND), (2, 290 * MS, 4, 2, Kind.RESUME),
    (2, LENGTH_NS, 4, 2, Kind.CLOSE),
    (3, MS, 4, 2, Kind.START), (3, 2 * MS, 0, -1, Kind.SUSPEND), (3, 150 * MS, 5, 0, Kind.START),
    (3, 180 * MS, 1, 0, Kind.RESUME), (3, 181 * MS, 5, 0, Kind.SUSPEND), (3, 200 * MS, 0, -1, Kind.FINISH),
    (3, 270 * MS, 1, 0, Kind.RESUME), (3, 280 * MS, 0, -1, Kind.FINISH), (3, LENGTH_NS, 0, -1, Kind.CLOSE),
)  # fmt: skip


def _guests() -> list[dict[str, Any]]:
    """Return two threads on two packages whose instances are suspended, and go on in the other one much later."""
    found = []
    for number in (2, 3):
        t_ns, instance, task, kind = (
            np.array(column, np.int64)
            for column in list(zip(*(one for one in GUESTS if one[0] == number), strict=True))[1:]
        )
        ran_ns = np.concatenate(([0], np.cumsum(np.diff(t_ns) * (instance[:-1] > 0)))) * 9 // 10
        found.append({
            "t_ns": t_ns, "instance": np.where(instance, (9 << 40) + instance, 0).astype(np.uint64), "task": task,
            "kind": kind, "cpu": np.full(len(t_ns), number), "package": number - 2, "cpu_ns": ran_ns,
            "instructions": ran_ns * 2, "cycles": ran_ns * 3, "pid": PID, "tid": FIRST_TID + number,
            "name": f"worker-{number}",
        })  # fmt: skip
    return found


@frozen({"model": "cputime"}, {"model": "ipc"}, {"model": "cputime", "start_s": 0.07, "end_s": 0.275})
def resumed_elsewhere_much_later(path: Path) -> None:
    threads = [*programs.in_turns(125, LENGTHS, length_ns=LENGTH_NS, gap_ns=MS), *_guests()]
    threads[1]["package"] = 1
    energy = {"package-0": programs.random_readings(125, 7 * MS), "package-1": programs.random_readings(126, 3 * MS)}
    write(path, threads, energy, tasks=KINDS)


# Sensors beside each other.

APART = {"package-0": (MS, 0), "package-1": (10 * MS, 3 * MS), "dram-0": (900 * MS, 7 * MS), "psys": (10 * MS, 5 * MS)}


def _apart(seed: int) -> dict[str, Any]:
    """Return readings whose intervals do not line up, of 1 ms, 10 ms and 0.9 s."""
    return {
        name: programs.random_readings(seed + number, every_ns, length_ns=2 * SECOND, begin_ns=begin_ns)
        for number, (name, (every_ns, begin_ns)) in enumerate(APART.items())
    }


@frozen({"model": "cputime"}, {"model": "ipc"}, {"model": "cputime", "start_s": 0.4504, "end_s": 1.3507})
def intervals_that_do_not_line_up(path: Path) -> None:
    """Instances are shorter and longer than the intervals of each sensor."""
    short = programs.in_turns(130, [300 * US, 4 * MS, 60 * MS], length_ns=2 * SECOND, gap_ns=2 * MS)
    (long,) = programs.in_turns(131, [1100 * MS, 700 * MS], length_ns=2 * SECOND, gap_ns=2 * MS, threads=1)
    nested = programs.nested(132, length_ns=2 * SECOND, threads=2)
    long["instance"] = np.where(long["instance"] > 0, long["instance"] + (1 << 30), 0)
    short[1]["package"] = long["package"] = 1
    long["cpu"] = np.full(len(long["t_ns"]), 3)
    for thread in nested:
        thread["cpu"] = thread["cpu"] + 4
    for number, thread in enumerate((long, *nested)):
        thread |= {"tid": FIRST_TID + 10 + number, "name": f"worker-{10 + number}"}
    write(path, [*short, long, *nested], _apart(130), static_power_w={"package-0": 2.0, "dram-0": 0.3})
    add_busy_times(path, 133, 4)


@frozen({"model": "cputime"}, {"model": "cputime", "start_s": 0.021, "end_s": 0.2003}, {"model": "ipc", "end_s": 0.1})
def a_window_that_cuts_everything(path: Path) -> None:
    """Its begin and its end lie inside of instances, of calls of a pool, and of marked work of a GPU."""
    threads = with_gpus(path, 133, 2, native=programs.pool(133, users=BOTH, noted=True, spin_ns=9 * MS))
    mark_gpus(path, threads, 134)
    add_busy_times(path, 135, 3)
    add_stacks(path, 136, [FIRST_TID, FIRST_TID + 1], lambda t_ns, _: t_ns)


# Powers that are fitted, with more than the time of tasks.

FITTED = {"model": "fitted"}


@frozen(FITTED, {"model": "auto"})
def a_fit_beside_gpus(path: Path) -> None:
    threads = programs.in_turns(140, LENGTHS, gap_ns=2 * MS, length_ns=SECOND // 2)
    power = programs.read(threads, [3000, 8000, 12_000], static_mw=9000, seed=140, length_ns=SECOND // 2, timed=True)
    gpus = with_gpus(path, 140, 2, threads=threads, energy={"package-0": power}, tasks=KINDS, quality="simulated")
    mark_gpus(path, gpus, 141)


@frozen(FITTED, {"model": "auto"}, LINEAR)
def a_fit_with_counters(path: Path) -> None:
    """Each task has another rate of instructions; counts are lost and scaled here and there."""
    threads, rng = programs.in_turns(142, LENGTHS, gap_ns=2 * MS, length_ns=SECOND // 2), np.random.RandomState(142)
    power = programs.read(threads, [3000, 8000, 12_000], static_mw=9000, seed=142, length_ns=SECOND // 2, timed=True)
    for thread in threads:
        count = len(thread["t_ns"])
        busy_ns = np.diff(thread["cpu_ns"])
        rate = np.array([1, 2, 4, 0])[thread["task"][:-1]]
        for name, percent in (("instructions", 100), ("stalls_frontend", 20), ("l2_refs", 6), ("llc_refs", 1)):
            counts = busy_ns * rate * rng.randint(percent // 2, percent + 1, count - 1) // 100
            thread[name] = np.concatenate(([0], np.cumsum(counts)))
        drawn = rng.randint(0, 100, count)
        thread["flags"] = np.where(drawn < 3, int(Flag.UNCOUNTED), np.where(drawn < 9, int(Flag.SCALED), 0))
    write(path, threads, {"package-0": power}, tasks=KINDS, quality="simulated")


@frozen(FITTED)
def a_fit_beside_a_pool(path: Path) -> None:
    threads = calling(143)
    power = programs.read(threads, [6000, 9000], static_mw=9000, seed=143, length_ns=LENGTH_NS, timed=True)
    native = programs.pool(143, users=CALLS)
    write(path, threads, {"package-0": power}, tasks=["solve", "multiply"], native=native, quality="simulated")
    add_busy_times(path, 144, 2)


@frozen(FITTED)
def a_fit_of_two_packages(path: Path) -> None:
    """Sensors that are read at different times, with static power and other processes."""
    threads = programs.in_turns(145, LENGTHS, gap_ns=MS, length_ns=SECOND // 2, threads=4)
    energy = {}
    for number in (0, 1):
        own = threads[number::2]
        for thread in own:
            thread["package"] = number
        energy[f"package-{number}"] = programs.read(
            own, [3000, 8000, 12_000], static_mw=9000, seed=145 + number, length_ns=SECOND // 2, timed=True,
            every_ns=(1 + number) * MS,
        )  # fmt: skip
    write(path, threads, energy, tasks=KINDS, quality="simulated")
    add_busy_times(path, 147, 4)
