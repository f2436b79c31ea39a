"""The parts of a job: one session for each host, which a host recorder owns and the job's processes on it join.

A job is a directory, often on a file system that all hosts share. Each host has a part `hosts/NAME` in it, an ordinary
session. Nothing coordinates the hosts: each process asks for the part of its own host, and the first one starts the
host recorder.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core, errors
from tprof.errors import TprofError, TraceError, UsageError
from tprof.sensors import sysroot
from tprof.sensors.topology import boot_id, host_name
from tprof.trace.directory import HOSTS, one_at_a_time
from tprof.trace.hosts_table import begin_table, clean_name, launch_of
from tprof.trace.manifest import read_manifest
from tprof.trace.running import is_running

from .children import enter_until_exit
from .host_recorder import END_WITH_MEMBERS, running_members
from .labels import set_labels
from .options import RecordingOptions
from .preparation import FORMAT
from .process_state import SESSION, TASKS, Uninterrupted, this_process

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RecordingOptions", "ensure", "join", "leave", "part_of", "stop"]

ENGINE = "mpi"
"""Of jobs whose processes a launcher started."""
BEGIN_S = 60.0
"""Longest wait for a host recorder's beginning: its sensors may need seconds, and file systems of clusters too."""
STOP_S = 30.0
"""Longest wait for its end."""
LAST_S = 5.0
"""Longest wait of the last member for it."""
POLL_S = 0.02
MOST_PARTS = 1000
"""Most parts of hosts with the same name."""


def part_of(job: str | os.PathLike[str]) -> Path:
    """Return this host's latest part in a job, or the path that it will get.

    The job's directory is made if there is none. Two machines of the same name, told apart by the kernel's boot
    identity, get parts of different names.

    Raises
    ------
    TprofError
        If the directory cannot be made.
    """
    hosts = _make_job(Path(job).absolute())
    own, free = _own_parts(hosts)
    return own[-1] if own else free


def ensure(job: str | os.PathLike[str], options: RecordingOptions | None = None) -> Path:
    """Let a host recorder record this host's part of a job, and return the part.

    Whichever process of the host comes first starts the recorder, which outlives it. If an earlier part of this host
    has ended, another one begins.

    Parameters
    ----------
    job
        The job's directory, made if there is none.
    options
        What is recorded and how; those of the process that comes first count.

    Raises
    ------
    SensorError, UsageError, TprofError
        If the recorder cannot begin, with its reason.
    """
    _refuse_sums(options)
    hosts = _make_job(Path(job).absolute())
    with one_at_a_time(hosts, f".{clean_name(host_name(sysroot()))}.lock"):
        for _ in range(MOST_PARTS):
            own, free = _own_parts(hosts)
            if own and is_running(own[-1]):
                return own[-1]
            answer = _start(free, options or RecordingOptions())
            if "error" not in answer:
                return free
            if answer.get("kind") != UsageError.__name__ or not os.path.lexists(free):
                break
            # On a file system without locks another process took the name; its recorder may still be beginning.
            _await(lambda part=free: is_running(part), BEGIN_S)
    kind = getattr(errors, str(answer.get("kind")), TprofError)
    raise kind(answer["error"])


def _refuse_sums(options: RecordingOptions | None) -> None:
    if options is not None and options.keeps_summary:
        raise UsageError("a job of several hosts keeps its samples: leave keep out")


def enter_job(job: Path, launch: str | None, options: RecordingOptions) -> None:
    """Make a job for the processes of a launch, or find the one that another of them made.

    Raises
    ------
    UsageError
        If the job is of another launch, or sums are asked for, which jobs do not keep. Without an identity of
        launches: if this host has recorded there before.
    TprofError
        If it cannot be made.
    """
    _refuse_sums(options)
    job = job.absolute()
    hosts = _make_job(job)
    try:
        if launch is not None:
            begin_table(job, FORMAT, engine=ENGINE, launch=launch)
        is_ours = launch is None or launch_of(job) == launch
    except OSError as error:
        raise TprofError(f"cannot make the job {job}: {error.strerror}; choose another place") from error
    except TraceError as error:
        raise UsageError(f"{job} is no job of this launch ({error}): choose another path, or remove it") from error
    own = _own_parts(hosts)[0] if is_ours and launch is None else []
    if not is_ours or (own and not is_running(own[-1])):
        raise UsageError(f"{job} exists, with the recordings of another run: choose another path, or remove it")


def join(part: str | os.PathLike[str], labels: Mapping[str, object] | None = None) -> None:
    """Let this process record into a host's part, with labels; child processes that import tprof join too.

    A process that has joined already only gets the labels.

    Raises
    ------
    UsageError
        If the process records another session.
    TprofError
        If the part has ended.
    """
    part = Path(part).absolute()
    set_labels(labels or {})
    member = this_process.membership
    if member is not None and member.plan.directory == part:
        return
    if member is not None or not _core.claim():
        where = f" ({member.plan.directory})" if member is not None else ""
        raise UsageError(f"a recording already runs in this process{where}: end it before {part} is joined")
    try:
        with Uninterrupted():
            enter_until_exit(part, _core.session_join(os.fspath(part)))
            os.environ[SESSION] = os.fspath(part)
    except OSError as error:
        _core.release()
        raise TprofError(f"{part} is not recorded any more: tprof does not record process {os.getpid()}") from error
    except BaseException:
        _core.release()
        raise


