"""The paper's six programs as a suite: its tables 5 and 6 and its figures 5 to 10 for this machine."""

from .members import SUITE, members
from .page import FILES, write_suite
from .show import tables
from .tables import Suite

__all__ = ["FILES", "SUITE", "Suite", "members", "tables", "write_suite"]
