"""`tprof sweep` as users start it, on trees of cpufreq below a folder of the test."""

from __future__ import annotations

import json
import os
import subprocess

from support.command_line import tprof
from support.programs import TPROF

QUICK = ("--energy", "none", "--counters", "none", "--settle", "0")


def environment(root, **more):
    """Return variables for a sweep whose /sys is below `root`."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return {**kept, "TPROF_SYSROOT": str(root), **{name: str(value) for name, value in more.items()}}


def sweep(folder, *words, env):
    """Run `tprof sweep` to its end, in this process; the runs of its points are processes of their own."""
    return tprof("sweep", *words, cwd=folder, env=env)


def begun(folder, *words, env):
    """Start `tprof sweep`."""
    return subprocess.Popen([TPROF, "sweep", *words], cwd=folder, env=env, stderr=subprocess.PIPE, text=True)


def points(folder):
    """Return the points of a sweep's plan."""
    return json.loads((folder / "sweep-plan.json").read_text())["points"]


def state(folder):
    """Return the states of a sweep's points."""
    return [point["state"] for point in points(folder)]
