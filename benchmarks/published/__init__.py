"""What others have published: the TProf paper's tables and responses to frequency, and public measurements.

Each figure stands here once, and nothing else in the project states one of them. What the analysis itself offers stands
there: table 1 is `tprof.analysis.TABLE_1`, and machines that have names are in `analysis/theory`.
"""

from .paper import (
    FREQUENCIES,
    HIGHEST_HZ,
    LOWEST_HZ,
    PAPER,
    TABLES_HZ,
    PaperProgram,
    PaperTask,
    Ratios,
    processors,
    ratios,
    servers,
    table_2,
    table_2_means,
    table_3,
    table_4,
)

__all__ = [
    "FREQUENCIES",
    "HIGHEST_HZ",
    "LOWEST_HZ",
    "PAPER",
    "TABLES_HZ",
    "PaperProgram",
    "PaperTask",
    "Ratios",
    "processors",
    "ratios",
    "servers",
    "table_2",
    "table_2_means",
    "table_3",
    "table_4",
]
