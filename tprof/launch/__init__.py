"""How a program runs unchanged under a recording: as ``__main__``, with tasks chosen by pattern."""

from .adopt import unfulfilled
from .hook import install
from .pattern import Pattern, parse_patterns
from .program import Program, find_program, run_program

__all__ = ["Pattern", "Program", "find_program", "install", "parse_patterns", "run_program", "unfulfilled"]
