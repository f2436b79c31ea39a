"""BLAS and LAPACK on square tiles in place, with the interpreter's lock released.

SciPy's own wrappers (`scipy.linalg.blas`, `scipy.linalg.lapack`) work in place too, but hold the lock, so that tasks
on threads would run one after the other. NumPy's `matmul` releases it, but it cannot add to its result, and a
temporary tile and another pass cost a fifth more time. SciPy hands out the same routines as addresses for Cython, and
`ctypes` releases the lock around a call of an address. Tiles are in Fortran's order, as these routines have it.

References
----------
SciPy: Low-level BLAS functions for Cython (`scipy.linalg.cython_blas`), whose addresses Numba calls in this way too.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

    Tile = NDArray[np.float64]

LOWER, RIGHT, PLAIN, TRANSPOSED, NOT_UNIT = b"L", b"R", b"N", b"T", b"N"
ONE, MINUS_ONE = ctypes.byref(ctypes.c_double(1)), ctypes.byref(ctypes.c_double(-1))


def find(module: ModuleType, name: str) -> Callable[..., None]:
    """Return the routine of that name; a signature is checked, since nothing else would notice a wider integer."""
    capsule = module.__pyx_capi__[name]
    get_name, get_address = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_address.restype, get_address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature: bytes = get_name(capsule)
    kinds = [_kind(word.strip()) for word in signature.decode().removeprefix("void (").removesuffix(")").split(",")]
    return ctypes.CFUNCTYPE(None, *kinds)(get_address(capsule, signature))


def _kind(word: str) -> Any:
    if word == "char *":
        return ctypes.c_char_p
    if word == "int *":
        return ctypes.POINTER(ctypes.c_int)
    if word == "double *" or word.endswith("_d *"):
        return ctypes.c_void_p
    raise TprofError(
        f"SciPy's BLAS takes a {word!r}, tprof gives it C's int and double: install SciPy from its official wheel"
    )


_dgemm, _dsyrk, _dtrsm = (find(cython_blas, name) for name in ("dgemm", "dsyrk", "dtrsm"))
_dpotrf = find(cython_lapack, "dpotrf")


def factor(tile: Tile) -> int:
    """Replace the lower half of a symmetric tile by its Cholesky factor, and leave what is above the diagonal.

    Returns
    -------
    int
        0, or the order of the first minor that is not positive: then the tile has no factor.
    """
    order, status = _order(tile), ctypes.c_int(0)
    _dpotrf(LOWER, order, _address(tile), order, status)
    return status.value


def solve(lower: Tile, tile: Tile) -> None:
    """Replace `tile` by X, where X·lowerᵀ is what it was."""
    order = _order(lower, tile)
    shape = RIGHT, LOWER, TRANSPOSED, NOT_UNIT, order, order
    _dtrsm(*shape, ONE, _address(lower), order, _address(tile), order)


def subtract_square(left: Tile, tile: Tile) -> None:
    """Subtract left·leftᵀ from the lower half of `tile`."""
    order = _order(left, tile)
    _dsyrk(LOWER, PLAIN, order, order, MINUS_ONE, _address(left), order, ONE, _address(tile), order)


def subtract_product(left: Tile, right: Tile, tile: Tile) -> None:
    """Subtract left·rightᵀ from `tile`."""
    order = _order(left, right, tile)
    factors = _address(left), order, _address(right), order
    _dgemm(PLAIN, TRANSPOSED, order, order, order, MINUS_ONE, *factors, ONE, _address(tile), order)


def _order(*tiles: Tile) -> ctypes.c_int:
    orders = {len(tile) for tile in tiles}
    if len(orders) > 1:
        raise ValueError(f"a kernel works on tiles of one order, got orders {', '.join(map(str, sorted(orders)))}")
    return ctypes.c_int(orders.pop())


def _address(tile: Tile) -> int:
    """Return where a tile begins; a routine would write anywhere if it lay otherwise in memory."""
    if tile.dtype != np.float64 or not tile.flags.f_contiguous or tile.shape[0] != tile.shape[1]:
        raise ValueError(f"a tile is a square of doubles in Fortran's order, got {tile.shape} of {tile.dtype}")
    return tile.ctypes.data
