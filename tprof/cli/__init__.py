"""The command line, `tprof`: one file a command."""

from .app import main

__all__ = ["main"]
