"""Grams of CO2 equivalents and the price of the joules that a profile has.

Both are the joules times a rate that the user gives, or the mean intensity of a zone in a year from a dated table. They
hold what the sensor covers, so mostly the processor; the sentences say what is not in them.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from tprof.analysis.quantities import quantity

from tprof.errors import UsageError
from tprof.trace.plain_values import number, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tprof.analysis.profile import Profile

JOULES_PER_KWH = 3.6e6
MOST_G_PER_KWH, MOST_PRICE = 5000.0, 1e6
_TABLE = "intensities.csv"
_PRICE = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?)\s*(\S{0,8})", re.IGNORECASE)
LEFT_OUT = "memory, disks, network, cooling and the making of the machine are not in it unless the sensor covers them"


class Zone(NamedTuple):
    """The mean intensity of a zone's electricity in a year, g of CO2 equivalents per kWh."""

    name: str
    g_per_kwh: float
    year: int


@dataclass(frozen=True)
class Rates:
    """What a kilowatt-hour emits and costs; None where it was not asked for.

    Attributes
    ----------
    g_per_kwh : grams of CO2 equivalents
    source : where these are from: "given", or the zone and the year
    price_per_kwh : in the currency
    currency : its label; empty: none was given
    """

    g_per_kwh: float | None = None
    source: str = "given"
    price_per_kwh: float | None = None
    currency: str = ""

    @classmethod
    def of(cls, co2: str | float | None, price: str | float | None) -> Rates | None:
        """Read a rate in g/kWh or a zone, and a price such as ``0.30`` or ``0.30 EUR``; None without either.

        Raises
        ------
        UsageError
            If there is no such zone, or a rate is no number in its range.
        """
        if co2 is None and price is None:
            return None
        g_per_kwh, source = (None, "given") if co2 is None else _intensity(str(co2))
        price_per_kwh, currency = (None, "") if price is None else _price(str(price))
        return cls(g_per_kwh, source, price_per_kwh, currency)


@dataclass(frozen=True)
class Footprint:
    """What joules emitted and cost.

    Attributes
    ----------
    energy_j, low_j, high_j : the joules, and the interval due to the error of assumed watts; NaN if it is not known
    quality : whether the joules were measured or estimated
    rates : per kilowatt-hour
    covers : the domains whose joules these are
    """

    energy_j: float
    low_j: float
    high_j: float
    quality: str
    rates: Rates
    covers: tuple[str, ...]

    @property
    def emissions_g(self) -> float:
        """Grams of CO2 equivalents; NaN if no rate was given."""
        return self._times(self.energy_j, self.rates.g_per_kwh)

    @property
    def emissions_low_g(self) -> float:
        """Lower end of the interval of `emissions_g`; NaN if it is not known."""
        return self._times(self.low_j, self.rates.g_per_kwh)

    @property
    def emissions_high_g(self) -> float:
        """Upper end of the interval of `emissions_g`; NaN if it is not known."""
        return self._times(self.high_j, self.rates.g_per_kwh)

    @property
    def cost(self) -> float:
        """Price of the joules in the rates' currency; NaN if no price was given."""
        return self._times(self.energy_j, self.rates.price_per_kwh)

    @staticmethod
    def _times(joules: float, rate: float | None) -> float:
        return math.nan if rate is None else joules / JOULES_PER_KWH * rate

    def as_plain(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "energy_j": self.energy_j,
            "quality": self.quality,
            "emissions_g": self.emissions_g,
            "emissions_low_g": self.emissions_low_g,
            "emissions_high_g": self.emissions_high_g,
            "g_per_kwh": self.rates.g_per_kwh,
            "g_per_kwh_source": self.rates.source,
            "cost": self.cost,
            "price_per_kwh": self.rates.price_per_kwh,
            "currency": self.rates.currency,
            "covers": list(self.covers),
        }

    def text(self) -> str:
        """Return a sentence: joules, grams and price with the label of the joules, and what is not in them."""
        if math.isnan(self.energy_j):
            return self.figures()
        covers = ", ".join(self.covers) or "nothing"
        return f"{self.figures()}; this is {covers} alone: {LEFT_OUT}"

    def figures(self) -> str:
        """Return the first part of the sentence: joules, grams and price."""
        if math.isnan(self.energy_j):
            return "carbon and cost are not known, as the energy is not"
        parts = []
        if self.rates.g_per_kwh is not None:
            low_g, high_g = self.emissions_low_g, self.emissions_high_g
            within = f" ({_g(low_g)} … {_g(high_g)})" if low_g < high_g else ""
            rate = f"{self.rates.g_per_kwh:.4g} g/kWh ({self.rates.source})"
            parts.append(f"{_g(self.emissions_g)}{within} of CO2 equivalents at {rate}")
        if self.rates.price_per_kwh is not None:
            label = f" {self.rates.currency}" if self.rates.currency else ""
            parts.append(f"{self.cost:.3g}{label} at {self.rates.price_per_kwh:.4g}{label} per kWh")
        return f"{quantity(self.energy_j, 'J')} ({self.quality}) are {' and '.join(parts)}"


def footprint_of(profile: Profile, rates: Rates) -> Footprint:
    """Return what all joules of a profile emitted and cost, those of a job's hosts together."""
    infos, sums = list(profile.host_infos.values()), profile.measured_by_quality
    joules = math.fsum(sums.values()) if sums else math.nan
    estimates = [info["estimate"] for info in infos if info["estimate"] is not None]
    ends = [math.nan, math.nan]
    if estimates and len(estimates) == len(infos):
        ends = [math.fsum(one[name] for one in estimates) for name in ("energy_low_j", "energy_high_j")]
    domains = dict.fromkeys(str(one["name"]) for info in infos for one in info["domains"] if one["counted"])
    return Footprint(joules, ends[0], ends[1], str(profile.info["quality"]), rates, tuple(domains))


@cache
def zones() -> Mapping[str, Zone]:
    """Return the zones whose intensity is known, by code."""
    text = (files(__package__) / _TABLE).read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["zone"]: Zone(row["name"], float(row["g_per_kwh"]), int(row["year"])) for row in rows}


def _intensity(text: str) -> tuple[float, str]:
    """Return grams per kWh and their source."""
    zone = zones().get(text.strip().upper())
    if zone is not None:
        return zone.g_per_kwh, f"mean of {zone.name} in {zone.year}, Ember by Our World in Data"
    try:
        value = number(text)
    except ValueError:
        known = ", ".join(zones())
        raise UsageError(f"--co2 takes grams per kWh or a zone of {known}, got {shown(text)}") from None
    if not 0 <= value <= MOST_G_PER_KWH:
        raise UsageError(f"--co2 takes 0 to {MOST_G_PER_KWH:g} grams per kWh, got {shown(text)}")
    return value, "given"


def _price(text: str) -> tuple[float, str]:
    """Return the price of a kWh and the label of its currency."""
    found = _PRICE.fullmatch(text.strip())
    try:
        value = math.nan if found is None else number(found[1])
    except ValueError:
        value = math.nan
    if found is None or not 0 <= value <= MOST_PRICE or not found[2].isprintable():
        raise UsageError(f"--price takes the price of a kWh such as 0.30 or '0.30 EUR', got {shown(text)}")
    return value, found[2]


def _g(value: float) -> str:
    return quantity(value, "g")
