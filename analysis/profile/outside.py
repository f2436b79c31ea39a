"""What a program did outside its tasks, by its sampled stacks or by its time, and what helps there.

A path belongs to the library that the program called, or that an event loop called; not to what this called in turn.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.cpu_counts import CpuCount, sum_at

from .flame import IMPORT
from .flame_tree import NONE_SAMPLED, OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace import Trace

    from .flame_tree import Flame
    from .profile import Profile

    Path = Sequence[tuple[str, str]]
    """Names and places of functions, the outermost first."""

NOTABLE = 0.1
"""Part of the joules outside tasks from which something is named."""
MOST = 3
_MODULE = "module "
_PACKAGE = re.compile(r".*/(?:site|dist)-packages/([^/:]+?)(\.py)?(?=[/:])")
_PYTHON = re.compile(r"(?:.*/python3\.\d+t?/(?!(?:site|dist)-packages/)|<)")
_LOOP = "/asyncio/"
IMPORTS, LOOP, LIBRARY = "importing modules", "an event loop", "Python's own library"
PROGRAM = "the program's functions"
FEWER_IMPORTS = "import fewer modules, or only where they are used, to save that"
_MORE_TASKS = "make more of its functions tasks (@tprof.task, or tprof run --task) to see which of them"
_WITHOUT_PATTERN = {
    IMPORTS: FEWER_IMPORTS,
    LOOP: "a task is the body of its function only, so the work of the loop and of its framework stays here",
    LIBRARY: "no function of the program called it, so no task would show more of it",
}
_FIRST_RECORDS = 64
"""Of a thread, within which its first instance begins if it is early."""


def outside_advice(profile: Profile) -> tuple[str, str]:
    """Return what ran outside tasks, as it follows these words, and what helps there."""
    work, pattern = _outside_work(profile.flame()) if profile.has_stacks else ("", None)
    if pattern is not None:
        return f" (by its stacks: {work})", f"tprof run --task '{pattern}' makes tasks of functions there"
    if work:
        most = next((one for one in _WITHOUT_PATTERN if work.split(" % ", 1)[1].startswith(one)), "")
        return f" (by its stacks: {work})", _WITHOUT_PATTERN.get(most, _MORE_TASKS)
    stacks = "tprof run --stacks shows what it was"
    if profile.has_samples and _is_mostly_before_tasks(profile):
        return ", most of it before its first task, as imports are", f"{FEWER_IMPORTS}; {stacks}"
    return ", such as imports, a server's loop and libraries' own work", f"{_MORE_TASKS}; {stacks}"


def _is_mostly_before_tasks(profile: Profile) -> bool:
    """Return whether at least half of the CPU time outside tasks passed before the first task of its process."""
    trace, firsts = profile.trace, _first_instances(profile.trace)
    counts = [CpuCount.of(one) for one in trace.readings.values() if one.quantity == "program" and one.count > 1]
    if not counts or not firsts:
        return False
    times_ns = np.array([trace.start_ns, min(t_ns for t_ns, _ in firsts), trace.end_ns])
    begin_s, first_s, end_s = sum_at(counts, times_ns).tolist()
    before_s = max(first_s - begin_s, sum(cpu_s for _, cpu_s in firsts))
    return bool(before_s > 0 and before_s >= (end_s - begin_s - profile.sums.cpu_s) / 2)


def _first_instances(trace: Trace) -> list[tuple[int, float]]:
    """Return when the first instance of each process began, and the CPU seconds of its thread before, in the recording.

    Instances count that are among the first records of a thread.
    """
    firsts: dict[int, tuple[int, float]] = {}
    for thread in trace.threads:
        for samples in thread.read_pieces(0, min(thread.count, _FIRST_RECORDS)):
            at = np.flatnonzero(samples["instance"])[:1]
            if len(at) and "cpu_ns" in thread.columns:
                t_ns, cpu_ns = (int(samples[name][at[0]]) for name in ("t_ns", "cpu_ns"))
                first = t_ns, min(cpu_ns, max(t_ns - trace.start_ns, 0)) * 1e-9
                firsts[thread.pid] = min(firsts.get(thread.pid, first), first)
                break
    return list(firsts.values())


def _outside_work(flame: Flame) -> tuple[str, str | None]:
    """Return in words what ran outside tasks, empty if no stack shows it, and a pattern for most of it."""
    joules: dict[str, float] = defaultdict(float)
    patterns: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for path, own_j in _paths(flame):
        what, pattern = _work_of(path)
        joules[what] += own_j
        if pattern is not None:
            patterns[what][pattern] += own_j
    total_j = sum(joules.values())
    first = sorted((one for one in joules if joules[one] >= NOTABLE * total_j), key=joules.__getitem__, reverse=True)
    if not total_j > 0 or not first:
        return "", None
    words = [f"{100 * joules[one] / total_j:.0f} % {one}" for one in first[:MOST]]
    named = next((one for one in first[:MOST] if patterns[one]), None)
    pattern = None if named is None else max(patterns[named], key=patterns[named].__getitem__)
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))), pattern


def _paths(flame: Flame) -> list[tuple[Path, float]]:
    """Return the functions of each path outside tasks that took joules itself, with these."""
    columns = (flame.nodes[name].tolist() for name in ("parent", "name", "place", "kind", "own_j"))
    found: list[Path | None] = []
    taken: list[tuple[Path, float]] = []
    for parent, name, place, kind, own_j in zip(*columns, strict=True):
        above = found[parent] if parent >= 0 else None
        path: Path | None = [] if name == OUTSIDE and kind == "rest" else None
        if above is not None and name != NONE_SAMPLED:
            path = [*above, (name, place)]
        found.append(path)
        if path and own_j > 0:
            taken.append((path, own_j))
    return taken


def _work_of(path: Path) -> tuple[str, str | None]:
    """Return what a path belongs to, and a pattern for the function that was called there."""
    if path[-1][0] == IMPORT[0] or any(name.startswith(_MODULE) for name, _ in path[1:]):
        return IMPORTS, None
    loops = [at for at, (_, place) in enumerate(path) if _LOOP in place]
    called = path[loops[-1] + 1 :] if loops else path
    for at, (_, place) in enumerate(called):
        if (package := _PACKAGE.match(place)) is not None:
            return package[1], _pattern(package[1], called[at:], is_module=package[2] is not None)
    own = [(name, place) for name, place in called if place and not (_PYTHON.match(place) or name.startswith(_MODULE))]
    if own:
        name, place = own[0]
        return PROGRAM, f"{place.rpartition(':')[0]}:{_last(name)}"
    return (LOOP if loops else LIBRARY), None


def _pattern(package: str, path: Path, *, is_module: bool) -> str | None:
    """Return a pattern for the first public function of a package on a path."""
    for name, place in path:
        found, last = _PACKAGE.match(place), _last(name)
        if found is not None and found[1] == package and not (last.startswith(("_", "*._", "<")) or "<locals>" in name):
            return f"{package}{'' if is_module else '.*'}:{last}"
    return None


def _last(name: str) -> str:
    """Return a function's own name, of a method with a wildcard for its class."""
    inner = name.rpartition("<locals>.")[2]
    return f"*.{inner.rpartition('.')[2]}" if "." in inner else inner
