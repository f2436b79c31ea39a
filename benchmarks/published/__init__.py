"""What others have published: the TProf paper's tables and responses to frequency, and public measurements.

Each figure stands here once; nothing else in the project states one of them.
"""

from .programs import PAPER, PaperProgram, PaperTask
from .tables import HIGHEST_HZ, LOWEST_HZ, Ratios, processors, ratios, servers, table_2, table_3, table_4

__all__ = [
    "HIGHEST_HZ",
    "LOWEST_HZ",
    "PAPER",
    "PaperProgram",
    "PaperTask",
    "Ratios",
    "processors",
    "ratios",
    "servers",
    "table_2",
    "table_3",
    "table_4",
]
