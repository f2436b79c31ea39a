"""Lets the workers of a running Ray cluster join a recording.

A Ray that the program starts has the program's environment. Workers of a cluster have the environment of its starter,
plus the variables that `ray.init` adds for one job; RAY_RUNTIME_ENV_HOOK names a function that provides them. The hook
is set only if a cluster runs: workers with a runtime environment start seconds later than Ray's prestarted ones.
"""

from __future__ import annotations

import os
from typing import Any

from tprof.environment import SESSION, TASKS

HOOK = "RAY_RUNTIME_ENV_HOOK"
_NAME = f"{__name__}.add_session"
_SET_UP = "worker_process_setup_hook"


def hand_on() -> None:
    """Let `ray.init` pass this process's session to its job's workers, if it may find a running cluster."""
    if HOOK not in os.environ and _runs():
        os.environ[HOOK] = _NAME


def hand_on_no_more() -> None:
    """Undo this."""
    if os.environ.get(HOOK) == _NAME:
        del os.environ[HOOK]


def add_session(runtime_env: dict[str, Any] | None) -> dict[str, Any]:
    """Add the session to the workers' environment; called by `ray.init`."""
    asked = dict(runtime_env or {})
    ours = {name: os.environ[name] for name in (SESSION, TASKS) if name in os.environ}
    if not ours:
        return asked
    asked["env_vars"] = {**ours, **(asked.get("env_vars") or {})}
    if TASKS in ours:
        asked.setdefault(_SET_UP, "tprof.launch.hook.install_from_environment")
    return asked


def _runs() -> bool:
    """Return whether the environment names a cluster, or `ray start` left the address of one."""
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - where Ray looks
    return "RAY_ADDRESS" in os.environ or os.path.exists(f"{folder}/ray/ray_current_cluster")
