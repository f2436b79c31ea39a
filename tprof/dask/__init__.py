"""dask.distributed: its tasks as tasks of tprof, on all hosts of a cluster."""
