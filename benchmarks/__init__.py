"""Task-parallel programs and micro-benchmarks; `PROGRAMS` names the programs."""

from .programs.catalogue import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program"]
