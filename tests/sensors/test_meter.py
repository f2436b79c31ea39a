"""An external meter's lines become readings at the right times, wherever they come from."""

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.command_line import tprof as run_tprof
from support.fake_sensor import is_missing, is_reopened, raw_readings, wait_for
from support.meter_bench import SerialMeter
from support.programs import TPROF
from support.properties import examples

import tprof
from tprof.errors import SensorError, UsageError
from tprof.sensors import Found, Machine, Unavailable, sysroot
from tprof.sensors.meter import LineReader, Meter, MeterClock

HEADED = "time,power\n# a comment\n"


def found(argument):
    return Meter(argument).find(Machine(sysroot()))


def reader(argument):
    return LineReader(Meter(argument).place)


@pytest.fixture
def growing(tmp_path):
    path = tmp_path / "meter.csv"
    path.write_text("1,99\n")
    return path


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def test_only_what_a_file_gets_during_a_recording_is_read(growing):
    lines = reader(str(growing))
    append(growing, HEADED + "2,11.5\n2.01;12.5 W\n2.02 13")

    first = lines.read()
    append(growing, ".5\n2.03,x\n")
    second = lines.read()
    growing.write_text("2.04,14\n")
    third = lines.read()

    assert [one.value for one in first] == [11.5, 12.5]
    assert [one.value for one in second] == [13.5, None]
    assert [one.value for one in third] == [14]
    t_ns = [one.t_ns for one in (*first, *second, *third)]
    assert t_ns == sorted(t_ns)


def test_a_value_below_zero_is_the_offset_of_a_meter_without_load(growing):
    lines = reader(str(growing))
    append(growing, "-0.2\n")

    assert [one.value for one in lines.read()] == [0]


def test_lines_without_times_stand_evenly_between_two_arrivals(growing):
    lines = reader(f"{growing},domain=dram,delay=0.5")
    append(growing, "1\n")
    (first,) = lines.read()
    append(growing, "1\n2\n3\n4\n")

    later = lines.read()

    assert {one.domain for one in later} == {"dram"}
    gaps = np.diff([first.t_ns, *(one.t_ns for one in later)])
    assert gaps == pytest.approx(gaps[0], abs=2)
    assert first.t_ns == pytest.approx(time.monotonic_ns() - 500_000_000, abs=30_000_000_000)


@given(some.lists(some.floats(0, 0.3), min_size=20, max_size=60), some.floats(-200e-6, 200e-6), some.floats(-1e6, 1e6))
@examples(200)
def test_times_of_the_meter_are_as_late_as_its_least_late_line(delays_s, rate, zero_s):
    clock, begin_ns = MeterClock(), 10**12

    errors_s = []
    for number, delay_s in enumerate([0.0, *delays_s]):
        true_s = 0.01 * number
        meter_ns = round((zero_s + true_s * (1 + rate)) * 1e9)
        assert not clock.note(meter_ns, begin_ns + round((true_s + delay_s) * 1e9))
        t_ns = clock.converted(meter_ns)
        errors_s.append((t_ns - begin_ns) * 1e-9 - true_s)

    assert max(map(abs, errors_s)) < 0.01 * len(delays_s) * 200e-6 + 1e-6


def test_a_meter_that_was_started_again_has_a_clock_of_its_own():
    clock = MeterClock()
    assert not clock.note(5_000_000_000, 10**12)

    for meter_ns, arrival_ns in ((0, 10**12 + 1_000_000), (3_600_000_000_000, 10**12 + 2_000_000)):
        assert clock.note(meter_ns, arrival_ns)
        assert clock.converted(meter_ns) == arrival_ns


def test_lines_before_a_restart_that_come_with_those_after_it_keep_their_times(growing):
    lines = reader(str(growing))
    append(growing, "1000.00,5\n")
    (first,) = lines.read()
    append(growing, "1000.01,6\n1000.02,7\n0.00,8\n0.01,9\n")

    together = lines.read()
    append(growing, "0.02,10\n")
    after = lines.read()

    t_ns = [one.t_ns for one in (first, *together, *after)]
    assert t_ns == sorted(t_ns)
    assert t_ns[-1] <= time.monotonic_ns()
    assert [one.value for one in after] == [10]
    assert [one.reopened for one in (first, *together, *after)].count(True) == 1


