"""What driver and workers know of a job of Ray, and where each node's part of it lies."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tprof.session.hosts import RecordingOptions

VARIABLE = "TPROF_RAY"
"""The variable of the workers' environment with the job; empty in workers that collect it."""
_NAMESPACE = b"tprof"
_ENDED = "ended"


@dataclass(frozen=True)
class Job:
    """A job that is recorded.

    Attributes
    ----------
    path : the driver's directory of the job, absolute
    token : names the job on all nodes
    options : of each node's recorder
    """

    path: Path
    token: str
    options: RecordingOptions

    @property
    def marker(self) -> Path:
        """The file by which a node knows that it sees the driver's directory."""
        return self.path / f".ray-{self.token}"

    @property
    def here(self) -> Path:
        """The directory into which this node records: the driver's, or one on its own disk."""
        return self.path if self.marker.exists() else Path(tempfile.gettempdir()) / f"tprof-{self.token}"

    def as_text(self) -> str:
        """Return it for the environment of workers."""
        return json.dumps({"path": os.fspath(self.path), "token": self.token, "options": self.options.as_json()})

    @classmethod
    def from_text(cls, text: str) -> Job:
        """Read it from the environment."""
        plain = json.loads(text)
        return cls(Path(plain["path"]), plain["token"], RecordingOptions.from_json(plain["options"]))


@dataclass(frozen=True)
class NodePart:
    """A part as its node announces it.

    Attributes
    ----------
    node_id : of the node
    machine : identity of the node's machine since its boot
    host : name of the part
    path : of the part on the node
    is_home : whether it lies in the driver's directory
    problem : why there is none; None if there is one
    """

    node_id: str
    machine: str
    host: str
    path: str
    is_home: bool
    problem: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells parts apart; several nodes of one host have the same one."""
        return self.machine, self.path, "" if self.problem is None else self.node_id


class Board:
    """The job's entries in the key-value store of the cluster, which all nodes read and write."""

    def __init__(self, job: Job) -> None:
        """Connect to the cluster's store; Ray must be initialised."""
        from ray.experimental import internal_kv

        self._kv: Any = internal_kv
        self._prefix = f"tprof/{job.token}/"

    def announce(self, part: NodePart) -> None:
        """Let the driver know of a part, or of a problem."""
        self._put(f"node/{part.node_id}/{part.problem is None}", json.dumps(asdict(part)))

    def parts(self) -> list[NodePart]:
        """Return all that was announced."""
        keys = self._kv._internal_kv_list(f"{self._prefix}node/", namespace=_NAMESPACE)
        values = [self._kv._internal_kv_get(key, namespace=_NAMESPACE) for key in sorted(keys)]
        return [NodePart(**json.loads(value)) for value in values if value is not None]

    def end(self) -> None:
        """Let workers that start from now on record nothing."""
        self._put(_ENDED, "1")

    def has_ended(self) -> bool:
        """Return whether the job is collected already."""
        return self._kv._internal_kv_get(self._prefix + _ENDED, namespace=_NAMESPACE) is not None

    def _put(self, key: str, value: str) -> None:
        self._kv._internal_kv_put(self._prefix + key, value, overwrite=True, namespace=_NAMESPACE)
