"""In the guest: runs scenarios, each under a recording, and writes what was recorded and the truth to /run/lab/NAME."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from machine import EVENTS
from rights import rights

import tprof
from tprof.frequency.cpufreq import find_policies, hold
from tprof.frequency.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHARE = Path("/run/lab")
MEMORY = Path("/dev/shm")  # noqa: S108 - the guest's own; recordings are mapped, which the shared folder does not allow
LAB = Path("/sys/kernel/lab")
PARAMETERS = Path("/sys/module/lab/parameters")
REGISTERS = {"package": (0, "energy_bits"), "core": (1, "energy_bits"), "dram": (2, "dram_bits")}
"""Index within a package, and the parameter with the bits below one joule."""
MODULUS = 1 << 32
BLOCK = bytes(1 << 16)
ORDINARY = {"start": ",".join(["1000000"] * 8), "update_us": 1000, "jitter_us": 40, "late_permille": 0, "late_us": 0,
            "slots": 4, "throttle": "N"}  # fmt: skip
"""Parameters before each scenario."""


def set_parameters(values: dict[str, object]) -> None:
    for name, value in values.items():
        (PARAMETERS / name).write_text(str(value))


def truth() -> dict[str, object]:
    """Return /sys/kernel/lab/truth: a number for each line, or a table for each kind of work."""
    lines = [line.split() for line in (LAB / "truth").read_text().splitlines()]
    return {
        line[0]: int(line[1]) if len(line) == 2 else dict(zip(line[1::2], map(int, line[2::2]), strict=True))
        for line in lines
    }


def wrap_after(joules: dict[str, float]) -> None:
    """Set the registers so that each wraps after so many joules more."""
    start = [1000000] * 8
    for package, now in enumerate(packages(truth())):
        for name, (index, parameter) in REGISTERS.items():
            counts = 2 ** int((PARAMETERS / parameter).read_text())
            left = joules[name] + now[f"{name}_uj"] / 1e6
            start[4 * package + index] = int(MODULUS - left * counts) % MODULUS
    set_parameters({"start": ",".join(map(str, start))})


def packages(truth: dict[str, object]) -> list[dict[str, int]]:
    """Return the lines of the packages."""
    return [line for name, line in truth.items() if name.startswith("package")]


@cache
def kind_file() -> int:
    """Return the open file by which a thread says what it runs; to open it each time would take as long as a task."""
    return os.open(LAB / "kind", os.O_WRONLY)


@contextmanager
def declared(kind: int) -> Iterator[None]:
    """Say to the processor what this thread runs while the block runs: a number of the module's table."""
    os.pwrite(kind_file(), b"%d" % kind, 0)
    yield
    os.pwrite(kind_file(), b"0", 0)


def hash_for(seconds: float) -> None:
    """Use the processor for so much of the thread's time, without the interpreter's lock."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(BLOCK)


def busy(kind: int, seconds: float) -> None:
    with declared(kind):
        hash_for(seconds)


def steps(rounds: int = 3, seconds: float = 0.5) -> None:
    """Alternate between idle, one and two processors."""
    for _ in range(rounds):
        time.sleep(seconds)
        busy(2, seconds)
        with ThreadPoolExecutor(2) as pool:
            for kind in (3, 4):
                pool.submit(busy, kind, seconds)


def starve(seconds: float = 0.4, rounds: int = 4) -> None:
    """Keep every processor from everybody else, so that no reader of a sensor runs, again and again."""
    processors = sorted(os.sched_getaffinity(0))
    for _ in range(rounds):
        children = []
        for processor in processors:
            child = os.fork()
            if not child:
                os.sched_setaffinity(0, {processor})
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
                busy(3, seconds)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        steps(1, 0.1)


@tprof.task
def light(seconds: float) -> None:
    hash_for(seconds)


@tprof.task
def middle(seconds: float) -> None:
    hash_for(seconds)


@tprof.task
def heavy(seconds: float) -> None:
    hash_for(seconds)


TASKS = {"light": (light, 1), "middle": (middle, 2), "heavy": (heavy, 3)}


def call(name: str, seconds: float) -> None:
    """Call a task with its kind declared around it, so that the kind's truth is the task's."""
    function, kind = TASKS[name]
    with declared(kind):
        function(seconds)


def tasks(seconds: dict[str, float], instances: int = 60, threads: int = 2) -> None:
    """Run three tasks in turn, in as many threads, with idle time before and after."""
    time.sleep(1)
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(call, name, seconds[name]) for _ in range(instances) for name in TASKS]:
            future.result()
    time.sleep(1)


class PerfEvent:
    """A hardware event of this thread that competes for the processor's counters while the block runs."""

    def __init__(self, config: int) -> None:
        attributes = bytearray(128)
        struct.pack_into("IIQQQQQ", attributes, 0, 0, len(attributes), config, 0, 0, 0, 0)
        call = ctypes.CDLL(None, use_errno=True).syscall
        self._file = call(298, (ctypes.c_char * len(attributes)).from_buffer(attributes), 0, -1, -1, 8)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")

    def close(self) -> None:
        os.close(self._file)


