"""Other ways to run Python functions on threads, each written as its own users would, to stand beside the runtime."""

from .chained import Chained
from .contract import BatchPeer, GraphPeer, Peer
from .dask_delayed import DaskDelayed
from .dask_graph import DaskGraph
from .distributed_client import DistributedClient
from .executor import Executor
from .joblib_threads import JoblibThreads
from .ours import Ours

OURS = Ours()
EXECUTOR = Executor()
DASK = DaskGraph()
PEERS: tuple[Peer, ...] = (EXECUTOR, Chained(), JoblibThreads(), DASK, DaskDelayed(), DistributedClient())

__all__ = ["DASK", "EXECUTOR", "OURS", "PEERS", "BatchPeer", "GraphPeer", "Peer"]
