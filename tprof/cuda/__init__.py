"""Which instance's work a GPU does when: CUDA events on the program's streams, and their times on the host's clock."""

from .blocks import GpuBlock, gpu, launching
from .marks import Marks

__all__ = ["GpuBlock", "Marks", "gpu", "launching"]