def test_a_flood_of_lines_is_thinned_out_up_to_the_last(growing):
    lines = reader(str(growing))
    append(growing, "5\n")
    lines.read()
    append(growing, "".join(f"{number}\n" for number in range(5000)))

    found = lines.read()

    assert 100 < len(found) <= 256
    assert found[-1].value == 4999
    gaps = np.diff([one.value for one in found])
    assert (gaps == gaps[0]).all()


def test_a_time_that_no_clock_shows_is_a_failed_read(growing):
    lines = reader(str(growing))
    append(growing, "1,5\n1e300,6\n2,7\n")

    assert [one.value for one in lines.read()] == [5, None, 7]


def test_a_gap_after_a_restart_of_the_meter_has_no_joules(tmp_path):
    seconds = iter([*np.arange(5, 5.4, 0.004), *np.arange(0, 1000, 0.004)])
    meter = SerialMeter(tmp_path / "tty", lambda: f"{next(seconds):.4f},20")
    try:
        with tprof.record(tmp_path / "t.tprof", energy=f"meter:{tmp_path / 'tty'}", counters="none", idle_s=0):
            wait_for(lambda: len(raw_readings(tmp_path / "t.tprof", "wall")) > 300, "readings")
    finally:
        meter.close()

    readings = raw_readings(tmp_path / "t.tprof", "wall")
    assert is_reopened(readings).sum() == 1


def test_lines_come_by_a_socket(tmp_path):
    listener = socket.create_server(("127.0.0.1", 0))
    end = threading.Event()

    def serve():
        connection, _ = listener.accept()
        with connection, suppress(ConnectionError):
            while not end.wait(0.005):
                connection.sendall(b"25\n")

    thread = threading.Thread(target=serve)
    thread.start()
    energy = f"meter:tcp://127.0.0.1:{listener.getsockname()[1]},domain=dram"
    with tprof.record(tmp_path / "t.tprof", energy=energy, counters="none", idle_s=0) as recording:
        wait_for(lambda: len(raw_readings(tmp_path / "t.tprof", "dram")) > 50, "readings")
    end.set()
    thread.join()
    listener.close()

    account = recording.profile().accounts.loc["dram"]
    readings = raw_readings(tmp_path / "t.tprof", "dram")
    seconds = (readings["t_ns"].max() - readings["t_ns"].min()) * 1e-9
    assert account["quality"] == "measured"
    assert 0 < account["measured_j"] <= 25 * seconds * 1.001


def test_standard_input_is_the_meters_and_the_program_finds_an_empty_one(tmp_path):
    (tmp_path / "prog.py").write_text("import sys, time\ntime.sleep(0.5)\nprint(repr(sys.stdin.read()))\n")
    writes = "import time\nwhile True: print(30, flush=True); time.sleep(0.01)"
    with subprocess.Popen([sys.executable, "-c", writes], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as meter:
        words = [TPROF, "run", "--energy", "meter:-", "-o", "t.tprof", "--no-summary", "prog.py"]
        done = subprocess.run(words, stdin=meter.stdout, cwd=tmp_path, text=True, capture_output=True, check=False)
        meter.kill()

    assert (done.returncode, done.stdout) == (0, "''\n"), done.stderr
    assert tprof.load(tmp_path / "t.tprof").profile().accounts.loc["wall", "measured_j"] > 0


def test_joules_over_a_line_that_is_no_number_are_those_of_its_neighbours(tmp_path):
    words = itertools.cycle(["20", "20", "?"])
    meter = SerialMeter(tmp_path / "tty", lambda: next(words))
    try:
        with tprof.record(tmp_path / "t.tprof", energy=f"meter:{tmp_path / 'tty'}", counters="none") as recording:
            wait_for(lambda: is_missing(raw_readings(tmp_path / "t.tprof", "wall")).sum() > 50, "failed readings")
    finally:
        meter.close()

    readings = raw_readings(tmp_path / "t.tprof", "wall")
    good = readings[~is_missing(readings)]
    assert not is_reopened(good).any()
    seconds = (good["t_ns"][-1] - good["t_ns"][0]) * 1e-9
    assert (good["value"][-1] - good["value"][0]) * 1e-6 == pytest.approx(20 * seconds, rel=0.01)
    assert "a read of wall gave no value" in recording.notes[0]


def test_a_meter_that_never_writes_is_warned_of(tmp_path):
    (tmp_path / "meter.csv").touch()

    with tprof.record(tmp_path / "t.tprof", energy=f"meter:{tmp_path / 'meter.csv'}", counters="none", idle_s=0):
        pass

    warnings = tprof.load(tmp_path / "t.tprof").profile().info["warnings"]
    assert "meter gave no value of wall" in warnings
    assert not any("how late the readings" in text for text in warnings)
    assert any("wall has no two readings: its energy is not resolved" in text for text in warnings)


def test_what_is_no_meter_is_refused_with_the_place(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert isinstance(found(str(tmp_path / "pipe")), Found)
    assert isinstance(found("tcp://127.0.0.1:1"), Found)
    for argument, why in [
        (f"{tmp_path}/none", f"cannot read {tmp_path}/none: no such file or directory"),
        (f"{tmp_path}", f"cannot read {tmp_path}: it is a folder; name the file that the meter's lines go to"),
        ("tcp://here:70000", "tcp://here:70000 has no port: write tcp://HOST:PORT"),
        ("tcp://nowhere", "tcp://nowhere has no port: write tcp://HOST:PORT"),
        ("", 'none is named: energy="meter:/dev/ttyUSB0", a file that grows, - or tcp://HOST:PORT'),
    ]:
        assert isinstance(found(argument), Unavailable)
        assert found(argument).why == why
    with pytest.raises(SensorError, match="meter gives no energy: "):
        tprof.record(tmp_path / "t.tprof", energy="meter:tcp://127.0.0.1:1").__enter__()
    assert not (tmp_path / "t.tprof").exists()


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("x,baud=fast", "the meter's baud= takes a number from 50 to 1e\\+08, got 'fast'"),
        ("x,delay=-1", "the meter's delay= takes a number from 0 to 60, got '-1'"),
        ("x,colour=red", "energy=meter:x takes baud= .*, got 'colour=red'"),
        ("x,domain=a b", "energy=meter takes a serial device, .*, got 'x,domain=a b'"),
        (",domain=wall", "energy=meter takes a serial device, "),
    ],
)
def test_options_that_mean_nothing_are_refused(argument, sentence):
    with pytest.raises(UsageError, match=sentence):
        Meter(argument)


