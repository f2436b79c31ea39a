"""The task runtime on dask.distributed: the same program, its tasks run by the workers of a cluster.

General layout: `runtime` is what a program enters; `graph` submits tasks and follows their ends; `data` knows which
version of which array a task needs; `cluster_task` is a task's future; `remote` runs on the workers.
"""

from tprof.runtime.cluster.cluster_task import ClusterTask
from tprof.runtime.cluster.runtime import ClusterRuntime

__all__ = ["ClusterRuntime", "ClusterTask"]
