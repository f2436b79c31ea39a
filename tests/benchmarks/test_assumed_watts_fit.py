"""The watts that recordings assume are what public figures give, and their error is that of processors left out."""

import math
from dataclasses import asdict

import pytest

from benchmarks.validation import assumed_watts
from benchmarks.validation.assumed_watts import BOARD, Processor, factors, fit, left_out, processors, servers
from tprof.sensors.assumed import table


def test_the_table_that_recordings_read_is_the_one_that_the_published_figures_give():
    fitted = {row.pop("kind"): {name: float(text) for name, text in row.items()} for row in assumed_watts.table()}
    read = {kind: asdict(row) for kind, row in table().items()}
    for row in read.values():
        del row["words"]

    assert read == fitted


def machine(name, kind, cores, law, *, at_plug=False):
    """Return a processor that draws exactly levels * cores ** exponents, at half and at full load."""
    idle_w, busy_w = (level * cores**exponent for level, exponent in law)
    loads = tuple((part * cores, idle_w + part * busy_w) for part in (0.5, 1.0))
    if at_plug:
        return Processor(name, kind, "specpower", cores, 0, 1, 2 * idle_w, busy_w=1.5 * busy_w, year=2020)
    return Processor(name, kind, "made", cores, cores, 1, idle_w, loads)


LAWS = {"desktop": ((5.0, 0.5), (20.0, 0.7)), "thin-laptop": ((0.5, 0.5), (15.0, 0.7))}


def exact():
    known = [machine(f"{kind} {cores}", kind, cores, law) for kind, law in LAWS.items() for cores in (2, 4, 16)]
    return [*known, *(machine(f"server {cores}", "desktop", cores, LAWS["desktop"], at_plug=True) for cores in (4, 8))]


def test_processors_that_follow_the_law_are_predicted_exactly_when_left_out():
    idle, busy = fit(exact())
    errors = left_out(exact(), lambda one: one.name)

    assert (idle.exponent, busy.exponent) == pytest.approx((0.5, 0.7))
    assert (idle.plug, busy.plug) == pytest.approx((2.0, 1.5))
    assert busy.watts("thin-laptop", 4) == pytest.approx(15 * 4**0.7)
    assert [one.idle for one in errors] == pytest.approx([0.0] * 6, abs=1e-9)
    assert factors(errors) == pytest.approx((1.0, 1.0))


def test_one_that_draws_twice_as_much_is_predicted_at_half():
    odd = machine("odd", "desktop", 8, ((10.0, 0.5), (40.0, 0.7)))

    (error,) = (one for one in left_out([*exact(), odd], lambda one: one.name) if one.processor is odd)

    assert error.idle == pytest.approx(-math.log(2))
    assert error.busy == pytest.approx((-math.log(2),) * 2)


def test_a_kind_of_which_nothing_is_left_is_not_judged():
    errors = left_out(exact(), lambda one: one.kind)

    assert {one.processor.kind: bool(one.busy) for one in errors} == {"desktop": True, "thin-laptop": False}


def test_the_published_figures_are_whole():
    known = processors()

    assert len({one.name for one in known}) == len(known) == 36
    assert len(servers()) == 138
    assert {one.kind for one in known} == set(assumed_watts.KINDS)
    assert all(0 < busy <= 1.01 * one.cpus * one.packages for one in known for busy, _ in one.loads)
    assert sum(one.kind == BOARD for one in known) == 3
