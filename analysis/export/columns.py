"""The columns of all tables: type, unit and meaning, as docs/export.md lists them and Arrow's schemas carry them."""

from __future__ import annotations

from typing import NamedTuple

NAME, TEXT, REAL, WHOLE, FLAG = "name", "text", "real", "whole", "flag"
"""Kinds of values: names are few and stored once; an empty cell is not known or does not apply."""


class Column(NamedTuple):
    """A column.

    Attributes
    ----------
    kind : of its values
    unit : J, W, s, Hz, Js, 1 for a part or a ratio; empty for what has none
    meaning : in a few words
    """

    kind: str
    unit: str
    meaning: str


COMMON = {
    "quality": Column(NAME, "", "measured, estimated, simulated or given; mixed over unlike hosts"),
    "host": Column(NAME, "", "name of the host, in a job"),
    "task": Column(NAME, "", "name of the task"),
    "instance": Column(WHOLE, "", "number of the instance, unique in a session"),
    "instances": Column(WHOLE, "", "how many instances"),
    "domain": Column(NAME, "", "what the sensor measures, such as package-0"),
    "energy_j": Column(REAL, "J", "joules, nested tasks left out"),
    "power_w": Column(REAL, "W", "joules over own time"),
    "pid": Column(WHOLE, "", "number of the process"),
    "cpu": Column(WHOLE, "", "logical processor where it began; -1: not known"),
    "tasks_j": Column(REAL, "J", "joules of tasks"),
    "runtime_j": Column(REAL, "J", "joules of the program's threads between tasks"),
    "other_j": Column(REAL, "J", "joules of other processes"),
    "idle_j": Column(REAL, "J", "joules while nobody ran"),
    "spin_j": Column(REAL, "J", "joules of native threads that spun after their task"),
    "native_j": Column(REAL, "J", "the part of energy_j in native threads"),
    "native_high_j": Column(REAL, "J", "what native_j is at most"),
    "native_cpu_s": Column(REAL, "s", "CPU time of native threads"),
    "gpu_j": Column(REAL, "J", "the GPUs' part of energy_j"),
    "own_mean_s": Column(REAL, "s", "mean time without nested tasks and suspension"),
    "duration_s": Column(REAL, "s", "length"),
    "worker": Column(WHOLE, "", "number of the worker"),
    "steals": Column(WHOLE, "", "tasks taken from another worker"),
}
"""Columns that mean the same in every table that has them."""

