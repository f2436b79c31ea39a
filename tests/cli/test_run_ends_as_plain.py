"""However a program ends, `tprof run` lets it end as it does by itself, and prints one summary after it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from support.programs import TPROF
from support.properties import THOROUGH
from support.real_programs import PROGRAMS
from support.real_servers import SERVERS
from support.recorded import instances

import tprof

DEADLINE_S = 240
SUMMARY = re.compile(
    r"^(?:The run took [^\n]*\n)?"
    r"[^\n]*(?: takes most energy: | is the only task with known energy: |No task ran|Which task takes most).*?"
    r"^next: tprof report prog\.tprof\n",
    re.DOTALL | re.MULTILINE,
)
BEGIN = """
import atexit, os, signal, subprocess, sys, threading, time

def f(n=10):
    return sum(range(n))

if __name__ == "__main__":
    if len(sys.argv) > 1:  # it must not wait for ever where it waits wrongly
        signal.alarm(int(sys.argv[1]))
"""


@dataclass(frozen=True)
class Ending:
    """What a program does last, and how often its task runs; None where it ends too suddenly to say so."""

    name: str
    source: str
    instances: int | None = 0
    summaries: int | None = None
    """How many are printed; None: they are left out."""
    thorough: bool = False
    """Whether another ending stands for this one where tests are to be quick."""


ENDINGS = [
    Ending(
        "threads of an open pool",
        """
    from concurrent.futures import ThreadPoolExecutor
    pool, ends = ThreadPoolExecutor(1), threading.Event()
    pool.submit(ends.wait)
    for _ in range(20):
        pool.submit(f)
    pool.submit(print, "the pool's last")
    print("main ends")
    ends.set()
""",
        20,
    ),
    Ending(
        "processes of an open pool",
        """
    from concurrent.futures import ProcessPoolExecutor
    pool = ProcessPoolExecutor(2)
    print(sum(pool.map(f, [10] * 20)))
    for _ in range(5):
        pool.submit(f)
""",
        25,
        summaries=1,
    ),
    Ending(
        "an open multiprocessing pool",
        """
    import multiprocessing
    pool = multiprocessing.Pool(2)
    print(sum(pool.map(f, [10] * 20)))
""",
        20,
    ),
    Ending(
        "a process that nobody joins",
        """
    import multiprocessing
    def child():
        f()
        print("child", flush=True)
    print("main", flush=True)
    multiprocessing.get_context("fork").Process(target=child).start()
""",
        1,
    ),
    Ending(
        "joblib's processes",
        """
    from joblib import Parallel, delayed
    print(sum(Parallel(n_jobs=2, backend="loky")(delayed(f)(10) for _ in range(8))))
    f()
""",
        9,
        thorough=True,
    ),
    Ending(
        "scikit-learn's search on two processes",
        """
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}, n_jobs=2)
    print(search.fit(*load_iris(return_X_y=True)).best_params_)
    f()
""",
        1,
        thorough=True,
    ),
    Ending(
        "a thread that works on after main",
        """
    def late():
        threading.main_thread().join()
        f()
        print("thread")
    threading.Thread(target=late).start()
    print("main ends")
""",
        1,
    ),
    Ending(
        "a daemon thread that waits",
        """
    entered = threading.Event()
    def wait():
        entered.set()
        threading.Event().wait()
    threading.Thread(target=wait, daemon=True).start()
    entered.wait()
    print("main ends")
""",
    ),
    Ending(
        "an interrupt while threads are waited for",
        """
    waited = threading.Event()
    atexit.register(waited.set)
    def late():
        threading.main_thread().join()
        while not waited.wait(1):  # one that comes before main waits is lost
            os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
    threading.Thread(target=late).start()
    print("main ends")
""",
    ),
    Ending(
        "atexit handlers that work, start and fail",
        """
    def last():
        f()
        subprocess.run([sys.executable, "-c", "print('a program of its own')"])
        print("last", flush=True)
        for begin in threading.Thread(target=f).start, os.fork:
            try:
                done = begin()
                if done == 0:
                    os._exit(0)
            except RuntimeError as error:
                print(type(error).__name__)
    atexit.register(last)
    atexit.register(divmod, 1, 0)
    atexit.register(sys.exit, 4)
    print("main ends", flush=True)
