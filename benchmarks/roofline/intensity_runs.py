"""Runs the polynomials on all cores, NumPy's rates between them, and reads what each run took.

Without a sensor that measures, nothing is recorded and energies are NaN: an estimate is made from busy time, so a fit
to it would give back the assumption. With one, every run is a task of a recording, and its joules are those of the
quanta that lie wholly within it.
"""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis import build_profile
from tprof.analysis.models.calibration.observations import mean_watts
from tprof.analysis.theory.roofline_fit import Runs
from tprof.benchmarks.kernels import read_caches

import tprof
from tprof import sensors
from tprof.sensors.topology import read_topology
from tprof.trace import load_session

from . import _polynomial
from .thread_team import SIZES, Extent, ThreadTeam, copy_bytes_per_s, flops_of, one_a_core, product_flops_per_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    Progress = Callable[[str, int, int], None]

NUMPY = ("copy", "product-single", "product-double")


@dataclass(frozen=True)
class Point:
    """One run: which polynomial, how fast, and its task's name in a recording."""

    precision: str
    degree: int
    repeat: int
    numbers_per_s: float
    seconds: float

    @property
    def name(self) -> str:
        """Of the task."""
        return f"{self.precision}-{self.degree}-{self.repeat}"


@dataclass(frozen=True)
class Measured:
    """What was found.

    Attributes
    ----------
    runs : the fastest of each polynomial's repeats.
    degrees : (n,) of these.
    rates : NumPy's, the best of all repeats: "copy" bytes a second, "product-single" and "product-double" flops.
    vectors : which the kernels used.
    cpus : on which they ran.
    stream_bytes : of each core.
    no_energy : None, or why there are no energies.
    """

    runs: Runs
    degrees: tuple[int, ...]
    rates: dict[str, float]
    vectors: str
    cpus: tuple[int, ...]
    stream_bytes: int
    no_energy: str | None

    @property
    def bytes_per_s(self) -> float:
        """The best bandwidth of all runs."""
        return float((self.runs.traffic_bytes / self.runs.time_s).max())

    def flops_per_s(self, precision: str) -> float:
        """Return the best rate of all runs in a precision."""
        mine = self.runs.where(self.runs.double == (precision == "double"))
        return float((mine.flops / mine.time_s).max())

    @property
    def achieved(self) -> dict[str, float]:
        """The kernels' best rates as parts of NumPy's."""
        products = {one: self.flops_per_s(one) / self.rates[f"product-{one}"] for one in SIZES}
        return {"bandwidth": self.bytes_per_s / self.rates["copy"], **products}


def measure(extent: Extent, *, energy: str = "auto", progress: Progress | None = None) -> Measured:
    """Run everything.

    Parameters
    ----------
    extent
        How much.
    energy
        The sensor, as for `tprof.record`.
    progress
        Called with what runs, how many runs are done, and how many there are.

    Raises
    ------
    SensorError
        If the sensor that was asked for cannot be read.
    """
    root = sensors.sysroot()
    cpus = one_a_core(read_topology(root))
    no_energy = _why_no_energy(energy, root)
    stream_bytes = extent.stream_bytes(read_caches(root), len(cpus))
    with tempfile.TemporaryDirectory(prefix="tprof-roofline-") as folder:
        session = Path(folder) / "roofline.tprof"
        recording: AbstractContextManager[object] = (
            nullcontext() if no_energy else tprof.record(session, energy=energy, counters="none", idle_s=0.0)
        )
        with ThreadTeam(cpus, stream_bytes) as team, recording:
            points, rates = _Runner(team, extent, progress).run()
        watts = {} if no_energy else _watts_of(session)
    best = _fastest(points)
    return Measured(
        _runs(best, watts), tuple(point.degree for point in best), rates, _polynomial.vectors()[0], cpus, stream_bytes,
        no_energy,
    )  # fmt: skip


