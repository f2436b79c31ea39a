"""A sweep visits what was asked for, in an order that only the seed decides, and waits for a steady temperature."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.benchmarks.sweep import What
from tprof.benchmarks.sweep.order import program, read_workers
from tprof.benchmarks.sweep.plan import DONE, FAILED, Plan, load_plan, save_plan
from tprof.benchmarks.sweep.temperature import find_sensor, settle

from tprof.errors import UsageError

LISTED = (1_600_000_000, 2_400_000_000, 3_200_000_000)
FACTS = {"lasted_s": 1.5, "model": "cputime", "quality": "measured", "sensor": "powercap", "warnings": []}
WHAT = What("script", "blur.py", ("--threads", "{workers}"), tasks=("__main__:*",))


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
    settings = [{(point.frequency_hz, point.workers, point.repeat) for point in plan.points} for plan in plans]
    assert settings[0] == settings[1]


def test_a_plan_is_kept_with_the_state_of_its_points(tmp_path):
    plan = Plan.drawn(WHAT, None, (1, 2), repeats=2, seed=5)
    plan.points[0].state = DONE
    plan.points[0].facts = dict(FACTS)
    plan.points[1].state, plan.points[1].facts = FAILED, {"why": "as asked"}

    save_plan(plan, tmp_path)

    assert load_plan(tmp_path) == plan
    assert (len(plan.done), len(plan.failed), len(plan.waiting)) == (1, 1, 2)
    assert load_plan(tmp_path / "elsewhere") is None


@pytest.mark.parametrize("text", ["", "{}", '{"format": 99}', "[]", '{"format": 1, "what": 3}'])
def test_a_damaged_plan_is_refused(tmp_path, text):
    (tmp_path / "sweep-plan.json").write_text(text)

    with pytest.raises(UsageError, match="is not a plan that this version of tprof reads"):
        load_plan(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda point: point.update(facts={}), "it lacks 'lasted_s'"),
        (lambda point: point["facts"].update(lasted_s="long"), "lasted_s of 1w-1 is of another kind"),
        (lambda point: point["facts"].update(warnings=[3]), "warnings of 1w-1"),
        (lambda point: point.update(frequency_hz="fast"), "a point is of another kind"),
        (lambda point: point.update(state="lost"), "the state of a point"),
        (lambda point: point.update(extra=1), "extra"),
    ],
)
def test_a_plan_that_was_edited_is_refused_in_one_sentence(tmp_path, change, said):
    plan = Plan.drawn(WHAT, None, (1,), repeats=1, seed=5)
    plan.points[0].state, plan.points[0].facts = DONE, dict(FACTS)
    plain = plan.as_plain()
    change(plain["points"][0])
    (tmp_path / "sweep-plan.json").write_text(json.dumps(plain))

    with pytest.raises(UsageError, match=f"is not a plan that this version of tprof reads .*{said}"):
        load_plan(tmp_path)


def test_workers_are_numbers_each_once_ascending():
    assert read_workers("4,1,2,1") == (1, 2, 4)
    for text in ("", "0,1", "two", "-1", "1_0", "\N{SUPERSCRIPT TWO}", "9" * 5000, "1,,2"):
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
