"""The sums of a profile as labelled arrays of xarray: tasks, domains and accounts, and power over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .columns import FLAG, REAL, WHOLE, column_of

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

ACCOUNTS = ("tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j")


def dataset_of(profile: Profile) -> Any:
    """Return a dataset: the summary over `task`, `account_j` over `domain` and `account`, `domain_w` over time.

    Every array has the attributes `units` and `long_name`, and the dataset has `quality` and `model`.
    """
    import xarray as xr  # noqa: PLC0415 - optional

    summary, accounts, power = profile.summary(), profile.accounts, profile.power
    data: dict[str, Any] = {}
    for name in map(str, summary.columns):
        what = column_of("summary", name)
        if what.kind in {REAL, WHOLE, FLAG}:
            data[name] = ("task", summary[name].to_numpy(), _attributes(what.unit, what.meaning))
    known = [name for name in ACCOUNTS if name in accounts]
    parts = accounts[known].to_numpy(float)
    data["account_j"] = (("domain", "account"), parts, _attributes("J", "where the joules of a domain went"))
    data["measured_j"] = ("domain", accounts["measured_j"].to_numpy(float), _attributes("J", "joules of the domain"))
    domains = list(map(str, accounts.index))
    watts = [
        power[f"{one}_w"].to_numpy(float) if f"{one}_w" in power else np.full(len(power), np.nan) for one in domains
    ]
    data["domain_w"] = (
        ("domain", "time"),
        np.array(watts).reshape(len(domains), len(power)),
        _attributes("W", "power"),
    )
    data["duration_s"] = ("time", power["duration_s"].to_numpy(float), _attributes("s", "length of the interval"))
    coordinates = {
        "task": list(map(str, summary.index)),
        "domain": domains,
        "account": [name.removesuffix("_j") for name in known],
        "time": ("time", power["time_s"].to_numpy(float), _attributes("s", "from the begin of the recorded block")),
    }
    facts = {"quality": str(profile.info["quality"]), "model": str(profile.info["model"])}
    return xr.Dataset(data, coordinates, facts)


def _attributes(unit: str, meaning: str) -> dict[str, str]:
    return {"units": unit, "long_name": meaning}
