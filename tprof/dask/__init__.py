"""dask.distributed: its tasks as tasks of tprof, on all hosts of a cluster."""

from .recording import ClusterRecording, record

__all__ = ["ClusterRecording", "record"]
