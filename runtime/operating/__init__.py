"""Choosing the processor's operating point: a frequency for each task, and how many workers are active.

General layout: `policy` is what a program writes, and `operator` applies it to a machine. `control` is the loop. Its
inputs are the costs of frequencies (`goals`) and what is known of tasks (`table` or `exploring`; `points`, and `curves`
between them). `decision` holds the chosen frequencies, `requested_frequency` finds a common one for tasks that share
it, and `worker_search` finds the number of workers. `power_limiter` keeps a cap on the power, `controls` sets
frequencies, and `power_estimator` estimates the power of tasks.
"""

from tprof.runtime.operating.policy import Policy, edp, energy, fixed, max_slowdown, policy_of, power_cap

__all__ = ["Policy", "edp", "energy", "fixed", "max_slowdown", "policy_of", "power_cap"]
