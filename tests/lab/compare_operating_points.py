"""Checks of frequencies that tprof sets: whose they were, what was drawn under them, and that they were given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from programs import TASKS

if TYPE_CHECKING:
    from report import Report, Run

COUNTED = ("package_uj", "dram_uj")
MOST_W = 40.0
"""Of two processors: what the truth may leave out where it was read somewhat later or earlier."""


def _restored(report: Report, run: Run) -> None:
    """Whoever is killed, the policies are as before."""
    for one in run.said["seen"]:
        order = f"{one['governor']}: {', '.join(one['order'])}"
        held = all(policy[0] == policy[1] == "1000000" for policy in one["held"])
        report.true(f"{order}: 1 GHz is held on {len(one['held'])} policies", holds=held)
        report.true(f"{order}: then the policies are as before", holds=one["after"] == one["before"])


def _given_back(report: Report, run: Run) -> None:
    """After the program the policies are as before."""
    report.true("the policies are as before", holds=run.said["after"] == run.said["before"])


def _drawn_j(before: dict[str, Any], after: dict[str, Any], *names: str) -> float:
    """Return what packages drew between two moments: the sum of these lines."""
    packages = [name for name in before if name.startswith("package")]
    return sum(after[package][name] - before[package][name] for package in packages for name in names) * 1e-6


def _hz(before: dict[str, Any], after: dict[str, Any], kind: int) -> float:
    """Return the mean frequency at which a kind ran between two moments."""
    grown = {key: after[f"kind{kind}"][key] - before[f"kind{kind}"][key] for key in ("cycles", "busy_ns")}
    return grown["cycles"] / max(grown["busy_ns"], 1) * 1e9


def _swept(report: Report, run: Run) -> None:
    """Each run of a sweep had its frequency, and the program's joules are those that were drawn meanwhile."""
    said, bounds = run.said, run.scenario["bounds"]
    report.true("the sweep ended with status 0", holds=said["status"] == 0)
    programs = [row for row in said["rows"] if not row["task"]]
    for row in programs:
        hz, joules = float(row["setting"]), float(row["energy_j"])
        same = [one for one in said["runs"] if abs(_hz(one["before"], one["after"], 1) - hz) < 0.02 * hz]
        report.true(f"{hz * 1e-9:.1f} GHz: a run had it", holds=bool(same))
        if not same:
            continue
        nearest = min(same, key=lambda one: abs(_seconds(one) - float(row["time_s"])))
        true_j = _drawn_j(nearest["before"], nearest["after"], *COUNTED)
        beyond_s = float(row["time_s"]) - _seconds(nearest)
        bound = bounds["program"] * true_j + MOST_W * abs(beyond_s)
        report.line(f"{hz * 1e-9:.1f} GHz: the program's joules ({beyond_s:+.3f} s)", joules, true_j, bound)
    warnings = [text for text in _texts(said["sweep"]) if "stuck" in text or "above" in text]
    for text in warnings:
        print(f"    {text}")
    report.true("no warning about a sensor that is right", holds=not warnings)


def _seconds(run: dict[str, Any]) -> float:
    return (run["after"]["now_ns"] - run["before"]["now_ns"]) * 1e-9


def _texts(said: Any) -> list[str]:
    """Return all texts in what a sweep says of its conditions."""
    if isinstance(said, dict):
        return [text for one in said.values() for text in _texts(one)]
    if isinstance(said, list):
        return [text for one in said for text in _texts(one)]
    return [said] if isinstance(said, str) else []


def _policy(report: Report, run: Run) -> None:
    """A runtime's policy gave tasks their frequencies, or kept a cap in the second half."""
    first, middle, last = run.said["truths"]
    bounds = run.scenario["bounds"]
    for row in run.trace.profile("cputime").decisions.to_dict("records"):
        print("    " + " ".join(f"{name}={value}" for name, value in row.items() if str(value) not in ("nan", "")))
    for name, ghz in bounds.get("ghz", {}).items():
        hz = _hz(middle, last, TASKS[name])
        report.line(f"{name}: frequency", hz * 1e-9, ghz, bounds["share"] * ghz, "GHz")
    if "watts" in bounds:
        watts = [
            _drawn_j(a, b, "package_uj") * 1e9 / (b["now_ns"] - a["now_ns"])
            for a, b in ((first, middle), (middle, last))
        ]
        print(f"  the package drew {watts[0]:.1f} W in the first half and {watts[1]:.1f} W in the second")
        report.true(f"that is below {bounds['watts']:g} W", holds=watts[1] <= bounds["watts"])


def _slowed(report: Report, run: Run) -> None:
    """A budget that slows lowers the highest frequency, only once it is exceeded, and gives it back."""
    said = run.said
    limit_j, drawn_j = run.scenario["arguments"]["joules"], _drawn_j(said["begin"], said["end"], *COUNTED)
    low = [used_j for used_j, policies in said["seen"] if policies != said["before"]]
    report.true(f"it was exceeded: {said['used_j']:.1f} J", holds=said["exceeded"] and said["used_j"] > limit_j)
    report.true("then the frequency was lower", holds=bool(low) and min(low) > 0.9 * limit_j)
    report.true(f"what it counted is part of the {drawn_j:.1f} J drawn", holds=said["used_j"] <= 1.05 * drawn_j)


CHECKS = {
    "restored": _restored, "given back": _given_back, "swept": _swept, "policy": _policy, "slowed": _slowed,
}  # fmt: skip
