"""What a user without rights gets: as it is, and after each command that `tprof doctor` gives this user.

Run as a program it says, each time that it is given a line, what the user that runs it can read, and what
`tprof doctor` advises.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import tprof
from tprof.doctor.counter_facts import counter_facts
from tprof.doctor.sensor_facts import energy_facts

USER = 65534
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
SENSORS = ("powercap", "perf")
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}"]


def rights(levels: list[int], remedies: list[str] | None = None) -> dict[str, object]:
    """Say what the user gets under each level of perf_event_paranoid, and after the remedies of these findings."""
    for folder in (Path("/root"), *Path(sys.executable).parents):
        folder.chmod(0o755)
    seen = []
    program = [*AS_USER, "--clear-groups", sys.executable, __file__]
    user = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for level in levels:
        PARANOID.write_text(str(level))
        print(file=user.stdin, flush=True)
        plain = json.loads(user.stdout.readline())
        seen.append({"how": f"level {level}"} | plain)
        for what in remedies or ():
            for command in plain["remedies"][what]:
                if any(one["how"].endswith(_name(command)) for one in seen):
                    continue
                seen.append({"how": f"level {level}, {_name(command)}"} | _after(command))
                PARANOID.write_text(str(level))
                print(seen[-1], flush=True)
    user.communicate()
    return {"seen": seen}


def _name(command: str) -> str:
    """Return the programs that a command runs as root, and the setting if it is one alone."""
    programs = list(dict.fromkeys(re.findall(r"sudo (\S+)", command)))
    if "groupadd" in programs:
        return "groupadd"
    return f"sysctl {command[-1]}" if programs == ["sysctl"] else ", ".join(programs)


def _as_user(start: list[str]) -> dict[str, object]:
    done = subprocess.run([*start, sys.executable, __file__], input="\n", capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _after(command: str) -> dict[str, object]:
    """Run a command of `tprof doctor` as it stands, but as root for the user, and say what the user gets then."""
    own, as_root = shlex.join([sys.executable, __file__]), command
    users = {
        "sudo ": "", "$(id -u)": str(USER), "$(id -g)": str(USER), '"$USER"': "nobody",
        '"$(command -v tprof)" run …': own, '"$(command -v python3)"': shlex.quote(sys.executable),
    }  # fmt: skip
    for text, meant in users.items():
        as_root = as_root.replace(text, meant)
    if "udevadm" in as_root:
        _apply_udev_rule(as_root)
        return _as_user([*AS_USER, "--init-groups"])
    done = subprocess.run(["bash", "-ec", as_root], input="\n", capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr}
    if own in as_root:
        return json.loads(done.stdout.splitlines()[-1])  # after what sysctl writes
    said = _as_user([*AS_USER, "--clear-groups"])
    if "setcap" in as_root:
        subprocess.run(["setcap", "-r", os.path.realpath(sys.executable)], check=True)
    return said


def _apply_udev_rule(command: str) -> None:
    """Do what udev would: the guest has none."""
    before, _, _ = command.partition(" && echo ")
    subprocess.run(["bash", "-ec", before], check=True)
    for zone in Path("/sys/class/powercap").glob("intel-rapl:*"):
        for run in re.findall(r'RUN\+="([^"]+)"', command):
            subprocess.run(shlex.split(run.replace("/sys%p", str(zone.resolve()))), check=True)


def say() -> dict[str, object]:
    """Return which sensors and counters a recording has for this user, and what would give more."""
    said: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        for name in SENSORS:
            path = Path(directory) / name
            try:
                with tprof.record(path, energy=name, idle_s=0):
                    pass
            except tprof.SensorError as error:
                said[name] = str(error)
                continue
            trace = tprof.load(path)
            readings = [one for one in trace.readings.values() if one.quantity == "energy"]
            said[name] = [one.name for one in readings if not one.missing.any() and len(one.value)]
        with tprof.record(Path(directory) / "counters", energy="none"):
            pass
        said["counters"] = tprof.load(Path(directory) / "counters").manifest["counters"]["source"]
    facts = {fact.what: fact for fact in (*energy_facts(Path("/")), *counter_facts(Path("/")))}
    said["remedies"] = {what: [one.command for one in fact.remedies] for what, fact in facts.items() if fact.remedies}
    said["why"] = {what: fact.why for what, fact in facts.items()}
    return said


if __name__ == "__main__":
    for _ in sys.stdin:
        print(json.dumps(say()), flush=True)
