"""Programs that try in the guest how tprof sets frequencies: kills, a sweep, a runtime's policies, a slow budget."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from programs import LAB, bodies, plan, rounds_per_s

import tprof
from tprof.frequency import Guard, find_policies, hold

if TYPE_CHECKING:
    from collections.abc import Callable

CPUFREQ = Path("/sys/devices/system/cpu/cpufreq")
GHZ = 1_000_000_000
FOLDER = Path("/dev/shm/lab.tprof")  # noqa: S108 - the guest's own
CALM_S = 0.5
SHARED = ("scaling_min_freq", "scaling_max_freq", "scaling_governor")


def truth() -> dict[str, object]:
    """Return /sys/kernel/lab/truth: a number for each line, or a table for each kind of work."""
    lines = [line.split() for line in (LAB / "truth").read_text().splitlines()]
    return {
        line[0]: int(line[1]) if len(line) == 2 else dict(zip(line[1::2], map(int, line[2::2]), strict=True))
        for line in lines
    }


def govern(governor: str) -> None:
    """Give every policy this governor; they keep their limits."""
    for folder in CPUFREQ.glob("policy*"):
        (folder / "scaling_governor").write_text(governor)


def policies() -> list[tuple[str, ...]]:
    """Return each policy's bounds and governor."""
    folders = sorted(CPUFREQ.glob("policy*"))
    return [tuple((folder / name).read_text().strip() for name in SHARED) for folder in folders]


def wait_for(holds: Callable[[], bool], what: str, deadline_s: float = 60) -> bool:
    """Return whether it holds before the deadline."""
    end = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > end:
            print(f"not within {deadline_s} s: {what}")
            return False
        time.sleep(0.05)
    return True


def hold_until_killed(khz: int) -> None:
    """Hold a frequency by tprof's own functions, print the guard's number, and wait for the end."""
    found = find_policies(Path("/"))
    with Guard(found) as guard:
        for policy in found:
            hold(policy, khz * 1000)
        print(guard.pid, flush=True)
        sys.stdin.read()


def kills(governors: list[str], orders: list[list[str]]) -> dict[str, object]:
    """Kill a program that holds 1 GHz, and its guard, in these orders; return what the policies were each time."""
    seen = []
    for governor in governors:
        govern(governor)
        before = policies()
        for order in orders:
            program = subprocess.Popen(
                [sys.executable, __file__, "hold", "1000000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            pids = {"guard": int(program.stdout.readline()), "program": program.pid}
            held = policies()
            for name in order:
                if name == "end":
                    program.stdin.close()
                else:
                    os.kill(pids[name], signal.SIGKILL)
            program.wait()
            wait_for(lambda before=before: policies() == before, "the policies as before", 20)
            seen.append({"governor": governor, "order": order, "before": before, "held": held, "after": policies()})
            restore_by_hand(before)
    return {"seen": seen}


def restore_by_hand(former: list[tuple[str, ...]]) -> None:
    for folder, values in zip(sorted(CPUFREQ.glob("policy*")), former, strict=True):
        for name, value in zip(("scaling_max_freq", "scaling_min_freq"), (values[1], values[0]), strict=True):
            (folder / name).write_text(value)


def sweep(frequencies: str, model: str, seconds: dict[str, float], instances: int) -> dict[str, object]:
    """Sweep a program over frequencies; return the sweep's table and conditions, and each run's own truth."""
    log, before = Path("/dev/shm/lab.runs"), policies()  # noqa: S108 - as above
    calls = json.dumps(plan(seconds, instances, seed=1))
    command = [
        Path(sys.executable).parent / "tprof", "sweep", "--frequencies", frequencies, "--repeat", "1",
        "--workers", "1", "--seed", "1", "--settle", "0", "--model", model, "--energy", "powercap", "-o", FOLDER,
        "--overwrite", __file__, "work", calls, log,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    if not (FOLDER / "sweep.csv").exists():
        shutil.copytree(FOLDER, "/run/lab/broken.sweep")
    runs = [json.loads(line) for line in log.read_text().splitlines()]
    with (FOLDER / "sweep.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    said = json.loads((FOLDER / "sweep.json").read_text())
    shutil.rmtree(FOLDER)
    log.unlink()
    after = policies()
    return {"status": done.returncode, "rows": rows, "sweep": said, "runs": runs, "before": before, "after": after}


def work(calls: list[tuple[str, int]], log: Path) -> None:
    """Be the program of a sweep: two threads with tasks; add a line with the truth before and after to a file.

    The first and the last task read the truth, so it is that of the time which a sweep takes for the program's. The
    machine is idle around both: nobody knows when within a long interval between two readings joules were drawn.
    """

    def part(number: int) -> None:
        for name, rounds in calls[number::2]:
            bodies()[name](rounds)

    bodies()
    threads = [threading.Thread(target=part, args=(number,)) for number in range(2)]
    edge = tprof.task(truth, name="edge")
    held = policies()
    time.sleep(CALM_S)
    before = edge()
    time.sleep(CALM_S)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(CALM_S)
    after = edge()
    time.sleep(CALM_S)
    with log.open("a") as file:
        file.write(json.dumps({"before": before, "after": after, "held": held}) + "\n")


def under_policy(
    policy: str | dict[str, float],
    seconds: dict[str, float],
    instances: int,
    options: dict[str, float] | None = None,
    workers: int = 2,
) -> dict[str, object]:
    """Run tasks in a runtime with a policy, and record them; return the truth at the begin, the middle and the end."""
    from tprof.runtime import Runtime  # noqa: PLC0415 - one scenario in many
    from tprof.runtime.policy import edp, fixed  # noqa: PLC0415

    before, calls = policies(), plan(seconds, instances, seed=1)
    asked = edp(**options) if options else policy
    if isinstance(policy, dict):
        asked = fixed(tasks={name: ghz * GHZ for name, ghz in policy.items()})
    truths = [truth()]
    with tprof.record(FOLDER, energy="powercap"), Runtime(workers=workers, policy=asked) as runtime:
        for half in (calls[: len(calls) // 2], calls[len(calls) // 2 :]):
            for name, rounds in half:
                bodies()[name](rounds)
            runtime.wait()
            truths.append(truth())
    return {"truths": truths, "before": before, "after": policies()}


def slowed(joules: float, seconds: dict[str, float], instances: int) -> dict[str, object]:
    """Run tasks under a budget that slows down; return the bounds before, below the budget, above it and after it."""
    before, calls = policies(), plan(seconds, instances, seed=1)
    seen: list[tuple[float, list[tuple[str, ...]]]] = []
    begin = truth()
    with warnings.catch_warnings(action="ignore"), tprof.budget(joules=joules, action="slow") as budget:
        for name, rounds in calls:
            bodies()[name](rounds)
            seen.append((budget.used_j, policies()))
    end = truth()
    said = {"used_j": budget.used_j, "quality": budget.quality, "exceeded": bool(budget.exceeded)}
    return said | {"begin": begin, "end": end, "seen": seen, "before": before, "after": policies()}


PROGRAMS = {"kills": kills, "sweep": sweep, "policy": under_policy, "slowed": slowed}


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold_until_killed(int(sys.argv[2]))
    else:
        rounds_per_s.cache_clear()
        work(json.loads(sys.argv[2]), Path(sys.argv[3]))
