"""How a program runs unchanged under a recording: as ``__main__``, with tasks chosen by pattern."""

from .pattern import Pattern, parse_patterns
from .program import Program, find_program, matches, run_program

__all__ = ["Pattern", "Program", "find_program", "matches", "parse_patterns", "run_program"]
