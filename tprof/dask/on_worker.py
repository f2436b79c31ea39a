"""What a client calls on workers: reports, clocks, the end of parts, and their pieces on the way home."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.errors import TprofError
from tprof.sensors import sysroot
from tprof.sensors.topology import boot_id
from tprof.session import hosts
from tprof.trace.archive import pack
from tprof.trace.cluster import load_job
from tprof.trace.manifest import read_manifest

from .worker_plugin import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from distributed import Worker

    from tprof.trace.cluster import HostPart

PIECE_BYTES = 4 << 20
"""Of a message with a piece of a part; the driver and the scheduler hold a few of them at a time."""

_streams: dict[str, Iterator[bytes]] = {}


def report(dask_worker: Worker) -> dict[str, Any] | None:
    """Return what the worker's plugin reports; None without one."""
    plugin = dask_worker.plugins.get(NAME)
    return None if plugin is None else plugin.report()


def read_clock() -> int:
    """Return the host's clock in nanoseconds: CLOCK_MONOTONIC."""
    return _core.now_ns()


async def end_parts(job: str) -> dict[str, str | None]:
    """End the recording of this host's parts of a job; returns them by name, with the reason if one did not end."""
    return await asyncio.to_thread(_end_parts, Path(job))


def _end_parts(job: Path) -> dict[str, str | None]:
    ended: dict[str, str | None] = {}
    for part in _own_parts(job):
        try:
            hosts.stop(part)
            ended[part.name] = None
        except TprofError as error:
            ended[part.name] = str(error)
    return ended


def _own_parts(job: Path) -> list[Path]:
    """Return this host's parts; another one began if no worker was there for long."""
    parts = [one.path for one in load_job(job).hosts if one.path is not None]
    return [path for path in parts if read_manifest(path).get("boot_id") == boot_id(sysroot())]


def open_stream(part: str) -> str:
    """Begin to pack a part; returns the name of the stream."""
    name = uuid.uuid4().hex
    _streams[name] = pack(Path(part))
    return name


async def next_piece(name: str) -> bytes:
    """Return the next piece of a stream; an empty one at its end."""
    return await asyncio.to_thread(_next_piece, name)


def _next_piece(name: str) -> bytes:
    piece = bytearray()
    for chunk in _streams[name]:
        piece += chunk
        if len(piece) >= PIECE_BYTES:
            return bytes(piece)
    return bytes(piece)


def close_stream(name: str) -> None:
    """Forget a stream."""
    _streams.pop(name, None)


def remove_job(job: str) -> None:
    """Remove a host's own directory of a job, whose parts are home."""
    shutil.rmtree(job, ignore_errors=True)


async def analyse(function: Callable[[HostPart], Any], part: HostPart) -> Any:
    """Apply a function to a host's part where it lies."""
    return await asyncio.to_thread(function, part)
