"""MPICH's `mpirun` over hosts that are network namespaces of one machine."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from .hosts import FakeHost

_SCRIPT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
set -- sh -c "$*"
case $host in
CASES
esac
"""
_PATIENT = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
"""Ranks that wait give way to others: there are more of them than processors."""
# The launcher hands its own environment to all ranks, so each rank finds its host's tree by the host's name.
_ON_ITS_HOST = 'TPROF_SYSROOT="$0/tree-$(hostname)" exec "$@"'


def mpirun() -> Path:
    """Return MPICH's launcher, or skip the test."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: scripts/setup .venv test lint libraries")
    found = Path(sysconfig.get_path("scripts")) / "mpiexec.hydra"
    if not found.exists():
        pytest.skip("there is no mpiexec.hydra: pip install mpich")
    return found


def launch(
    hosts: Mapping[str, FakeHost], trees: Path, ranks: Mapping[str, int], *words: str, **options: Any
) -> subprocess.Popen[str]:
    """Start a program as so many ranks of each host; `trees` has the hosts' trees, and gets the launching script."""
    script = trees / "launch"
    cases = [f'{host.address}) exec {" ".join(map(_quoted, host.prefix))} "$@" ;;' for host in hosts.values()]
    script.write_text(_SCRIPT.replace("CASES", "\n".join(cases)))
    script.chmod(0o755)
    addresses = ",".join(f"{host.address}:{ranks[name]}" for name, host in hosts.items())
    command = [str(mpirun()), "-launcher", "ssh", "-launcher-exec", str(script), "-hosts", addresses]
    command += ["-n", str(sum(ranks.values())), "sh", "-c", _ON_ITS_HOST, str(trees)]
    return next(iter(hosts.values())).start(*command, *words, env=_PATIENT, **options)


def _quoted(word: str) -> str:
    return f"'{word}'"
