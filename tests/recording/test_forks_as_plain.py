"""A recorded program forks as it does by itself: with no thread of ours, no word of ours, and no Ctrl-C lost."""

import re
import sys

import pytest
from support import programs

import tprof

# The same program with and without a recording; warnings of whatever kind are printed, each time.
FORKS = """
import os, subprocess, sys, threading, time, warnings
import tprof
from contextlib import ExitStack

warnings.simplefilter("always")

@tprof.task
def work():
    return 1

def counted():
    with open("/proc/self/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[17])

def fork(leave=os._exit):
    child = os.fork()
    work()
    if child == 0:
        leave(0)
    return os.waitpid(child, 0)[1]

def fork_and_return(last=lambda: None):
    child = os.fork()
    if child == 0:
        threading.Thread(target=last).start()
        return
    print(os.waitpid(child, 0)[1])

def hook():
    return sum(range(2000))  # Python may look at signals and pending calls in here

class Held:
    def __enter__(self):
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.end.wait)
        self.thread.start()
    def __exit__(self, *_):
        self.end.set()
        self.thread.join()

def main():
    BODY

with ExitStack() as stack:
    if sys.argv[1] == "recorded":
        stack.enter_context(tprof.record("t.tprof", energy="estimate", counters="none"))
    if sys.argv[1] == "watched":
        stack.enter_context(tprof.budget(joules=1e9))
    main()
    print(len(threading.enumerate()))
"""
BODIES = {
    "a fork": "fork(); fork(sys.exit)",
    "a fork by multiprocessing": (
        "import multiprocessing; process = multiprocessing.get_context('fork').Process(target=work);"
        "process.start(); process.join()"
    ),
    "a terminal of its own": "import pty; child, end = pty.fork(); child or os._exit(0); os.waitpid(child, 0)",
    "a fork among hooks in Python": (
        "os.register_at_fork(before=hook, after_in_parent=hook, after_in_child=hook); fork(); fork()"
    ),
    "a fork by a program with threads": "\n    with Held(): fork(); fork()",
    "a fork by a thread": "thread = threading.Thread(target=fork); thread.start(); thread.join()",
    "a fork by a thread that returns in the child": (
        "\n    for last in (lambda: None, lambda: time.sleep(0.02) or print('last', flush=True)):"
        "\n        thread = threading.Thread(target=fork_and_return, args=(last,)); thread.start(); thread.join()"
    ),
    "forks by two threads": (
        "threads = [threading.Thread(target=lambda: [fork() for _ in range(20)]) for _ in range(2)];"
        "[one.start() for one in threads]; [one.join() for one in threads]"
    ),
    "a fork that is an error": (
        "\n    warnings.simplefilter('error')\n    with Held():\n        try: print(fork())\n"
        "        except DeprecationWarning: print('no'); os.wait()"
    ),
    "a program started": "subprocess.run(['true'], check=True)",
    "a program started by a fork": "subprocess.run(['true'], check=True, preexec_fn=hook)",
    "a fork whose number nobody keeps": "\n    for _ in range(3):\n        os.fork() or os._exit(0)\n        os.wait()",
}


def without_numbers(text):
    return re.sub(r"pid=\d+", "pid=…", text)


# A budget takes three times as long to begin as a recording, and forks by the same hook.
WATCHED = ("a fork", "a fork by a program with threads", "forks by two threads", "a fork that is an error")


@pytest.mark.parametrize(
    ("body", "how"),
    [
        pytest.param(body, how, id=f"{name}-{how}", marks=[] if quick else [pytest.mark.thorough])
        for name, body in BODIES.items()
        for how, quick in (("recorded", True), ("watched", name in WATCHED))
    ],
)
def test_a_fork_says_what_it_says_by_itself(tmp_path, body, how):
    source = FORKS.replace("BODY", body)

    plain = programs.run(tmp_path, source, "plain")
    done = programs.run(tmp_path, source, how)

    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done.stderr
    assert without_numbers(done.stderr) == without_numbers(plain.stderr)
    if sys.version_info >= (3, 12) and "Held" in body and "error" not in body:
        assert plain.stderr.count("is multi-threaded") == 2, "the test would notice nothing"


