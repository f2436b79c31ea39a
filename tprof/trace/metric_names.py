"""The metrics of a recording: their names, units and labels, the same while it runs and of a session that has ended.

Names follow Prometheus: base units, and `_total` behind a counter. OpenTelemetry's names come to the same ones: its
exporters for Prometheus write `tprof.account.energy` with the unit J as `tprof_account_energy_joules_total`.
"""

from __future__ import annotations

from dataclasses import dataclass

OTHER_TASKS = "<other tasks>"
"""The label `task` of all tasks without a series of their own; angle brackets are in no function's name."""
MOST_TASKS = 100
"""Series of tasks, `OTHER_TASKS` left out, if nobody asks for another number: each is kept by the database for good."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes
    ----------
    name : OpenTelemetry's; `of_prometheus` is made of it
    unit : UCUM's, which OpenTelemetry uses: `J`, `W`, `s` or `{instance}`
    is_counter : whether its values only grow; else it is a gauge
    labels : names of its labels, in the order of a table
    help : one sentence
    """

    name: str
    unit: str
    is_counter: bool
    labels: tuple[str, ...]
    help: str

    @property
    def of_prometheus(self) -> str:
        """The name of the family, without the `_total` that a counter's samples have."""
        words = {"J": "_joules", "W": "_watts", "s": "_seconds"}
        return self.name.replace(".", "_") + words.get(self.unit, "")

    @property
    def of_sample(self) -> str:
        """The name in a query."""
        return self.of_prometheus + ("_total" if self.is_counter else "")


TASK_ENERGY = Metric(
    "tprof.energy", "J", is_counter=True, labels=("task", "quality"),
    help="Energy of a task's instances, nested tasks left out.",
)  # fmt: skip
TASK_INSTANCES = Metric(
    "tprof.instances", "{instance}", is_counter=True, labels=("task",), help="Instances of a task that have begun.",
)  # fmt: skip
ACCOUNT_ENERGY = Metric(
    "tprof.account.energy", "J", is_counter=True, labels=("account", "domain", "quality"),
    help="Where the energy of a domain went: accounts of a domain sum to what its sensor gave.",
)  # fmt: skip
POWER = Metric(
    "tprof.power", "W", is_counter=False, labels=("domain", "quality"), help="Power that a sensor's domain draws.",
)  # fmt: skip
METRICS = (TASK_ENERGY, TASK_INSTANCES, ACCOUNT_ENERGY, POWER)

ACCOUNTS = ("tasks", "runtime", "other", "idle", "spinning", "unidentified")
"""Values of the label `account`, as the accounts of a profile; the last two are of native threads."""
QUALITIES = ("measured", "estimated", "simulated", "given")
"""Values of the label `quality`: that of a domain, and of a task that of the least certain domain."""
