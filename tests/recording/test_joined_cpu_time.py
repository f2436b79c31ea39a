"""The program's CPU time has what its processes used during the recording, and nothing from before it."""

import json
import subprocess
import sys

import tprof

OLDER = """
import json, multiprocessing, os, sys, time

from tprof.session import hosts


def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


if __name__ == "__main__":
    burn(1.5)
    part = hosts.ensure("job.tprof", hosts.RecordingOptions(energy="none", counters="none"))
    hosts.join(part)
    begun_s = time.process_time()
    child = multiprocessing.get_context("fork").Process(target=burn, args=(0.5,))
    child.start()
    child.join()
    used_s = time.process_time() - begun_s
    hosts.leave()
    hosts.stop(part, expects_members=True)
    print(json.dumps([os.fspath(part), begun_s, used_s]))
"""


def test_an_older_process_adds_what_it_uses_from_its_join_on_and_its_children_all(tmp_path):
    (tmp_path / "older.py").write_text(OLDER)
    done = subprocess.run(
        [sys.executable, "older.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    part, before_s, used_s = json.loads(done.stdout)

    (program,) = (one for one in tprof.load(part).readings.values() if one.quantity == "program")
    found_s = (int(program.value[-1]) - int(program.value[0])) * program.unit

    assert found_s > 0.4 + used_s  # the child's
    assert found_s < before_s
