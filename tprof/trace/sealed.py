"""What the end of a recording says of the other files, so that a reader knows what was lost or changed since.

Without NumPy: the recorded process writes it. Records of streams that are not compressed have no checksum, as reading
them all would delay the end of the program.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tprof.errors import TraceError

from .directory import DECISIONS, GPU, KEYS, LABELS, STACKS
from .manifest import MANIFEST, open_file
from .plain_values import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from .readings import Readings
    from .thread import Thread

ENDINGS = {"native": ".native", "graph": ".events", STACKS: ".stacks", "readings": ".readings"}
"""Folders of streams that are counted; `thread_count` says how many threads there were."""
TEXTS = ("tasks", LABELS, KEYS, GPU, DECISIONS)
NANO = 1e-9
"""Seconds of a count of CPU time."""
LONGEST_BYTES = 16 << 20
"""A longer text has no checksum, as reading it would delay the end of the program."""
MOST_BYTES = 512 << 20
"""Of a text that grew since."""
CHECKSUM = "checksum"
"""The key of a file's own checksum, its last one: of the JSON of the others."""


def seal(session: Path, end: dict[str, Any]) -> dict[str, Any]:
    """Return the end with the numbers of files, the checksums of texts as far as they are written, and its own."""
    names = {folder: _names(session / folder, ".jsonl") for folder in TEXTS}
    texts = [MANIFEST, *(f"{folder}/{name}" for folder, found in names.items() for name in found)]
    streams = {folder: len(_names(session / folder, ending)) for folder, ending in ENDINGS.items()}
    counts = streams | {folder: len(found) for folder, found in names.items() if folder != "tasks"}
    checksums = {name: known for name in texts if (known := _checksum(session / name)) is not None}
    files = {folder: count for folder, count in counts.items() if count}
    return with_checksum({**end, "files": files, "checksums": checksums})


def with_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """Return what a file of JSON will hold, with its own checksum."""
    return {**content, CHECKSUM: _of_object(content)}


def is_as_written(content: dict[str, Any]) -> bool:
    """Return whether a file of JSON is as it was written, as far as its own checksum says it."""
    others = {name: value for name, value in content.items() if name != CHECKSUM}
    return CHECKSUM not in content or content[CHECKSUM] == _of_object(others)


def changed_texts(session: Path, end: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each text that is not as it was; what is missing is not said here."""
    for name, (size, checksum) in end.get("checksums", {}).items():
        folder, _, file = name.rpartition("/")
        if folder not in ("", *TEXTS) or file in ("", ".", "..") or not (session / name).exists():
            continue
        if _checksum(session / name, size, MOST_BYTES) != [size, checksum]:
            yield f"{name} was changed since the recording ended: figures that follow from it may be wrong"


def missing_files(session: Path, end: Mapping[str, Any], said: int, *, is_limited: bool) -> Iterator[str]:
    """Yield a sentence for each folder with fewer files than the recording left.

    Parameters
    ----------
    session, end : of the recording
    said : number of missing files of readings of which there are sentences already
    is_limited : whether a size limit removed files of threads and processes
    """
    endings = ENDINGS | dict.fromkeys(TEXTS, ".jsonl")
    for folder, count in end.get("files", {}).items():
        if folder not in endings or (is_limited and folder in ("native", "graph", STACKS)):
            continue
        missing = count - len(_names(session / folder, endings[folder])) - (said if folder == "readings" else 0)
        if missing > 0:
            yield f"{folder}/ lacks {missing} of {counted(count, 'file')}: figures that follow from them are wrong"


def contradictions(
    manifest: Mapping[str, Any], threads: Iterable[Thread], readings: Mapping[str, Readings]
) -> Iterator[str]:
    """Yield a sentence for each header that does not say what the manifest of the recorder says."""
    why = "its header is not what manifest.json says: figures that follow from it may be wrong"
    columns = [one.get("name") for one in manifest.get("columns", ())]
    for thread in threads:
        if [one.get("name") for one in thread.stream.description.get("columns", ())] != columns:
            yield f"{thread.stream.path.name}: {why}"
    domains = {one.get("name"): one for one in manifest.get("domains", ())}
    for one in readings.values():
        domain = domains.get(one.name)
        if domain is None:
            if one.quantity not in ("busy", "program") or one.unit != NANO:
                yield f"the readings of {one.name}: {why}"
            continue
        names = ("scope", "package", "source", "quality", "counted")
        step = (one.unit, one.modulus) if not one.integrated else (domain.get("unit_j"), domain.get("modulus"))
        said = [*(domain.get(name) for name in names), domain.get("unit_j"), domain.get("modulus")]
        if [*(getattr(one, name) for name in names), *step] != said:
            yield f"the readings of {one.name}: {why}"


def _names(folder: Path, ending: str) -> list[str]:
    with suppress(OSError):
        return sorted(name for name in os.listdir(folder) if name.endswith(ending))  # noqa: PTH208 - names only
    return []


def _checksum(path: Path, size: int = LONGEST_BYTES, most_bytes: int = LONGEST_BYTES) -> list[int] | None:
    """Return length and CRC-32 of a file's first bytes; None if it has more than `most_bytes`, or cannot be read."""
    try:
        with open_file(path, most_bytes) as file:
            content = file.read(min(size, LONGEST_BYTES))
    except (TraceError, OSError):
        return None
    return [len(content), zlib.crc32(content)]


def _of_object(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content).encode())
