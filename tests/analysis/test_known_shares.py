"""A real program of threads with known CPU shares: `cputime` gives each its share of the busy watts."""

from __future__ import annotations

import threading
import time

import pytest

import tprof

SHARES = {"tenth": 0.1, "fifth": 0.2, "third": 0.3, "most": 0.4}
TOTAL_S = 1.2


def burn(cpu_s: float) -> None:
    until = time.thread_time() + cpu_s
    while time.thread_time() < until:
        sum(range(500))


def test_four_threads_share_by_cpu_time(tmp_path):
    def work(name):
        with tprof.region(name):
            burn(SHARES[name] * TOTAL_S)

    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none", watts=(0.0, 8.0)) as recording:
        threads = [threading.Thread(target=work, args=[name]) for name in SHARES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    summary = recording.profile(model="cputime").summary()
    assert dict(summary["share"]) == pytest.approx(SHARES, abs=0.08)
    assert summary["energy_j"].sum() == pytest.approx(8.0 * TOTAL_S, rel=0.15), "other programs of the machine blur it"
