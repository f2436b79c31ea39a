"""Runs an unchanged program under a recording: as ``__main__``, with tasks selected by patterns."""

from .pattern import Pattern, parse_patterns
from .program import Program, find_program, matches, run_program

__all__ = ["Pattern", "Program", "find_program", "matches", "parse_patterns", "run_program"]
