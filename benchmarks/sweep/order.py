"""What a sweep is asked to do: the program, the ranges, how it is recorded."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tprof.analysis.operating_points.table import MOST_WORKERS
from tprof.benchmarks.programs.catalogue import PROGRAMS
from tprof.benchmarks.programs.outcome import check_size

from tprof.errors import UsageError
from tprof.trace.plain_values import shown, whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WORKERS = "{workers}"
SETTLE_S = 60.0


@dataclass(frozen=True)
class What:
    """What runs at every point.

    Attributes
    ----------
    kind : benchmark, script or module.
    name : of the benchmark or module; path of the script.
    arguments : of a script or module; each `{workers}` in them becomes the number of workers.
    size : of a benchmark's input.
    tasks : patterns of `--task`.
    energy, watts, counters : as for `tprof.record`.
    model : that shares the joules, as for `Recording.profile`.
    """

    kind: str
    name: str
    arguments: tuple[str, ...] = ()
    size: str = "small"
    tasks: tuple[str, ...] = ()
    energy: str = "auto"
    watts: str | None = None
    counters: str = "auto"
    model: str = "auto"

    @property
    def title(self) -> str:
        """What it is called."""
        return self.name.rpartition("/")[2].removesuffix(".py") if self.kind == "script" else self.name

    def as_plain(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "arguments": list(self.arguments), "tasks": list(self.tasks)}


@dataclass(frozen=True)
class Order:
    """A sweep as it was asked for.

    Attributes
    ----------
    frequencies : as typed; None if not given: all if they can be set, else none.
    workers : numbers of workers.
    repeats : runs of each setting.
    folder : where everything goes.
    seed : of the order of points; None for any.
    resume : go on with what the folder holds, whatever its seed; an unfinished sweep of the same plan is resumed
        anyway.
    overwrite : replace what the folder holds.
    settle_s : wait as long as this for a steady temperature before each run, where there is a sensor.
    timeout_s : of a run, after which it is ended and counts as failed; None: any.
    file : that the program is read from; None where it is no file.
    accept_changes : go on although the program or the machine is another than before.
    """

    what: What
    folder: Path
    frequencies: str | None = None
    workers: tuple[int, ...] = (1,)
    repeats: int = 1
    seed: int | None = None
    resume: bool = False
    overwrite: bool = False
    settle_s: float = SETTLE_S
    timeout_s: float | None = None
    file: Path | None = None
    accept_changes: bool = False

    def check(self) -> None:
        """Refuse what is out of range. Raises UsageError."""
        if self.repeats < 1:
            raise UsageError(f"each setting must run at least once, got --repeat {self.repeats}")
        if not 0 <= self.settle_s < math.inf:
            raise UsageError(f"--settle takes seconds, 0 for not waiting, got {self.settle_s:g}")
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            raise UsageError(f"--timeout takes seconds above 0, got {self.timeout_s:g}")
        if self.resume and self.overwrite:
            raise UsageError("--resume goes on with what the folder holds, --overwrite replaces it: give one of them")
        check_size(self.what.size)


def program(words: Sequence[str], **options: Any) -> What:
    """Distinguish a benchmark's name, a script and -m MODULE.

    Raises
    ------
    UsageError
        If it is none of them.
    """
    first, *rest = words
    if first == "-m":
        if not rest:
            raise UsageError("-m needs the name of a module after it")
        return What("module", rest[0], tuple(rest[1:]), **options)
    if first in PROGRAMS:
        if rest:
            raise UsageError(_after_benchmark(first, rest))
        return What("benchmark", first, **options)
    if first.startswith("-"):
        raise UsageError(
            f"there is no option {first}: see tprof sweep --help; the program's own options go after the script"
        )
    return What("script", first, tuple(rest), **options)


def _after_benchmark(name: str, words: Sequence[str]) -> str:
    option = next((word for word in words if word.startswith("-")), None)
    if option is None:
        return f"the benchmark {name} takes no arguments, got {' '.join(words)}: leave them out"
    return f"{option} stands after the benchmark {name}: options go before the program's name"


def read_workers(text: str) -> tuple[int, ...]:
    """Read numbers of workers such as 1,2,4, each once, ascending. Raises UsageError."""
    found = {whole(part.strip(), MOST_WORKERS) or 0 for part in text.split(",")}
    if 0 in found:
        raise UsageError(
            f"--workers must be numbers from 1 to {MOST_WORKERS} with commas, such as 1,2,4, got {shown(text)}"
        )
    return tuple(sorted(found))
