"""Findings about the energy that a recording reads: its sensors, and the power model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof import sensors
from tprof.sensors.advice import SIDE_CHANNEL, Remedy
from tprof.sensors.choose import PROCESSOR
from tprof.sensors.contract import Machine, Omission, Quantity, Unavailable
from tprof.sensors.registry import all_classes, search
from tprof.sensors.topology import describe_host
from tprof.trace.kinds import Quality
from tprof.trace.plain_values import is_finite
from tprof.trace.power_model import read_model

from .fact import Fact, State, read_proc
from .live_sensors import LEAST_UPDATES, time_updates

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.sensors import Choice, Domain, LeftOut, Sensor

    from .live_sensors import LiveDomain


LONGEST_S = 0.5
"""For which a sensor is read to time its updates."""
GIVE_WATTS = Remedy("tprof run --watts IDLE,PER_CORE …")
DISABLE_FILTERING = Remedy(
    "disable SGX in the firmware's set-up",
    f"the noise is there to protect secrets of other programs: {SIDE_CHANNEL}",
)
CALIBRATE = (Remedy("tprof calibrate"),)


def energy_facts(root: Path, machine: str | None = None) -> tuple[Fact, ...]:
    """Return the findings on the energy sensors below `root`; `machine` is the architecture, by default this one's."""
    choice = sensors.choose("auto", root=root, machine=machine)
    classes, failed = all_classes()
    facts = [_chosen(choice)]
    for kind in classes:
        facts += _sensor(kind, Machine(root, machine), choice)
    facts += [Fact(name, State.MISSING, why) for name, why in failed]
    known = {kind.name for kind in classes} | {name for name, _ in failed}
    facts += [_left_out(one) for one in choice.left_out if one.name not in known]
    if choice.estimate is None:
        facts += [_range(domain) for domain in choice.domains if domain.source == "powercap" and domain.modulus is None]
        facts.append(_filtering(root))
    return tuple(facts)


def _sensor(kind: type[Sensor], machine: Machine, choice: Choice) -> list[Fact]:
    """Return whether a sensor can be read, and how often its domains update, which is measured now."""
    found = search(kind(), machine)
    if isinstance(found, Unavailable):
        brief = not (found.notable or (kind.subject == PROCESSOR and found.remedies))
        return [Fact(kind.name, State.MISSING, found.why, found.remedies, kind.covers, brief)]
    used = any(domain.source == kind.name for domain in choice.domains)
    why = "read by a recording" if used else f'can be read: energy="{kind.name}" chooses it'
    still = next((one.why for one in choice.left_out if one.name == kind.name), None)
    live = time_updates(machine, kind(), found.domains, LONGEST_S)
    own = Fact(kind.name, State.OK if still is None else State.MISSING, still or why, covers=kind.covers)
    return [own, *(_updates(one) for one in live.domains)]


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
    lacks = [one.name for one in choice.left_out if one.kind is Omission.UNREADABLE]
    state, without = (State.LIMITED, f"; without {', '.join(lacks)}") if lacks else (State.OK, "")
    return Fact("energy", state, f"{how} {first.source}: {_names(choice.domains)}{without}")


def _left_out(one: LeftOut) -> Fact:
    state = State.OK if one.kind is Omission.BY_DESIGN else State.MISSING
    return Fact(one.name, state, f"not in the total: {one.why}", () if one.remedy is None else (one.remedy,))


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
