"""The private recording of budgets outside any recording: shared by overlapping blocks, removed after the last one.

It is in a folder of `tprof.session.temporary`, which a program that ends inside the block removes at its exit.
"""

from __future__ import annotations

import atexit
from contextlib import suppress
from typing import TYPE_CHECKING

from tprof.errors import TprofError
from tprof.session.process_state import this_process
from tprof.session.temporary import make_place, remove_place

if TYPE_CHECKING:
    from tprof.session.recording import Recording

SESSION = "budget.tprof"


def join() -> bool:
    """Use the private recording, and begin it if necessary. Returns False if the program records itself.

    Raises
    ------
    TprofError
        If it cannot be begun.
    """
    shared = this_process.budgets
    with shared.recording_lock:
        member = this_process.membership
        if member is None:
            _end()  # it was ended meanwhile, for example by a signal handler
            shared.recording = _begin()
        elif shared.recording is None or member.plan.directory != shared.recording.path:
            return False
        shared.recording_users += 1
        return True


def leave() -> None:
    """Stop using it; the last user ends it. Raises TprofError."""
    shared = this_process.budgets
    with shared.recording_lock:
        shared.recording_users -= 1
        if shared.recording_users == 0:
            _end()


def _begin() -> Recording:
    from tprof.session.recording import record  # noqa: PLC0415 - kept off `import tprof`

    place = make_place()
    recording = record(place / SESSION, counters="none", idle_s=0)
    recording.before_replacement = None  # nobody reads this one, so nothing is said of its end
    try:
        recording.__enter__()
    except BaseException:
        remove_place(place)
        raise
    return recording


def _end() -> None:
    shared = this_process.budgets
    recording, shared.recording = shared.recording, None
    if recording is not None:
        try:
            recording.__exit__(None, None, None)
        finally:
            remove_place(recording.path.parent)


def _end_with_program() -> None:
    with suppress(TprofError):  # at exit, nothing can handle it
        _end()


atexit.register(_end_with_program)
