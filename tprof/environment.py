"""The environment variables by which tprof's processes find each other."""

SESSION = "TPROF_SESSION"
"""The session directory, while a recording runs: a child process that imports tprof joins it."""

TASKS = "TPROF_TASKS"
"""The options of `tprof run --task`, for the Python processes that the program starts."""
