"""The two JSON files of a session: the manifest, and the end of the recording."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from tprof.errors import TraceError

from .plain_values import parse_trace_json
from .user_files import UnreadableError, open_regular

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

MANIFEST = "manifest.json"
END = "end.json"
# Hostile JSON takes some twenty times its size in memory; a thousand processors need 100 kB.
LENGTHS = {"tasks": "table_bytes", "gpu": "gpu_bytes", "labels": "label_bytes", "keys": "key_bytes"}
"""Folders of files of lines, and what the end calls the length of the file of a process that records on."""
MAX_BYTES = 8 << 20


def write_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest atomically. Raises OSError."""
    write_object(directory / MANIFEST, manifest)


def write_end(directory: Path, end: dict[str, Any]) -> None:
    """Write the end of the recording atomically. Raises OSError."""
    write_object(directory / END, end)


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read the manifest. Raises TraceError if it is missing or invalid."""
    return read_object(directory / MANIFEST)


def read_end(directory: Path) -> dict[str, Any] | None:
    """Read the end of the recording; None without one. Raises TraceError if the file is damaged."""
    path = directory / END
    return read_object(path) if os.path.lexists(path) else None


def open_file(path: Path, max_bytes: int) -> BufferedReader:
    """Open a session's file for reading; it must not be a link, a pipe or far too large. Raises TraceError."""
    try:
        return os.fdopen(open_regular(path, max_bytes, follow=False), "rb")
    except UnreadableError as error:
        raise TraceError(str(error)) from error


def write_object(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object atomically. Raises OSError."""
    temporary = path.with_suffix(".tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, allow_nan=False)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_object(path: Path, advice: str = "record again") -> dict[str, Any]:
    """Read a JSON object. Raises TraceError, with this advice, if it is missing or invalid."""
    try:
        with open_file(path, MAX_BYTES) as file:
            content = parse_trace_json(file.read(MAX_BYTES))
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise TraceError(message) from error
    except ValueError as error:
        message = f"{path} is damaged: {error}; {advice}"
        raise TraceError(message) from error
    if not isinstance(content, dict):
        message = f"{path} is damaged: it holds no JSON object; {advice}"
        raise TraceError(message)
    return content
