"""Sensors of other packages: found by entry points and chosen by name; whatever they do, the program runs."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import added_sensor, fake_trees
from support.added_sensor import CounterBench, MeterBench
from support.fake_sensor import is_missing, raw_readings, wait_for
from support.fake_trees import reasons

import tprof
from tprof import sensors
from tprof.sensors import Accuracy, Domain, Found, Quality, Quantity, Reading, Sensor

DEADLINE_S = 60
STUCK = threading.Event()
"""Set by the reader that is stuck."""
ANSWER = threading.Event()
"""Until it is set a reader that is stuck does not return."""
BEGUN = threading.Event()
"""Set once the recording has begun: one that fails before is refused."""


@tprof.task
def add_up(n):
    return sum(range(n))


class Wrong(Sensor):
    """Reads a GPU, and fails as its argument says."""

    name = "wrong"
    covers = "nothing"
    subject = "gpu"
    argument_words = "how"

    def find(self, machine):
        del machine
        return Found(
            (Domain("gpu-0", "gpu", None, "wrong", Quality.MEASURED, accuracy=Accuracy(shows=Quantity.POWER)),)
        )

    def open(self, machine, domains):
        del machine, domains
        if self.argument == "open":
            raise tprof.SensorError("the device is busy: end the other program")
        return Reader(self.argument)


class Reader:
    period_s = 0.002

    def __init__(self, how) -> None:
        self.how, self.reads = how, 0

    def read(self):
        self.reads += 1
        fails = self.reads > 5 and BEGUN.is_set()
        if fails and self.how == "raise":
            raise KeyError("no such device")
        if fails and self.how == "exit":
            sys.exit("the library gives up")
        if self.reads > 5 and self.how == "stuck":
            STUCK.set()
            ANSWER.wait(DEADLINE_S)
        if self.reads > 5 and self.how == "hang":
            time.sleep(3)
        if self.reads == 30 and self.how == "hang shortly":
            time.sleep(0.5)
        t_ns = {"future": time.monotonic_ns() + 5 * 10**9, "past": 10**9 - self.reads}.get(self.how)
        values = {"nan": float("nan"), "negative": -1.0, "text": "7", "past": float(self.reads)}
        return [Reading("gpu-0", values.get(self.how, 10.0), t_ns)]

    def close(self):
        if self.how == "close":
            raise OSError("it does not close")


@pytest.fixture
def _wrong(tmp_path, monkeypatch):
    added_sensor.install(tmp_path / "packages", monkeypatch, wrong=f"{__name__}:Wrong")


def record(path, energy, until):
    """Record until the raw readings of the GPU are as said."""
    BEGUN.clear()
    with tprof.record(path, energy=energy, counters="none", idle_s=0) as recording:
        BEGUN.set()
        wait_for(lambda: until(raw_readings(path, "gpu-0")), "readings")
        assert add_up(1000) == 499500
    return recording


def many(readings):
    return len(readings) > 5


@pytest.mark.usefixtures("_wrong")
def test_a_package_adds_a_sensor_that_auto_takes_beside_the_processors(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", str(fake_trees.laptop(tmp_path / "root").root))

    choice = sensors.choose("auto", root=sensors.sysroot(), machine="x86_64")

    assert {domain.name for domain in choice.domains if domain.counted} == {"package-0", "gpu-0"}
    assert list(choice.sensors) == ["wrong"]


@pytest.mark.usefixtures("_wrong")
def test_a_sensor_of_a_package_is_recorded_by_name(tmp_path):
    recording = record(tmp_path / "t.tprof", "wrong", many)

    assert recording.notes == []
    assert recording.profile().accounts.loc["gpu-0", "measured_j"] > 0


@pytest.mark.usefixtures("_wrong")
def test_a_sensor_that_raises_is_missing_and_told_at_the_end(tmp_path):
    recording = record(tmp_path / "t.tprof", "wrong:raise", lambda readings: is_missing(readings).any())

    (note,) = recording.notes
    assert note.startswith("wrong could not be read ")
    assert note.endswith("so energy may be missing: KeyError: 'no such device'")
    assert note in recording.profile().info["warnings"]


@pytest.mark.usefixtures("_wrong")
def test_a_sensor_that_wants_to_exit_ends_neither_the_program_nor_the_readings(tmp_path):
    recording = record(tmp_path / "t.tprof", "wrong:exit", lambda readings: is_missing(readings).sum() > 1)

    assert recording.notes[0].endswith("so energy may be missing: SystemExit: the library gives up")


def test_without_a_thread_there_is_a_sentence(tmp_path, monkeypatch):
    def start(*_):
        raise RuntimeError("can't start new thread")

    added_sensor.install(tmp_path / "packages", monkeypatch, wrong=f"{__name__}:Wrong")
    monkeypatch.setattr("tprof.session.python_sensors.OwnThread", start)

    with pytest.raises(tprof.SensorError, match=r"no thread could be started \(can't start new thread\)"):
        record(tmp_path / "t.tprof", "wrong", many)
    with tprof.record(tmp_path / "t.tprof", energy="auto", counters="none", idle_s=0) as recording:
        assert add_up(1000) == 499500
    assert recording.notes[-1].startswith("sensors that Python reads have no energy from some time on")


@pytest.mark.usefixtures("_wrong")
@pytest.mark.parametrize("how", ["nan", "negative", "text"])
def test_what_is_no_watts_is_missing(tmp_path, how):
    recording = record(tmp_path / "t.tprof", f"wrong:{how}", lambda readings: is_missing(readings).any())

    assert is_missing(raw_readings(recording.path, "gpu-0")).all()
    assert "a read of gpu-0 gave no value" in recording.notes[0]


@pytest.mark.usefixtures("_wrong")
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("future", "gave a time that is 5 s in the future"),
        ("past", "gave a time that is not later than the one before"),
    ],
)
def test_a_reading_of_another_time_has_its_reason(tmp_path, how, words):
    with tprof.record(tmp_path / "t.tprof", energy=f"wrong:{how}", counters="none", idle_s=0) as recording:
        wait_for(lambda: len(raw_readings(tmp_path / "t.tprof", "gpu-0")), "a reading")
        add_up(1000)

    assert words in recording.notes[0]


@pytest.mark.usefixtures("_wrong")
def test_a_sensor_that_hangs_for_a_moment_is_noticed_in_the_profile(tmp_path):
    recording = record(tmp_path / "t.tprof", "wrong:hang shortly", lambda readings: len(readings) > 40)

    profile = recording.profile()
    (domain,) = profile.info["domains"]
    assert recording.notes == []
    assert domain["unread"] >= 1
    assert domain["invalid"] == 0
    assert any(
        text.startswith("gpu-0 was not read for ") and "its power is taken as a straight line" in text
        for text in profile.info["warnings"]
    )


@pytest.mark.usefixtures("_wrong")
def test_a_sensor_that_hangs_holds_nothing_up(tmp_path):
    recording = record(tmp_path / "t.tprof", "wrong:stuck", lambda _: STUCK.is_set())

    assert not ANSWER.is_set()
    ANSWER.set()
    assert recording.notes[0].startswith("wrong has not answered for ")


@pytest.mark.usefixtures("_wrong")
def test_a_sensor_that_cannot_be_opened_is_an_error_where_it_was_asked_for(tmp_path):
    with pytest.raises(tprof.SensorError, match=r"^wrong gives no energy: the device is busy: end the other program$"):
        record(tmp_path / "t.tprof", "wrong:open", many)

    assert not (tmp_path / "t.tprof").exists()


@pytest.mark.usefixtures("_wrong")
def test_a_sensor_that_does_not_close_is_told(tmp_path):
    assert "it does not close" in record(tmp_path / "t.tprof", "wrong:close", many).notes[0]


def test_what_cannot_be_loaded_is_left_out_of_auto_with_a_sentence(tmp_path, monkeypatch):
    added_sensor.install(tmp_path / "packages", monkeypatch, broken="no_such_module:Sensor", other=f"{__name__}:Reader")

    choice = sensors.choose("auto", root=fake_trees.laptop(tmp_path / "root").root, machine="x86_64")

    assert reasons(choice)["broken"].startswith(
        "the sensor broken of added-sensors cannot be loaded: ModuleNotFoundError"
    )
    assert reasons(choice)["other"].startswith("the sensor other of added-sensors is no tprof.sensors.Sensor")
    with pytest.raises(tprof.SensorError, match="cannot be loaded"):
        sensors.choose("broken", root=tmp_path)


class Lost(Sensor):
    """Its search fails, or finds what cannot be."""

    name = "lost"
    covers = "nothing"
    subject = "lost"
    argument_words = "how"

    def find(self, machine):
        if not self.argument:
            raise KeyError(str(machine.root))
        return {
            "none": Found(()),
            "text": "a GPU",
            "name": Found((Domain("../gpu", "gpu", None, "lost", Quality.MEASURED),)),
            "unit": Found((Domain("gpu-0", "gpu", None, "lost", Quality.MEASURED, -1.0),)),
            "other": Found((Domain("gpu-0", "gpu", None, "perf", Quality.MEASURED),)),
            "wrap": Found((Domain("gpu-0", "gpu", None, "lost", Quality.MEASURED, modulus=0),)),
        }[self.argument]


def test_a_search_that_fails_ends_no_recording_with_auto(tmp_path, monkeypatch):
    added_sensor.install(tmp_path / "packages", monkeypatch, lost=f"{__name__}:Lost")
    root = fake_trees.laptop(tmp_path / "root").root

    choice = sensors.choose("auto", root=root, machine="x86_64")

    assert reasons(choice)["lost"] == f"its search failed with KeyError: '{root}'"
    with pytest.raises(tprof.SensorError, match=r"^lost gives no energy: its search failed with KeyError"):
        sensors.choose("lost", root=root)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("none", "find() returns Found with domains, or Unavailable"),
        ("text", "find() returns Found with domains, or Unavailable"),
        ("name", "'../gpu' is no name of a domain"),
        ("unit", "gpu-0 has -1.0 joules a count"),
        ("other", "the source of gpu-0 is 'perf' instead of its name"),
        ("wrap", "the count of gpu-0 wraps at 0"),
    ],
)
def test_what_a_sensor_describes_wrongly_is_said(tmp_path, monkeypatch, how, words):
    added_sensor.install(tmp_path / "packages", monkeypatch, lost=f"{__name__}:Lost")

    with pytest.raises(tprof.SensorError, match=re.escape(words)):
        sensors.choose(f"lost:{how}", root=tmp_path)


def test_a_package_cannot_take_the_name_of_a_sensor_of_tprof(tmp_path, monkeypatch):
    added_sensor.install(tmp_path / "packages", monkeypatch, powercap=f"{__name__}:Wrong", auto=f"{__name__}:Wrong")

    choice = sensors.choose("powercap", root=fake_trees.laptop(tmp_path / "root").root)

    assert {domain.source for domain in choice.domains} == {"powercap"}


def test_nothing_is_counted_twice(tmp_path, monkeypatch):
    """The plug's meter has everything in it; the counter is beside the packages."""
    bench = CounterBench(tmp_path, monkeypatch)
    bench.begin()
    (bench.file.parent / "watts").write_text("100")
    folder, root = bench.file.parent, fake_trees.laptop(tmp_path / "root").root

    choice = sensors.choose(f"added_meter:{folder},powercap,added_counter:{folder}", root=root)

    assert {domain.name for domain in choice.domains if domain.counted} == {"package-0", "gpu-0"}
    assert reasons(choice)["wall"] == "it stands around package-0 and would count it twice"
    alone = sensors.choose([f"added_meter:{folder}"], root=root)
    assert [domain.counted for domain in alone.domains] == [True]


