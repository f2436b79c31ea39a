"""A calibration runs its kernels on every number of cores under a recording, or says at once why it cannot."""

import os
from collections import Counter

import numpy as np
import pytest
from support import fake_trees
from support.fake_sensor import FakeSensor
from tprof.analysis.models.calibration import observe
from tprof.benchmarks.calibration import record
from tprof.benchmarks.calibration.phases import SETS, chosen, one_a_core, plan_phases
from tprof.benchmarks.kernels import Caches, kernels
from tprof.benchmarks.polybench import KERNELS as POLYBENCH

import tprof
from tprof.errors import SensorError, UsageError
from tprof.sensors.topology import Cpu

KERNELS = kernels(Caches(8 << 10, 64 << 10, 256 << 10), 2)


def test_every_kernel_runs_on_one_two_half_and_all_cores_in_an_order_of_its_own():
    phases = plan_phases(KERNELS, tuple(range(8)))

    assert Counter(len(phase.cpus) for phase in phases) == dict.fromkeys((1, 2, 4, 8), len(KERNELS))
    assert [phase.name for phase in phases] != sorted(phase.name for phase in phases)
    assert phases == plan_phases(KERNELS, tuple(range(8)))[: len(phases)] or len({p.name for p in phases}) == len(
        phases
    )


def test_one_processor_of_each_core_of_one_package_is_used():
    usable = sorted(os.sched_getaffinity(0))[:2]
    twins = [Cpu(cpu, 0, 0) for cpu in usable]
    apart = [Cpu(cpu, place, place) for place, cpu in enumerate(usable)]

    assert one_a_core(twins) == tuple(usable[:1])
    assert one_a_core(apart) == tuple(usable[:1])


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A laptop's sysfs with this machine's processors as cores, its sensor alive, small caches."""
    tree = fake_trees.laptop(tmp_path / "root")
    for number, (level, size) in enumerate([(1, "8K"), (2, "64K"), (3, "256K")]):
        folder = tree.root / f"sys/devices/system/cpu/cpu0/cache/index{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {"level": level, "type": "Unified", "size": size}.items():
            (folder / name).write_text(f"{text}\n", encoding="ascii")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    return tree


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor only")
def test_the_kernels_are_recorded_as_phases_with_the_watts_of_the_sensor(tmp_path, machine):
    told = []
    sensor = FakeSensor(watts=20.0, modulus=fake_trees.RANGE_UJ + 1).drives(machine.energy_of("intel-rapl:0"))
    with sensor:
        path = record(
            tmp_path / "out", seconds_each=0.08, cores=2, energy="powercap", counters="none",
            progress=lambda *said: told.append(said),
        )  # fmt: skip

    trace = tprof.load(path)
    counts = trace.profile(model="cputime").tasks["task"].astype(str).value_counts().to_dict()
    assert len(told) == len(counts)
    assert counts == {name: int(name.partition("@")[2]) for name in counts}
    found = observe(trace)
    # A phase in which the sensor was hardly read is left out; how many these are is up to how busy the machine is.
    assert 0 < len(set(found.kernel)) <= len(KERNELS)
    # Single phases have too much or too little where the fake sensor's thread waited for a processor.
    assert np.median(found.power_w) == pytest.approx(20.0, rel=0.25)
    assert found.active_cores.max() <= 2.01


@pytest.mark.thorough  # 34 phases; which kernels a set has is asked below, how they are recorded above
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor only")
def test_polybench_runs_instead_where_it_is_asked_for(tmp_path, machine):
    sensor = FakeSensor(watts=20.0, modulus=fake_trees.RANGE_UJ + 1).drives(machine.energy_of("intel-rapl:0"))
    with sensor:
        path = record(
            tmp_path / "out", seconds_each=0.01, cores=2, energy="powercap", counters="none", kernels="polybench"
        )

    tasks = tprof.load(path).profile(model="cputime").tasks["task"].astype(str)
    assert set(tasks) == {f"{name}@{count}" for name in POLYBENCH for count in (1, 2)}


def test_the_sets_of_kernels_are_those_made_for_it_polybenchs_and_both():
    names = {of: [kernel.name for kernel in chosen(of, Caches(), 2)] for of in SETS}

    assert names["all"] == names["stress"] + names["polybench"]
    assert names["polybench"] == list(POLYBENCH)
    assert len(set(names["all"])) == len(names["all"])


def test_a_set_of_kernels_that_does_not_exist_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(UsageError, match='kernels must be stress, polybench or all; got "linpack"'):
        record(tmp_path / "out", kernels="linpack")

    assert not (tmp_path / "out").exists()


def test_an_estimate_is_nothing_to_calibrate_to(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))

    with pytest.raises(SensorError, match=r"a calibration needs a sensor that measures.*estimate only.*tprof doctor"):
        record(tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_one_core_is_refused_before_anything_runs(tmp_path, machine):
    with pytest.raises(SensorError, match="two cores or more"):
        record(tmp_path / "out", cores=1, energy="powercap", counters="none")

    assert not (tmp_path / "out").exists()
    assert machine.root.exists()