COUNTED = FORKS.replace(
    "BODY",
    """
    said = []
    os.register_at_fork(before=lambda: said.append(["before"]))  # the first of all, called last but for ours
    os.register_at_fork(after_in_parent=lambda: said.append(["after", counted()]))
    fork()
    said.append(["returned", counted()])
    print(said)
""",
)


def test_there_is_no_thread_of_ours_until_the_fork_has_returned_and_one_afterwards(tmp_path):
    plain = programs.run(tmp_path, COUNTED, "plain")
    recorded = programs.run(tmp_path, COUNTED, "recorded")
    watched = programs.run(tmp_path, COUNTED, "watched")

    said = [done.stdout.splitlines()[0] for done in (plain, recorded, watched)]
    assert said[0] == "[['before'], ['after', 1], ['returned', 1]]", plain.stderr
    assert said[1] == "[['before'], ['after', 1], ['returned', 2]]", recorded.stderr
    assert said[2].startswith("[['before'], ['after', 1], ['returned', "), watched.stderr


"""The end of the line: a budget has the recording's thread, its own and those of NumPy."""


GOES_ON = """
import os, sys, time
import tprof

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass

forked = 0
with tprof.record("t.tprof", energy="estimate", counters="none", watts=(1.0, 10.0)) as recording:
    before = recording.energy().measured_j
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        forked += 1
    burn(0.3)
    during = recording.energy().measured_j
print(forked > 0, before < during)
"""


def test_forks_lose_no_joules(tmp_path):
    done = programs.run(tmp_path, GOES_ON)

    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
    profile = tprof.load(tmp_path / "t.tprof").profile()
    accounts = profile.accounts
    length_s = profile.info["duration_s"]
    assert accounts["measured_j"].sum() >= length_s * 1.0


INTERRUPTED = """
import ctypes, functools, os, signal, sys
import tprof

@tprof.task
def work():
    return 1

sent = []

def interrupt():
    if not sent:
        sent.append(os.kill(os.getpid(), signal.SIGINT))

if sys.argv[1] == "just before":  # in C, so that Python's handler is still to be called when ours begins
    send = getattr(ctypes.CDLL(None), "raise")
    hook = {"before": functools.partial(send, int(signal.SIGINT))}
else:
    hook = {sys.argv[1]: interrupt}
if sys.argv[2] == "early":
    os.register_at_fork(**hook)
with tprof.record("t.tprof", energy="estimate", counters="none"):
    if sys.argv[2] == "late":  # those of this package are registered by now
        os.register_at_fork(**hook)
    child = None
    try:
        child = os.fork()
        for _ in range(3):
            work()
        os.write(1, b"nobody interrupts\\n")  # a whole line, whatever the other process writes
    except KeyboardInterrupt:
        os.write(1, b"interrupted\\n")
    work()
    if child:
        os.wait()
"""


@pytest.mark.parametrize(
    "where",
    [
        ("just before", "late"),
        ("before", "early"),
        ("after_in_parent", "early"),
        ("after_in_parent", "late"),
        ("after_in_child", "early"),
        ("after_in_child", "late"),
    ],
    ids=" ".join,
)
def test_an_interrupt_among_the_hooks_of_a_fork_comes_when_it_has_returned(tmp_path, where):
    done = programs.run(tmp_path, INTERRUPTED, *where)

    assert done.stdout.count("interrupted\n") == 1, done.stdout
    assert "ignored" not in done.stderr
    assert tprof.load(tmp_path / "t.tprof").complete


REPLACED = """
import os, signal, subprocess, sys
import tprof

code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
with tprof.record("t.tprof", energy="estimate", counters="none"):
    ignoring = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    subprocess.run([sys.executable, "-c", code], check=True, preexec_fn=ignoring)
    subprocess.run([sys.executable, "-c", code], check=True)
    os.register_at_fork(after_in_child=ignoring)
    if os.fork() == 0:
        print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGINT)
        sys.exit()
    os.wait()
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    try:
        os.kill(os.getpid(), signal.SIGINT)
        print("nobody interrupts")
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_what_a_hook_does_about_signals_stays(tmp_path):
    done = programs.run(tmp_path, REPLACED)

    assert (done.returncode, done.stdout) == (0, "True\nFalse\nTrue\nTrue\ninterrupted\n"), done.stderr