def test_auto_beside_a_meter_of_the_machine_estimates_nothing(tmp_path, monkeypatch):
    bench = CounterBench(tmp_path, monkeypatch)
    bench.begin()
    (bench.file.parent / "watts").write_text("100")
    (tmp_path / "nothing").mkdir()

    choice = sensors.choose(f"auto,added_meter:{bench.file.parent}", root=tmp_path / "nothing")

    assert [(domain.name, domain.counted) for domain in choice.domains] == [("wall", True)]
    assert choice.estimate is None
    both = sensors.choose(f"estimate,added_meter:{bench.file.parent}", root=tmp_path / "nothing")
    assert {domain.name for domain in both.domains if domain.counted} == {"package-0"}


@pytest.mark.parametrize(
    ("energy", "words"),
    [
        ("perf,none", 'energy="none" stands alone'),
        ("perf,,powercap", "energy must be sensors such as"),
        ([], "energy must be sensors such as"),
        ("perf,perf", "names each sensor once"),
        ("perf:0", "takes no argument"),
    ],
)
def test_what_is_asked_for_has_to_make_sense(tmp_path, energy, words):
    with pytest.raises((tprof.UsageError, tprof.SensorError), match=words):
        sensors.choose(energy, root=tmp_path)


def test_what_a_sensor_may_be_off_by_is_in_every_interval(tmp_path, monkeypatch):
    bench = MeterBench(tmp_path, monkeypatch)
    bench.begin()
    with tprof.record(tmp_path / "t.tprof", energy=bench.energy, counters="none", idle_s=0) as recording:
        wait_for(lambda: len(raw_readings(recording.path, "wall")) > 5, "readings")
        add_up(100_000)
        wait_for(lambda: len(raw_readings(recording.path, "wall")) > 10, "readings")

    profile = recording.profile()
    (wall,) = profile.info["domains"]
    # Its own 1 %, and half of its steps of 0.1 W of 20 W.
    assert (profile.watts.idle, profile.watts.busy) == pytest.approx((1.0125, 1.0125))
    assert profile.info["sensor"] == "added_meter (measured): wall (power integrated by tprof, all of it within 1.25 %)"
    assert (wall["integrated"], wall["relative_error"]) == (True, 0.01)
    mean, exact = profile.summary().loc["add_up"], profile.summary(common=False).loc["add_up"]
    assert mean["energy_high_j"] == pytest.approx(exact["energy_high_j"] * 1.0125)
    assert mean["energy_low_j"] == pytest.approx(exact["energy_low_j"] / 1.0125)


