"""Metadata of the machine, the clocks and the program for the manifest."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tprof import _core
from tprof.companions import Origin


def describe_host() -> dict[str, Any]:
    """Return name, processor, kernel, Python and number of processors."""
    return {
        "hostname": socket.gethostname(),
        "processor": _processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }


def describe_start() -> dict[str, Any]:
    """Return the start of a recording on all clocks; calculations use only the monotonic one."""
    now_ns = _core.now_ns()
    origin = Origin.of(os.getpid())
    return {
        "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        "clock": {
            "name": "CLOCK_MONOTONIC",
            "start_ns": now_ns,
            "wall_start_ns": time.time_ns(),
            "boottime_start_ns": now_ns + _core.suspended_ns(),
        },
        "boot_id": boot_id(),
        "origin": None if origin is None else origin.as_json(),
        "argv": list(sys.argv),
        "pid": os.getpid(),
    }


def boot_id() -> str | None:
    """Return an identity of this machine since its boot."""
    return _first_line(Path("/proc/sys/kernel/random/boot_id"))


def _processor() -> str | None:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in {"model name", "Processor", "cpu model"}:
                    return value.strip()
    except OSError:
        return None
    return platform.machine() or None


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
