"""How wrong each model is where the truth is known: on the virtual processor."""

from .case_errors import CaseResult, run_case
from .cases import CASES, Case, chosen
from .validate import measure

__all__ = ["CASES", "Case", "CaseResult", "chosen", "measure", "run_case"]
