"""In the guest: runs scenarios, each under a recording, and writes what was recorded and the truth to /run/lab/NAME."""

from __future__ import annotations

import json
import shutil
import sys
import time
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path

import operating_points
from beside import beside
from machine import EVENTS
from operating_points import govern, truth
from programs import LAB, PROGRAMS, busy, calibrate, steps
from rights import rights

import tprof
from tprof.trace.power_model import model_path

SHARE = Path("/run/lab")
MEMORY = Path("/dev/shm")  # noqa: S108 - the guest's own; recordings are mapped, which the shared folder does not allow
PARAMETERS = Path("/sys/module/lab/parameters")
REGISTERS = {"package": (0, "energy_bits"), "core": (1, "energy_bits"), "dram": (2, "dram_bits")}
"""Index within a package, and the parameter with the bits below one joule."""
MODULUS = 1 << 32
ORDINARY = {"start": ",".join(["1000000"] * 8), "update_us": 1000, "jitter_us": 40, "late_permille": 0, "late_us": 0,
            "slots": 4, "rdpmc": "N", "throttle": "N", "kind_mw": "6000", "dram_mw": "500"}  # fmt: skip
"""Parameters before each scenario; of the kinds, those of 0."""


def set_parameters(values: dict[str, object]) -> None:
    for name, value in values.items():
        (PARAMETERS / name).write_text(str(value))


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


PROGRAMS |= {name: partial(event, partial(steps, 1, 0.3)) for name, event in EVENTS.items()}
PROGRAMS["beside"] = partial(beside, steps)
WITHOUT_RECORDING = operating_points.PROGRAMS | {"rights": rights}


def record(scenario: dict[str, object], path: Path) -> dict[str, object]:
    """Run a scenario's program in a recording; return the truth before and after it."""
    (LAB / "reads").write_bytes(b"0")
    model = calibrate(path.with_suffix(".calibration")) if scenario.get("calibrated") else None
    if "wrap_after_j" in scenario:
        wrap_after(scenario["wrap_after_j"])
    options = {name: scenario[name] for name in ("counters", "poller_share") if name in scenario}
    with tprof.record(path, energy=scenario["sensor"], **{"counters": "none"} | options):
        poller_ns = [poller_cpu_ns()]
        before = truth()
        found = PROGRAMS[scenario["program"]](**scenario.get("arguments", {}))
        after = truth()
        poller_ns.append(poller_cpu_ns())
    model_path().unlink(missing_ok=True)
    return {"before": before, "after": after, "model": model, "found": found, "poller_ns": poller_ns}


def poller_cpu_ns() -> int:
    """Return the CPU time of the thread that reads the sensors."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it may have ended
            if (thread / "comm").read_text().strip() == "tprof-sensors":
                return int((thread / "schedstat").read_text().split()[0])
    return 0


def run_scenario(name: str, scenario: dict[str, object]) -> None:
    set_parameters(ORDINARY | scenario.get("parameters", {}))
    govern(scenario.get("governor", "performance"))
    recording, folder = MEMORY / f"{name}.tprof", SHARE / name
    folder.mkdir()
    if scenario["program"] in WITHOUT_RECORDING:
        said = WITHOUT_RECORDING[scenario["program"]](**scenario["arguments"])
        (folder / "truth.json").write_text(json.dumps(said))
        if operating_points.FOLDER.exists():
            shutil.move(operating_points.FOLDER, folder / "recording.tprof")
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
        except Exception:  # noqa: BLE001 - it fails alone
            traceback.print_exc()
            failed = True
        print(f"{name}: {time.monotonic() - begin_s:.1f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