LEFT_OPEN = """
import sys
import tprof

@tprof.task
def add_up(n):
    return sum(range(n))

recording = tprof.record(sys.argv[1], energy=sys.argv[2], counters="none", idle_s=0)
recording.__enter__()
assert add_up(1000) == 499500
print("done")
"""


@pytest.mark.parametrize("how", ["", "hang", "raise"])
def test_a_program_that_ends_inside_its_recording_ends_as_ever(tmp_path, monkeypatch, how):
    """The thread is in the middle of a read, or asleep, when the interpreter goes."""
    added_sensor.install(tmp_path / "packages", monkeypatch, wrong="test_added_sensors:Wrong")
    program = tmp_path / "program.py"
    program.write_text(LEFT_OPEN)
    path = os.pathsep.join(map(str, (tmp_path / "packages", Path(__file__).parent, Path(__file__).parent.parent)))

    done = subprocess.run(
        [sys.executable, program, tmp_path / "t.tprof", f"wrong:{how}"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert len(raw_readings(tmp_path / "t.tprof", "gpu-0")) > 0
    assert not tprof.load(tmp_path / "t.tprof").complete


@pytest.mark.usefixtures("_wrong")
def test_a_fork_during_a_long_read_neither_waits_for_it_nor_ends_it(tmp_path):
    """The reader hangs: a fork goes on without it, and the readings do when it answers again."""
    path = tmp_path / "t.tprof"
    with tprof.record(path, energy="wrong:hang", counters="none", idle_s=0) as recording:
        wait_for(lambda: len(raw_readings(path, "gpu-0")) >= 5, "the read that hangs")
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        wait_for(lambda: len(raw_readings(path, "gpu-0")) > 5, "a reading after it")

    assert not is_missing(raw_readings(path, "gpu-0")).any()
    assert recording.notes == []