def test_text_that_is_no_lines_is_an_error(growing):
    lines = reader(str(growing))
    append(growing, "\0" * 5000)

    with pytest.raises(SensorError, match=r"gives no lines of text: check baud= and what the meter writes"):
        lines.read()


def test_lines_of_which_none_is_a_number_are_an_error(growing):
    lines = reader(str(growing))
    append(growing, HEADED + "a\n" * 5 + "7\n" + "a\n" * 30)
    assert [one.value for one in lines.read()][-1] is None

    none = reader(str(growing))
    append(growing, "xyz\n" * 30)
    with pytest.raises(SensorError, match=r"gives lines that are no numbers, such as 'xyz': check baud= and what the"):
        none.read()


def test_a_meters_delay_is_shown_and_its_joules_are_the_tasks(tmp_path):
    """The meter says what the load was 150 ms ago; the profile finds that and moves the readings back."""
    levels, late_s = [(0.0, 5.0)], 0.15
    meter = SerialMeter(
        tmp_path / "tty", lambda: f"{[w for t, w in levels if t <= time.monotonic() - late_s][-1]:.2f}", 0.005
    )

    @tprof.task
    def work(seconds):
        levels.append((time.monotonic(), 25.0))
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        levels.append((time.monotonic(), 5.0))

    try:
        with tprof.record(tmp_path / "t.tprof", energy=f"meter:{tmp_path / 'tty'}", counters="none") as recording:
            for seconds in (0.2, 0.1, 0.3, 0.15):
                work(seconds)
                time.sleep(0.4)
    finally:
        meter.close()

    profile = recording.profile(model="cputime")
    delay = profile.info["meters"]["wall"]
    assert delay["delay_s"] == pytest.approx(late_s, abs=0.06)
    assert delay["correlation"] > 0.5
    (domain,) = profile.recipe.whole
    first_ns = int(tprof.load(tmp_path / "t.tprof").readings["wall"].t_ns[0])
    assert domain.edges_ns[0] == pytest.approx(first_ns - delay["delay_s"] * 1e9, abs=1e8)
    assert profile.accounts.loc["wall", "measured_j"] > 0
    shown = json.loads(run_tprof("summary", "t.tprof", "--json", cwd=tmp_path).stdout)
    assert shown["info"]["meters"]["wall"]["delay_s"] == pytest.approx(delay["delay_s"])
