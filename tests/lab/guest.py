"""In the guest: runs scenarios, each under a recording, and writes what was recorded and the truth to /run/lab/NAME."""

from __future__ import annotations

import json
import hashlib
import os
import shutil
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tprof

SHARE = Path("/run/lab")
LAB = Path("/sys/kernel/lab")
PARAMETERS = Path("/sys/module/lab/parameters")
REGISTERS = {"package": (0, 14), "core": (1, 14), "dram": (2, 16)}
"""Index and bits below one joule."""
MODULUS = 1 << 32
BLOCK = bytes(1 << 16)
ORDINARY = {"start": "1000000,1000000,1000000", "update_us": 1000, "jitter_us": 40, "late_permille": 0, "late_us": 0,
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
    now = truth()
    start = [0, 0, 0]
    for name, (index, bits) in REGISTERS.items():
        start[index] = int(MODULUS - joules[name] * 2**bits - now[f"{name}_uj"] / 1e6 * 2**bits) % MODULUS
    set_parameters({"start": ",".join(map(str, start))})


class Kind:
    """Says to the processor what this thread runs while the block runs: a number of the module's table."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        (LAB / "kind").write_bytes(b"%d" % self.number)

    def __exit__(self, *_: object) -> None:
        (LAB / "kind").write_bytes(b"0")


def hash_for(seconds: float) -> None:
    """Use the processor for so much of the thread's time, without the interpreter's lock."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(BLOCK)


def busy(kind: int, seconds: float) -> None:
    with Kind(kind):
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


PROGRAMS = {"steps": steps, "starve": starve}


def record(scenario: dict[str, object], path: Path) -> dict[str, object]:
    """Run a scenario's program in a recording; return the truth before and after it."""
    (LAB / "reads").write_bytes(b"0")
    if "wrap_after_j" in scenario:
        wrap_after(scenario["wrap_after_j"])
    with tprof.record(path, energy=scenario["sensor"], counters=scenario.get("counters", "none")):
        before = truth()
        PROGRAMS[scenario["program"]](**scenario.get("arguments", {}))
        after = truth()
    return {"before": before, "after": after}


def run_scenario(name: str, scenario: dict[str, object]) -> None:
    set_parameters(ORDINARY | scenario.get("parameters", {}))
    recording, folder = Path("/dev/shm") / f"{name}.tprof", SHARE / name
    folder.mkdir()
    said = record(scenario, recording)
    (folder / "reads").write_bytes((LAB / "reads").read_bytes())
    (folder / "truth.json").write_text(json.dumps(said))
    shutil.move(recording, folder / "recording.tprof")


def main() -> int:
    failed = False
    for name, scenario in json.loads((SHARE / "scenarios.json").read_text()).items():
        begin_s = time.monotonic()
        try:
            run_scenario(name, scenario)
        except (OSError, tprof.TprofError):
            traceback.print_exc()
            failed = True
        print(f"{name}: {time.monotonic() - begin_s:.1f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
