"""Changes of the files of a session, as bytes that a search can change in turn."""

from __future__ import annotations

import struct

PATCH_BYTES = 8


def patched(data: bytes, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return a session's files with changes: each 12 bytes are a file, an offset, and eight bytes in its place.

    A file's number with the highest bit set cuts the file at the offset instead.
    """
    files, names = dict(files), sorted(files)
    for start in range(0, len(data) - 4, 4 + PATCH_BYTES):
        number, offset = struct.unpack_from("<HH", data, start)
        name = names[(number & 0x7FFF) % len(names)]
        some, old = data[start + 4 : start + 4 + PATCH_BYTES], files[name]
        at = offset % (len(old) + 1)
        files[name] = old[:at] if number & 0x8000 else old[:at] + some + old[at + len(some) :]
    return files
