"""Choosing the processor's operating point: a frequency for each task, and how many workers are active.

General layout: `policy` is what a program writes; `operator` is a policy at work on a machine; `control` is the loop,
which `goals` tells what to want, `table` or `exploring` what is known (`points`, and `curves` between them), `verdict`
what was chosen, `wishes` what tasks that share a frequency agree on, `worker_search` how many workers, `ceiling` what a
cap on the power allows, `controls` how to set it and `ledger` how many joules were drawn.
"""

from tprof.runtime.operating.policy import Policy, edp, energy, fixed, max_slowdown, policy_of, power_cap

__all__ = ["Policy", "edp", "energy", "fixed", "max_slowdown", "policy_of", "power_cap"]
