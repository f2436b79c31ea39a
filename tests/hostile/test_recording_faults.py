"""What goes wrong while recording is counted and said; the program never notices."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support import programs
from support.programs import TPROF
from support.recorded import instances, story
from support.traces import set_json
from tprof.analysis.profile.answer import answer_of

import tprof
from tprof.session.ending import LACKED_THREAD

LOAD = """
import os, sys, threading
import tprof

@tprof.task
def work(n):
    return sum(range(n))

def loop():
    while True:
        work(20)

recording = tprof.record(sys.argv[1], energy="estimate", counters="none")
recording.__enter__()
for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
print("running", flush=True)
loop()
"""


@pytest.mark.parametrize("attempt", [*range(5), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(5, 20))])
def test_a_killed_program_leaves_every_committed_sample(tmp_path, attempt):
    program = programs.start(tmp_path, LOAD, "t.tprof")
    program.stdout.readline()
    time.sleep(random.Random(attempt).uniform(0, 0.08))  # noqa: S311 - any moment will do
    program.send_signal(signal.SIGKILL)
    program.communicate()

    trace = tprof.load(tmp_path / "t.tprof")
    assert not trace.complete
    assert any("incomplete" in note for note in trace.notes)
    for thread in trace.threads:
        samples = thread.read()
        assert len(samples) == thread.count
        assert (samples["t_ns"] > 0).all()
        kinds = samples["kind"][samples["kind"] != 6]
        assert set(kinds[0::2]) <= {1}
        assert set(kinds[1::2]) <= {2}


FULL_DISK = """
import sys
import tprof

@tprof.task
def work(n):
    return n * n

with tprof.record(sys.argv[1], energy="estimate", counters="none") as recording:
    print(sum(work(n) for n in range(100_000)))
"""


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_stops_recording_but_not_the_program(tmp_path, small_disk):
    done = programs.run(tmp_path, FULL_DISK, str(small_disk / "t.tprof"))

    assert (done.returncode, done.stdout) == (0, "333328333350000\n"), done.stderr
    trace = tprof.load(small_disk / "t.tprof")
    dropped = sum(thread.dropped.get("enospc", 0) for thread in trace.threads)
    kept = sum(thread.count for thread in trace.threads)
    assert dropped > 0
    assert kept > 1000
    assert kept + dropped == 1 + 200_000, "the main thread joins and runs 100,000 tasks"


def limit_files(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_file_size_limit_is_as_a_full_disk(tmp_path):
    done = programs.run(tmp_path, FULL_DISK, "t.tprof", preexec_fn=lambda: limit_files(1 << 20))

    assert (done.returncode, done.stdout) == (0, "333328333350000\n"), done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    assert sum(thread.dropped.get("enospc", 0) for thread in trace.threads) > 0
    profile = trace.profile()
    assert not [text for text in profile.info["warnings"] if "threads that run no task" in text]
    kinds = [one.kind for one in answer_of(profile).remedies]
    assert "lost" in kinds
    assert "outside" not in kinds


def test_an_end_that_a_full_disk_kept_from_being_written_is_no_end_by_a_signal(tmp_path):
    """The samples that were dropped tell the two apart."""
    programs.run(tmp_path, FULL_DISK, "t.tprof", preexec_fn=lambda: limit_files(1 << 20))
    (tmp_path / "t.tprof" / "end.json").unlink()

    notes = tprof.load(tmp_path / "t.tprof").notes

    assert "incomplete: samples, and the end of the recording, could not be written: was the disk full?" in notes
    assert not any("did not end by itself" in note for note in notes)


def test_a_directory_that_cannot_be_written_is_refused_before_the_program_runs(tmp_path, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    source = FULL_DISK.replace("with tprof", "print('before')\nwith tprof")

    done = programs.run(tmp_path, source, str(small_disk / "t.tprof"))

    assert (done.returncode, done.stdout) == (1, "before\n")
    assert f"cannot make the session {small_disk / 't.tprof'}: Read-only file system" in done.stderr


MANY_THREADS = """
import os, sys, threading, time
import tprof

@tprof.task
def work():
    return 1

def threads_of_kernel(): return len(os.listdir("/proc/self/task"))

def count():
    # A joined thread still has to close its file: wait until the kernel has removed it.
    deadline_s = time.monotonic() + 60
    while threads_of_kernel() > alone and time.monotonic() < deadline_s:
        time.sleep(0.001)
    return len(os.listdir("/proc/self/fd")), sum(1 for _ in open("/proc/self/maps"))

