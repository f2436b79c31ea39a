"""Names from a trace as tables can hold them: pandas and its file formats know no lone surrogates."""

from __future__ import annotations


def shown(name: str) -> str:
    """Return the name with lone surrogates escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
