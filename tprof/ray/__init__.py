"""Records what a cluster of Ray runs, node by node: remote functions and methods of actors are tasks by their names.

    ray.init(runtime_env=tprof.ray.runtime_env("run.tprof"))
    …
    tprof.ray.collect("run.tprof")        # or at the end of the driver

Each node has a host recorder, which the first worker there starts; the others join it. A part lies in the driver's
directory where the node sees it, otherwise on the node's own disk until it is collected.
"""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .collection import collect
    from .driver import runtime_env
    from .worker import set_up_worker

__all__ = ["collect", "runtime_env", "set_up_worker"]

__getattr__ = lazy_names(__name__, {"collect": "collection", "runtime_env": "driver", "set_up_worker": "worker"})
