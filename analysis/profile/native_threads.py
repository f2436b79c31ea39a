"""What native threads add to a profile: joules of windows, bounds of the tasks' sums, facts on pools, and advice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.accounts import NATIVE, NativeTotals
from tprof.analysis.attribution.natives.clocks import PYTHON
from tprof.analysis.attribution.natives.pools import PoolJoules
from tprof.analysis.attribution.natives.segments import OF_TASK, OUTSIDE, SPINNING, UNIDENTIFIED
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.segments import begun_in
from tprof.analysis.names import places, shown
from tprof.analysis.quantities import quantity

from tprof.trace.plain_values import first_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tprof.analysis.attribution.natives.pools import CutPool, StreamedPools
    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.analysis.attribution.natives.users import FoundPool

Floats = NDArray[np.float64]
NOTABLE = 0.02
"""Part of all joules from which spinning and unidentified time are worth a warning."""
MOST_NAMES = 5
LIBRARIES = (
    ("openblas", "OpenBLAS", "OPENBLAS_THREAD_TIMEOUT=20"),
    ("libgomp", "OpenMP (libgomp)", "OMP_WAIT_POLICY=passive"),
    ("libomp", "OpenMP (LLVM)", "KMP_BLOCKTIME=0"),
    ("libiomp", "OpenMP (Intel)", "KMP_BLOCKTIME=0"),
    ("mkl", "MKL", "KMP_BLOCKTIME=0"),
    ("blis", "BLIS", ""),
    ("tbb", "oneTBB", ""),
    ("pocketfft", "SciPy's FFT", ""),
    ("polars", "polars", ""),
    ("arrow", "Arrow", ""),
    ("torch", "PyTorch", ""),
    ("libc10", "PyTorch", ""),
    ("libstdc++", "C++ (std::thread)", ""),
)
"""By a part of a library's file name: what it is called, and the variable with which its threads sleep at once."""
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


@dataclass
class WindowNativeTotals(NativeTotals):
    """What native threads add in a window; bounds of runs need the joules of other windows, and are 0 without.

    Attributes
    ----------
    cuts : the pools that have segments in the window
    own_ns : from when to when runs begin that count in the window
    of_pools : sums over all windows, to which those of this one are added
    known : those sums if all windows were shared before
    domain : number of the counted domain that is shared
    """

    cuts: Sequence[CutPool]
    own_ns: tuple[int, int]
    of_pools: PoolSums
    known: PoolSums | None
    domain: int = 0

    @classmethod
    def begin(
        cls, own_ns: tuple[int, int], cuts: Sequence[CutPool], sums: PoolSums, known: PoolSums | None, rows: int
    ) -> WindowNativeTotals:
        """Begin with the CPU seconds that count in the window, of so many instances."""
        found = np.zeros((len(NATIVE), rows))
        for native in (one.segments for one in cuts):
            values, own = np.zeros(len(native)), begun_in(native.t_ns, own_ns)
            values[own] = native.cpu_s[own]
            found[0] += native.by_row(values, rows)
        return cls(found, cuts, own_ns, sums, known)

    def add_nothing(self) -> None:
        """Add a domain without quanta in the window; what its runs may have used lies in other windows."""
        for number, one in enumerate(self.cuts):
            native = one.segments
            self.add(number, native, np.zeros(len(native)), np.zeros(self.sums.shape[1]))

    def add(self, number: int, native: NativeSegments, energy_j: Floats, own_j: Floats) -> None:
        """Add the joules of a pool in one domain, to the sums of tasks and pools too."""
        super().add(number, native, energy_j, own_j)
        pool = self.cuts[number]
        if self.known is not None:
            begin_ns, end_ns = self.own_ns
            own = (native.runs["begin_ns"] >= begin_ns) & (native.runs["begin_ns"] < end_ns)
            # The joules of runs that begin here may lie in other windows.
            bounds_j = self.known.joules[self.domain][pool.number].bounds(native.runs[own])
            self.sums[3:] += [sum_by(native.run_row[own], part_j, len(own_j)) for part_j in bounds_j]
        self.of_pools.joules[self.domain][pool.number].add(native, energy_j)


