"""Other ways to run Python functions on threads, each written as its own users would, to stand beside the runtime."""

from .contract import BatchPeer, GraphPeer, Peer
from .dask_peers import DaskDelayed, DaskGraph, DistributedClient
from .thread_pools import Chained, Executor, JoblibThreads
from .tprof_runtime import Ours

OURS = Ours()
EXECUTOR = Executor()
DASK = DaskGraph()
PEERS: tuple[Peer, ...] = (EXECUTOR, Chained(), JoblibThreads(), DASK, DaskDelayed(), DistributedClient())

__all__ = ["DASK", "EXECUTOR", "OURS", "PEERS", "BatchPeer", "GraphPeer", "Peer"]
