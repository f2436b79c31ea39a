"""`tprof top` in a terminal, in a pipe and for scripts, and `tprof run --live`."""

import asyncio
import dataclasses
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from support import traces
from support.command_line import tprof as command
from support.programs import TPROF

from tprof.cli.top_lines import Choices, lines_of_view, sparkline
from tprof.cli.top_view import TopApp, pause_s
from tprof.cli.top_widgets import Help
from tprof.live.snapshot import Snapshot, ThreadFigures
from tprof.live.watch import Watch
from tprof.trace.running import is_running

DOCS = Path(__file__).resolve().parents[2] / "docs" / "top.md"
DEADLINE_S = 120
HOSTILE = "evil\x1b[2J\n" + "ü" * 300


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return traces.write(tmp_path_factory.mktemp("top") / "a.tprof", tasks=("load", HOSTILE))


def text_of(lines):
    return "\n".join("".join(span.text for span in line) for line in lines)


def test_once_prints_the_figures_and_that_they_are_final(session, tmp_path):
    done = command("top", session, "--once", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "final, by the model cputime" in done.stdout
    assert re.search(r"^package-0 +12.5 W +25 J +given", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout


def test_json_has_the_keys_that_the_documentation_names(session, tmp_path):
    found = json.loads(command("top", session, "--once", "--json", cwd=tmp_path).stdout)

    rows = re.findall(
        r"^\| (`.*?) \| (.*) \|$", DOCS.read_text(encoding="utf-8").partition("For scripts")[2], re.MULTILINE
    )
    documented = {name for keys, _ in rows for name in re.findall(r"`(\w+)`", keys)}
    assert set(found) == documented
    for key, meaning in rows:
        one = found[key.strip("`")] if "," not in key else None
        if isinstance(one, list) and one:
            assert set(one[0]) <= set(re.findall(r"`(\w+)`", meaning)), key
    assert sum(one["energy_j"] for one in found["accounts"]) == pytest.approx(found["energy_j"])


def test_in_a_pipe_there_is_a_line_an_interval_until_the_end(session, tmp_path):
    done = command("top", session, cwd=tmp_path)

    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("2.0 s  12.5 W 25 J given  tasks")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--once", "nothing.tprof"], "no recording has begun in .*nothing.tprof: leave --once out to wait for it"),
        (["--interval", "0"], "--interval must be from 0.05 to 3600 seconds, got 0"),
        (["999999999"], "there is no process 999999999"),
    ],
)
def test_a_mistake_is_one_sentence(words, message, tmp_path):
    done = command("top", *words, cwd=tmp_path)

    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("choices", [Choices(), Choices(sort="name", threads_first=True, offset=3, filter="o")])
def test_the_view_fits_any_terminal(session, choices):
    snapshot = crowded(Watch(session).read())

    for width, height in [(80, 23), (40, 10), (200, 60), (20, 5), (12, 3), (1, 1)]:
        lines = lines_of_view(snapshot, choices, width, height)
        assert len(lines) <= height
        assert max(cell_len("".join(span.text for span in line)) for line in lines) <= width
        assert "\x1b" not in text_of(lines)


def test_tasks_and_threads_both_have_rows_on_a_small_terminal(session):
    lines = text_of(lines_of_view(crowded(Watch(session).read()), Choices(), 80, 23)).splitlines()

    headings = [line.split()[0].strip("▾") for line in lines if re.match(r"(task|thread)[▾ ]", line)]
    assert headings == ["task", "thread"]
    assert sum("thread-" in line for line in lines) >= 2
    assert sum("task-" in line for line in lines) >= 5


def crowded(snapshot: Snapshot) -> Snapshot:
    """Return it with fifty tasks and forty threads more."""
    tasks = [dataclasses.replace(snapshot.tasks[0], name=f"task-{number}") for number in range(50)]
    threads = [
        ThreadFigures("host", 0, number, number, f"thread-{number}", "rank=1", HOSTILE, 1.5, 0.5)
        for number in range(40)
    ]
    return dataclasses.replace(snapshot, tasks=(*snapshot.tasks, *tasks), threads=tuple(threads))


def test_a_sparkline_goes_from_0_to_the_highest_value():
    assert sparkline([0.0, 5.0, 10.0], 10) == "▁▅█"
    assert sparkline([1.0, 0.0, 0.0], 2) == "▁▁"


def test_keys_sort_filter_pause_and_leave(session):
    async def press() -> list[object]:
        app = TopApp(Watch(session), 60.0)
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.shown is not None)
            found: list[object] = [app.choices]
            await pilot.press("n", "p", "tab", "slash", "l", "o", "enter")
            found.append(app.choices)
            await pilot.press("escape", "question_mark")
            found.append((app.choices.filter, isinstance(app.screen, Help)))
            await pilot.press("x", "q")
        return [*found, app.return_code]

    first, second, third, status = asyncio.run(press())

    assert first == Choices()
    assert second == Choices(sort="name", filter="lo", paused=True, threads_first=True)
    assert third == ("", True)
    assert status == 0


async def until(pilot, is_true):
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline_s
        await pilot.pause(0.02)


PROGRAM = """
import os, sys, tprof

@tprof.task
def work():
    return input("name? ")

print(os.isatty(1), os.get_terminal_size().columns, flush=True)
print("hello", work())
sys.exit(5)
"""


