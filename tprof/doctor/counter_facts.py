"""Findings about counters: which events the tables give, whether they count, and the settings that decide."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.counters import processor_pmus, read_pmus
from tprof.counters.groups import (
    DEFAULT,
    L2_REFS,
    LLC_REFS,
    SOFTWARE_EVENTS,
    STALLS_FRONTEND,
    Counter,
    Event,
    events_of,
    probe_event,
)
from tprof.sensors.advice import CONTAINER_PERF, NOBODY, ONE_RUN, PERF_COUNTERS, Remedy, at_level, explain_perf_error
from tprof.sensors.topology import is_x86, paranoid_level, read_text
from tprof.trace.plain_values import counted

from .fact import Fact, State, read_proc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.counters.pmus import Pmu

    Probe = Callable[[Event], tuple[int, int, int, int]]


CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
KERNEL_TOO = 1  # the largest perf_event_paranoid under which the kernel's part is counted
FEW_DESCRIPTORS = 4096
PER_THREAD = 4
READING = "counter reads"
WATCHDOG = Remedy("sudo sysctl kernel.nmi_watchdog=0", "a processor that hangs is no longer noticed by the kernel")


def counter_facts(
    root: Path,
    *,
    probe: Probe = probe_event,
    status: Path = Path("/proc/self/status"),
    machine: str | None = None,
) -> tuple[Fact, ...]:
    """Return the findings on counters.

    Parameters
    ----------
    root
        Directory above /proc and /sys.
    probe
        Tries an event in this process.
    status
        File with this process's capabilities.
    machine
        The architecture, as uname names it; by default this one's.
    """
    pmus = read_pmus(root)
    hardware = {counter: _probed(counter, pmus, probe) for counter in (*DEFAULT, LLC_REFS, L2_REFS, STALLS_FRONTEND)}
    counting = any(not isinstance(found, str) and found[0] == 0 and found[1] > 0 for found in hardware.values())
    facts = [_table(pmu) for pmu in pmus]
    level = paranoid_level(root)
    facts += [_counter(counter, found, level) for counter, found in hardware.items()]
    facts += [_counter(counter, _probed(counter, (), probe), level) for counter in SOFTWARE_EVENTS]
    facts.append(_paranoid(root, capable=_has_capability(status)))
    facts.append(_reading(processor_pmus(root), counting=counting, x86=is_x86(machine)))
    facts.append(_watchdog(root, counting=counting))
    facts.append(_descriptors())
    return tuple(facts)


def _table(pmu: Pmu) -> Fact:
    """Return the finding on which table says what the counters of a kind of core count."""
    what = f"events of {pmu.name}"
    if pmu.core is None:
        name = "this processor" if pmu.processor is None else pmu.processor
        why = f"no table lists {name}: the kernel's generic events, and what those of caches count depends on it"
        return Fact(what, State.LIMITED, why)
    sizes = pmu.core.counters
    many = " and ".join(f"{sizes[kind]} {kind}" for kind in ("fixed", "general") if kind in sizes)
    width = f" of {sizes['bits']} bits" if "bits" in sizes else ""
    return Fact(
        what, State.OK, f"{pmu.core.name}, table {pmu.core.table}" + (f"; {many} counters{width}" if many else "")
    )


def _probed(counter: Counter, pmus: Sequence[Pmu], probe: Probe) -> tuple[int, int] | str:
    """Return the first errno of a counter's events, and the time that they ran; or the reason why it has none."""
    events = events_of(counter, pmus)
    if isinstance(events, str):
        return events
    results = [probe(event) for event in events]
    return next((result[0] for result in results if result[0] != 0), 0), sum(result[3] for result in results)


def _counter(counter: Counter, found: tuple[int, int] | str, level: int | None) -> Fact:
    if isinstance(found, str):
        return Fact(counter.column, State.MISSING, found)
    error, running_ns = found
    if error != 0:
        return Fact(counter.column, State.MISSING, explain_perf_error(error), _grants(error, level))
    if running_ns == 0:
        return Fact(counter.column, State.MISSING, "it opens but never runs: all counters are taken", (WATCHDOG,))
    return Fact(counter.column, State.OK, "counts")


