"""What processors can do, from text tables: one file a family, and the source of each line."""

from .tables import Core, Line, all_cores, encode, find_core, identify, kind_of, matches

__all__ = ["Core", "Line", "all_cores", "encode", "find_core", "identify", "kind_of", "matches"]
