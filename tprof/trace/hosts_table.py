"""The table of a job's hosts as the processes that record write it, and the names of parts; without NumPy."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from .directory import HOSTS
from .manifest import read_object, write_object
from .sealed import with_checksum

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TABLE = "hosts.json"
LONGEST_NAME = 100


def clean_name(name: str) -> str:
    """Return a host's name as its part's directory has it."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:LONGEST_NAME] or "host"


def launch_of(job: Path) -> str | None:
    """Return what identifies the launch of a job whose processes found it together; None without a table that says it.

    Raises TraceError if the table is damaged.
    """
    if not os.path.lexists(job / TABLE):
        return None
    launch = read_object(job / TABLE).get("launch")
    return launch if isinstance(launch, str) else None


def begin_table(job: Path, form: Sequence[int], *, engine: str | None, launch: str) -> None:
    """Write the first table of a job, unless there is one; `form` is the version of the format. Raises OSError."""
    own = job / HOSTS / f".{os.urandom(8).hex()}.json"
    table = {"format": list(form), "engine": engine, "launch": launch, "expected": None, "hosts": []}
    write_object(own, with_checksum(table))
    try:
        with suppress(FileExistsError):  # another process was first
            os.link(own, job / TABLE)
    finally:
        own.unlink()


def free_name(hosts: Path, name: str) -> str:
    """Return the name of a host, with a number behind it if there is a part of that name already."""
    found, number = clean_name(name), 1
    while os.path.lexists(hosts / found):
        number += 1
        found = f"{clean_name(name)}-{number}"
    return found
