"""The kernels of a calibration do the work they say, on what they say, and leave Python to others meanwhile."""

import threading

import numpy as np
import pytest
from tprof.benchmarks.kernels import Caches, _stress, kernels, read_caches
from tprof.benchmarks.kernels.stress_kernels import ring

SMALL = Caches(l1_bytes=8 << 10, l2_bytes=64 << 10, llc_bytes=256 << 10)


@pytest.mark.parametrize("kernel", kernels(SMALL, 2), ids=lambda kernel: kernel.name)
def test_each_kernel_runs_and_says_how_much_it_did(kernel):
    work, total = kernel.prepare()(0.01)

    assert work > 0
    assert np.isfinite(total)


def test_a_sweep_touches_every_line_of_its_working_set():
    working_set = np.ones(1024)

    lines, _ = _stress.sweep(working_set, 1, 0.005)

    assert lines % (1024 / 8) == 0
    assert (working_set != 1.0).all()


@pytest.mark.parametrize("lines", [1, 2, 7, 1000])
def test_a_ring_leads_through_all_its_lines(lines):
    chain = ring(lines)

    seen, at = set(), 0
    for _ in range(lines):
        seen.add(at)
        at = int(chain[at, 0])

    assert len(seen) == lines
    assert at == 0


def test_working_sets_stand_in_the_caches_they_are_named_for():
    by_name = {kernel.name: kernel.bytes for kernel in kernels(Caches(32 << 10, 1 << 20, 32 << 20), 8)}

    assert by_name["l1"] < 32 << 10 < by_name["l2"] < 1 << 20 < by_name["llc"]
    assert 8 * by_name["llc"] < 32 << 20 < by_name["memory"]


def test_python_runs_on_while_a_kernel_does():
    done = threading.Event()
    thread = threading.Thread(target=lambda: (_stress.chain(5.0), done.set()), daemon=True)

    thread.start()
    counted = sum(1 for _ in range(10_000))

    assert counted == 10_000
    assert not done.is_set()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: _stress.sweep(np.ones(3), 1, 0.01), "multiple of 64 bytes"),
        (lambda: _stress.chase(np.full((4, 8), 9, np.uint64), 0.01), "number of another"),
    ],
)
def test_a_working_set_that_would_lead_outside_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_cache_sizes_are_read_below_a_root_and_common_where_they_are_not_there(tmp_path):
    for number, (level, kind, size) in enumerate(
        [(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"), (3, "Unified", "30M")]
    ):
        folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{number}"
        folder.mkdir(parents=True)
        for name, text in {"level": level, "type": kind, "size": size}.items():
            (folder / name).write_text(f"{text}\n", encoding="ascii")

    assert read_caches(tmp_path) == Caches(48 << 10, 2 << 20, 30 << 20)
    assert read_caches(tmp_path / "nothing") == Caches()
