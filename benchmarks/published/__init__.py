"""What others have published: the TProf paper's tables and responses to frequency, and public measurements.

Each figure stands in the project once: here, or where the wheel needs it. Table 1 is `tprof.analysis.TABLE_1`, tables 5
and 6 are in `benchmarks/suite/paper_programs.py`, and machines that have names are in `analysis/theory`.
"""

from .paper import (
    FREQUENCIES,
    HIGHEST_HZ,
    LOWEST_HZ,
    TABLES_HZ,
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
    "TABLES_HZ",
    "Ratios",
    "processors",
    "ratios",
    "servers",
    "table_2",
    "table_2_means",
    "table_3",
    "table_4",
]
