"""Hours of a recording that keeps sums: memory and disk stay as they are, but for the sums."""

import os
from pathlib import Path

import pytest
from support.simulated_recorder import TASKS, WATTS, SimulatedRecorder

import tprof
from tprof.live.kept_sums import KeptSums
from tprof.trace.sums import BLOCK, DOMAIN_SUMS, HEADER, TASK_SUMS

SECOND_NS = 1_000_000_000
BATCH_S = 10
DAY_SPANS = 8640
"""As many as a day makes with spans of ten seconds."""

LONG = (pytest.mark.thorough, pytest.mark.timeout(3600))


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("seconds", [120, pytest.param(DAY_SPANS, marks=LONG)])
def test_memory_and_disk_stay_flat(tmp_path, seconds):
    recorder = SimulatedRecorder(tmp_path / "t.tprof")
    kept, resident, disk = KeptSums(recorder.path, SECOND_NS), [], []

    for _ in range(seconds // BATCH_S):
        recorder.run(BATCH_S)
        while kept.step():
            pass
        resident.append(resident_bytes())
        disk.append(recorder.bytes_on_disk())
    kept.finish()

    quarter = len(resident) // 4
    assert max(resident) - resident[quarter] < 4 << 20
    assert max(disk) < 1 << 20
    span_bytes = BLOCK.itemsize + len(TASKS) * TASK_SUMS.itemsize + DOMAIN_SUMS.itemsize
    assert (recorder.path / "sums").stat().st_size == pytest.approx(HEADER.itemsize + seconds * span_bytes, rel=0.05)
    assert kept.open_count == 0
    kept.remove_streams()
    profile = tprof.load(recorder.path).profile()
    assert profile.summary()["instances"].sum() == 2 * 40 * seconds
    assert profile.measured_j == pytest.approx(WATTS * seconds, rel=0.01)
    assert profile.accounts["tasks_j"].sum() == pytest.approx(profile.measured_j, rel=0.1)
