"""Policies in simulated time: tasks of the paper's responses on a simulated processor, with the runtime's own loop."""

from .mixes import MIXES, Job, Mix
from .processor import FREQUENCIES_HZ, Outcome, Processor
from .trial import Trial

__all__ = ["FREQUENCIES_HZ", "MIXES", "Job", "Mix", "Outcome", "Processor", "Trial"]
