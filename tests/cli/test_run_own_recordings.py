"""Programs that make recordings of their own run unchanged under `tprof run`, whose recording makes way for them."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest
from support.programs import TPROF

import tprof

FUNCTION = """\
    import sys, tprof
    @tprof.task
    def work(count):
        return sum(range(count))
"""


def run(folder, *words):
    command = [TPROF, "run", "--energy", "estimate", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def program(folder, text):
    (folder / "prog.py").write_text(dedent(FUNCTION) + dedent(text))
    return "prog.py"


def tasks_of(session):
    return sorted(set(tprof.load(session).profile().tasks["task"].astype(str)))


@pytest.mark.parametrize("place", ['"own.tprof"', ""])
def test_a_recording_of_the_program_takes_the_place_of_the_one_around_it(tmp_path, place):
    name = program(
        tmp_path,
        f"""
        with tprof.record({place}) as recording:
            work(10_000)
        print(len(recording.profile().tasks))
        sys.exit(3)
        """,
    )

    done = run(tmp_path, "-o", "outer.tprof", name)

    assert (done.returncode, done.stdout) == (3, "1\n")
    assert "tprof: the program records itself from here on (" in done.stderr
    assert "Traceback" not in done.stderr
    assert "work" not in tasks_of(tmp_path / "outer.tprof")
    assert any("began one of its own" in text for text in tprof.load(tmp_path / "outer.tprof").notes)
    if place:
        assert tasks_of(tmp_path / "own.tprof") == ["work"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_that_records_itself_leaves_the_recording_of_the_others(tmp_path, method):
    name = program(
        tmp_path,
        f"""
        import multiprocessing

        def child():
            with tprof.record("child.tprof"):
                work(10_000)

        if __name__ == "__main__":
            process = multiprocessing.get_context("{method}").Process(target=child)
            process.start()
            process.join()
            with tprof.region("after"):
                work(10_000)
            print(process.exitcode)
        """,
    )

    done = run(tmp_path, "-o", "outer.tprof", name)

    assert (done.returncode, done.stdout) == (0, "0\n")
    assert "so outer.tprof has no more of it" in done.stderr
    assert tasks_of(tmp_path / "child.tprof") == ["work"]
    assert {"after", "work"} <= set(tasks_of(tmp_path / "outer.tprof"))


def test_a_run_inside_a_run_has_its_own_session(tmp_path):
    words = [sys.executable, "-m", "tprof", "run", "--energy", "estimate", "--no-summary", "-o", "inner.tprof"]
    name = program(
        tmp_path,
        f"""
        import subprocess
        print(subprocess.run({[*words, "-c", "print(5)"]!r}, stdout=subprocess.PIPE).stdout)
        work(10_000)
        """,
    )

    done = run(tmp_path, "-o", "outer.tprof", name)

    assert (done.returncode, done.stdout) == (0, "b'5\\n'\n")
    assert tasks_of(tmp_path / "inner.tprof") == ["python -c"]
    assert "work" in tasks_of(tmp_path / "outer.tprof")


def test_a_second_recording_of_the_program_itself_is_refused(tmp_path):
    name = program(
        tmp_path,
        """
        with tprof.record("own.tprof"):
            with tprof.record("other.tprof"):
                pass
        """,
    )

    done = run(tmp_path, "--no-summary", name)

    assert done.returncode == 1
    assert "a recording already runs in this process" in done.stderr
