"""The errors that a user can cause; each carries one sentence: what, where, what to do.

They import nothing, so that every package can raise them without importing another.
"""


class TprofError(Exception):
    """A request to tprof cannot be fulfilled."""


class UsageError(TprofError):
    """An argument or option is wrong, or two exclude each other."""


class BudgetExceededError(TprofError):
    """The code in a budget took more joules or watts than allowed."""


class SensorError(TprofError):
    """A requested sensor or counter cannot be read."""


class TraceError(TprofError):
    """A trace is damaged, foreign or of a newer version."""
