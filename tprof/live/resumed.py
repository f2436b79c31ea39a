"""The joules of a session that keeps sums, up to its last written span: where a meter that begins later goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.analysis.attribution.instance_sums import joined
from tprof.errors import TraceError
from tprof.trace.kinds import least_certain
from tprof.trace.sums import DOMAIN_SUMS, SumsReader

from .shares import added

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from .shares import Accounts

ACCOUNTS = ("tasks_j", "runtime_j", "other_j", "idle_j")


@dataclass(frozen=True)
class Resumed:
    """Sums up to a time.

    Attributes
    ----------
    until_ns : that time
    quality : of the least certain counted domain
    tasks : one row of `TASK_SUMS` for each task of each process
    domains : by name of each counted domain, its joules in the order of `ACCOUNTS`
    """

    until_ns: int
    quality: str
    tasks: NDArray[np.void]
    domains: dict[str, tuple[float, ...]]

    @classmethod
    def read(cls, session: Path, manifest: dict[str, Any]) -> Resumed | None:
        """Read what is written so far; None if nothing is."""
        tasks, rows, until_ns = joined([]), [np.empty(0, DOMAIN_SUMS)], None
        try:
            for block in SumsReader(session).blocks():
                tasks, until_ns = joined([tasks, block.tasks], ["process", "task"]), block.until_ns
                rows.append(block.domains)
        except TraceError:
            return None
        if until_ns is None:
            return None
        sums, domains = np.concatenate(rows), {}
        counted = [(place, one) for place, one in enumerate(manifest.get("domains", ())) if one.get("counted")]
        for place, one in counted:
            mine = sums[sums["domain"] == place]
            domains[str(one.get("name"))] = tuple(float(mine[name].sum()) for name in ACCOUNTS)
        return cls(until_ns, least_certain({str(one.get("quality")) for _, one in counted}), tasks, domains)

    def enter(
        self, accounts: Accounts, by_domain: dict[str, tuple[float, ...]], index: Callable[[int, int], int]
    ) -> None:
        """Add the sums to accounts; `index` gives a task's index by process and number."""
        keys = zip(self.tasks["process"].tolist(), self.tasks["task"].tolist(), strict=True)
        places = np.array([index(process, number) for process, number in keys], np.int64)
        of_task = places >= 0
        accounts.task_j = added(accounts.task_j, places[of_task], self.tasks["energy_j"][of_task])
        accounts.starts = added(accounts.starts, places[of_task], self.tasks["begun"][of_task].astype(float))
        for name, joules in self.domains.items():
            by_domain[name] = (*joules, 0.0, 0.0)
            for account, part_j in zip(ACCOUNTS, joules, strict=True):
                setattr(accounts, account, getattr(accounts, account) + part_j)
            accounts.measured_j += sum(joules)
