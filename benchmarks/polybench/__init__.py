"""PolyBench's kernels: seventeen loops of linear algebra, stencils and statistics with known work and a reference."""

from .catalogue import KERNELS, SIZES, Kernel, run
from .load import loads

__all__ = ["KERNELS", "SIZES", "Kernel", "loads", "run"]
