"""PolyBench's kernels: seventeen loops of linear algebra, stencils and statistics with known work and a reference."""

from .polybench_kernels import KERNELS, SIZES, Kernel, loads, run

__all__ = ["KERNELS", "SIZES", "Kernel", "loads", "run"]