def _why_no_energy(energy: str, root: Path) -> str | None:
    """Return why no energies are recorded, or None."""
    choice = sensors.choose(energy, root=root)
    if choice.estimate is None and any(one.counted and one.scope == "package" for one in choice.domains):
        return None
    why = "this machine gives an estimate only" if choice.estimate is not None else "none was found"
    return f'times only: energies need a sensor that measures the package, and {why} (see "tprof doctor")'


@dataclass
class _Runner:
    """Goes through all runs, repeat by repeat, in an order that hides no drift."""

    team: ThreadTeam
    extent: Extent
    progress: Progress | None
    done: int = 0
    points: list[Point] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)

    def run(self) -> tuple[list[Point], dict[str, float]]:
        jobs = [(one, degree) for one in SIZES for degree in self.extent.degrees]
        total = self.extent.repeats * (len(jobs) + len(NUMPY))
        for repeat in range(self.extent.repeats):
            order = np.random.default_rng(repeat).permutation(len(jobs) + len(NUMPY))
            for place in order:
                self._report(total)
                if place < len(jobs):
                    self._polynomial(jobs[place][0], jobs[place][1], repeat)
                else:
                    self._numpy(NUMPY[place - len(jobs)])
        return self.points, self.rates

    def _polynomial(self, precision: str, degree: int, repeat: int) -> None:
        name = f"{precision}-{degree}-{repeat}"

        @tprof.task(name=name)
        def one() -> tuple[float, float, float]:
            return _polynomial.polynomial(self.team.stream(precision), degree, self.extent.seconds)

        found = self.team.all(one)
        rate = sum(numbers / took_s for numbers, took_s, _ in found)
        seconds = sum(took_s for _, took_s, _ in found) / len(found)
        self.points.append(Point(precision, degree, repeat, rate, seconds))

    def _numpy(self, name: str) -> None:
        if name == "copy":
            rate = copy_bytes_per_s(self.team, self.extent.seconds)
        else:
            rate = product_flops_per_s(name.removeprefix("product-"), self.extent.matrix, self.extent.seconds)
        self.rates[name] = max(rate, self.rates.get(name, 0.0))

    def _report(self, total: int) -> None:
        if self.progress is not None:
            self.progress("measuring", self.done, total)
        self.done += 1


def _fastest(points: list[Point]) -> list[Point]:
    best: dict[tuple[str, int], Point] = {}
    for point in points:
        key = (point.precision, point.degree)
        if key not in best or point.numbers_per_s > best[key].numbers_per_s:
            best[key] = point
    return [best[key] for key in sorted(best)]


def _runs(points: list[Point], watts: dict[str, float]) -> Runs:
    numbers = np.array([point.numbers_per_s * point.seconds for point in points])
    seconds = np.array([point.seconds for point in points])
    return Runs(
        numbers * [flops_of(point.degree) for point in points],
        numbers * [SIZES[point.precision] for point in points],
        seconds,
        seconds * [watts.get(point.name, np.nan) for point in points],
        np.array([point.precision == "double" for point in points]),
    )


def _watts_of(session: Path) -> dict[str, float]:
    """Return the mean watts of each task while all of its instances ran.

    A run in which a domain was read too seldom, or not validly, is left out.

    Parameters
    ----------
    session
        In which each task ran once, on all cores at the same time.
    """
    trace = load_session(session)
    profile = build_profile(trace, model="cputime")
    domains = [one for one in profile.quanta if one.counted]
    watts = {}
    for name, run in profile.tasks.groupby("task", observed=True):
        begin_s, end_s = run["start_s"].max(), (run["start_s"] + run["duration_s"]).min()
        each = [mean_watts(one, trace.start_ns + begin_s * 1e9, trace.start_ns + end_s * 1e9) for one in domains]
        if all(value is not None for value in each):
            watts[str(name)] = float(sum(value for value in each if value is not None))
    return watts
