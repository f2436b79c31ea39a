"""A cluster of dask on this machine, for programs and measurements."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Start worker processes with one thread each; yields their `distributed.Client`.

    Processes that start while a recording runs join it.

    Raises
    ------
    UsageError
        If dask.distributed is not installed.
    """
    if importlib.util.find_spec("distributed") is None:
        raise UsageError("a cluster needs dask.distributed, which is not installed: pip install 'tprof-energy[dask]'")
    from distributed import Client, LocalCluster  # noqa: PLC0415 - an extra

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client
