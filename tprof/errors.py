"""The errors that a user can cause; each carries one sentence: what, where, what to do.

They stand alone so that every package can raise them without importing another.
"""


class TprofError(Exception):
    """Something tprof was asked for cannot be done."""


class UsageError(TprofError):
    """An argument or option is wrong, or two do not go together."""


class BudgetExceededError(TprofError):
    """What ran took more joules or watts than its budget."""


class SensorError(TprofError):
    """A sensor or counter that was asked for cannot be read."""


class TraceError(TprofError):
    """A trace is damaged, foreign or of a newer version."""
