"""Names of tasks for tables, and tasks of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def shown(name: str) -> str:
    """Return the name with lone surrogates escaped: pandas and its file formats reject them."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def places(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct names in order of appearance, and the index of each given name among them."""
    unique = list(dict.fromkeys(names))
    number = {name: index for index, name in enumerate(unique)}
    return unique, np.array([number[name] for name in names], np.int64)
