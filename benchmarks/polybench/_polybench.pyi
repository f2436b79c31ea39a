"""PolyBench's kernels in C; they work in place and without the interpreter's lock."""

from typing import Any

def run(kernel: str, arrays: tuple[Any, ...], steps: int = 1, /) -> None:
    """Run a kernel once on buffers of float64, in the order and the shapes that `signatures` gives.

    `steps` are those of time, for the stencils. Raises ValueError where an array is of another kind, shape or
    number, not contiguous, not writable, or shares memory with another.
    """

def signatures() -> dict[str, str]:
    """Return each kernel's arrays with the letters of their dimensions: ``"C:ij A:ik B:kj"``; t is the steps."""