def leave() -> None:
    """Let this process record no more; nothing happens if it does not."""
    member = this_process.membership
    if member is None:
        return
    with Uninterrupted():
        this_process.leave()
        if os.environ.get(SESSION) == os.fspath(member.plan.directory):
            del os.environ[SESSION]
        _core.release()


def await_end(part: Path, longest_s: float = LAST_S) -> None:
    """Wait for the end of the part that this process has left, if it was the last member.

    A cluster's job ends with its last process, and then whatever still runs on the host may be killed.
    """
    if all(pid == os.getpid() for pid in running_members()):
        _await(lambda: not is_running(part), longest_s)


def stop(part: str | os.PathLike[str], *, wait: bool = True, expects_members: bool = False) -> None:
    """Let a host recorder of this host end now; members that still run are noted in the part.

    Nothing happens if no recorder runs there. With `wait` the part has ended afterwards. With `expects_members` nothing
    is noted, and nothing is waited for: members are workers that an engine keeps, which have nothing more to do.

    Raises
    ------
    TprofError
        If the recorder does not end, belongs to another user, or runs on another host.
    """
    part = Path(part).absolute()
    if not is_running(part):
        return
    try:
        manifest = read_manifest(part)
        if manifest.get("boot_id") != boot_id(sysroot()):
            raise TprofError(f"{part} is recorded on another host: end it there")
        pid = int(manifest["pid"])
        os.kill(pid, END_WITH_MEMBERS if expects_members else signal.SIGTERM)
    except ProcessLookupError:
        pass
    except (TraceError, KeyError, TypeError, ValueError, OSError) as error:
        raise TprofError(f"cannot end the recorder of {part}: {error}") from error
    if wait and not _await(lambda: not is_running(part), STOP_S):
        raise TprofError(f"the recorder of {part} (process {pid}) has not ended within {STOP_S:g} s: end it by kill")


def _make_job(job: Path) -> Path:
    hosts = job / HOSTS
    try:
        if (job / "manifest.json").exists():
            raise UsageError(f"{job} is the session of one host, not a job: choose another path")
        job.mkdir(mode=0o700, exist_ok=True)
        hosts.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TprofError(f"cannot make the job {job}: {reason}; choose another place") from error
    return hosts


def _own_parts(hosts: Path) -> tuple[list[Path], Path]:
    """Return this machine's parts, the latest last, and the next name that is free."""
    name, here = clean_name(host_name(sysroot())), boot_id(sysroot())
    own: list[Path] = []
    for number in range(1, MOST_PARTS):
        part = hosts / (name if number == 1 else f"{name}-{number}")
        if not os.path.lexists(part):
            return own, part
        with suppress(TraceError):
            if read_manifest(part).get("boot_id") == here:
                own.append(part)
    raise TprofError(f"{hosts} has {MOST_PARTS} parts of hosts named {name}: choose another job")


def _start(part: Path, options: RecordingOptions) -> dict[str, Any]:
    """Start a host recorder, which leaves this process's children at once; returns its answer."""
    words = [sys.executable, "-P", "-m", "tprof.session.host_recorder", os.fspath(part), json.dumps(options.as_json())]
    environment = {name: value for name, value in os.environ.items() if name not in (SESSION, TASKS)}
    ours, theirs = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - this interpreter and our module
            words,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        os.close(ours)
        return {"error": f"cannot start the recorder of {part}: {error.strerror}"}
    finally:
        os.close(theirs)
    try:
        process.wait(BEGIN_S)
        return _read_answer(ours, part)
    except subprocess.TimeoutExpired:
        process.kill()
        return {"error": _late(part)}
    finally:
        os.close(ours)


def _read_answer(descriptor: int, part: Path) -> dict[str, Any]:
    """Read the recorder's first line, or what its interpreter printed instead."""
    text, deadline_s = b"", time.monotonic() + BEGIN_S
    while b"\n" not in text or not text.startswith(b"{"):
        if not select.select([descriptor], [], [], max(deadline_s - time.monotonic(), 0.0))[0]:
            return {"error": _late(part)}
        read = os.read(descriptor, 1 << 16)
        text += read
        if not read:
            break
    try:
        answer = json.loads(text)
    except ValueError:
        last = text.decode(errors="replace").strip().rpartition("\n")[2] or "it ended without a message"
        return {"error": f"the recorder of {part} could not begin: {last}"}
    return answer if isinstance(answer, dict) else {"error": f"the recorder of {part} could not begin: {answer}"}


def _late(part: Path) -> str:
    return f"the recorder of {part} has not begun within {BEGIN_S:g} s: look at the file system and the sensors"


def _await(condition: Any, longest_s: float) -> bool:
    deadline_s = time.monotonic() + longest_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True
