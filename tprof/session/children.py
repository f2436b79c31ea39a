"""How child processes join a recording: forked ones, started ones, and the workers of a Ray cluster.

A forked child joins when the fork has returned, any other child by the environment variable `TPROF_SESSION`, which
holds the session directory while the recording runs.

A Ray that the program starts has the program's environment. Workers of a cluster have the environment of its starter,
plus the variables that `ray.init` adds for one job; RAY_RUNTIME_ENV_HOOK names a function that provides them. The hook
is set only if a cluster runs: workers with a runtime environment start seconds later than Ray's prestarted ones.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from tprof import _core, log
from tprof.errors import TprofError

from .membership import Plan, enter
from .process_state import SESSION, TASKS, this_process

RAY_HOOK = "RAY_RUNTIME_ENV_HOOK"
_NAME = f"{__name__}.add_session"
_SET_UP = "worker_process_setup_hook"


def join_from_environment() -> None:
    """Join the session that the environment names, if it is running.

    A recording that ended meanwhile is not an error; a failure to join a running one is a warning.
    """
    named = os.environ.get(SESSION)
    if not named or this_process.membership is not None or not _core.claim():
        return
    try:
        process = _core.session_join(named)
    except OSError as error:
        _core.release()
        log.debug("session", "process %d does not join %s: %s", os.getpid(), named, error)
        return
    try:
        enter_until_exit(Path(named), process)
    except (OSError, ValueError, TypeError, OverflowError, TprofError) as error:
        _core.release()
        warnings.warn(f"tprof does not record process {os.getpid()}: {error}", RuntimeWarning, stacklevel=2)


def enter_until_exit(directory: Path, process: int) -> None:
    """Become the member with this ordinal until Python ends, at the latest. Raises OSError and TraceError."""
    member = enter(Plan.from_manifest(directory), process)
    member.start()
    this_process.make_way = _leave
    log.info("session", "process %d joins %s as number %d", os.getpid(), directory, process)
    if _core.is_main_interpreter():
        atexit.register(this_process.leave)
    else:
        _core.session_leave_at_exit(process)
        atexit.register(member.hand_over)


def _leave(own: str) -> None:
    """Leave the session that this process joined for a recording of its own."""
    member = this_process.membership
    this_process.leave()
    _core.release()
    if member is not None:
        tell_left(own, member.plan.directory)


def tell_left(own: str, session: Path) -> None:
    """Print that a session lacks what a process of it records itself."""
    tell(f"process {os.getpid()} records itself from here on ({own}), so {session.name} has no more of it")


def tell(text: str) -> None:
    """Print what becomes of a recording while its program runs, unless standard error is closed."""
    if sys.__stderr__ is not None and not sys.__stderr__.closed:
        with suppress(OSError):
            print(f"tprof: {text}", file=sys.__stderr__, flush=True)


def _join_parents_session() -> None:
    """Join in a forked child: the fork has returned to its caller."""
    parents, this_process.parents = this_process.parents, None
    process = _core.session_rejoin() if parents is not None and this_process.membership is None else None
    if parents is None or process is None:
        return
    _core.claim()  # a new process: no other interpreter can have claimed it
    try:
        enter(parents.plan, process).start()
        log.info("session", "process %d, forked, joins %s as number %d", os.getpid(), parents.plan.directory, process)
    except OSError as error:
        warnings.warn(f"tprof does not record process {os.getpid()}: {error}", RuntimeWarning, stacklevel=2)


this_process.join_in_child(_join_parents_session)


def set_ray_hook() -> None:
    """Let `ray.init` pass this process's session to its job's workers, if it may find a running cluster."""
    if RAY_HOOK not in os.environ and _runs():
        os.environ[RAY_HOOK] = _NAME


def clear_ray_hook() -> None:
    """Undo what `set_ray_hook` did."""
    if os.environ.get(RAY_HOOK) == _NAME:
        del os.environ[RAY_HOOK]


def add_session(runtime_env: dict[str, Any] | None) -> dict[str, Any]:
    """Add the session to the workers' environment; called by `ray.init`."""
    asked = dict(runtime_env or {})
    ours = {name: os.environ[name] for name in (SESSION, TASKS) if name in os.environ}
    if not ours:
        return asked
    asked["env_vars"] = {**ours, **(asked.get("env_vars") or {})}
    if TASKS in ours:
        asked.setdefault(_SET_UP, "tprof.launch.descendants.install_from_environment")
    return asked


def _runs() -> bool:
    """Return whether the environment names a cluster, or `ray start` left the address of one."""
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - where Ray looks
    return "RAY_ADDRESS" in os.environ or os.path.exists(f"{folder}/ray/ray_current_cluster")
