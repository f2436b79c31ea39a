"""Policies: how a runtime chooses the processor's frequency for each task, and how many workers are active.

`policy` is what a program writes, and what this needs of a machine; `operator` applies it there. `control` is the loop.
It sets what a strategy requests: fixed frequencies or those of a table (`strategy`), those that are learnt (`learning`,
from `exploration`, `power_estimator` and `worker_search`), or either below a cap on the power (`power_limiter`).
`decision` holds the chosen frequencies, and `controls` sets them. What frequencies cost, and what is known of tasks, is
in `tprof.analysis.operating_points`.
"""

from .policy import Policy, edp, energy, fixed, max_slowdown, policy_of, power_cap

__all__ = ["Policy", "edp", "energy", "fixed", "max_slowdown", "policy_of", "power_cap"]
