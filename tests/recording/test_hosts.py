"""Several processes of one host record into its part of a job, which a host recorder owns."""

import os
import signal
import subprocess
import sys

import pytest
from support.programs import TPROF
from support.pthreads import wait_until

import tprof
from tprof.session import hosts
from tprof.trace.running import is_running

MEMBER = """
import sys, time
from pathlib import Path
import tprof
from tprof.session import hosts

@tprof.task
def work():
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass

assert "numpy" not in sys.modules, "NumPy's threads do not belong to a recorded program"
part = hosts.ensure(Path(sys.argv[1]), hosts.RecordingOptions(energy="estimate", linger_s=float(sys.argv[3])))
hosts.join(part, {"rank": sys.argv[2]})
work()
print("worked", flush=True)
for line in sys.stdin:
    work()
    print("worked", flush=True)
hosts.leave()
assert "numpy" not in sys.modules
"""


class Member:
    """A process that joined its host's part, and works once for each line that it reads."""

    def __init__(self, job, rank, *, linger_s=0.0, **options) -> None:
        words = [sys.executable, "-c", MEMBER, str(job), str(rank), str(linger_s)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)

    def await_work(self):
        assert self.process.stdout.readline() == "worked\n"
        return self

    def work(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.await_work()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def kill(self):
        self.process.kill()
        self.process.wait(60)


def part_in(job):
    parts = [path for path in (job / "hosts").iterdir() if not path.name.startswith(".")]
    assert len(parts) == 1
    return parts[0]


def ended(part):
    return lambda: not is_running(part) and (part / "end.json").exists()


def recorder_of(part):
    return tprof.trace.load_session(part).manifest["pid"]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A job of four processes that came at once, one of which was killed, and a second one after that."""
    path = tmp_path_factory.mktemp("hosts") / "job.tprof"
    members = [Member(path, rank) for rank in range(4)]
    for member in members:
        member.await_work()
    members[0].kill()
    for member in members[1:]:
        member.work()
        member.end()
    wait_until(ended(part_in(path)))
    return path


def test_of_many_processes_one_starts_the_recorder_and_all_join_it(job):
    tasks = tprof.load(job).profile().tasks

    assert tasks.groupby("label_rank", observed=True).size().to_dict() == {"0": 1, "1": 2, "2": 2, "3": 2}
    assert set(tasks["host"]) == {part_in(job).name}


def test_a_part_ends_with_the_last_member_and_leaves_no_log(job):
    trace = tprof.trace.load_session(part_in(job))

    assert trace.complete
    assert trace.notes == ()
    assert not (part_in(job) / "recorder.txt").exists()


def test_the_profile_of_a_job_has_accounts_by_host_and_domain_that_sum_to_what_was_measured(job):
    profile = tprof.load(job).profile()
    accounts = profile.accounts

    parts = accounts[["tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]].sum(axis=1)
    assert parts.to_numpy() == pytest.approx(accounts["measured_j"].to_numpy())
    assert accounts.index.names == ["host", "domain"]
    assert profile.hosts.loc[part_in(job).name, "processes"] == 4


def test_the_summary_of_a_job_with_one_part_is_the_parts_own(job):
    whole = tprof.load(job).profile().summary()
    own = tprof.trace.load_session(part_in(job)).profile().summary()

    for name in own.columns.drop("quality"):
        assert whole[name].to_numpy() == pytest.approx(own[name].to_numpy(), nan_ok=True), name


def test_the_recorder_outlives_the_process_and_the_group_that_started_it(tmp_path):
    path = tmp_path / "job.tprof"
    first = Member(path, 0, start_new_session=True).await_work()
    second = Member(path, 1).await_work()
    os.killpg(first.process.pid, signal.SIGTERM)
    first.process.wait(60)

    assert is_running(part_in(path))
    second.work()
    second.end()
    wait_until(ended(part_in(path)))
    assert len(tprof.load(path).profile().tasks) == 3


def test_a_killed_recorder_leaves_a_readable_part_and_workers_that_go_on(tmp_path):
    path = tmp_path / "job.tprof"
    member = Member(path, 0).await_work()
    os.kill(recorder_of(part_in(path)), signal.SIGKILL)
    wait_until(lambda: not is_running(part_in(path)))
    member.work()
    member.end()

    profile = tprof.load(path).profile()
    assert len(profile.tasks) == 2
    assert any("did not end by itself" in text for text in profile.info["warnings"])


def test_a_process_that_comes_after_the_end_begins_another_part(tmp_path):
    path = tmp_path / "job.tprof"
    for rank in range(2):
        member = Member(path, rank).await_work()
        member.end()
        wait_until(lambda: not any(is_running(part) for part in (path / "hosts").iterdir()))

    profile = tprof.load(path).profile()
    assert [part.name.rpartition("-")[2] for part in profile.trace.hosts[1:]] == ["2"]
    assert profile.hosts["recordings"].tolist() == [2]
    assert list(profile.tasks["label_rank"]) == ["0", "1"]


def test_stop_ends_the_recorder_and_notes_members_that_still_run(tmp_path):
    path = tmp_path / "job.tprof"
    member = Member(path, 0).await_work()
    hosts.stop(part_in(path))
    member.end()

    trace = tprof.trace.load_session(part_in(path))
    assert trace.complete
    assert f"processes {member.process.pid} still ran" in " ".join(trace.notes)


def test_a_recorder_that_cannot_begin_gives_its_reason(tmp_path):
    with pytest.raises(tprof.SensorError, match="perf"):
        hosts.ensure(tmp_path / "job.tprof", hosts.RecordingOptions(energy="perf"))
    assert not [path for path in (tmp_path / "job.tprof" / "hosts").iterdir() if path.is_dir()]


def test_labels_are_checked_and_the_later_value_wins(tmp_path):
    code = (
        "import tprof, sys\n"
        "tprof.label(role='a', big='x' * 300)\n"
        "with tprof.record(sys.argv[1], energy='estimate'):\n"
        "    tprof.label(role='b')\n"
        "    with tprof.region('one'): pass\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.tprof")], check=True, timeout=60)
    with pytest.raises(tprof.UsageError, match="a label's name is a letter"):
        tprof.label(**{"no name": 1})

    tasks = tprof.load(tmp_path / "a.tprof").profile().tasks
    assert tasks["label_role"].tolist() == ["b"]
    assert tasks["label_big"].tolist() == ["x" * 200]


def test_a_job_that_would_keep_sums_is_refused_and_not_made(tmp_path):
    with pytest.raises(tprof.UsageError, match="keeps its samples"):
        hosts.ensure(tmp_path / "job.tprof", hosts.RecordingOptions(keep="summary"))
    (tmp_path / "prog.py").write_text("")
    words = [TPROF, "run", "--hosts", "--keep", "summary", "-o", "job.tprof", "prog.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "keeps its samples" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["prog.py"]


def test_a_recorder_that_dies_while_it_begins_is_said_at_once(tmp_path, monkeypatch):
    """Its folder is there then, as if another process's recorder still began."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'tprof.session.host_recorder' in sys.orig_argv:\n"
        "    import tprof.session.disk_helper as helper\n"
        "    helper.start = lambda *_: os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(tprof.TprofError, match="could not begin: it ended without a message"):
        hosts.ensure(tmp_path / "job.tprof", hosts.RecordingOptions(energy="estimate", compress=True))

    parts = [one.name for one in (tmp_path / "job.tprof" / "hosts").iterdir() if one.name[0] != "."]
    assert len(parts) == 1, "another one would have been begun after a wait"
