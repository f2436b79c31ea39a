"""A sweep visits what was asked for, in an order that only the seed decides, and waits for a steady temperature."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.benchmarks.sweep import What
from tprof.benchmarks.sweep.frequencies import visited
from tprof.benchmarks.sweep.order import program, read_workers
from tprof.benchmarks.sweep.plan import DONE, Plan, load_plan
from tprof.benchmarks.sweep.temperature import find_sensor, settle

from tprof.errors import UsageError
from tprof.frequency import Bounds, Policy

LISTED = (1_600_000_000, 2_400_000_000, 3_200_000_000)
WHAT = What("script", "blur.py", ("--threads", "{workers}"), tasks=("__main__:*",))


def policy(listed=LISTED, lowest=LISTED[0], highest=LISTED[-1]):
    return Policy(Path("policy0"), (0,), "a driver", "schedutil", Bounds(lowest, highest), listed)


@pytest.mark.parametrize(
    ("text", "hz"),
    [
        ("all", LISTED),
        ("1.6GHz, 3200 MHz", (LISTED[0], LISTED[2])),
        ("2.4", (LISTED[1],)),
        ("2400000khz", (LISTED[1],)),
        ("2.5GHz,2.4GHz", (LISTED[1],)),
        ("1.6GHz..2.5GHz", LISTED[:2]),
        ("1.6..3.2:2", (LISTED[0], LISTED[2])),
    ],
)
def test_frequencies_are_those_that_the_processor_has(text, hz):
    assert visited(text, [policy()]) == hz


def test_where_any_frequency_is_taken_a_grid_is_spread_between_the_ends():
    grid = visited("all", [policy(listed=())])

    assert grid[0] == LISTED[0]
    assert grid[-1] == LISTED[-1]
    assert len(grid) == 8
    assert visited("2GHz..3GHz:3", [policy(listed=())]) == (2_000_000_000, 2_500_000_000, 3_000_000_000)


def test_of_two_kinds_of_core_the_faster_decides():
    slow = policy(listed=(), highest=2_400_000_000)

    assert visited("all", [slow, policy()]) == LISTED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast", "must be all, a list"),
        ("2400", "lacks its unit"),
        ("9GHz", "9 GHz is outside of what this processor has: 1.6 GHz to 3.2 GHz"),
        ("3GHz..2GHz:4", "lower end first"),
        ("2GHz..3GHz:1", "at least 2"),
        ("2GHz..3GHz:", "at least 2"),
    ],
)
def test_what_is_no_frequency_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        visited(text, [policy()])


@given(
    seed=st.integers(0, 2**32), repeats=st.integers(1, 4), workers=st.sets(st.integers(1, 64), min_size=1, max_size=4)
)
def test_every_setting_runs_once_in_each_repeat(seed, repeats, workers):
    plan = Plan.drawn(WHAT, LISTED, tuple(sorted(workers)), repeats=repeats, seed=seed)

    settings = [(point.repeat, point.frequency_hz, point.workers) for point in plan.points]
    assert sorted(settings) == sorted(itertools.product(range(1, repeats + 1), LISTED, workers))
    assert [point.repeat for point in plan.points] == sorted(point.repeat for point in plan.points)
    assert plan.points == Plan.drawn(WHAT, LISTED, tuple(sorted(workers)), repeats=repeats, seed=seed).points
    assert len({point.name for point in plan.points}) == len(plan.points)


def test_another_seed_is_another_order_of_the_same_plan():
    plans = [Plan.drawn(WHAT, LISTED, (1, 2, 4), repeats=3, seed=seed) for seed in (1, 2)]

    assert plans[0].points != plans[1].points
    assert plans[0].same_as(plans[1])


def test_a_plan_is_kept_with_the_state_of_its_points(tmp_path):
    plan = Plan.drawn(WHAT, None, (1, 2), repeats=2, seed=5)
    plan.points[0].state = DONE
    plan.points[0].facts = {"lasted_s": 1.5}

    plan.save(tmp_path)

    assert load_plan(tmp_path) == plan
    assert len(plan.waiting) == 3
    assert load_plan(tmp_path / "elsewhere") is None


@pytest.mark.parametrize("text", ["", "{}", '{"format": 99}', "[]", '{"format": 1, "what": 3}'])
def test_a_damaged_plan_is_refused(tmp_path, text):
    (tmp_path / "sweep-plan.json").write_text(text)

    with pytest.raises(UsageError, match="is not a plan that this version of tprof reads"):
        load_plan(tmp_path)


def test_workers_are_numbers_each_once_ascending():
    assert read_workers("4,1,2,1") == (1, 2, 4)
    for text in ("", "0,1", "two", "-1"):
        with pytest.raises(UsageError, match="must be numbers from 1"):
            read_workers(text)


def test_a_program_is_a_benchmark_a_script_or_a_module():
    assert program(["jacobi"]).kind == "benchmark"
    assert program(["./jacobi", "-x"]) == What("script", "./jacobi", ("-x",))
    assert program(["-m", "package.job", "{workers}"]) == What("module", "package.job", ("{workers}",))
    for words in (["-m"], ["jacobi", "more"], ["--frequency", "x"]):
        with pytest.raises(UsageError):
            program(words)


def zone(root, kind, name="thermal_zone0", millidegrees="45000"):
    folder = root / "sys/class/thermal" / name
    folder.mkdir(parents=True)
    (folder / "type").write_text(f"{kind}\n")
    (folder / "temp").write_text(f"{millidegrees}\n")
    return folder / "temp"


def test_the_processors_temperature_is_found_among_others(tmp_path):
    zone(tmp_path, "acpitz")
    package = zone(tmp_path, "x86_pkg_temp", "thermal_zone3")

    assert find_sensor(tmp_path) == package


def test_a_chip_of_the_processor_stands_in_for_a_zone(tmp_path):
    for number, name in enumerate(("nvme", "k10temp")):
        folder = tmp_path / f"sys/class/hwmon/hwmon{number}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "temp1_input").write_text("51000\n")

    assert find_sensor(tmp_path) == tmp_path / "sys/class/hwmon/hwmon1/temp1_input"
    assert find_sensor(tmp_path / "nothing") is None


class Cooling:
    """A sensor and its clock: every wait lets time pass and the temperature follow."""

    def __init__(self, path, course) -> None:
        self.path, self.course, self.now_s = path, course, 0.0
        self.wait(0)

    def clock(self):
        return self.now_s

    def wait(self, seconds):
        self.now_s += seconds
        self.path.write_text(f"{round(self.course(self.now_s) * 1000)}\n")


def settled(tmp_path, course, limit_s=60):
    cooling = Cooling(tmp_path / "temp", course)
    return settle(cooling.path, limit_s, clock=cooling.clock, wait=cooling.wait)


def test_a_cooling_processor_is_waited_for(tmp_path):
    ended = settled(tmp_path, lambda t_s: 40 + 30 * 0.8**t_s)

    assert ended.steady
    assert 40 < ended.celsius < 42
    assert 15 < ended.waited_s < 30


def test_a_steady_one_takes_one_window_and_a_restless_one_the_limit(tmp_path):
    assert settled(tmp_path, lambda _: 50).waited_s == 5
    restless = settled(tmp_path, lambda t_s: 50 + 4 * (int(t_s * 2) % 2), limit_s=12)
    assert (restless.steady, restless.waited_s) == (False, 12)


def test_a_sensor_that_falls_silent_is_not_waited_for(tmp_path):
    path = tmp_path / "temp"
    path.write_text("")

    assert settle(path, 60, clock=lambda: 0.0, wait=lambda _: pytest.fail("waited")) is None
