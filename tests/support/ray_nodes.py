"""Nodes of Ray on several hosts of one machine, one of which does not see the driver's files."""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from .hosts import FakeHost

DEADLINE_S = 240
PORT = 6379
ALONE = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
"""Words before a command that has an empty directory in place of the one whose name follows."""
SMALL = ("--object-store-memory=80000000", "--num-cpus=2", "--disable-usage-stats")


@contextmanager
def nodes(
    hosts: Mapping[str, FakeHost], head: str, *, place: Path, hidden: Mapping[str, Path]
) -> Iterator[dict[str, str]]:
    """Start a node on each host, with a resource of the host's name; yields the environment of a driver on the head's.

    Parameters
    ----------
    hosts : of the nodes
    head : name of the host with the head node
    place : directory for Ray's own files; sockets have at most 107 bytes
    hidden : directories that hosts see empty
    """
    common = {"RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": str(place), "RAY_DISABLE_DOCKER_CPU_WARNING": "1"}
    with ExitStack() as stack:
        for name in sorted(hosts, key=lambda one: one != head):
            own = place / name
            own.mkdir()
            where = (
                ["--head", f"--port={PORT}", "--include-dashboard=false"]
                if name == head
                else [f"--address={hosts[head].address}:{PORT}"]
            )
            words = [f"{sysconfig.get_path('scripts')}/ray", "start", "--block", *where, *SMALL]
            words += [f"--node-ip-address={hosts[name].address}", f'--resources={{"{name}": 100}}', f"--temp-dir={own}"]
            alone = (*ALONE, str(hidden[name])) if name in hidden else ()
            stack.enter_context(_node(hosts[name], [*alone, *words], {**common, "TMPDIR": str(own)}))
        yield {**common, "RAY_ADDRESS": f"{hosts[head].address}:{PORT}", "TMPDIR": str(place / head)}


@contextmanager
def _node(host: FakeHost, words: list[str], environment: dict[str, str]) -> Iterator[None]:
    process = host.start(
        *words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if "Ray runtime started" in line:
                break
        else:
            raise AssertionError("".join(lines))
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=DEADLINE_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
