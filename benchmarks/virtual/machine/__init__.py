"""A machine that is simulated while programs run on it: its frequency can be set, its joules follow from both."""

from tprof.benchmarks.published import HIGHEST_HZ, LOWEST_HZ

from .machine import Machine
from .response import FREQUENCIES_HZ, RESPONSES, Response, response

__all__ = ["FREQUENCIES_HZ", "HIGHEST_HZ", "LOWEST_HZ", "RESPONSES", "Machine", "Response", "response"]
