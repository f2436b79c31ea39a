"""Findings about what a recording reads: energy sensors, the power model, counters, and the settings that decide."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import sensors
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
from tprof.sensors.advice import CONTAINER_PERF, ONE_RUN, PERF_COUNTERS, SIDE_CHANNEL, Remedy, explain_perf_error
from tprof.sensors.contract import Machine, Quantity, Unavailable
from tprof.sensors.registry import all_classes
from tprof.sensors.topology import describe_host, is_x86, read_text
from tprof.trace.kinds import Quality
from tprof.trace.plain_values import is_finite, whole
from tprof.trace.power_model import read_model

from .fact import Fact, State, read_proc
from .live_sensors import LEAST_UPDATES, time_updates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Probe = Callable[[Event], tuple[int, int, int, int]]

    from tprof.counters.pmus import Pmu
    from tprof.sensors import Choice, Domain, Sensor

    from .live_sensors import LiveDomain


LONGEST_S = 0.5
"""For which a sensor is read to time its updates."""
GIVE_WATTS = Remedy("tprof run --watts IDLE,PER_CORE …")
DISABLE_FILTERING = Remedy(
    "disable SGX in the firmware's set-up",
    f"the noise is there to protect secrets of other programs: {SIDE_CHANNEL}",
)
CALIBRATE = (Remedy("tprof calibrate"),)
CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
KERNEL_TOO, NOBODY = 1, 3  # values of perf_event_paranoid: up to, and from
FEW_DESCRIPTORS = 4096
PER_THREAD = 4
READING = "counter reads"
WATCHDOG = Remedy("sudo sysctl kernel.nmi_watchdog=0", "a processor that hangs is no longer noticed by the kernel")


def energy_facts(root: Path, machine: str | None = None) -> tuple[Fact, ...]:
    """Return the findings on the energy sensors below `root`; `machine` is the architecture, by default this one's."""
    choice = sensors.choose("auto", root=root, machine=machine)
    classes, failed = all_classes()
    facts = [_chosen(choice)]
    for kind in classes:
        facts += _sensor(kind, Machine(root, machine), choice)
    facts += [Fact(name, State.MISSING, why) for name, why in failed]
    known = {kind.name for kind in classes} | {name for name, _ in failed}
    facts += [_left_out(name, why) for name, why in choice.left_out if name not in known]
    if choice.estimate is None:
        facts += [_range(domain) for domain in choice.domains if domain.source == "powercap" and domain.modulus is None]
        facts.append(_filtering(root))
    return tuple(facts)


def _sensor(kind: type[Sensor], machine: Machine, choice: Choice) -> list[Fact]:
    """Return whether a sensor can be read, and how often its domains update, which is measured now."""
    found = kind().find(machine)
    if isinstance(found, Unavailable):
        covers = Fact(f"{kind.name} would cover", State.MISSING, kind.covers)
        return [Fact(kind.name, State.MISSING, found.why, found.remedies), covers]
    used = any(domain.source == kind.name for domain in choice.domains)
    why = "read by a recording" if used else f'can be read: energy="{kind.name}" chooses it'
    live = time_updates(machine, kind(), found.domains, LONGEST_S)
    covers = Fact(f"{kind.name} covers", State.OK, kind.covers)
    return [Fact(kind.name, State.OK, why), covers, *(_updates(one) for one in live.domains)]


def _updates(live: LiveDomain) -> Fact:
    """Return the finding on one domain: its update interval, its resolution, its error and what it is."""
    domain = live.domain
    what = f"{domain.source}'s {domain.name}"
    if live.problem is not None:
        return Fact(what, State.MISSING, f"cannot be read now: {live.problem}")
    words = [] if domain.accuracy.covers is None else [domain.accuracy.covers]
    expected = domain.accuracy.update_s
    if live.update_s is not None:
        words.append(f"updates every {live.update_s * 1e3:.3g} ms (measured now)")
    elif expected is not None and expected > LONGEST_S:
        words.append(f"updates about every {expected:g} s, which is too long to be measured now")
    else:
        words.append(f"no {LEAST_UPDATES} updates were seen within {LONGEST_S:g} s")
    words += _errors(domain)
    return Fact(what, State.OK, ", ".join(words))


def _errors(domain: Domain) -> list[str]:
    accuracy, words = domain.accuracy, []
    if accuracy.resolution is not None:
        words.append(f"steps of {accuracy.resolution:.3g} {'J' if accuracy.shows is Quantity.ENERGY else 'W'}")
    if accuracy.relative_error is not None:
        words.append(f"within {100 * accuracy.relative_error:g} %")
    if accuracy.shows is Quantity.POWER:
        words.append("power, integrated by tprof")
    return words


