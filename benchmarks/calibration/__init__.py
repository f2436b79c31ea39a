"""The runs of a calibration: kernels on several numbers of cores, recorded as any program is."""

from .calibration_run import record

__all__ = ["record"]
