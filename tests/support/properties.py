"""How many examples a property test draws: few in the quick suite, all of them with --thorough."""

from __future__ import annotations

import os

from hypothesis import settings

THOROUGH = "TPROF_TESTS_THOROUGH"
_QUICK_PART = 8
_QUICK_LEAST = 10


def examples(thorough: int = 100, *, quick: int | None = None, **options: object) -> settings:
    """Return a property's settings: this many examples with ``--thorough``, an eighth of them without.

    Where one example takes a tenth of a second or more, `quick` says how many there are without.
    """
    quick = quick or max(min(thorough, _QUICK_LEAST), thorough // _QUICK_PART)
    return settings(max_examples=thorough if os.environ.get(THOROUGH) else quick, deadline=None, **options)
