"""What native threads add to a profile: bounds of the tasks' sums, facts on each pool, and advice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.natives.clocks import PYTHON
from tprof.analysis.attribution.natives.segments import OF_TASK, OUTSIDE, SPINNING, UNIDENTIFIED
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.names import places, shown
from tprof.analysis.quantities import quantity

from tprof.trace.plain_values import first_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tprof.analysis.attribution.natives.users import FoundPool

Floats = NDArray[np.float64]
NOTABLE = 0.02
"""Part of all joules from which spinning and unidentified time are worth a warning."""
MOST_NAMES = 5
SETTINGS = (
    ("openblas", "OPENBLAS_THREAD_TIMEOUT=20"),
    ("libgomp", "OMP_WAIT_POLICY=passive"),
    ("libomp", "KMP_BLOCKTIME=0"),
    ("libiomp", "KMP_BLOCKTIME=0"),
    ("mkl", "KMP_BLOCKTIME=0"),
)
"""By a part of the library's file name, the variable with which its threads sleep at once."""
TITLES = (
    ("openblas", "OpenBLAS"),
    ("libgomp", "OpenMP (libgomp)"),
    ("libomp", "OpenMP (LLVM)"),
    ("libiomp", "OpenMP (Intel)"),
    ("mkl", "MKL"),
    ("blis", "BLIS"),
    ("tbb", "oneTBB"),
    ("pocketfft", "SciPy's FFT"),
    ("polars", "polars"),
    ("arrow", "Arrow"),
    ("torch", "PyTorch"),
    ("libc10", "PyTorch"),
    ("libstdc++", "C++ (std::thread)"),
)
"""What a library is called, by a part of its file name."""
PYTHON_STARTED = "Python (threading.Thread)"
ENDING = re.compile(r"(-[0-9a-f]{6,})?\.(so|abi3|cpython|dylib)\b.*")


@dataclass(frozen=True)
class NativeBounds:
    """What the intervals of the tasks' means need.

    Attributes
    ----------
    least_j, most_j : (names,) bounds of the joules of native threads, by distinct name
    """

    least_j: Floats
    most_j: Floats

    @classmethod
    def of(cls, least_j: Floats, most_j: Floats, names: Sequence[str]) -> NativeBounds:
        """Add up bounds of tasks, (tasks,), of places of the same name."""
        unique, code = places([shown(name) for name in names])
        least, most = (sum_by(code, values, len(unique)) for values in (least_j, most_j))
        return cls(least, most)


def native_facts(pools: Sequence[FoundPool], pool_j: Sequence[Floats], names: Sequence[str]) -> dict[str, Any] | None:
    """Return facts on native threads as plain values; None if none serves tasks; `pool_j` are the joules of each kind.

    Keys: cpu_s, tasks_j, spin_j, unidentified_j, outside_j of all; `pools` has the same of each, with its library,
    the library's title, pid, number of threads, the names of possible users (`users`) and of those that got its time
    (`served`), how the users are known, and `counted`: the part of its CPU time that the model weighed by its counters.
    """
    if not pools:
        return None
    rows: list[dict[str, Any]] = [
        {
            "library": shown(pool.name),
            "title": shown(title_of(pool.name)),
            "pid": pool.process,
            "threads": pool.threads,
            "users": sorted({shown(names[task]) for task in pool.users if task < len(names)}),
            "served": _named(sums.served, names),
            "known_by": pool.basis,
            "cpu_s": sums.cpu_s,
            "counted": min(float(sums.by_task[1].sum()) / sums.cpu_s, 1.0) if sums.cpu_s > 0 else 0.0,
            "tasks_j": float(joules[OF_TASK]),
            "spin_j": float(joules[SPINNING]),
            "unidentified_j": float(joules[UNIDENTIFIED]),
            "outside_j": float(joules[OUTSIDE]),
            "spins_after": _named(sums.spins_after, names),
            "may_spin": pool.spins_ns > 0 and pool.basis != "calls",
        }
        for pool, joules in zip(pools, pool_j, strict=True)
        for sums in [pool.cut.sums]
    ]
    added = ("cpu_s", "tasks_j", "spin_j", "unidentified_j", "outside_j")
    return {name: sum(float(row[name]) for row in rows) for name in added} | {"pools": rows}


def native_warnings(facts: dict[str, Any] | None, measured_j: float) -> list[str]:
    """Return a sentence for each library that spins notably, and for each whose user is notably unidentified."""
    return [text for _, text in native_costs(facts, measured_j)]


def native_costs(facts: dict[str, Any] | None, measured_j: float) -> list[tuple[float, str]]:
    """Return these sentences, each with the joules that it is about."""
    if facts is None or not measured_j > 0:
        return []
    out = []
    for title in dict.fromkeys(row["title"] for row in facts["pools"]):
        rows = [row for row in facts["pools"] if row["title"] == title]
        spin_j, unidentified_j = (sum(row[name] for row in rows) for name in ("spin_j", "unidentified_j"))
        setting = _setting(rows[0]["library"])
        if spin_j > NOTABLE * measured_j:
            after = first_of(sorted({name for row in rows for name in row["spins_after"]}), MOST_NAMES)
            what = f"{setting} saves that" if setting else "either they spin, or they compute what these tasks started"
            took = _took(title, spin_j, measured_j)
            out.append((spin_j, f"{took} after {after} had ended, in no task's energy: {what}"))
        if unidentified_j > NOTABLE * measured_j:
            users = first_of(sorted({name for row in rows for name in row["users"]}), MOST_NAMES)
            spins = any(row["may_spin"] for row in rows)
            text = (
                f"{_took(title, unidentified_j, measured_j)} while several of {users} can have used them"
                f"{' or left them spinning' if spins else ''}: they are in `unidentified`, and in each one's "
                f"native_high_j; to tell them apart, run these tasks one at a time"
                f"{f' with {setting}' if spins and setting else ''}"
            )
            out.append((unidentified_j, text))
    return out


def _took(title: str, joules: float, of_j: float) -> str:
    return f"threads of {title or 'a library'} took {quantity(joules, 'J')} ({100 * joules / of_j:.0f} %)"


def _setting(library: str) -> str:
    """Return how the threads of a library are told to sleep at once; empty if that is not known."""
    setting = next((f"{setting} in the environment" for part, setting in SETTINGS if part in library.lower()), None)
    return f"{setting} (tprof run --passive-pools)" if setting else ""


def _named(tasks: Collection[int], names: Sequence[str]) -> list[str]:
    return sorted({shown(names[one]) for one in tasks if 0 <= one < len(names)})


def title_of(library: str) -> str:
    """Return what a reader calls a library, from its file name; wheels add numbers to that."""
    if PYTHON.fullmatch(library.lower()):
        return PYTHON_STARTED
    return next((title for part, title in TITLES if part in library.lower()), ENDING.sub("", library))
