"""The former frequencies are back however the process ends that changed them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.fake_sensor import wait_for
from support.programs import start

from benchmarks.simulator.simulated_machine import Shape, make_tree
from tprof.errors import SensorError
from tprof.frequency import Bounds, Guard, find_policies, hold, read_bounds

LISTED = (1_600_000_000, 2_400_000_000, 3_200_000_000)
BEFORE = Bounds(LISTED[0], LISTED[1])
HOLDER = """
import sys, time
from pathlib import Path
from tprof.frequency import Guard, find_policies, hold
policies = find_policies(Path(sys.argv[1]))
with Guard(policies) as guard:
    for policy in policies:
        hold(policy, 3_200_000_000)
    print(guard.pid, flush=True)
    if sys.argv[2:] == ["raise"]:
        raise ValueError("as asked")
    if sys.argv[2:] == ["exit"]:
        import os
        os._exit(3)
    time.sleep(600)
"""


@pytest.fixture
def policies(tmp_path):
    make_tree(tmp_path, Shape(LISTED, policies=2), "nobody")
    found = find_policies(tmp_path)
    for policy in found:
        (policy.folder / "scaling_max_freq").write_text("2400000\n")
    return found


def restored(policies):
    def look():
        try:
            return all(read_bounds(policy) == BEFORE for policy in policies)
        except SensorError:
            return False  # a file is empty while it is written

    return look


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_process_and_the_guard_restores(tmp_path, policies, number):
    with start(tmp_path, HOLDER, str(tmp_path)) as process:
        assert process.stdout.readline().strip().isdigit()
        assert read_bounds(policies[1]) == Bounds(LISTED[2], LISTED[2])

        process.send_signal(number)

        wait_for(restored(policies), "the former bounds")


@pytest.mark.parametrize("how", ["raise", "exit"])
def test_an_exception_and_an_abrupt_exit_restore(tmp_path, policies, how):
    with start(tmp_path, HOLDER, str(tmp_path), how) as process:
        process.wait(60)

        wait_for(restored(policies), "the former bounds")


def test_a_ctrl_c_at_a_terminal_does_not_reach_the_guard(tmp_path, policies):
    with start(tmp_path, HOLDER, str(tmp_path), process_group=0) as process:
        process.stdout.readline()

        os.killpg(process.pid, signal.SIGINT)

        wait_for(restored(policies), "the former bounds")


def test_signals_to_the_guard_do_not_make_it_restore_early(policies):
    with Guard(policies) as guard:
        hold(policies[0], LISTED[2])
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(guard.pid, number)

        assert read_bounds(policies[0]) == Bounds(LISTED[2], LISTED[2])

    assert restored(policies)()


def test_without_its_guard_a_process_restores_by_itself(policies):
    with Guard(policies) as guard:
        hold(policies[0], LISTED[2])
        os.kill(guard.pid, signal.SIGKILL)

    assert restored(policies)()


def test_a_guard_that_was_killed_before_its_process_restores_nevertheless(tmp_path, policies):
    with start(tmp_path, HOLDER, str(tmp_path)) as process:
        guard = int(process.stdout.readline())
        os.kill(guard, signal.SIGKILL)
        wait_for(lambda: not is_alive(guard), "the guard's end")
        assert read_bounds(policies[1]) == Bounds(LISTED[2], LISTED[2])

        process.kill()

        wait_for(restored(policies), "the former bounds")


@pytest.mark.parametrize("killed", [False, True], ids=["guard lives", "guard killed"])
def test_the_next_holder_need_not_wait(policies, killed):
    for _ in range(3):
        with Guard(policies) as guard:
            hold(policies[0], LISTED[2])
            if killed:
                os.kill(guard.pid, signal.SIGKILL)

        assert restored(policies)()


def test_the_userspace_governors_speed_is_restored(tmp_path, policies):
    (policies[0].folder / "scaling_governor").write_text("userspace\n")
    (policies[0].folder / "scaling_setspeed").write_text("2400000\n")
    found = find_policies(tmp_path)

    with Guard(found):
        hold(found[0], LISTED[0])

    assert (found[0].folder / "scaling_setspeed").read_text() == "2400000"


def test_what_cannot_be_restored_is_said_with_its_former_value(policies):
    path = policies[0].folder / "scaling_max_freq"

    with (
        pytest.raises(
            SensorError,
            match=r"not restored: cannot write 2400000 to .*scaling_max_freq.*\(it was 1600000 to 2400000 kHz\)",
        ),
        Guard(policies),
    ):
        path.unlink()

    assert read_bounds(policies[1]) == BEFORE, "the others are restored all the same"


DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


@pytest.mark.usefixtures("policies")
@pytest.mark.parametrize("code", ["import time; print(flush=True); time.sleep(600)", DEAF], ids=["listens", "deaf"])
def test_the_guard_ends_the_run_that_would_outlive_a_killed_process(tmp_path, code):
    source = HOLDER.replace(
        "    time.sleep",
        "    import subprocess\n"
        f"    run = subprocess.Popen([sys.executable, '-c', {code!r}], process_group=0, stdout=subprocess.PIPE)\n"
        "    run.stdout.readline()\n"
        "    guard.also_ends(run.pid)\n    print(run.pid, flush=True)\n    time.sleep",
    )
    with start(tmp_path, source, str(tmp_path)) as process:
        process.stdout.readline()
        run = os.pidfd_open(int(process.stdout.readline()))

        process.kill()

        wait_for(lambda: has_ended(run), "the end of the run")
    os.close(run)


def has_ended(process):
    try:
        signal.pidfd_send_signal(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_second_holder_is_refused_and_changes_nothing(tmp_path, policies):
    with start(tmp_path, HOLDER, str(tmp_path)) as process:
        process.stdout.readline()

        with pytest.raises(SensorError, match=r"are held already.*wait until that has ended"), Guard(policies):
            pytest.fail("two hold the frequencies")

        assert read_bounds(policies[0]) == Bounds(LISTED[2], LISTED[2])
        process.kill()
    with Guard(policies):
        assert restored(policies)()


def test_a_file_that_refuses_keeps_none_of_the_others_from_being_restored(policies):
    path = policies[0].folder / "scaling_min_freq"

    guard = Guard(policies)
    guard.__enter__()
    hold(policies[0], LISTED[2])
    path.unlink()

    with pytest.raises(SensorError, match=r"not restored: cannot write 1600000 to .*scaling_min_freq"):
        guard.__exit__(None, None, None)

    assert (policies[0].folder / "scaling_max_freq").read_text().strip() == "2400000"


def test_a_guard_that_was_killed_is_noticed_before_the_next_run(policies):
    with Guard(policies) as guard:
        hold(policies[0], LISTED[2])
        os.kill(guard.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(guard.pid), "the guard's end")

        with pytest.raises(SensorError, match="was killed"):
            guard.also_ends(os.getpid())

    assert restored(policies)()


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_run_that_ended_by_itself_is_nobody_to_end(policies):
    with Guard(policies) as guard, subprocess.Popen([sys.executable, "-c", ""], process_group=0) as run:
        guard.also_ends(run.pid)
        run.wait(60)

    assert restored(policies)()
