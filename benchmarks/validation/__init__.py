"""How wrong each model is where the truth is known: on the virtual processor."""

from .cases import CASES, Case
from .errors import CaseResult, run_case
from .validate import measure

__all__ = ["CASES", "Case", "CaseResult", "measure", "run_case"]
