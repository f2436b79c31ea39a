"""Profiles as files for other programs."""

from .tables_to_files import safe_cell, write_csv, write_parquet

__all__ = ["safe_cell", "write_csv", "write_parquet"]
