"""Policies in simulated time: tasks of the paper's responses on a simulated processor, with the runtime's own loop."""

from tprof.benchmarks.virtual.machine import FREQUENCIES_HZ

from .mixes import MIXES, Job, Mix
from .processor import Outcome, Processor
from .trial import Trial

__all__ = ["FREQUENCIES_HZ", "MIXES", "Job", "Mix", "Outcome", "Processor", "Trial"]
