"""Shortens names and the sentences that hold them, so that names that look alike are told apart."""

from __future__ import annotations

import re
import zlib

LONGEST = 120
"""Characters of a name in texts for readers; JSON, CSV and exports have all of it."""
_PUNCTUATION = ".,:;"
_MARK = 6
"""Characters between both ends."""


def short(name: str, longest: int = LONGEST) -> str:
    """Return a name, the middle of a longer one left out: its ends say what it is of, a digest of all of it which one.

    Pages make the same one (analysis/report/frame.js).
    """
    tail = (longest - _MARK) * 2 // 3
    return name if len(name) <= longest else f"{name[: longest - _MARK - tail]}…{_digest(name)}…{name[-tail:]}"


def brief(text: str, longest: int = LONGEST) -> str:
    """Return a text for readers, longer words as `short` leaves them; a path stays, since it may be copied."""
    return re.sub(rf"(?<!\S)(?!/)\S{{{longest},}}\S", lambda found: _short_word(found.group(), longest), text)


def _short_word(found: str, longest: int) -> str:
    word = found.rstrip(_PUNCTUATION)
    return short(word, longest) + found[len(word) :]


def _digest(name: str) -> str:
    """Return four hexadecimal digits of a CRC-32, its halves folded."""
    digest = zlib.crc32(name.encode("utf-8", "backslashreplace"))
    return f"{digest >> 16 ^ digest & 0xFFFF:04x}"
