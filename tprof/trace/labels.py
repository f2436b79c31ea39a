"""What processes say of themselves in a trace: their labels, and the keys of an engine's tasks, one file a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .plain_values import parse_trace_json
from .tasks import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

MAX_LABELS = 100
MAX_LABEL_NAME, MAX_LABEL_VALUE = 40, 200
MAX_KEYS = 10_000_000
MAX_KEY_CHARACTERS = 1000
MAX_NEEDS = 10_000


def read_labels(path: Path) -> dict[str, str]:
    """Return the labels of a process; later lines win, and what cannot be a label is left out. Raises TraceError."""
    labels: dict[str, str] = {}
    for line in lines_of(path):
        for name, value in _object(line).items():
            fits = 0 < len(name) <= MAX_LABEL_NAME and name.isidentifier() and name.isascii()
            if fits and isinstance(value, str) and (name in labels or len(labels) < MAX_LABELS):
                labels[name] = value[:MAX_LABEL_VALUE]
    return labels


@dataclass(frozen=True)
class Keys:
    """The keys of an engine's tasks.

    Attributes
    ----------
    instance : (n,) uint64, the instances, increasing
    key : (n,) their keys
    needs : (n,) for each the keys whose results it needs
    """

    instance: NDArray[np.uint64]
    key: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        """Return the number of instances with a key."""
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


def read_keys(paths: Iterable[Path]) -> Keys:
    """Return the keys in files of processes; of an instance with several the last one. Raises TraceError."""
    found: dict[int, tuple[str, tuple[str, ...]]] = {}
    for path in paths:
        for line in lines_of(path):
            content = _object(line)
            instance, key, needs = content.get("instance"), content.get("key"), content.get("needs", [])
            if type(instance) is not int or not 0 < instance < 1 << 64 or not isinstance(key, str):
                continue
            if len(found) < MAX_KEYS or instance in found:
                found[instance] = key[:MAX_KEY_CHARACTERS], tuple(_texts(needs))
    order = sorted(found)
    pairs = [found[instance] for instance in order]
    return Keys(np.array(order, np.uint64), tuple(key for key, _ in pairs), tuple(needs for _, needs in pairs))


def _texts(needs: Any) -> Iterator[str]:
    for one in needs[:MAX_NEEDS] if isinstance(needs, list) else ():
        if isinstance(one, str):
            yield one[:MAX_KEY_CHARACTERS]


def _object(line: bytes) -> dict[str, Any]:
    """Return the object of a line; an empty one for a damaged line, such as the last one on a full disk."""
    try:
        content = parse_trace_json(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
