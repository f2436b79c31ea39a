"""dask.distributed: its tasks as tasks of tprof, on all hosts of a cluster."""

from .preload import dask_setup
from .recording import ClusterRecording, record

__all__ = ["ClusterRecording", "dask_setup", "record"]