def _grants(error: int, level: int | None) -> tuple[Remedy, ...]:
    if error == errno.EACCES:
        return at_level(level, (ONE_RUN, PERF_COUNTERS))
    if error == errno.EPERM:
        return (CONTAINER_PERF, ONE_RUN, PERF_COUNTERS)
    return (_more_descriptors(),) if error == errno.EMFILE else ()


def _paranoid(root: Path, *, capable: bool) -> Fact:
    what = "perf_event_paranoid"
    text = read_proc(root, "sys/kernel/perf_event_paranoid")
    if text is None:
        return Fact(what, State.MISSING, "the kernel has no such setting: it is built without perf events")
    level = paranoid_level(root)
    if capable:
        why = f"{text}, which does not hold for this process: it has CAP_PERFMON or CAP_SYS_ADMIN"
        some = "; some kernels, such as Debian's, then want CAP_SYS_ADMIN" if level is None or level >= NOBODY else ""
        return Fact(what, State.OK, why + some)
    if level is None or level >= NOBODY:
        remedies = at_level(level, (ONE_RUN, PERF_COUNTERS))
        return Fact(what, State.MISSING, f"{text}: perf events are forbidden", remedies)
    if level > KERNEL_TOO:
        why = f"{text}: own programs' user part is counted; neither context switches nor the kernel's energy events"
        return Fact(what, State.LIMITED, why, (ONE_RUN, PERF_COUNTERS))
    energy = "energy events too" if level <= 0 else "no energy events"
    return Fact(what, State.OK, f"{text}: own programs are counted, {energy}")


def _has_capability(status: Path) -> bool:
    for line in (read_text(status) or "").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & (1 << CAP_SYS_ADMIN | 1 << CAP_PERFMON))
    return False


def _reading(pmus: Sequence[Path], *, counting: bool, x86: bool) -> Fact:
    """Return the finding on the cost of reading counters; only x86 reads them without a system call."""
    if not pmus and not counting:
        why = "the kernel shows no processor PMU: hardware counters cannot be read"
        return Fact("rdpmc" if x86 else READING, State.MISSING, why)
    if not x86:
        names = ", ".join(pmu.name for pmu in pmus) or "the processor's PMU"
        return Fact(READING, State.OK, f"{names}: each sample's counters cost a system call, about 0.5 µs")
    found = next(((pmu / "rdpmc", text) for pmu in pmus if (text := read_text(pmu / "rdpmc")) is not None), None)
    if found is None:
        return Fact("rdpmc", State.MISSING, "the kernel has no such setting: each sample's counters cost a system call")
    place, text = found
    if text == "0":
        remedy = Remedy(f"echo 1 | sudo tee {place}", "programs can read their own counters without the kernel")
        why = "0: each sample's counters cost a system call, about 0.5 µs instead of 0.1 µs"
        return Fact("rdpmc", State.LIMITED, why, (remedy,))
    return Fact("rdpmc", State.OK, f"{text}: " + ("counters are read without a system call" if counting else "allowed"))


def _watchdog(root: Path, *, counting: bool) -> Fact:
    text = read_proc(root, "sys/kernel/nmi_watchdog")
    if text != "1":
        return Fact("nmi_watchdog", State.OK, "it holds no hardware counter")
    why = "1: it holds one hardware counter" + ("" if counting else ", which matters where there are some")
    return Fact("nmi_watchdog", State.LIMITED if counting else State.OK, why, (WATCHDOG,) if counting else ())


def _more_descriptors() -> Remedy:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Remedy(f"ulimit -n {'unlimited' if hard == resource.RLIM_INFINITY else hard}")


def _descriptors() -> Fact:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Fact("open files", State.OK, "unlimited")
    threads = soft // 2 // PER_THREAD
    why = f"{soft}: counters for about {counted(threads, 'thread')} at once; further threads have time and energy only"
    if soft >= FEW_DESCRIPTORS:
        return Fact("open files", State.OK, why)
    return Fact("open files", State.LIMITED, why, (_more_descriptors(),) if hard != soft else ())
