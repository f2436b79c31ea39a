"""Calls of MPI as tasks: what a rank spends in `MPI_Allreduce` is no part of the task that called it.

The calls of all libraries that were linked with MPI become tasks: mpi4py's, and those of C and Fortran. The addresses
through which a library calls functions of another one are replaced by ours (`csrc/redirection.c`), which pass all
arguments on without knowing them. mpi4py's methods cannot be replaced, since they belong to compiled classes, and a
preloaded library would have to be there before the program starts.
"""

from __future__ import annotations

import threading

from tprof import _core
from tprof.session.process_state import this_process

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARY = "MPI"
_COLLECTIVES = (
    "Allgather Allgatherv Allreduce Alltoall Alltoallv Alltoallw Barrier Bcast Exscan Gather Gatherv "
    "Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw Reduce "
    "Reduce_scatter Reduce_scatter_block Scan Scatter Scatterv"
)
_SENDS = "Bsend Recv Rsend Send Sendrecv Sendrecv_replace Ssend"
_OTHERS = (
    "Finalize Improbe Imrecv Init Init_thread Iprobe Mprobe Mrecv Probe Session_finalize Session_init Start Startall "
    "Test Testall Testany Testsome Wait Waitall Waitany Waitsome Parrived Pready Pready_list Pready_range "
    "Comm_accept Comm_connect Comm_create Comm_create_from_group Comm_create_group Comm_disconnect Comm_dup "
    "Comm_dup_with_info Comm_free Comm_idup Comm_idup_with_info Comm_join Comm_spawn Comm_spawn_multiple Comm_split "
    "Comm_split_type Cart_create Cart_sub Dist_graph_create Dist_graph_create_adjacent Graph_create Intercomm_create "
    "Intercomm_create_from_groups Intercomm_merge"
)
_ONE_SIDED = (
    "Accumulate Compare_and_swap Fetch_and_op Get Get_accumulate Put Raccumulate Rget Rget_accumulate Rput "
    "Win_allocate Win_allocate_shared Win_complete Win_create Win_create_dynamic Win_fence Win_flush Win_flush_all "
    "Win_flush_local Win_flush_local_all Win_free Win_lock Win_lock_all Win_post Win_start Win_sync Win_test "
    "Win_unlock Win_unlock_all "
    "Win_wait"
)
_FILES = (
    "File_close File_delete File_open File_preallocate File_set_size File_set_view File_sync File_seek_shared "
    "File_get_position_shared"
)
_TRANSFERS = (
    "read read_all read_at read_at_all read_ordered read_shared write write_all write_at write_at_all write_ordered "
    "write_shared"
)
_SPLIT = "read_all read_at_all read_ordered write_all write_at_all write_ordered"

_lock = threading.Lock()
_followed = False


def follow() -> None:
    """Make each call of MPI in this process a task of its own while a recording runs, from now on.

    The functions that communicate, wait, start or end MPI, work on windows or on files are followed, not those that
    only ask something. A task is called as the function in C, such as ``MPI_Allreduce``, whichever language calls it.
    Calls that MPI makes itself inside a call are a part of it. `tprof run --mpi` calls this before the program starts.

    Not followed are calls through an address that the program found itself, as by `ctypes`, and everything on machines
    other than x86-64 and arm64.

    Examples
    --------
    >>> import tprof.mpi
    >>> tprof.mpi.follow()
    """
    global _followed  # noqa: PLW0603 - once in each process
    with _lock:
        if not _followed:
            _core.follow_mpi(sorted(_numbered()))
            _followed = True


def is_followed() -> bool:
    """Return whether calls of MPI are tasks in this process."""
    return _followed


def _numbered() -> Iterator[tuple[str, int]]:
    """Define the tasks; the variants for large counts (``MPI_Send_c``) are the same ones."""
    for name in _functions():
        number = this_process.tasks.define(f"MPI_{name}", file=None, line=None, code=None, library=LIBRARY)
        yield f"MPI_{name}", number
        yield f"MPI_{name}_c", number


def _functions() -> Iterator[str]:
    movers = f"{_COLLECTIVES} {_SENDS}".split()
    yield from f"{_COLLECTIVES} {_SENDS} {_OTHERS} {_ONE_SIDED} {_FILES}".split()
    yield from (f"I{name.lower()}" for name in movers)
    yield from (f"{name}_init" for name in movers)
    transfers = _TRANSFERS.split()
    yield from (f"File_{name}" for name in transfers)
    yield from (f"File_i{name}" for name in transfers if "ordered" not in name)
    yield from (f"File_{name}_{part}" for name in _SPLIT.split() for part in ("begin", "end"))
