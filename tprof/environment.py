"""The environment variables by which tprof's processes find each other."""

SESSION = "TPROF_SESSION"
"""The session directory, while a recording runs: a child process that imports tprof joins it."""

TASKS = "TPROF_TASKS"
"""What `tprof run --task` was told, for the Python processes that the program starts."""
