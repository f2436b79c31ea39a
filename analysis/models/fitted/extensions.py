"""Further columns: what a task's power may depend on besides the task.

Each column is centred so that the power of a base column times the task's time stays the energy of the task, whatever
the effect. `Effects` are the found ones; they also say by how much each segment's power differs from its task's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .averaging import Group
from .beside import Beside
from .contention import FORMS, contention_columns
from .equations import COOLING, columns
from .products import crossed, times

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .equations import Rows, Work

Floats = NDArray[np.float64]
WAVES = range(2, 7)
SEPARATE_WAVES = 12
"""With more tasks they have their wander in common."""
STATIC_WAVES = (2, 3)
MOST_CORES = 128
FAMILIES = {
    "drift": "drift", "wander": "drift", "length": "length", "victim": "contention", "aggressor": "contention",
    "crowd": "contention", "cores": "cores", "static": "static",
}  # fmt: skip
FACTORS = (0.1, 10.0)
"""Bounds of a segment's power relative to its task's."""


@dataclass(frozen=True)
class Column:
    """What a further column is about.

    Attributes
    ----------
    group : name of its group.
    task : whose power it changes; None: of all tasks in proportion to their power.
    other : the aggressor, the core, or the number of half waves over the recording.
    centre : what was subtracted, as a mean of the quantity for the task, or for each (tasks,).
    """

    group: str
    task: int | None
    other: int
    centre: Floats | float


@dataclass(frozen=True)
class Extensions:
    """The further columns of a fit.

    Attributes
    ----------
    columns : (n, e)
    about : what each is.
    size : (e,) watts of an effect of 1.
    tried : pairs of tasks that have columns, as a part of all.
    """

    columns: Floats
    about: list[Column]
    size: Floats
    tried: float

    def groups(self, base: int) -> list[Group]:
        """Return the groups; indices count the base columns."""
        names = list(dict.fromkeys(column.group for column in self.about))
        group = np.array([names.index(column.group) for column in self.about], np.intp)
        saturating, counting = ({f"{role} {form}" for role in ("victim", "aggressor")} for form in FORMS)
        excludes = dict.fromkeys(saturating, counting) | dict.fromkeys(counting, saturating)
        warmth = {f"static {number}" for number in range(len(COOLING))}
        excludes |= {name: warmth - {name} for name in warmth}
        return [
            Group(
                name,
                FAMILIES[name.partition(" ")[0]],
                base + np.flatnonzero(group == number),
                self.tried if name in excludes and name not in warmth else 1.0,
                frozenset(excludes.get(name, ())),
            )
            for number, name in enumerate(names)
        ]


class _Builder:
    """Collects columns, centred by task."""

    def __init__(self, time: Floats, power: Floats) -> None:
        self._time, self._power = time, power
        self.ran = np.maximum(time.sum(axis=0), 1e-300)
        self.columns: list[Floats] = []
        self.about: list[Column] = []
        self.size: list[float] = []

    def add(self, group: str, task: int, other: int, values: Floats) -> None:
        """Add a column of one task: its time times a quantity."""
        centre = float(values.sum() / self.ran[task])
        self._append(values - centre * self._time[:, task], Column(group, task, other, centre), self._power[task])

    def add_common(self, group: str, other: int, values: Floats, sums: Floats) -> None:
        """Add a column of all tasks: joules by their powers times a quantity, whose sum by task is given."""
        centre = sums / self.ran
        self._append(values - times(self._time, centre * self._power), Column(group, None, other, centre), 1.0)

    def _append(self, values: Floats, about: Column, size: float) -> None:
        self.columns.append(values)
        self.about.append(about)
        self.size.append(size)

    def add_static(self, group: str, course: int, values: Floats, static_w: float) -> None:
        """Add a column of static power."""
        self._append(values, Column(group, None, course, 0.0), static_w)


@dataclass(frozen=True)
class Known:
    """What further columns are made from.

    Attributes
    ----------
    rows, work, late_s : as for the base columns.
    time : (n, tasks) base columns of the tasks.
    power : (tasks + 1,) as far as known of the tasks, and between them.
    static_w : likewise.
    """

    rows: Rows
    work: Sequence[Work]
    late_s: float
    time: Floats
    power: Floats
    static_w: float

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(self.time.shape[1])

    @property
    def watts(self) -> Floats:
        """Powers of the tasks."""
        return self.power[:-1]

    @property
    def place(self) -> Floats:
        """Where in the recording each row is, from 0 to 1."""
        return self.rows.middle_s / max(self.rows.span_s, 1e-9)


def extension_columns(known: Known, pairs: list[tuple[int, int]], groups: Collection[str] | None = None) -> Extensions:
    """Return the further columns.

    Parameters
    ----------
    known : what they are made from
    pairs : (victim, aggressor) that may matter
    groups : only these; None: all
    """
    build = _Builder(known.time, known.watts)
    wanted = {
        "drift": _add_drift, "wander": _add_waves, "length": _add_lengths, "cores": _add_cores, "static": _add_static,
    }  # fmt: skip
    for name, add in wanted.items():
        if groups is None or any(group.partition(" ")[0] == name for group in groups):
            add(build, known)
    if groups is None or any(FAMILIES[name.partition(" ")[0]] == "contention" for name in groups):
        _add_contention(build, known, pairs)
    kept = [number for number, column in enumerate(build.about) if groups is None or column.group in groups]
    # Without a single column there is still a table.
    values = np.column_stack([np.zeros((len(known.time), 0)), *(build.columns[number] for number in kept)])
    about, size = [build.about[number] for number in kept], np.array([build.size[number] for number in kept])
    ran = int((build.ran > 1e-300).sum())
    return Extensions(values, about, size, min(len(pairs) / max(ran, 1) ** 2, 1.0))


def _add_drift(build: _Builder, known: Known) -> None:
    for task in range(known.tasks):
        build.add("drift", task, 0, known.time[:, task] * known.place)


def _add_lengths(build: _Builder, known: Known) -> None:
    lengths = columns(
        known.rows, known.work, known.tasks + 1, known.late_s, lambda one: (one.task, one.log_length.astype(float))
    )
    for task in range(known.tasks):
        build.add("length", task, 0, lengths[:, task])


def _add_static(build: _Builder, known: Known) -> None:
    static_w = max(known.static_w, 1e-3 * float(known.power.max()))
    courses = static_courses(known.place, known.rows.warmth(known.static_w)[:, known.rows.at])
    for number, (group, values) in enumerate(courses):
        build.add_static(group, number, known.rows.length_s * values, static_w)


def static_courses(place: Floats, warmth: Floats) -> list[tuple[str, Floats]]:
    """Return how static power may change, and the group of each course.

    Parameters
    ----------
    place : (n,) the part of the time that has passed
    warmth : (k, n) of the package, from 0 to 1, for several speeds of cooling
    """
    warmed = [(f"static {number}", values) for number, values in enumerate(warmth)]
    waves = [("static course", np.asarray(np.cos(np.pi * wave * place))) for wave in STATIC_WAVES]
    return [*warmed, ("static course", place - 0.5), *waves]


def _add_waves(build: _Builder, known: Known) -> None:
    for wave in WAVES:
        quantity = np.cos(np.pi * wave * known.place)
        if known.tasks > SEPARATE_WAVES:
            build.add_common("wander", wave, times(known.time, known.watts) * quantity, crossed(known.time, quantity))
            continue
        for task in range(known.tasks):
            build.add("wander", task, wave, known.time[:, task] * quantity)


def _add_contention(build: _Builder, known: Known, pairs: list[tuple[int, int]]) -> None:
    contention = contention_columns(known.rows, known.work, pairs, known.late_s, known.power)
    power = known.watts
    for form in FORMS:
        beside = contention.columns[form]
        for (victim, aggressor), values in zip(contention.pairs, beside.T, strict=True):
            build.add(f"victim {form}", victim, aggressor, values)
        for aggressor in sorted({pair[1] for pair in contention.pairs}):
            of = [number for number, pair in enumerate(contention.pairs) if pair[1] == aggressor]
            victims = [contention.pairs[number][0] for number in of]
            sums = np.zeros(len(power))
            sums[victims] = beside[:, of].sum(axis=0)
            build.add_common(f"aggressor {form}", aggressor, times(beside[:, of], power[victims]), sums)
    # What a busy core draws more or less with each other busy one, as with turbo.
    ran, sums = np.zeros((2, known.tasks + 1))
    any_task = Beside.of(known.work, -1, "counting")
    for one in known.work:
        ran += np.bincount(one.task, weights=one.modelled, minlength=len(ran))
        sums += np.bincount(one.task, weights=one.modelled * any_task.part(one), minlength=len(ran))
    mean = sums / np.maximum(ran, 1e-300)
    build.add_common("crowd counting", -1, contention.crowd, (mean * np.append(build.ran, 0.0))[:-1])


def _add_cores(build: _Builder, known: Known) -> None:
    cores = 1 + max((int(one.core.max(initial=0)) for one in known.work), default=0)
    if not 1 < cores <= MOST_CORES:
        return
    watts = np.append(known.watts, 0.0)
    # Column 0 is of what ran on no known core.
    joules = columns(known.rows, known.work, cores + 1, known.late_s, lambda one: (one.core + 1, watts[one.task]))
    joules = joules[:, 1:]
    ran = np.zeros((known.tasks + 1) * (cores + 1))
    for one in known.work:
        ran += np.bincount(one.task * (cores + 1) + one.core + 1, weights=one.modelled, minlength=len(ran))
    ran = ran.reshape(-1, cores + 1)[:-1]
    part = (ran / np.maximum(ran.sum(axis=1, keepdims=True), 1e-300))[:, 1:]
    for core in range(cores):
        build.add_common("cores", core, joules[:, core], part[:, core] * build.ran)


@dataclass(frozen=True)
class Effects:
    """What was found, as factors of the tasks' powers.

    Attributes
    ----------
    about : the columns with an effect.
    effect : (e,) in units of the task's power.
    tasks : their number.
    begin_ns, span_s : of the rows.
    """

    about: list[Column]
    effect: Floats
    tasks: int
    begin_ns: int
    span_s: float

    @property
    def besides(self) -> list[tuple[int, str]]:
        """The aggressors on which effects depend, and in which form."""
        return sorted({key for key in map(_beside, self.about) if key is not None})

    def factors(
        self, work: Sequence[Work], beside: Mapping[tuple[int, str], Beside] | None = None
    ) -> tuple[Floats, ...]:
        """Return by how much the power of each segment differs from its task's: for each thread (n,).

        `beside` is what ran beside them; None: these threads alone.
        """
        if beside is None:
            beside = {key: Beside.of(work, *key) for key in self.besides}
        return tuple(self._of_thread(one, beside) for one in work)

    def renumbered(self, kept: NDArray[np.intp], tasks: int) -> Effects:
        """Return the effects of so many tasks, of which these have the numbers that they have here."""
        return replace(self, about=[_renumbered(column, kept, tasks) for column in self.about], tasks=tasks)

    def _of_thread(self, one: Work, beside: Mapping[tuple[int, str], Beside]) -> Floats:
        factor = np.ones(len(one))
        place = ((one.t_ns[1:] + one.t_ns[:-1]) / 2 - self.begin_ns) * 1e-9 / max(self.span_s, 1e-9)
        for column, effect in zip(self.about, self.effect, strict=True):
            if column.group == "drift":
                quantity = place
            elif column.group == "wander":
                quantity = np.cos(np.pi * column.other * place)
            elif column.group == "length":
                quantity = one.log_length.astype(float)
            elif column.group == "cores":
                quantity = (one.core == column.other).astype(float)
            elif (key := _beside(column)) is not None:
                quantity = beside[key].part(one)
            else:
                continue
            centre = np.broadcast_to(column.centre, (self.tasks,))
            on = one.task < self.tasks if column.task is None else one.task == column.task
            centres = np.append(centre, 0.0)[one.task]
            factor += np.where(on, effect * (quantity - centres), 0.0)
        return np.clip(factor, *FACTORS)


def _renumbered(column: Column, kept: NDArray[np.intp], tasks: int) -> Column:
    centre = column.centre
    if not isinstance(centre, float):
        centre = np.zeros(tasks)
        centre[kept] = column.centre
    return replace(
        column,
        task=None if column.task is None else int(kept[column.task]),
        other=int(kept[column.other]) if _beside(column) and column.other >= 0 else column.other,
        centre=centre,
    )


def _beside(column: Column) -> tuple[int, str] | None:
    role, _, form = column.group.partition(" ")
    return (column.other, form) if role in ("victim", "aggressor", "crowd") else None