def multiplexed(seconds: dict[str, float], instances: int = 20) -> None:
    """Run three tasks on this thread, whose counters take turns with another event."""
    rival = PerfEvent(5)
    for _ in range(instances):
        for name in TASKS:
            call(name, seconds[name])
    rival.close()


PROGRAMS = {"steps": steps, "starve": starve, "tasks": tasks, "multiplexed": multiplexed}
PROGRAMS |= {name: partial(event, partial(steps, 1, 0.3)) for name, event in EVENTS.items()}


def hold_until_killed(khz: int) -> None:
    """Hold a frequency by tprof's own functions, print the guard's number, and wait for the end."""
    policies = find_policies(Path("/"))
    with Guard(policies) as guard:
        for policy in policies:
            hold(policy, khz * 1000)
        print(guard.pid, flush=True)
        sys.stdin.read()


def frequencies() -> list[tuple[str, ...]]:
    names = ("scaling_min_freq", "scaling_max_freq", "scaling_governor", "scaling_cur_freq")
    folders = sorted(Path("/sys/devices/system/cpu/cpufreq").glob("policy*"))
    return [tuple((folder / name).read_text().strip() for name in names) for folder in folders]


def wait_for(holds: Callable[[], bool], what: str, deadline_s: float = 60) -> bool:
    """Return whether it holds before the deadline."""
    end = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > end:
            print(f"not within {deadline_s} s: {what}")
            return False
        time.sleep(0.05)
    return True


def kills(governor: str, orders: list[list[str]]) -> dict[str, object]:
    """Kill a program that holds 1 GHz, and its guard, in these orders; return what the policies were each time."""
    for folder in Path("/sys/devices/system/cpu/cpufreq").glob("policy*"):
        (folder / "scaling_governor").write_text(governor)
    before, seen = frequencies(), []
    for order in orders:
        program = subprocess.Popen(
            [sys.executable, __file__, "hold", "1000000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        pids = {"guard": int(program.stdout.readline()), "program": program.pid}
        held = frequencies()
        for name in order:
            if name == "end":
                program.stdin.close()
            else:
                os.kill(pids[name], signal.SIGKILL)
        program.wait()
        wait_for(lambda: frequencies() == before, "the policies as before", 20)
        seen.append({"order": order, "held": held, "after": frequencies()})
        restore_by_hand(before)
    return {"before": before, "seen": seen}


def restore_by_hand(former: list[tuple[str, ...]]) -> None:
    for folder, values in zip(sorted(Path("/sys/devices/system/cpu/cpufreq").glob("policy*")), former, strict=True):
        for name, value in zip(("scaling_max_freq", "scaling_min_freq"), (values[1], values[0]), strict=True):
            (folder / name).write_text(value)


WITHOUT_RECORDING = {"kills": kills, "rights": rights}


def record(scenario: dict[str, object], path: Path) -> dict[str, object]:
    """Run a scenario's program in a recording; return the truth before and after it."""
    (LAB / "reads").write_bytes(b"0")
    if "wrap_after_j" in scenario:
        wrap_after(scenario["wrap_after_j"])
    options = {name: scenario[name] for name in ("counters", "poller_share") if name in scenario}
    with tprof.record(path, energy=scenario["sensor"], **{"counters": "none"} | options):
        before = truth()
        PROGRAMS[scenario["program"]](**scenario.get("arguments", {}))
        after = truth()
    return {"before": before, "after": after}


def run_scenario(name: str, scenario: dict[str, object]) -> None:
    set_parameters(ORDINARY | scenario.get("parameters", {}))
    recording, folder = MEMORY / f"{name}.tprof", SHARE / name
    folder.mkdir()
    if scenario["program"] in WITHOUT_RECORDING:
        said = WITHOUT_RECORDING[scenario["program"]](**scenario["arguments"])
        (folder / "truth.json").write_text(json.dumps(said))
        return
    said = record(scenario, recording)
    (folder / "reads").write_bytes((LAB / "reads").read_bytes())
    (folder / "truth.json").write_text(json.dumps(said))
    shutil.move(recording, folder / "recording.tprof")


def main() -> int:
    # What a recording loads would otherwise be loaded in the first scenario, while its registers wrap.
    with tprof.record(MEMORY / "first.tprof", energy="auto"):
        light(0.01)
    failed = False
    for name, scenario in json.loads((SHARE / "scenarios.json").read_text()).items():
        begin_s = time.monotonic()
        try:
            run_scenario(name, scenario)
        except (OSError, subprocess.SubprocessError, tprof.TprofError):
            traceback.print_exc()
            failed = True
        print(f"{name}: {time.monotonic() - begin_s:.1f} s", flush=True)
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["hold"]:
        hold_until_killed(int(sys.argv[2]))
    else:
        sys.exit(main())