def _names(domains: tuple[Domain, ...]) -> str:
    counted = ", ".join(domain.name for domain in domains if domain.counted)
    beside = ", ".join(domain.name for domain in domains if not domain.counted)
    return f"{counted} in the total" + (f"; {beside} beside it" if beside else "")


def _chosen(choice: Choice) -> Fact:
    if choice.estimate is not None:
        return Fact("energy", State.LIMITED, choice.notes[0], () if choice.estimate.given else (GIVE_WATTS,))
    first = choice.domains[0]
    how = "simulated, read by" if first.quality is Quality.SIMULATED else "measured by"
    return Fact("energy", State.OK, f"{how} {first.source}: {_names(choice.domains)}")


def _left_out(name: str, why: str) -> Fact:
    unread = why.startswith(("cannot read", "its event cannot be opened"))
    return Fact(name, State.MISSING if unread else State.OK, f"not in the total: {why}")


def _range(domain: Domain) -> Fact:
    why = "max_energy_range_uj cannot be read: an interval in which the counter wraps has no energy"
    return Fact(f"{domain.name}'s range", State.LIMITED, why)


def _filtering(root: Path) -> Fact:
    """Return the finding on energy filtering: microcode adds noise with SGX, or if the firmware enables it."""
    processor = read_proc(root, "cpuinfo") or ""
    what = "energy filtering"
    if "GenuineIntel" not in processor:
        return Fact(what, State.OK, "only Intel processors add noise to their energy counters")
    if " sgx" in processor or (root / "dev/sgx_enclave").exists():
        why = "SGX is on, so the processor adds noise to its energy counters: short tasks are blurred"
        return Fact(what, State.LIMITED, why, (DISABLE_FILTERING,))
    why = (
        "SGX is off; whether the firmware asks for noise all the same (IA32_MISC_PACKAGE_CTLS) cannot be seen from here"
    )
    return Fact(what, State.OK, why)


def model_facts(path: Path | None = None) -> tuple[Fact, ...]:
    """Return whether there is a calibrated model, its date and its error; `path` is that of the model."""
    model, note = read_model(describe_host()["processor"], path)
    if note is not None:
        return (Fact("calibrated model", State.LIMITED, note, CALIBRATE),)
    if model is None:
        why = "none is kept for this machine: powers are fitted to each recording, or all busy cores count alike"
        return (Fact("calibrated model", State.MISSING, why, CALIBRATE),)
    error = model.get("left_out_error")
    off = f", {100 * float(error):.1f} % off on kernels left out" if error is not None and is_finite(error) else ""
    # A table may come from another machine than the one it is stored for.
    how = (
        f"from {model.get('source')}, {model.get('quality')}"
        if model.get("quality") == Quality.GIVEN
        else model.get("quality")
    )
    return (Fact("calibrated model", State.OK, f"of {model.get('date')} ({how}){off}"),)


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
    facts += [_counter(counter, found) for counter, found in hardware.items()]
    facts += [_counter(counter, _probed(counter, (), probe)) for counter in SOFTWARE_EVENTS]
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


def _counter(counter: Counter, found: tuple[int, int] | str) -> Fact:
    if isinstance(found, str):
        return Fact(counter.column, State.MISSING, found)
    error, running_ns = found
    if error != 0:
        return Fact(counter.column, State.MISSING, explain_perf_error(error), _grants(error))
    if running_ns == 0:
        return Fact(counter.column, State.MISSING, "it opens but never runs: all counters are taken", (WATCHDOG,))
    return Fact(counter.column, State.OK, "counts")


def _grants(error: int) -> tuple[Remedy, ...]:
    if error == errno.EACCES:
        return (ONE_RUN, PERF_COUNTERS)
    if error == errno.EPERM:
        return (CONTAINER_PERF, ONE_RUN, PERF_COUNTERS)
    return (_more_descriptors(),) if error == errno.EMFILE else ()


def _paranoid(root: Path, *, capable: bool) -> Fact:
    what = "perf_event_paranoid"
    text = read_proc(root, "sys/kernel/perf_event_paranoid")
    if text is None:
        return Fact(what, State.MISSING, "the kernel has no such setting: it is built without perf events")
    if capable:
        why = f"{text}, which does not hold for this process: it has CAP_PERFMON or CAP_SYS_ADMIN"
        return Fact(what, State.OK, why)
    number = whole(text.removeprefix("-"))
    level = NOBODY if number is None else -number if text.startswith("-") else number
    if level >= NOBODY:
        return Fact(what, State.MISSING, f"{text}: perf events are forbidden", (ONE_RUN, PERF_COUNTERS))
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
    why = f"{soft}: counters for about {threads} threads at once; further threads have time and energy only"
    if soft >= FEW_DESCRIPTORS:
        return Fact("open files", State.OK, why)
    return Fact("open files", State.LIMITED, why, (_more_descriptors(),) if hard != soft else ())
