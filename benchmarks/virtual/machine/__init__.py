"""A machine that is simulated while programs run on it: its frequency can be set, its joules follow from both."""

from tprof.benchmarks.published import HIGHEST_HZ, LOWEST_HZ

from .machine import Machine
from .response import RESPONSES, Response, response

__all__ = ["HIGHEST_HZ", "LOWEST_HZ", "RESPONSES", "Machine", "Response", "response"]
