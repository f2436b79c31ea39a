"""In a forked child there is no runtime: tasks are plain calls, and nothing that the parent waits for is waited for."""

import textwrap

import pytest
from support import programs

START = """
import faulthandler, multiprocessing, os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
import tprof
from tprof.runtime import Runtime, current
faulthandler.enable()
fork = multiprocessing.get_context("fork")

@tprof.task(updates="x")
def square(x):
    return x * x

def say(*words):
    print(*words, flush=True)

def no_runtime():
    try:
        current()
    except tprof.errors.UsageError:
        return True
"""


def run(tmp_path, source):
    done = programs.run(tmp_path, START + textwrap.dedent(source))
    return done.stdout, done.stderr, done.returncode


def test_a_pool_of_forked_processes_in_the_block(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        with Runtime(workers=2) as runtime:
            before = [square(n) for n in range(100)]
            with fork.Pool(2) as pool:
                say(pool.map(square, range(5)), pool.apply(no_runtime))
            after = square(7)
        say(sum(task.result() for task in before), after.result())
        """,
    )
    assert (out, err, status) == ("[0, 1, 4, 9, 16] True\n328350 49\n", "", 0)


def test_a_pool_of_forked_processes_in_a_task(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        @tprof.task
        def body():
            with fork.Pool(2) as pool:
                return pool.map(square, range(4)), pool.apply(no_runtime)

        with Runtime(workers=2) as runtime:
            tasks = [body() for _ in range(3)]
            say(*[task.result() for task in tasks])
            say(square(3).result())
        """,
    )
    assert (out, err, status) == (" ".join(["([0, 1, 4, 9], True)"] * 3) + "\n9\n", "", 0)


def test_a_child_that_leaves_the_blocks_it_was_forked_in(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        gate = threading.Event()
        child = 0
        with Runtime(workers=2, max_pending=1) as runtime:
            held = runtime.submit(gate.wait, 60)
            with runtime.group() as group:
                child = os.fork()
                if child == 0:
                    say(square(2), no_runtime(), held.cancel(), held.done())
                    group.cancel()
                    try:
                        held.result()
                    except RuntimeError as error:
                        say(error)
                    with Runtime(workers=2) as own:
                        say(square(3).result(), current() is own)
                        try:
                            square(held)
                        except RuntimeError as error:
                            say("belongs to a runtime of the parent process" in str(error))
                else:
                    os.waitpid(child, 0)
                    gate.set()
        if child == 0:
            say("child", square(4))
        else:
            say("parent", held.result(), square(5))
        """,
    )
    assert (err, status) == ("", 0)
    assert out.splitlines() == [
        "4 True False False",
        "this task belongs to a runtime of the parent process: it never ends here",
        "9 True",
        "True",
        "child 16",
        "parent True 25",
    ]


def test_a_child_forked_in_a_task_that_waits_in_a_task(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        @tprof.task
        def inner():
            child = os.fork()
            if child == 0:
                say(square(6), no_runtime())
                os._exit(5)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        @tprof.task
        def outer():
            with current().group():
                return inner().result()

        with Runtime(workers=1):
            say(outer().result())
        """,
    )
    assert (out, err, status) == ("36 True\n5\n", "", 0)


@pytest.mark.parametrize("leave", ["sys.exit(4)", "os._exit(4)"])
def test_a_child_that_exits_in_the_block(tmp_path, leave):
    out, err, status = run(
        tmp_path,
        f"""
        with Runtime(workers=2) as runtime, runtime.group():
            tasks = [runtime.submit(time.sleep, 0.05) for _ in range(10)]
            child = os.fork()
            if child == 0:
                {leave}
            say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        say(all(task.done() for task in tasks))
        """,
    )
    assert (out, err, status) == ("4\nTrue\n", "", 0)


def test_forks_while_other_threads_spawn_and_wait(tmp_path):
    """At any moment of theirs: a child must never find a lock that nobody holds any more."""
    out, err, status = run(
        tmp_path,
        """
        import concurrent.futures as cf
        sys.setswitchinterval(1e-5)
        stop = threading.Event()

        def spawn():
            while not stop.is_set():
                tasks = [square(n) for n in range(10)]
                cf.wait(tasks)

        def in_child():
            with Runtime(workers=2):
                tasks = [square(n) for n in range(10)]
                return len(cf.wait(tasks).done) + sum(task.result() for task in tasks)

        with Runtime(workers=2, max_pending=20) as runtime:
            threads = [threading.Thread(target=spawn) for _ in range(2)]
            for thread in threads:
                thread.start()
            for _ in range(25):
                child = os.fork()
                if child == 0:
                    os._exit(in_child() % 256)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (10 + 285) % 256
            stop.set()
            for thread in threads:
                thread.join()
        say("well")
        """,
    )
    assert (out, err, status) == ("well\n", "", 0)


def test_futures_that_ended_before_the_fork_are_good_in_the_child(tmp_path):
    out, err, status = run(
        tmp_path,
        """
        with Runtime(workers=2):
            task = square(5)
            task.result()
            child = os.fork()
            if child == 0:
                with Runtime(workers=1):
                    say(task.result(), task.done(), square(task).result())
                os._exit(0)
            os.waitpid(child, 0)
        """,
    )
    assert (out, err, status) == ("25 True 625\n", "", 0)
