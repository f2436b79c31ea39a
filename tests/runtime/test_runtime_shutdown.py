"""However a program leaves its runtime, it ends, in one piece and without a word that is not its own."""

import contextlib
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from support import programs
from tprof.runtime import Runtime

import tprof

START = """
import faulthandler, os, signal, sys, threading, time
import tprof
from tprof.runtime import Runtime, current
faulthandler.enable()

@tprof.task
def nothing():
    pass

reached = threading.Event()

@tprof.task
def spin(seconds):
    reached.set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass

@tprof.task
def sleep(seconds):
    reached.set()
    time.sleep(seconds)

@tprof.task
def deep(n):
    if n:
        deep(n - 1).result()
    else:
        reached.set()
        time.sleep(100)

def say(*words):
    print(*words, flush=True)
"""


def run(tmp_path, source):
    """Run the program; returns what it printed, its complaints and its status."""
    done = programs.run(tmp_path, START + textwrap.dedent(source))
    return done.stdout, done.stderr, done.returncode


def test_leaving_the_block_waits_for_tasks_that_run(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        with Runtime(workers=2) as runtime:
            tasks = [sleep(0.1), spin(0.1), *[nothing() for _ in range(100)]]
        say(all(task.done() for task in tasks), threading.active_count())
        """,
    )
    assert (out, err, status) == ("True 1\n", "", 0)


@pytest.mark.parametrize("leave", ["sys.exit(3)", "raise SystemExit(3)", "runtime.submit(sys.exit, 3).result()"])
def test_leaving_the_block_by_sys_exit(tmp_path, leave):
    out, err, status = run(
        tmp_path,
        f"""
        with Runtime(workers=2) as runtime:
            tasks = [sleep(0.05) for _ in range(50)]
            {leave}
        """,
    )
    assert (out, err, status) == ("", "", 3)


def test_leaving_the_block_by_an_exception(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        with Runtime(workers=2) as runtime:
            tasks = [sleep(0.05) for _ in range(5000)]
            raise KeyError("mine")
        """,
    )
    assert (out, status) == ("", 1)
    assert err.splitlines()[0] == "Traceback (most recent call last):"
    assert err.splitlines()[-1] == "KeyError: 'mine'"


NEVER_LEFT = {
    "nothing spawned": "",
    "all done": "nothing().result()",
    "tasks that run and wait": "tasks = [spin(0.3) for _ in range(50)]",
    "tasks that sleep": "tasks = [sleep(100) for _ in range(5)]",
    "tasks that wait in tasks": "task = deep(200); reached.wait()",
    "tasks that spawn": "runtime.submit(lambda: [nothing() for _ in range(10**7)]); time.sleep(0.1)",
    "a group": "runtime.group().__enter__(); nothing(); sleep(100)",
    "an exit": "sleep(100); sys.exit()",
    "a thread that spawns": "threading.Thread(target=lambda: [nothing() for _ in range(10**5)]).start()",
    "a thread that waits": "threading.Thread(target=sleep(0.3).result).start()",
    "a hook that spawns": "import atexit; atexit.register(lambda: say(nothing().result())); sleep(0.1)",
    "another that was left": "\\nwith Runtime(workers=1): sleep(0.01)",
}


@pytest.mark.parametrize("what", NEVER_LEFT)
def test_a_program_that_never_leaves_the_block_ends(tmp_path, what):
    source = NEVER_LEFT[what].replace("\\n", "\n")

    begin = (
        "from tprof.runtime import runtime as face\nface.END_TIMEOUT_S = 0.3\nruntime = Runtime(workers=2).__enter__()"
    )
    out, err, status = run(tmp_path, f"{begin}\n{source}\n")

    assert (err, status) == ("", 0)
    assert out == ("None\n" if what == "a hook that spawns" else "")


def test_a_program_that_ends_while_threads_of_an_abandoned_runtime_work(tmp_path):
    """Those of a runtime that a second Ctrl-C has left are still at it when the interpreter goes.

    The second one comes again and again until the block waits for its tasks: a single one might come before the first.
    """
    for busy in ("spin(100)", "sleep(100)", "deep(100)"):
        out, err, status = run(
            tmp_path,
            f"""
            def interrupt(_number, frame):
                if frame.f_code.co_name == "_wait_for_all":
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, interrupt)
            try:
                with Runtime(workers=2) as runtime:
                    tasks = [{busy} for _ in range(4)]
                    reached.wait()
                    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
                    raise KeyboardInterrupt
            except KeyboardInterrupt:
                say("interrupted", len(threading.enumerate()) > 1)
            """,
        )
        assert (out, err, status) == ("interrupted True\n", "", 0)


INTERRUPTED = {
    "waits": "runtime.wait()",
    "waits for a result": "tasks[0].result()",
    "waits for data": "runtime.submit(sleep.__wrapped__, 50, updates=()); runtime.wait('x')",
    "spawns": "[nothing() for _ in range(10**9)]",
    "is held back": "[sleep(0.01) for _ in range(10**9)]",
    "leaves": "pass",
    "is in a group": "\n    with runtime.group(): [sleep(0.01) for _ in range(500)]",
    "waits as concurrent.futures does": "import concurrent.futures as cf; cf.wait(tasks)",
}


