"""The paper's six programs as a suite: its tables 5 and 6 and its figures 5 to 10 for this machine."""

from .suite_page import FILES, write_suite
from .suite_tables import SUITE, Suite, members
from .suite_text import tables

__all__ = ["FILES", "SUITE", "Suite", "members", "tables", "write_suite"]
