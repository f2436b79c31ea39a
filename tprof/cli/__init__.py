"""The command line, `tprof`: one file a command."""

from .entry import main

__all__ = ["main"]
