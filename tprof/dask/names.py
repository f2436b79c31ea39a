"""Names of dask tasks: the prefix of the key, as in dask's dashboard; of a fused task the prefixes of its parts.

Fusion keeps the key of one part, or joins those of the first and the last. The parts are in the task itself since
dask 2024.12; before, a fused task has the prefix of its key.
"""

from __future__ import annotations

import re
from typing import Any

from dask.utils import key_split

FUSED = "_execute_subgraph"
MOST_PARTS = 5
MOST_KNOWN = 4096

_BATCH = re.compile(r"(batch_of_.+)_\d+_calls")
"""The key of joblib's batches, whose numbers of calls differ."""

_known: dict[object, str] = {}


def name_of(key: Any, run_spec: Any) -> str:
    """Return the name of a task with this key."""
    if getattr(getattr(run_spec, "func", None), "__name__", None) != FUSED:
        name: str = key_split(key)
        batch = _BATCH.fullmatch(name)
        return name if batch is None else batch[1]
    layer = key[0] if isinstance(key, tuple) and key else key  # which its tasks share
    known = _known.get(layer)
    if known is None:
        known = _joined(_parts(run_spec)) or key_split(key)
        if len(_known) < MOST_KNOWN:
            _known[layer] = known
    return known


def _joined(parts: list[str]) -> str:
    if len(parts) > MOST_PARTS:
        parts = [*parts[: MOST_PARTS - 2], "…", parts[-1]]
    return "-".join(parts)


def _parts(run_spec: Any) -> list[str]:
    """Return the prefixes of the parts of a fused task, each once, in the order in which they run."""
    inner, last = run_spec.args[0], run_spec.args[1]
    if not isinstance(inner, dict):
        return []
    names: dict[str, None] = {}
    seen: set[Any] = set()

    def visit(key: Any) -> None:
        part = inner.get(key)
        if part is None or key in seen:
            return
        seen.add(key)
        for needed in part.dependencies:
            visit(needed)
        is_fused = getattr(getattr(part, "func", None), "__name__", None) == FUSED
        names.update(dict.fromkeys(_parts(part) if is_fused else [key_split(key)]))

    visit(last)
    return list(names)
