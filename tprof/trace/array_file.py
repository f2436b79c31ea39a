"""Arrays that are written once, one after the other, and read again when they are needed, in a file without a name."""

from __future__ import annotations

import math
import os
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .long_arrays import temporary_file, with_space

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Place:
    """Where arrays are in a file, and of which kinds and shapes they are."""

    at: int
    kinds: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]


class ArrayFile:
    """A file of arrays, which has no name: it is gone when the process ends, however it ends."""

    def __init__(self, no_space: str) -> None:
        """Begin an empty one; `no_space` is a sentence with a place for `folder`, for when that is full.

        Raises
        ------
        TprofError
            If there can be no such file.
        """
        self._no_space = no_space
        with with_space(no_space):
            self._file = temporary_file(buffering=0)
        self._size = 0
        weakref.finalize(self, self._file.close)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        self._file.close()

    def __reduce__(self) -> tuple[type[ArrayFile], tuple[str]]:
        """Leave the file to this process: another one gets an empty one."""
        return ArrayFile, (self._no_space,)

    def add(self, *arrays: NDArray[Any]) -> Place:
        """Append arrays. Raises TprofError if there is no space."""
        place = Place(self._size, tuple((one.dtype, one.shape) for one in arrays))
        for one in arrays:
            with with_space(self._no_space):
                self._write(memoryview(one.tobytes()))
            self._size += one.nbytes
        return place

    def _write(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]

    def read(self, place: Place, which: Collection[int] | None = None) -> list[NDArray[Any]]:
        """Return the arrays at a place in their order; with `which` only those of these numbers."""
        found, at = [], place.at
        for number, (kind, shape) in enumerate(place.kinds):
            if which is None or number in which:
                one = np.empty(shape, kind)
                _read_into(self._file.fileno(), one.reshape(-1).view(np.uint8).data, at)
                found.append(one)
            at += kind.itemsize * math.prod(shape)
        return found


def _read_into(descriptor: int, view: memoryview, at: int) -> None:
    done = 0
    while done < len(view):
        got = os.preadv(descriptor, [view[done:]], at + done)
        if not got:
            raise EOFError("a temporary file has become shorter")
        done += got