class PoolSums:
    """The joules of all pools in the counted domains, added window by window.

    Attributes
    ----------
    joules : of each domain those of each pool
    """

    def __init__(self, pools: StreamedPools, domains: int, tasks: int) -> None:
        """Begin without joules."""
        self._pools, self._tasks = pools.pools, tasks
        self.joules = [[PoolJoules(one) for one in pools.pools] for _ in range(domains)]

    def facts(self, names: Sequence[str]) -> dict[str, Any]:
        """Return facts on native threads as plain values.

        Keys: cpu_s, tasks_j, spin_j, unidentified_j, outside_j of all; `pools` has the same of each, with its library,
        the library's title, pid, number of threads, the names of possible users (`users`) and of those that got its
        time (`served`), how the users are known, and `counted`: the part of its CPU time that the model weighed by its
        counters.
        """
        rows = [
            _facts(pool, sum((one[number].joules for one in self.joules), np.zeros(len(pool.segments))), names)
            for number, pool in enumerate(self._pools)
        ]
        added = ("cpu_s", "tasks_j", "spin_j", "unidentified_j", "outside_j")
        return {name: sum(float(row[name]) for row in rows) for name in added} | {"pools": rows}

    def bounds(self, names: Sequence[str]) -> NativeBounds:
        """Return bounds of the tasks' joules."""
        sums = np.zeros((2, self._tasks))
        for number, pool in enumerate(self._pools):
            extremes_s = pool.extremes_s(self._tasks)
            for one in self.joules:
                sums += _task_bounds(pool.segments, one[number].joules, extremes_s)
        return NativeBounds.of(sums[0], sums[1], names)


def _task_bounds(native: NativeSegments, joules: Floats, extremes_s: Floats) -> Floats:
    """Return the least and the most joules of each task, at those that a CPU second took while it ran: (2, tasks).

    Parameters
    ----------
    native, joules : segments of a pool, and their joules
    extremes_s : (2, tasks) CPU seconds of it that each task used at least and at most
    """
    tasks = extremes_s.shape[1]
    own_j = native.by_task(joules, tasks)[:tasks]
    beside_j, beside_s = (native.beside(one, tasks) for one in (joules, native.cpu_s))
    mean = joules.sum() / max(native.cpu_s.sum(), 1e-300)
    per_s = np.divide(beside_j, beside_s, out=np.full(tasks, mean), where=beside_s > 0)
    least_j, most_j = extremes_s * per_s
    return np.stack((np.minimum(least_j, own_j), np.maximum(most_j, own_j)))


def _facts(pool: FoundPool, joules: Floats, names: Sequence[str]) -> dict[str, Any]:
    """Return facts on a pool; `joules` are of its segments."""
    native = pool.segments
    kind, cpu_s, rows = native.kind, native.cpu_s, native.table
    spins = (kind == SPINNING) & (cpu_s > 0)
    of_kinds, all_s = sum_by(kind, joules, 4), float(cpu_s.sum())
    return {
        "library": shown(pool.name),
        "title": shown(title_of(pool.name)),
        "pid": pool.process,
        "threads": pool.threads,
        "users": _named(pool.users, names),
        "served": _named(np.unique(rows["task"][(kind == OF_TASK) & (cpu_s > 0)]).tolist(), names),
        "known_by": pool.basis,
        "cpu_s": all_s,
        "counted": min(float(rows["counted_s"].sum()) / all_s, 1.0) if all_s > 0 else 0.0,
        "tasks_j": float(of_kinds[OF_TASK]),
        "spin_j": float(of_kinds[SPINNING]),
        "unidentified_j": float(of_kinds[UNIDENTIFIED]),
        "outside_j": float(of_kinds[OUTSIDE]),
        "spins_after": _named(np.unique(native.last("task")[spins]).tolist(), names),
        "may_spin": pool.spins_ns > 0 and pool.basis != "calls",
    }


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
    setting = next((setting for part, _, setting in LIBRARIES if part in library.lower()), "")
    return f"{setting} in the environment (tprof run --passive-pools)" if setting else ""


def _named(tasks: Collection[int], names: Sequence[str]) -> list[str]:
    return sorted({shown(names[one]) for one in tasks if 0 <= one < len(names)})


def title_of(library: str) -> str:
    """Return what a reader calls a library, from its file name; wheels add numbers to that."""
    if PYTHON.fullmatch(library.lower()):
        return PYTHON_STARTED
    return next((title for part, title, _ in LIBRARIES if part in library.lower()), ENDING.sub("", library))
