"""Without a sensor: watts that were given or assumed, always called an estimate."""

import pytest
from support import fake_trees

from tprof import sensors
from tprof.errors import UsageError
from tprof.sensors.estimate import parse_watts


def test_idle_watts_are_shared_by_the_packages_and_busy_cores_have_their_own(tmp_path):
    choice = sensors.choose("estimate", root=fake_trees.server(tmp_path).root, watts=(30, 5))

    readers = {domain.name: domain.reader for domain in choice.domains}
    assert {name: (reader.idle_w, reader.per_core_w) for name, reader in readers.items()} == {
        "package-0": (15, 5),
        "package-1": (15, 5),
    }
    assert readers["package-1"].cpus == (4, 5, 6, 7)
    assert choice.static_power_w == {"package-0": 15, "package-1": 15}
    assert choice.notes == ("energy is an ESTIMATE: 30 W idle plus 5 W per busy core (given)",)


def test_assumed_watts_say_for_what_and_how_far_they_may_be_off(tmp_path):
    tree = fake_trees.laptop(tmp_path)
    tree.processor(fake_trees.INTEL, "Intel(R) Core(TM) i5-1035G1 CPU @ 1.00GHz")

    choice = sensors.choose("estimate", root=tree.root)

    said = choice.estimate.as_json()
    assert said["given"] is False
    assert said["processor"] == "a laptop processor of less than 35 W"
    (note,) = choice.notes
    assert note == (
        f"energy is an ESTIMATE: {said['idle_w']:g} W idle plus {said['per_core_w']:g} W per busy core, assumed for "
        f"a laptop processor of less than 35 W: idle watts may be off by a factor of {said['idle_factor']:.2g}, busy "
        f"ones by {said['per_core_factor']:.2g}; give yours with --watts IDLE,PER_CORE"
    )


def test_the_environment_gives_watts_and_an_argument_goes_before_it(tmp_path, monkeypatch):
    root = fake_trees.laptop(tmp_path).root
    monkeypatch.setenv("TPROF_WATTS", "8,2")

    assert sensors.choose("estimate", root=root).estimate.as_json() == {"idle_w": 8, "per_core_w": 2, "given": True}
    assert sensors.choose("estimate", root=root, watts="9,3").estimate.idle_w == 9


def test_watts_that_are_given_go_before_a_sensor_that_auto_would_find(tmp_path):
    choice = sensors.choose("auto", root=fake_trees.laptop(tmp_path).root, watts=(10, 4))

    assert {domain.quality for domain in choice.domains} == {sensors.Quality.ESTIMATED}


@pytest.mark.parametrize(
    "text",
    ["", "5", "5,", "5,6,7", "a,b", "-1,5", "nan,5", "5,inf", "0,0", "1_0,5", "9" * 400 + ",5", "1e308,0", "5,1e10"],
)
def test_watts_that_mean_nothing_are_refused(text):
    with pytest.raises(UsageError, match=r"^watts must be IDLE,PER_CORE, two numbers not below 0 such as 12,6, got "):
        parse_watts(text)


@pytest.mark.parametrize(
    "watts", [(10**400, 1), (float("nan"), 1), (1, None), (1,), ("a", "b"), 5, [-1, 2], (1, 10**5000)]
)
def test_numbers_that_are_no_watts_are_refused(tmp_path, watts):
    with pytest.raises(UsageError, match=r"^watts must be IDLE,PER_CORE, .* got "):
        sensors.choose("estimate", root=tmp_path, watts=watts)
