"""The guard's process: holds values, waits until standard input ends, writes them back; see `guard`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError

from .policy import KHZ, Bounds, number_hz
from .setting import MAX, MIN, SETSPEED, set_bounds, write

if TYPE_CHECKING:
    from collections.abc import Sequence

END = "end"
DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def main() -> None:
    """Hold, wait, restore, say what could not be."""
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    former = _heard(sys.stdin.readline())
    if not isinstance(former, list):
        return  # whoever started this ended before it wrote anything
    _say("ready")
    ends: int | None = None
    for line in sys.stdin:
        heard = _heard(line)
        if heard == END:
            break  # a forked child of the program may keep the pipe open
        if ends is not None:
            os.close(ends)
        ends, group = _opened(heard), heard
    problems = restore(former)
    if ends is not None:
        _end(ends, group)
    _say(json.dumps(problems))


def restore(former: Sequence[dict[str, Any]]) -> list[str]:
    """Write the former values, every one that can be; returns what could not be."""
    problems = []
    for held in former:
        folder = Path(held["folder"])
        try:
            wanted = Bounds(held["lowest_khz"] * KHZ, held["highest_khz"] * KHZ)
            set_bounds(folder, _now(folder) or wanted, wanted)
            if held["setspeed"] is not None:
                write(folder / SETSPEED, held["setspeed"])
        except SensorError as error:
            problems.append(f"{error} (it was {held['lowest_khz']} to {held['highest_khz']} kHz)")
    return problems


def _now(folder: Path) -> Bounds | None:
    """Return what a policy is bound to; None in a tree of plain files, where a killed write leaves an empty one."""
    try:
        return Bounds(number_hz(folder / MIN), number_hz(folder / MAX))
    except SensorError:
        return None


def _heard(line: str) -> Any:
    """Return what a line says, None for one that was cut."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _opened(pid: Any) -> int | None:
    """Open a process while its number is surely its own; None if it is gone or nobody is named."""
    try:
        return None if pid is None else os.pidfd_open(pid)
    except OSError:
        return None


def _end(process: int, group: int) -> None:
    try:
        signal.pidfd_send_signal(process, 0)
        os.killpg(group, signal.SIGTERM)
    except OSError:
        return  # it ended by itself


def _say(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        if text not in ("ready", "[]"):
            sys.stderr.write(f"tprof: the former frequencies are not restored: {text}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