""",
        1 if sys.version_info >= (3, 12) else 2,
        summaries=1,
    ),
    Ending(
        "sys.exit in a thread",
        """
    thread = threading.Thread(target=sys.exit, args=(5,))
    thread.start()
    thread.join()
    print("main ends")
""",
        thorough=True,
    ),
    Ending("os._exit", "    f(); print('gone', flush=True); os._exit(9)", None, summaries=0),
    Ending("sys.exit with a number", "    f(); sys.exit(7)", 1),
    Ending("sys.exit with nothing", "    f(); sys.exit()", 1, thorough=True),
    Ending("sys.exit with a word", "    f(); sys.exit('gone')", 1),
    Ending("sys.exit with a pair", "    f(); sys.exit((1, 2))", 1, thorough=True),
    Ending("sys.exit with -1", "    f(); sys.exit(-1)", 1, thorough=True),
    Ending("sys.exit with more than a byte", "    f(); sys.exit(300)", 1, thorough=True),
    Ending("an exit whose own class has a code", "    raise type('Out', (SystemExit,), {'code': 3})", thorough=True),
    Ending("the end", "    f(); print('end')", 1, summaries=1),
    Ending(
        "an exception with its cause",
        """
    def deep(n):
        return deep(n - 1) if n else {}["nothing"]
    atexit.register(print, "atexit", flush=True)
    try:
        deep(3)
    except KeyError as error:
        raise ValueError("what") from error
""",
    ),
    Ending(
        "a group of exceptions",
        "    raise BaseExceptionGroup('both', [SystemExit(3), KeyError()])",
        thorough=True,
    ),
    Ending(
        "an exception that the program prints itself",
        """
    sys.excepthook = lambda kind, error, trace: print(kind, error, trace.tb_frame.f_code.co_name, trace.tb_next)
    atexit.register(lambda: print(sys.excepthook.__name__, sys.last_value, sys.last_traceback.tb_frame.f_code.co_name))
    raise ValueError("what")
""",
    ),
    Ending(
        "an exception where printing it ends the program",
        "    sys.excepthook = lambda *_: sys.exit(6)\n    raise ValueError('what')",
        thorough=True,
    ),
    Ending("a line that is no Python", "    this is no Python", thorough=True),
    Ending("a KeyboardInterrupt", "    atexit.register(print, 'atexit', flush=True); raise KeyboardInterrupt"),
    Ending(
        "a signal that nobody handles",
        "    f(); print('gone', flush=True); os.kill(os.getpid(), signal.SIGTERM); signal.pause()",
        None,
    ),
    Ending(
        "an interrupt that nobody handles",
        "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n    os.kill(os.getpid(), signal.SIGINT); signal.pause()",
        None,
        thorough=True,
    ),
    Ending(
        "a signal whose handler exits",
        """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(f(3)))
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
""",
        1,
    ),
    Ending(
        "forks that end in each way",
        """
    def fails():
        1 / 0
    ends = [lambda: None, sys.exit, lambda: sys.exit(3), lambda: sys.exit("gone"), fails, lambda: os._exit(5)]
    ends.append(lambda: os.kill(os.getpid(), signal.SIGTERM))
    for end in ends:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            f()
            end()
            break
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
        7,
        summaries=1,
    ),
    Ending(
        "what is torn down with the program",
        """
    class Bye:
        def __del__(self):
            print("bye", f(5))
    keep = Bye()
    print("main ends")
""",
    ),
    Ending("a closed standard error", "    f(); sys.stderr.close(); print('end')", 1, summaries=0),
    Ending("a closed descriptor of the output", "    f(); print('lost'); os.close(1)", 1),
    Ending(
        "a folder that is gone",
        "    os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); f(); print('end')",
        1,
        summaries=1,
    ),
]


