"""What a launcher's variables say of a process: its rank, how many its host has, and whether there are more hosts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .companions import RANKS

if TYPE_CHECKING:
    from collections.abc import Mapping

# Number of ranks on the host, and in the whole job: Open MPI, MPICH and Intel MPI, MVAPICH2, PALS, Cray's PMI.
_SIZES = (
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"),
    ("MPI_LOCALNRANKS", "PMI_SIZE"),
    ("MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_SIZE"),
    ("PALS_LOCAL_SIZE", "PMI_SIZE"),
    ("PMI_LOCAL_SIZE", "PMI_SIZE"),
)
# Of a rank on its host, in the same order and of Slurm.
_LOCAL_RANKS = (
    "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK",
    "SLURM_LOCALID",
)  # fmt: skip
# Of one launch: PMIx (Open MPI), PALS. Slurm's step has its own number.
_LAUNCHES = ("PMIX_NAMESPACE", "PALS_APID")
_SLURM_NODES = ("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
_GROUP = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?")


class _Sizes(NamedTuple):
    local: int | None
    spans_hosts: bool


@dataclass(frozen=True)
class Launched:
    """The place of a process among those that a launcher started.

    Attributes
    ----------
    rank : of the process; None: it is no rank
    local_size : number of ranks on this host; None: not known
    spans_hosts : whether there are ranks on other hosts
    launch : what identifies this launch on all hosts; None: nothing does
    local_rank : number of the process among the ranks of its host; None: not known
    """

    rank: int | None
    local_size: int | None
    spans_hosts: bool
    launch: str | None
    local_rank: int | None = None

    @property
    def speaks(self) -> bool:
        """Whether this process prints a sentence that all ranks would print: the first one, or the first of each host.

        What identifies the launch is the same on all hosts, so that they come to the same result. Without it hosts may
        come to different ones.
        """
        if self.rank is None or (self.spans_hosts and self.launch is None and self.local_rank is None):
            return True
        return not (self.local_rank if self.spans_hosts and self.launch is None else self.rank)

    @classmethod
    def here(cls, variables: Mapping[str, str] | None = None) -> Launched:
        """Read the environment of this process."""
        known = os.environ if variables is None else variables
        rank = next((number for name in RANKS if (number := _number(known, name)) is not None), None)
        if rank is None:
            return cls(None, None, spans_hosts=False, launch=None)
        sizes = _mpi(known) or _slurm(known)
        local_rank = next((number for name in _LOCAL_RANKS if (number := _number(known, name)) is not None), None)
        return cls(rank, sizes.local, spans_hosts=sizes.spans_hosts, launch=_launch(known), local_rank=local_rank)


def _mpi(known: Mapping[str, str]) -> _Sizes | None:
    for local_name, whole_name in _SIZES:
        local, whole = _number(known, local_name), _number(known, whole_name)
        if local is not None and whole is not None:
            return _Sizes(local, local < whole)
    return None


def _slurm(known: Mapping[str, str]) -> _Sizes:
    """Return what a step of Slurm says; the script of a job is no step, and runs on one node of many."""
    if "SLURM_STEP_ID" not in known:
        return _Sizes(None, spans_hosts=False)
    nodes = next((number for name in _SLURM_NODES if (number := _number(known, name)) is not None), 1)
    counts = _counts(known.get("SLURM_STEP_TASKS_PER_NODE", ""))
    place = _number(known, "SLURM_NODEID")
    is_known = place is not None and place < len(counts)
    return _Sizes(counts[place] if is_known and place is not None else None, nodes > 1)


def _counts(text: str) -> list[int]:
    """Return the tasks of each node from Slurm's short form, 2(x3),1."""
    found: list[int] = []
    for part in text.split(","):
        match = _GROUP.fullmatch(part.strip())
        if match is None or len(found) > 1 << 20:
            return []
        found += [int(match[1])] * int(match[2] or 1)
    return found


def _launch(known: Mapping[str, str]) -> str | None:
    name = next((name for name in _LAUNCHES if known.get(name)), None)
    if name is not None:
        return known[name][:200]
    step = [known.get(f"SLURM_{part}") for part in ("JOB_ID", "STEP_ID")]
    return f"slurm-{step[0]}.{step[1]}" if all(step) else None


def _number(known: Mapping[str, str], name: str) -> int | None:
    text = known.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
