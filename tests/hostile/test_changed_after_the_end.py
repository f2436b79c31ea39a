"""A recording that was changed after its end says so, or has the same figures: it is never silently less."""

import os

import pytest
from support.finished_sessions import KINDS, check, finished, has_checksum
from support.properties import THOROUGH

TRIES = 200 if os.environ.get(THOROUGH) else 4
"""Of bytes in each file."""
CUTS = (0.0, 0.3, 0.7, 0.999) if os.environ.get(THOROUGH) else (0.0, 0.999)


def put(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_said_or_changes_no_figure(tmp_path, kind):
    whole = finished(kind)
    session = put(tmp_path / "s.tprof", whole.files)

    for name, content in whole.files.items():
        for at in range(0, len(content), max(len(content) // TRIES, 1)) if has_checksum(name) else ():
            (session / name).write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
            check(session, whole)
        (session / name).write_bytes(content)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_cut_or_removed_is_said_or_changes_no_figure(tmp_path, kind):
    whole = finished(kind)
    session = put(tmp_path / "s.tprof", whole.files)

    for name, content in whole.files.items():
        for part in CUTS:
            (session / name).write_bytes(content[: int(part * len(content))])
            check(session, whole)
        (session / name).unlink()
        check(session, whole)
        (session / name).write_bytes(content)