def run(total, alive):
    for begin in range(0, total, alive):
        gate = threading.Barrier(alive)
        threads = [threading.Thread(target=lambda: (work(), gate.wait())) for _ in range(alive)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()

with tprof.record("t.tprof", energy="estimate", counters="page_faults,context_switches,cpu_migrations"):
    alone = threads_of_kernel()
    run(20, 20)
    before = count()
    run(int(sys.argv[1]), int(sys.argv[2]))
    after = count()
print(after[0] - before[0], after[1] - before[1])
"""


@pytest.mark.parametrize("threads", [300, pytest.param(5000, marks=pytest.mark.thorough)])
def test_descriptors_and_mappings_return_to_the_base_line_after_many_threads(tmp_path, threads):
    done = programs.run(tmp_path, MANY_THREADS, str(threads), "20")

    descriptors, mappings = map(int, done.stdout.split())
    assert abs(descriptors) < 10
    assert abs(mappings) < 40, "thread stacks come and go, files of all threads would not"
    trace = tprof.load(tmp_path / "t.tprof")
    assert instances(trace) == {"work": threads + 20}
    assert len({thread.ordinal for thread in trace.threads}) == threads + 21, "the main thread takes part"


@pytest.mark.thorough
def test_2000_threads_at_once(tmp_path):
    done = programs.run(tmp_path, MANY_THREADS, "2000", "2000")

    assert done.returncode == 0, done.stderr
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"work": 2020}


def test_without_descriptors_time_and_energy_are_still_recorded(tmp_path):
    limit = "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    source = MANY_THREADS.replace("import tprof", f"import resource, tprof\n{limit}", 1)

    done = programs.run(tmp_path, source, "200", "100")

    assert done.returncode == 0, done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.readings["package-0"].value[-1] > 0
    assert instances(trace) == {"work": 220}
    assert any("have no counters" in note and "descriptor" in note for note in trace.notes)


DYING_THREAD = """
import ctypes, os, sys, threading, time
import tprof

@tprof.task
def die():
    if sys.argv[1] == "exception":
        raise SystemExit
    libc = ctypes.PyDLL(None)
    libc.pthread_exit(None)

with tprof.record("t.tprof", energy="estimate", counters="none"):
    thread = threading.Thread(target=die, daemon=True)
    thread.start()
    # A join may return before the thread has gone, and with it its last sample.
    deadline = time.monotonic() + 120
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    print("survived", flush=True)
os._exit(0)
"""


def test_a_thread_that_dies_by_exception_ends_its_task(tmp_path):
    done = programs.run(tmp_path, DYING_THREAD, "exception")

    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr
    told = story(tprof.load(tmp_path / "t.tprof"), thread=1)
    assert told == [("start", "die"), ("finish", None), ("close", None)]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython 3.14 hangs threads instead of ending them")
def test_a_thread_that_exits_inside_a_task_is_closed_as_aborted(tmp_path):
    source = DYING_THREAD.replace("PyDLL", "CDLL")

    done = programs.run(tmp_path, source, "pthread_exit")

    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    assert story(trace, thread=1) == [("start", "die"), ("close", None)]
    assert trace.threads[1].read()["flags"][-1] == 8


SIGNALS = """
import signal, sys, time
import tprof

@tprof.task
def work(n):
    return sum(range(n))

@tprof.task
def handle():
    pass

handled = 0
def handler(number, frame):
    global handled
    handled += 1
    handle()

signal.signal(signal.SIGALRM, handler)
with tprof.record("t.tprof", energy="estimate", counters="none"):
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    deadline = time.monotonic() + 120
    calls = 0
    while handled <= 100:
        assert time.monotonic() < deadline
        work(30); calls += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
print(handled, calls)
"""


def test_a_signal_handler_that_enters_a_task_keeps_the_nesting(tmp_path):
    done = programs.run(tmp_path, SIGNALS)

    handled, calls = map(int, done.stdout.split())
    trace = tprof.load(tmp_path / "t.tprof")
    counts = instances(trace)
    dropped = trace.threads[0].dropped.get("reentrant", 0)
    assert handled > 100
    assert counts["work"] + counts["handle"] + dropped == calls + handled
    assert story(trace)[-1] == ("finish", None)


def test_a_deleted_session_does_not_disturb_the_program(tmp_path):
    source = FULL_DISK.replace("    print(", "    import shutil; work(1); shutil.rmtree(sys.argv[1])\n    print(")

    done = programs.run(tmp_path, source, "t.tprof")

    assert (done.returncode, done.stdout) == (0, "333328333350000\n"), done.stderr


def test_a_link_in_the_place_of_the_session_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "t.tprof").symlink_to(elsewhere)

    with pytest.raises(tprof.TprofError, match=r"t\.tprof"), tprof.record(tmp_path / "t.tprof", energy="estimate"):
        pass

    assert not list(elsewhere.iterdir())


def test_a_session_is_private(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate"):
        pass

    for path in [tmp_path / "t.tprof", *(tmp_path / "t.tprof").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


LIMITED = """
import tprof

@tprof.task
def f():
    return sum(range(100_000))

for _ in range(5):
    f()
print("ends")
"""


def without_threads(*words):
    """Return a command in which the system refuses further threads; root has no such limit, so it gives that up."""
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed: root has no limit of processes")
    kept = ["setpriv", "--reuid=65534", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    lesser = [*kept, "--bounding-set=-all,+dac_override"] if os.getuid() == 0 else []
    limit = "import os, resource as r, sys; r.setrlimit(r.RLIMIT_NPROC, (1, 1)); os.execv(sys.argv[1], sys.argv[1:])"
    return [*lesser, sys.executable, "-S", "-c", limit, *words]


def test_a_program_without_room_for_a_thread_runs_and_the_figures_say_what_they_lack(tmp_path):
    (tmp_path / "prog.py").write_text(LIMITED)
    tmp_path.chmod(0o777)
    words = without_threads(TPROF, "run", "--energy", "estimate", "-o", "t.tprof", "prog.py")

    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout) == (0, "ends\n")
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert LACKED_THREAD in trace.notes
    profile = trace.profile()
    assert LACKED_THREAD in profile.info["warnings"]
    assert profile.tasks["energy_j"].sum() > 0


def test_what_a_recording_notes_at_its_end_is_a_warning(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate"):
        pass
    set_json(tmp_path / "t.tprof" / "end.json", notes=["something was missing"])

    assert "something was missing" in tprof.load(tmp_path / "t.tprof").profile().info["warnings"]