def run(folder, *words):
    # Users' programs import from their own folder; only this suite forbids that to its children.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(ending, id=ending.name, marks=[pytest.mark.thorough] if ending.thorough else [])
        for ending in ENDINGS
    ],
)
def test_a_recorded_program_ends_as_it_does_by_itself(tmp_path, ending):
    (tmp_path / "prog.py").write_text(BEGIN + ending.source)
    words = ["prog.py", str(DEADLINE_S // 2)]

    options = ["--energy", "estimate", "--task", "__main__:f"] + ["--no-summary"] * (ending.summaries is None)
    plain = run(tmp_path, sys.executable, *words)
    recorded = run(tmp_path, TPROF, "run", *options, *words)

    assert (recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout), recorded.stderr
    said, summaries = SUMMARY.subn("", recorded.stderr)
    assert (said, summaries) == (plain.stderr, ending.summaries or 0)
    trace = tprof.load(tmp_path / "prog.tprof")
    assert trace.complete == (ending.instances is not None)
    if ending.instances is not None:
        assert instances(trace).get("f", 0) == ending.instances


def begin(folder, program, words):
    """Run a program and what runs beside it; returns all that both said, the status, and how long it took."""
    folder.mkdir()
    for name, text in {**program.files, "prog.py": program.source, "client.py": program.client or ""}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment |= {"HOME": str(folder), "RAY_AUTH_MODE": "disabled", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), environment["PATH"]])
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    begun_s = time.monotonic()
    process = subprocess.Popen(words, cwd=folder, env=environment, start_new_session=True, **streams)
    try:
        client = None
        if program.client is not None:
            client = run(folder, sys.executable, "client.py", str(process.pid))
            if client.returncode != 0:  # it has not ended the program, and somebody must
                process.terminate()
        output, errors = process.communicate(timeout=DEADLINE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    if client is not None:
        assert client.returncode == 0, client.stderr + errors
        output += client.stdout
    return output, errors, process.returncode, time.monotonic() - begun_s


def masked(text):
    """Leave out what differs each time a program runs that has several processes and tells times and numbers."""
    # Times of a minute and more are said in two ways.
    lines = [re.sub(r"0x[0-9a-f]+|(?<=s) \([\d:]+\)", "", line) for line in text.splitlines()]
    lines = [re.sub(r"\d[\d.:,]*", "0", line).strip("=. ") for line in lines]
    return sorted(line for line in lines if line)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=program.name, marks=[pytest.mark.thorough] if program.thorough else [])
        for program in [*PROGRAMS, *SERVERS]
    ],
)
def test_a_real_program_is_the_same_when_recorded_and_all_its_processes_tasks_are_there(
    tmp_path, record_property, program
):
    for module in program.needs:
        pytest.importorskip(module, reason=f"{module} is not installed: scripts/setup .venv test lint libraries")
    here = tmp_path / "here"  # messages name it

    plain = begin(here, program, [*program.launcher, sys.executable, *program.words])
    in_full = program.in_full or THOROUGH in os.environ
    named = {**program.marked, **program.named}
    check_recorded(here, record_property, program, plain, named, summaries=int(in_full))
    if program.task and in_full:  # without the summary, which is the same
        check_recorded(here, record_property, replace(program, task=()), plain, program.marked, summaries=0)


def check_recorded(here, record_property, program, plain, expected, *, summaries):
    """Run the program recorded where it ran plain: it must not differ, and its tasks must be those expected."""
    shutil.rmtree(here)
    options = ["--energy", "estimate", "-o", "prog.tprof", *([] if summaries else ["--no-summary"])]
    options += [word for pattern in program.task for word in ("--task", pattern)]
    recorded = begin(here, program, [*program.launcher, TPROF, "run", *options, *program.words])

    output, errors, status, _ = recorded
    said, found_summaries = SUMMARY.subn("", errors)
    comparable = masked if program.in_any_order else str
    assert (comparable(output), status) == (comparable(plain[0]), plain[2]), errors
    assert (comparable(said), found_summaries) == (comparable(plain[1]), summaries)
    clock, end = (json.loads((here / "prog.tprof" / name).read_text()) for name in ("manifest.json", "end.json"))
    recorded_s = (end["end_ns"] - clock["clock"]["block_start_ns"]) / 1e9
    record_property("durations", (program.name, plain[3], recorded_s))  # told with --thorough; nothing is claimed of it
    trace = tprof.load(here / "prog.tprof")
    # A program without tasks of its own gets some that stand for its processes and threads.
    found = trace.profile().summary()["instances"].to_dict() if expected else {}
    assert trace.complete
    if program.least:
        found = {name: min(found.get(name, 0), count) for name, count in expected.items()}
    assert found == expected
