"""Workers of a Ray cluster that runs already are handed the session by `ray.init`."""

import os
import signal
import subprocess
import sysconfig
from contextlib import suppress
from pathlib import Path

import pytest
from support.programs import TPROF
from support.recorded import instances

import tprof
from tprof.session import children

DEADLINE_S = 200
PROGRAM = """
import ray
def work(n):
    return sum(range(n))
@ray.remote
def remote(n):
    return work(n)
if __name__ == "__main__":
    ray.init(configure_logging=False)
    print(ray.get([remote.remote(n) for n in range(6)]))
"""


@pytest.fixture
def environment(tmp_path, monkeypatch):
    for name in ("RAY_ADDRESS", children.RAY_HOOK):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    return monkeypatch


def record(path):
    with tprof.record(path, energy="none", counters="none"):
        return children.add_session({"pip": ["x"], "env_vars": {"A": "1"}}), os.environ.get(children.RAY_HOOK)


def test_what_the_program_asks_for_its_workers_stays_and_the_session_is_added(tmp_path, environment):
    environment.setenv("RAY_ADDRESS", "auto")

    asked, hook = record(tmp_path / "t.tprof")

    assert asked == {"pip": ["x"], "env_vars": {"A": "1", "TPROF_SESSION": str(tmp_path / "t.tprof")}}
    assert hook == "tprof.session.children.add_session"
    assert children.RAY_HOOK not in os.environ
    assert children.add_session(None) == {}


def test_without_a_cluster_or_with_a_hook_of_the_programs_nothing_is_set(tmp_path, environment):
    assert record(tmp_path / "a.tprof")[1] is None
    environment.setenv("RAY_ADDRESS", "auto")
    environment.setenv(children.RAY_HOOK, "mine.hook")

    assert record(tmp_path / "b.tprof")[1] == os.environ[children.RAY_HOOK] == "mine.hook"


@pytest.mark.thorough
def test_workers_of_a_cluster_that_runs_already_are_recorded(tmp_path_factory, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: scripts/setup .venv test lint libraries")
    short = tmp_path_factory.getbasetemp().parent  # names of sockets have at most 107 bytes
    home = {"HOME": str(tmp_path), "RAY_TMPDIR": str(short), "RAY_AUTH_MODE": "disabled"}
    environment = {**{name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}, **home}
    (tmp_path / "prog.py").write_text(PROGRAM)
    head = [Path(sysconfig.get_path("scripts")) / "ray", "start", "--head", "--block", "--num-cpus", "2"]
    words = [*head, "--include-dashboard=false", "--port=0"]
    cluster = subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        assert any("Ray runtime started" in line for line in cluster.stdout)
        options = ["--energy", "estimate", "--task", "__main__:*", "prog.py"]
        done = subprocess.run(
            [TPROF, "run", *options],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    finally:
        cluster.terminate()
        cluster.communicate(timeout=DEADLINE_S)
        with suppress(ProcessLookupError):
            os.killpg(cluster.pid, signal.SIGKILL)

    assert (done.returncode, done.stdout) == (0, "[0, 0, 1, 3, 6, 10]\n"), done.stderr
    assert instances(tprof.load(tmp_path / "prog.tprof")) == {"remote": 6, "work": 6}
