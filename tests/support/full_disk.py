"""Files that cannot grow, as on a full disk."""

import resource
from contextlib import contextmanager


@contextmanager
def short_files(most_bytes=0):
    """Let this process write files of so many bytes at most; Python ignores the signal, so writing raises OSError."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