@pytest.mark.parametrize("where", INTERRUPTED)
def test_ctrl_c_ends_the_program_wherever_it_is(tmp_path, where):
    source = (
        START
        + f"""
x = "x"
with Runtime(workers=2, max_pending=50) as runtime:
    tasks = [sleep(0.2) for _ in range(40)]
    runtime.submit(lambda data: time.sleep(1), "x", updates="data")
    say("ready")
    {INTERRUPTED[where]}
"""
    )
    process = programs.start(tmp_path, source)

    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=programs.DEADLINE_S)

    assert out == ""
    assert err.splitlines()[-1].startswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


def test_a_second_ctrl_c_does_not_wait_for_what_runs(tmp_path):
    process = programs.start(
        tmp_path,
        START
        + """
with Runtime(workers=2) as runtime:
    tasks = [sleep(100) for _ in range(4)]
    reached.wait()
    try:
        say("ready")
        runtime.wait()
    finally:
        say("first")
""",
    )

    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "first\n"
    # The block is about to wait for the tasks; it may be a moment before it does.
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    _, err = process.communicate(timeout=programs.DEADLINE_S)

    assert "KeyboardInterrupt" in err
    assert process.returncode != 0


def test_ctrl_c_that_the_program_catches_leaves_a_runtime_that_works(tmp_path):
    process = programs.start(
        tmp_path,
        START
        + """
gate = threading.Event()
with Runtime(workers=2) as runtime:
    runtime.submit(gate.wait, 60)
    try:
        say("ready")
        runtime.wait()
    except KeyboardInterrupt:
        gate.set()
    runtime.wait()
    nothing().result()
    say("went on")
""",
    )

    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=programs.DEADLINE_S)

    assert (out, err, process.returncode) == ("went on\n", "", 0)


def test_signals_that_nobody_minds_disturb_nothing(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        with Runtime(workers=2) as runtime:
            for _ in range(20):
                tasks = [sleep(0.002) for _ in range(10)]
                runtime.wait()
                assert all(task.done() for task in tasks)
        signal.setitimer(signal.ITIMER_REAL, 0)
        say(len(seen) > 10)
        """,
    )
    assert (out, err, status) == ("True\n", "", 0)


def test_a_runtime_in_a_thread_that_is_no_main_thread(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        def body():
            with Runtime(workers=2):
                tasks = [sleep(0.01) for _ in range(10)]
            say(all(task.done() for task in tasks))
        for daemon in (False, True):
            thread = threading.Thread(target=body, daemon=daemon)
            thread.start()
            thread.join()
        """,
    )
    assert (out, err, status) == ("True\n" * 2, "", 0)


def test_a_daemon_thread_dies_inside_its_runtime(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        from tprof.runtime import runtime as face
        face.END_TIMEOUT_S = 0.3
        inside = threading.Event()
        def body():
            with Runtime(workers=2) as runtime:
                sleep(100)
                inside.set()
                runtime.wait()
        threading.Thread(target=body, daemon=True).start()
        inside.wait()
        """,
    )
    assert (out, err, status) == ("", "", 0)


def test_threads_that_cannot_start_are_an_error_and_no_hang(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        import resource
        start, left = threading.Thread.start, [3]
        def refuse(self):
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("can't start new thread")
            start(self)
        threading.Thread.start = refuse
        try:
            with Runtime(workers=5):
                say("never")
        except RuntimeError as error:
            say(error)
        try:
            current()
        except tprof.errors.UsageError as error:
            say(error)
        left[0] = 100
        with Runtime(workers=5):
            say(nothing().result())
        """,
    )
    assert out.splitlines()[::2] == ["can't start new thread", "None"]
    assert (err, status) == ("", 0)


def test_many_runtimes_one_after_the_other_leave_no_thread():
    @tprof.task
    def parent(n):
        if n:
            parent(n - 1).wait(0.001)

    before = threading.active_count()
    for workers in range(1, 20):
        with Runtime(workers=workers, library_threads=None):
            parent(20)

    assert threading.active_count() == before


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 8), marks=pytest.mark.thorough)], ids=str)
def test_the_interpreter_ends_in_the_midst_of_all_sorts(tmp_path, seeds):
    """At moments that nobody chose: whatever the threads do, there is no word and no crash."""
    source = (
        START
        + """
import random
import numpy as np
random.seed(int(sys.argv[1]))
a = np.ones((150, 150))
runtime = Runtime(workers=3, max_pending=20, library_threads=random.choice([1, None])).__enter__()

@tprof.task(updates="x")
def work(x, n):
    for _ in range(random.randrange(3)):
        child = work(x, n - 1) if n else nothing()
        if random.random() < 0.5:
            child.result()
    for _ in range(random.randrange(20)):
        a @ a

end = time.monotonic() + 0.05 * random.random()
while time.monotonic() < end:
    work(random.randrange(4), 3)
"""
    )
    path = programs.write(tmp_path, source)
    processes = [
        subprocess.Popen(
            [sys.executable, str(path), str(seed)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for seed in seeds
    ]
    for process in processes:
        out, _ = process.communicate(timeout=programs.DEADLINE_S)
        assert (out, process.returncode) == ("", 0)
