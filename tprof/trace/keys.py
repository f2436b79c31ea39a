"""The keys of another engine's tasks, such as those of dask: which key an instance is, and which keys it needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .plain_values import parse_trace_json
from .tasks import lines_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MAX_LINES = 10_000_000
MAX_KEY_CHARACTERS = 1000
MAX_INSTANCE = 2**64 - 1


@dataclass(frozen=True)
class Keys:
    """The keys of instances; an instance may be unknown, and a needed key may be of no instance here.

    Attributes
    ----------
    instance : (n,) uint64, increasing.
    key : their keys; the attempts of a task that was tried again have the same one.
    waiting : (m,) uint64, instances that needed a key.
    needs : the key that each of these needed.
    notes : sentences on what was left out.
    """

    instance: NDArray[np.uint64]
    key: tuple[str, ...]
    waiting: NDArray[np.uint64]
    needs: tuple[str, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.key)

    def of(self, instances: NDArray[np.uint64]) -> list[str | None]:
        """Return the key of each instance; None for one without a key.

        Parameters
        ----------
        instances : (m,) uint64
        """
        if not self.key:
            return [None] * len(instances)
        place = np.minimum(np.searchsorted(self.instance, instances), len(self.key) - 1)
        known = self.instance[place] == instances
        return [self.key[at] if is_known else None for at, is_known in zip(place, known, strict=True)]


def read_keys(paths: tuple[Path, ...]) -> Keys:
    """Read the files of all processes. Raises TraceError."""
    keys: dict[int, str] = {}
    waiting: list[int] = []
    needs: list[str] = []
    same: dict[str, str] = {}  # a key is needed as often as its task has dependents
    notes = []
    count = 0
    for path in paths:
        damaged = 0
        for line in lines_of(path):
            count += 1
            if count > MAX_LINES:
                notes.append(f"{path.name}: what follows {MAX_LINES} keys is left out")
                break
            parsed = _parse(line)
            if parsed is None:
                damaged += 1
                continue
            instance, key, needed = parsed
            keys.setdefault(instance, same.setdefault(key, key))
            waiting += [instance] * len(needed)
            needs += [same.setdefault(one, one) for one in needed]
        if damaged:
            notes.append(f"{path.name}: {damaged} lines of keys are damaged, and left out")
    order = sorted(keys)
    return Keys(
        np.array(order, np.uint64),
        tuple(keys[instance] for instance in order),
        np.array(waiting, np.uint64),
        tuple(needs),
        tuple(notes),
    )


def _parse(line: bytes) -> tuple[int, str, list[str]] | None:
    try:
        record: Any = parse_trace_json(line)
        instance, key, needs = record["instance"], record["key"], record["needs"]
    except (ValueError, KeyError, TypeError):
        return None
    if type(instance) is not int or not 0 < instance <= MAX_INSTANCE:
        return None
    if not (isinstance(key, str) and isinstance(needs, list) and all(isinstance(one, str) for one in needs)):
        return None
    return instance, key[:MAX_KEY_CHARACTERS], [one[:MAX_KEY_CHARACTERS] for one in needs]
