"""The labels of this process: short names and values by which a profile tells processes apart, such as a rank."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tprof.errors import UsageError

from .process_state import this_process

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_NAME, LONGEST_VALUE = 40, 200
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def label(**labels: object) -> None:
    """Label this process; its instances get the labels as columns ``label_NAME`` of a profile's ``tasks``.

    Labels may be given before a recording begins, while it runs, and again: the later value is kept for the whole
    process. A forked child has no labels until it gives its own.

    Parameters
    ----------
    **labels
        Names of up to 40 letters, digits and underscores, and their values. Values become text, of which the first
        200 characters are kept.

    Raises
    ------
    UsageError
        If a name is too long or has other characters.

    Examples
    --------
    >>> import tprof
    >>> tprof.label(rank=3, role="reader")
    """
    set_labels(labels)


def set_labels(labels: Mapping[str, object]) -> None:
    """Label this process; as `label`, which takes names that are keywords too."""
    for name in labels:
        if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
            raise UsageError(
                f"a label's name is a letter and up to {LONGEST_NAME - 1} letters, digits and underscores, got {name!r}"
            )
    given = {name: str(value)[:LONGEST_VALUE] for name, value in labels.items()}
    this_process.labels.update(given)
    if this_process.membership is not None:
        this_process.membership.label(given)
