"""The runs of a calibration: kernels on several numbers of cores, recorded as any program is."""

from .run import record

__all__ = ["record"]