TABLES: dict[str, dict[str, Column]] = {
    "tasks": {
        "parent": Column(WHOLE, "", "instance in which it is nested, or which spawned it; 0: none"),
        "tid": Column(WHOLE, "", "number of the thread where it began"),
        "thread": Column(NAME, "", "name of that thread"),
        "package": Column(WHOLE, "", "processor package; -1: not known"),
        "start_s": Column(REAL, "s", "begin, from that of the recorded block; in a job from the first host's"),
        "duration_s": Column(REAL, "s", "from first start to end, with nested tasks and suspension"),
        "cpu_s": Column(REAL, "s", "CPU time, nested tasks left out"),
        "dynamic_j": Column(REAL, "J", "part of energy_j above static power"),
        "static_j": Column(REAL, "J", "part of energy_j by static power"),
        "energy_low_j": Column(REAL, "J", "lower bound of energy_j"),
        "energy_high_j": Column(REAL, "J", "upper bound of energy_j"),
        "ipc": Column(REAL, "1", "instructions a cycle"),
        "failed": Column(FLAG, "", "whether it ended by an exception"),
        "spawn_s": Column(REAL, "s", "when it was spawned"),
        "ready_s": Column(REAL, "s", "when it could have run"),
        "wait_data_s": Column(REAL, "s", "from spawn to ready"),
        "wait_worker_s": Column(REAL, "s", "from ready to start"),
        "stolen": Column(FLAG, "", "whether another worker took it"),
        "key": Column(TEXT, "", "key of the task in dask"),
        "own_s": Column(REAL, "s", "time without nested tasks and suspension, in a job"),
    },
    "summary": {
        "hosts": Column(WHOLE, "", "hosts with instances, in a job"),
        "energy_low_j": Column(REAL, "J", "95 % interval of energy_j, lower end"),
        "energy_high_j": Column(REAL, "J", "95 % interval of energy_j, upper end"),
        "share": Column(REAL, "1", "part of all tasks' joules"),
        "dynamic_j": Column(REAL, "J", "joules above static power"),
        "dynamic_low_j": Column(REAL, "J", "its 95 % interval, lower end"),
        "dynamic_high_j": Column(REAL, "J", "its 95 % interval, upper end"),
        "energy_mean_j": Column(REAL, "J", "mean of an instance"),
        "energy_std_j": Column(REAL, "J", "standard deviation between instances"),
        "energy_mean_low_j": Column(REAL, "J", "95 % interval of the mean, lower end; missing for one instance"),
        "energy_mean_high_j": Column(REAL, "J", "95 % interval of the mean, upper end; missing for one instance"),
        "energy_mean_at_most_j": Column(REAL, "J", "upper end of a mean that is not resolved"),
        "duration_mean_s": Column(REAL, "s", "mean from first start to end"),
        "power_low_w": Column(REAL, "W", "95 % interval of power_w, lower end"),
        "power_high_w": Column(REAL, "W", "95 % interval of power_w, upper end"),
        "edp_js": Column(REAL, "Js", "mean joules times mean own time"),
        "energy_time_corr": Column(REAL, "1", "Pearson's r of joules with duration"),
        "resolved": Column(FLAG, "", "whether the interval above static power is clear of zero"),
        "budget_j": Column(REAL, "J", "what an instance may use"),
        "over_budget": Column(REAL, "", "instances that used more"),
        "measured_j": Column(REAL, "J", "what measured hosts contribute, in a job of unlike hosts"),
        "estimated_j": Column(REAL, "J", "what estimated hosts contribute, likewise"),
        "simulated_j": Column(REAL, "J", "what simulated hosts contribute, likewise"),
        "given_j": Column(REAL, "J", "what hosts with given joules contribute, likewise"),
    },
    "accounts": {
        "measured_j": Column(REAL, "J", "joules of the domain; `quality` says how they are known"),
        "unidentified_j": Column(REAL, "J", "joules of native threads of one of several tasks"),
        "counted": Column(FLAG, "", "whether the domain is part of the total, in a job"),
    },
    "spans": {
        "time_s": Column(REAL, "s", "begin of the span, from that of the recorded block"),
        "span_s": Column(REAL, "s", "length of the span"),
        "process": Column(WHOLE, "", "number of the process in the session"),
        "thread": Column(NAME, "", "name and number of the thread, with --keep threads"),
        "instances": Column(WHOLE, "", "instances that began in the span"),
        "ended": Column(WHOLE, "", "instances that ended in the span"),
        "cpu_s": Column(REAL, "s", "CPU time in the span, nested tasks left out"),
        "own_s": Column(REAL, "s", "time in which threads ran the task, nested tasks left out"),
        "dynamic_j": Column(REAL, "J", "part of energy_j above static power"),
    },
    "power": {
        "time_s": Column(REAL, "s", "begin, from that of the recorded block"),
        "power_w": Column(REAL, "W", "of all counted domains, in a job"),
    },
    "hosts": {
        "energy_j": Column(REAL, "J", "what its counted domains measured"),
        "power_w": Column(REAL, "W", "mean over its block"),
        "duration_s": Column(REAL, "s", "length of its block"),
        "cpus": Column(WHOLE, "", "logical processors"),
        "busy_share": Column(REAL, "1", "part of all processors' time that was busy"),
        "busy_s": Column(REAL, "s", "busy time of its processors"),
        "imbalance": Column(REAL, "1", "time in tasks relative to the mean of the hosts, less 1"),
        "processes": Column(WHOLE, "", "how many processes"),
        "recordings": Column(WHOLE, "", "recordings that its figures are of"),
        "model": Column(NAME, "", "power model"),
        "missing": Column(TEXT, "", "why the host's part is not there, or not all of it"),
    },
    "by_host": {},
    "decisions": {
        "time_s": Column(REAL, "s", "when, from the begin of the recorded block"),
        "process": Column(WHOLE, "", "number of the process in the session"),
        "kind": Column(NAME, "", "chosen, set, allowed, workers, released, acted or cut"),
        "policy": Column(NAME, "", "who decided"),
        "why": Column(TEXT, "", "reason"),
        "frequency_hz": Column(REAL, "Hz", "frequency from then on"),
        "former_hz": Column(REAL, "Hz", "frequency before"),
        "cpus": Column(TEXT, "", "logical processors, with spaces between"),
        "workers": Column(REAL, "", "active workers from then on"),
        "energy_j": Column(REAL, "J", "of a mean instance, as the policy knew it"),
        "instance_s": Column(REAL, "s", "time of a mean instance, likewise"),
    },
    "waits": {
        "wait_data_mean_s": Column(REAL, "s", "mean from spawn to ready"),
        "wait_worker_mean_s": Column(REAL, "s", "mean from ready to start"),
        "cancelled": Column(WHOLE, "", "tasks that were cancelled"),
    },
    "workers": {
        "thread": Column(NAME, "", "name of its thread"),
        "served_s": Column(REAL, "s", "from its begin to its end"),
        "running_s": Column(REAL, "s", "in tasks"),
        "cpu": Column(WHOLE, "", "logical processor that it used most; -1: not known"),
        "suspended_s": Column(REAL, "s", "an instance waits inside its body, and nothing else runs"),
        "starved_s": Column(REAL, "s", "nothing runs, and no instance is ready"),
        "overhead_s": Column(REAL, "s", "nothing runs, although an instance is ready"),
        "idle_j": Column(REAL, "J", "joules of its thread outside tasks"),
    },
    "dependences": {"waits_for": Column(WHOLE, "", "instance that had to end first")},
    "critical_path": {
        "start_s": Column(REAL, "s", "begin of the instance"),
        "path_s": Column(REAL, "s", "time that the path spends in it"),
    },
}
"""Columns by table; a table also has some of `COMMON`."""

LABEL = Column(NAME, "", "label of the process")
DOMAIN_POWER = Column(REAL, "W", "mean power of a domain")
COUNTER = Column(REAL, "1", "counts, nested tasks left out")


def column_of(table: str, name: str) -> Column:
    """Return what a column of a table is; labels, domains and counters have names of their own."""
    known = TABLES[table].get(name) or COMMON.get(name)
    if known is not None:
        return known
    if name.startswith("label_"):
        return LABEL
    return DOMAIN_POWER if table == "power" else COUNTER