def in_terminal(words, folder, answers):
    """Run a command on a terminal of 80 columns; types each answer when its text appears.

    Returns all that it printed, and its status.
    """
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.environ.pop("PYTHONSAFEPATH", None)
        os.environ["TERM"] = "xterm-256color"
        os.environ["COLUMNS"], os.environ["LINES"] = "80", "24"
        os.execv(words[0], words)  # noqa: S606 - in a child that was forked for it
    seen, deadline_s = b"", time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:
            break
        seen += part
        if answers and answers[0][0] in seen:
            os.write(terminal, answers.pop(0)[1])
    os.close(terminal)
    return seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.thorough
def test_a_live_program_has_its_terminal_output_input_and_status(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [TPROF, "run", "--live", "--no-summary", "--energy", "estimate", "program.py"]

    seen, status = in_terminal(words, tmp_path, [(b"name?", b"t"), (b"a line for the program", b"you\r")])

    after = seen.rpartition(b"\x1b[?1049l")[2]
    assert status == 5, seen
    assert b"True 0" in after or b"True 80" in after
    assert b"hello you" in after


@pytest.mark.thorough
def test_a_program_that_still_runs_goes_on_in_the_terminal(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [TPROF, "run", "--live", "--no-summary", "--energy", "estimate", "program.py"]

    seen, status = in_terminal(words, tmp_path, [(b"name?", b"q"), (b"\x1b[?1049l", b"me\r")])

    assert status == 5, seen
    assert b"hello me" in seen.rpartition(b"\x1b[?1049l")[2]


def in_view(words, folder, text, act):
    """Run a command on a terminal that this process keeps open, and act on it when the text appears.

    Returns whether the terminal's settings and screen are what they were, and the status.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(slave)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    process = subprocess.Popen(
        words,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env=environment | {"TERM": "xterm-256color"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no other thread runs
    )
    seen, deadline_s, acted = b"", time.monotonic() + DEADLINE_S, False
    while process.poll() is None or select.select([master], [], [], 0)[0]:
        assert time.monotonic() < deadline_s, seen
        if select.select([master], [], [], 0.1)[0]:
            seen += os.read(master, 1 << 16)
        if not acted and text in seen:
            acted = True
            act(process)
    is_restored = termios.tcgetattr(slave) == before and seen.count(b"\x1b[?1049h") == seen.count(b"\x1b[?1049l")
    os.close(slave)
    os.close(master)
    return is_restored, process.returncode


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGTERM, -signal.SIGTERM),
        pytest.param(signal.SIGHUP, -signal.SIGHUP, marks=pytest.mark.thorough),
        pytest.param(signal.SIGINT, 0, marks=pytest.mark.thorough),
    ],
)
def test_a_signal_that_ends_the_view_leaves_the_terminal_as_it_was(session, tmp_path, number, status):
    ended = in_view([TPROF, "top", str(session)], tmp_path, b"final", lambda process: process.send_signal(number))

    assert ended == (True, status)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_reaches_the_live_program_which_decides_how_both_end(tmp_path, number):
    (tmp_path / "program.py").write_text(
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(7))\n"
        "print('READY', flush=True)\n"
        "while True: time.sleep(0.05)\n"
    )
    words = [TPROF, "run", "--live", "--no-summary", "--energy", "estimate", "-o", "a.tprof", "program.py"]

    ended = in_view(words, tmp_path, b"READY", lambda process: process.send_signal(number))

    assert ended == (True, 7)
    assert (tmp_path / "a.tprof" / "end.json").exists()


@pytest.mark.thorough
def test_a_terminal_that_closes_ends_the_view_and_the_program_by_its_signal(tmp_path):
    (tmp_path / "program.py").write_text("import time\nprint('READY', flush=True)\nwhile True: time.sleep(0.05)\n")
    words = [TPROF, "run", "--live", "--no-summary", "--energy", "estimate", "-o", "a.tprof", "program.py"]
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.environ["TERM"] = "xterm-256color"
        os.execv(words[0], words)  # noqa: S606 - in a child that was forked for it
    seen, deadline_s = b"", time.monotonic() + DEADLINE_S
    while b"READY" not in seen:
        assert time.monotonic() < deadline_s, seen
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 1 << 16)

    os.close(terminal)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGHUP
    while is_running(tmp_path / "a.tprof"):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.mark.thorough
def test_the_view_is_left_by_q(session, tmp_path):
    seen, status = in_terminal([TPROF, "top", str(session)], tmp_path, [(b"figures are final", b"q")])

    assert status == 0, seen
    assert seen.rstrip().endswith((b"l", b"h", b"m", b"u"))


def test_live_without_a_terminal_is_refused(tmp_path):
    (tmp_path / "program.py").write_text("print('ran')")

    done = subprocess.run(
        [TPROF, "run", "--live", "program.py"],
        cwd=tmp_path,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tprof: --live needs a terminal, and this process has none")


@pytest.mark.parametrize(
    ("interval_s", "used_s", "waited_s"),
    [(1.0, 0.002, 1.0), (1.0, 0.016, 2.0), (1.0, 9.0, 10.0), (5.0, 0.016, 5.0), (60.0, 9.0, 60.0), (0.1, 0.016, 0.1)],
)
def test_reads_that_cost_much_are_made_less_often_unless_a_short_interval_is_asked_for(interval_s, used_s, waited_s):
    assert pause_s(interval_s, used_s) == pytest.approx(waited_s)
