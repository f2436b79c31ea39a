"""How a program runs unchanged under a recording: as ``__main__``, with tasks chosen by pattern."""

from .hook import install
from .pattern import Pattern, parse_patterns
from .program import Program, run_program

__all__ = ["Pattern", "Program", "install", "parse_patterns", "run_program"]
