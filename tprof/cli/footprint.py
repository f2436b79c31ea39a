"""The line on carbon and cost, which commands print beside joules if it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .render import clean, filled, width_of

if TYPE_CHECKING:
    from typing import TextIO

    from tprof.analysis import Profile
    from tprof.analysis.emissions import Rates


def rates_of(co2: str | None, price: str | None) -> Rates | None:
    """Read --co2 and --price; None without either. Raises UsageError."""
    if co2 is None and price is None:
        return None
    from tprof.analysis.emissions import Rates

    return Rates.of(co2, price)


def show_footprint(profile: Profile, rates: Rates | None, stream: TextIO) -> None:
    """Print a sentence on what the joules emitted and cost; nothing if no rate was given."""
    if rates is not None:
        print(filled(clean(profile.footprint(rates).text()), width_of(stream)), file=stream)


def with_footprint(profile: Profile, rates: Rates | None) -> dict[str, Any]:
    """Return the entry for JSON; empty if no rate was given."""
    return {} if rates is None else {"footprint": profile.footprint(rates).as_plain()}
