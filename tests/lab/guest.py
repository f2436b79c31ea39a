"""In the guest: runs scenarios, each under a recording, and writes what was recorded and the truth to /run/lab/NAME."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from programs import LAB, PROGRAMS, busy, calibrate

import tprof
from tprof.counters.groups import choose as choose_counters
from tprof.frequency.cpufreq import find_policies, hold
from tprof.frequency.guard import Guard
from tprof.sensors.choose import choose as choose_sensors
from tprof.trace.power_model import model_path

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE = Path("/run/lab")
MEMORY = Path("/dev/shm")  # noqa: S108 - the guest's own; recordings are mapped, which the shared folder does not allow
PARAMETERS = Path("/sys/module/lab/parameters")
CPUFREQ = Path("/sys/devices/system/cpu/cpufreq")
REGISTERS = {"package": (0, "energy_bits"), "core": (1, "energy_bits"), "dram": (2, "dram_bits")}
"""Index within a package, and the parameter with the bits below one joule."""
MODULUS = 1 << 32
ORDINARY = {"start": ",".join(["1000000"] * 8), "update_us": 1000, "jitter_us": 40, "late_permille": 0, "late_us": 0,
            "slots": 4, "throttle": "N", "kind_mw": "6000", "dram_mw": "500"}  # fmt: skip
"""Parameters before each scenario; of the kinds, those of 0."""


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


def govern(governor: str) -> None:
    """Give every policy this governor; they keep their limits."""
    for folder in CPUFREQ.glob("policy*"):
        (folder / "scaling_governor").write_text(governor)


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
    folders = sorted(CPUFREQ.glob("policy*"))
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
    govern(governor)
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
    for folder, values in zip(sorted(CPUFREQ.glob("policy*")), former, strict=True):
        for name, value in zip(("scaling_max_freq", "scaling_min_freq"), (values[1], values[0]), strict=True):
            (folder / name).write_text(value)


def rights(levels: list[int]) -> dict[str, object]:
    """As a user without rights, say which sensor and which counters tprof takes, under each perf_event_paranoid."""
    for folder in (Path("/root"), *Path(sys.executable).parents):
        folder.chmod(0o755)
    return {"seen": [_as_nobody(level) for level in levels]}


def _as_nobody(level: int) -> dict[str, object]:
    Path("/proc/sys/kernel/perf_event_paranoid").write_text(str(level))
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, __file__, "rights"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {"level": level} | json.loads(done.stdout)


def say_rights() -> None:
    """Print which sensors and counters there are for this user, and why not."""
    said: dict[str, object] = {}
    for name in ("powercap", "perf"):
        try:
            said[name] = [domain.name for domain in choose_sensors(name, root=Path("/")).domains]
        except tprof.SensorError as error:
            said[name] = str(error)
    plan = choose_counters("auto")
    print(json.dumps(said | {"counters": plan.source, "why": plan.why}))


WITHOUT_RECORDING = {"kills": kills, "rights": rights}


def record(scenario: dict[str, object], path: Path) -> dict[str, object]:
    """Run a scenario's program in a recording; return the truth before and after it."""
    (LAB / "reads").write_bytes(b"0")
    model = calibrate(path.with_suffix(".calibration")) if scenario.get("calibrated") else None
    if "wrap_after_j" in scenario:
        wrap_after(scenario["wrap_after_j"])
    options = {name: scenario[name] for name in ("counters", "poller_share") if name in scenario}
    with tprof.record(path, energy=scenario["sensor"], **{"counters": "none"} | options):
        before = truth()
        PROGRAMS[scenario["program"]](**scenario.get("arguments", {}))
        after = truth()
    model_path().unlink(missing_ok=True)
    return {"before": before, "after": after, "model": model}


def run_scenario(name: str, scenario: dict[str, object]) -> None:
    set_parameters(ORDINARY | scenario.get("parameters", {}))
    govern(scenario.get("governor", "performance"))
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
    if scenario.get("calibrated"):
        shutil.move(recording.with_suffix(".calibration"), folder / "calibration")


def main() -> int:
    # What a recording loads would otherwise be loaded in the first scenario, while its registers wrap.
    with tprof.record(MEMORY / "first.tprof", energy="auto"):
        busy(1, 0.01)
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
    elif sys.argv[1:] == ["rights"]:
        say_rights()
    else:
        sys.exit(main())
