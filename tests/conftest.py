"""Shared set-up: tests run on the installed wheel, never on the checkout."""

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _ROOT]
os.environ["PYTHONSAFEPATH"] = "1"
