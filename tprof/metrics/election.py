"""Which process of a recording shows what is of all of them: the first one that asks, until it ends.

A name in the kernel's abstract namespace is held by one socket, and is free again when its process ends.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from pathlib import Path


class Election:
    """The place of this process, among those of its recording, in one matter."""

    def __init__(self, matter: str) -> None:
        """Begin without a place."""
        self._matter = matter
        self._session: Path | None = None
        self._held: socket.socket | None = None
        this_process.reset_in_child(self.leave)

    def is_won(self) -> bool:
        """Return whether this process is the one, or is in no recording."""
        member = this_process.membership
        session = None if member is None else member.plan.directory
        if session != self._session:
            self.leave()
            self._session = session
        if session is None or self._held is not None:
            return True
        try:
            place = session.stat()
        except OSError:
            return True
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(f"\0tprof-{self._matter}-{place.st_dev}-{place.st_ino}")
        except OSError:
            held.close()
            return False
        self._held = held
        return True

    def leave(self) -> None:
        """Give the place up; in a forked child it stays with the parent."""
        held, self._held, self._session = self._held, None, None
        if held is not None:
            held.close()
