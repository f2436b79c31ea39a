"""What is read back from a calibration's session is what was run in it."""

import dataclasses

import numpy as np
import pytest
from tprof.analysis.models.calibration import fit, observe

import tprof
from tprof.errors import UsageError
from tprof.trace import Quality, Readings
from tprof.trace.readings import records_of

MS = 1_000_000
HZ = 2.5e9
LAW = {"a": 1.2, "b": 0.07, "c": 0.2, "C1": 7.0, "C2": 6.0}
KERNELS = {"pipeline": (2.5, 0.2, 0.0), "chain": (0.5, 0.1, 0.1), "l2": (1.1, 50.0, 0.5), "llc": (0.7, 22.0, 20.0),
           "memory": (0.4, 8.0, 8.0)}  # fmt: skip
PHASE_MS, PAUSE_MS = 100, 20


def power_of(kernel, cores):
    ipc, l2, llc = KERNELS[kernel]
    return cores * (LAW["a"] * ipc + LAW["b"] * l2 + LAW["c"] * llc + LAW["C1"]) + LAW["C2"]


def session(path, *, late_ms=0, columns=("l2_refs", "llc_refs"), drawn=((0, 200, 4.0),), joined_ms=None):
    """Phases of all kernels on one to three cores after 200 ms; cores but the first begin `late_ms` later.

    What is drawn before the phases is given as (from ms, to ms, watts). A thread without tasks joins at `joined_ms`.
    """
    phases = [(kernel, cores) for cores in (1, 2, 3) for kernel in KERNELS]
    names = [f"{kernel}@{cores}" for kernel, cores in phases]
    threads, instance = [], 0
    power = np.full(200 + len(phases) * (PHASE_MS + PAUSE_MS), 4.0)
    for from_ms, to_ms, watts in drawn:
        power[from_ms:to_ms] = watts
    for core in range(3):
        rows = []
        counts = np.zeros(5)
        for number, (kernel, cores) in enumerate(phases):
            if core >= cores:
                continue
            begin_ms = 200 + number * (PHASE_MS + PAUSE_MS)
            power[begin_ms : begin_ms + PHASE_MS] = power_of(kernel, cores)
            first_ms = begin_ms + (late_ms if core else 0)
            instance += 1
            rows.append((first_ms, instance, number, *counts))
            seconds = (begin_ms + PHASE_MS - first_ms) * 1e-3
            ipc, l2, llc = KERNELS[kernel]
            counts = counts + np.array(
                [seconds * 1e9, HZ * ipc * seconds, HZ * seconds, *(np.array([l2, llc]) * 1e9 / 64 * seconds)]
            )
            rows.append((begin_ms + PHASE_MS, 0, -1, *counts))
        table = np.array(rows)
        named = dict(zip(("cpu_ns", "instructions", "cycles", "l2_refs", "llc_refs"), table[:, 3:].T, strict=True))
        threads.append(
            {
                "t_ns": (table[:, 0] * MS).astype(np.int64),
                "instance": table[:, 1].astype(np.int64),
                "task": table[:, 2].astype(np.int64),
                "cpu": np.full(len(table), core),
                "package": np.zeros(len(table), np.int64),
                "tid": core + 1,
            }
            | {
                name: np.round(values).astype(np.int64)
                for name, values in named.items()
                if name in ("cpu_ns", "instructions", "cycles", *columns)
            }
        )
    if joined_ms is not None:
        threads.append({"t_ns": [joined_ms * MS], "instance": [0], "task": [-1], "cpu_ns": [0], "tid": 9})
    joules = np.concatenate(([0.0], np.cumsum(power * 1e-3)))
    energy = {"package-0": (np.arange(len(joules)) * MS, joules)}
    tprof.write_trace(path, tasks=names, threads=threads, energy=energy)
    return tprof.load(path)


def busy(trace, *spans_ms, processors=1):
    """Let the trace say that processors were busy in these spans and in the phases: a reading each 10 ms."""
    t_ms = np.arange(0, 200 + 15 * (PHASE_MS + PAUSE_MS), 10)
    ran = t_ms[:-1] >= 200
    for from_ms, to_ms in spans_ms:
        ran |= (t_ms[:-1] >= from_ms) & (t_ms[:-1] < to_ms)
    ticks = np.concatenate(([0], np.cumsum(ran))).astype(np.uint64) * np.uint64(processors)
    readings = Readings(
        "busy-0", "busy", "machine", 0, "proc", Quality.MEASURED, counted=False, unit=1e-2, modulus=None,
        records=records_of(t_ms * MS, ticks), dropped=0,
    )  # fmt: skip
    return dataclasses.replace(trace, readings=trace.readings | {"busy-0": readings})


def idle_w(trace):
    found = observe(trace)
    return found.power_w[found.kernel == "idle"].tolist()


def test_power_and_counters_of_each_phase_are_read_back(tmp_path):
    found = observe(session(tmp_path / "t.tprof"))

    assert len(found) == 16
    row = np.flatnonzero((found.kernel == "llc") & (found.active_cores > 2.5))[0]
    assert found.power_w[row] == pytest.approx(power_of("llc", 3), rel=1e-6)
    assert found.active_cores[row] == pytest.approx(3)
    assert found.ipc[row] == pytest.approx(3 * 0.7, rel=1e-4)
    assert found.l2_gbs[row] == pytest.approx(3 * 22.0, rel=1e-4)
    assert found.llc_gbs[row] == pytest.approx(3 * 20.0, rel=1e-4)
    assert found.hz[row] == pytest.approx(HZ, rel=1e-4)


def test_the_time_before_the_first_phase_is_idle(tmp_path):
    found = observe(session(tmp_path / "t.tprof"))

    idle = found.where(found.kernel == "idle")
    assert idle.power_w.tolist() == pytest.approx([4.0])
    assert idle.active_cores.tolist() == [0.0]


def test_preparing_the_first_phase_is_not_idle(tmp_path):
    """The recording's own thread joins where idle ends; no task shows what it then prepares."""
    trace = session(tmp_path / "t.tprof", drawn=[(90, 200, 15.0)], joined_ms=90)

    assert idle_w(trace) == pytest.approx([4.0])


def test_preparing_is_not_idle_where_no_thread_was_seen_to_join_either(tmp_path):
    trace = session(tmp_path / "t.tprof", drawn=[(90, 200, 15.0)])

    assert idle_w(busy(trace, (90, 200))) == pytest.approx([4.0])


def test_time_in_which_other_processes_ran_is_not_idle(tmp_path):
    trace = session(tmp_path / "t.tprof", drawn=[(40, 80, 12.0), (120, 150, 9.0)], joined_ms=190)

    assert idle_w(busy(trace, (40, 80), (120, 150))) == pytest.approx([4.0])


def test_a_core_of_another_program_is_active_too(tmp_path):
    trace = session(tmp_path / "t.tprof")

    found = observe(busy(trace, processors=2))

    alone = observe(trace)
    ran = alone.active_cores[:-1]
    assert sorted(set(ran.round(6))) == [1.0, 2.0, 3.0]
    assert found.active_cores == pytest.approx(np.append(np.maximum(ran, 2.0), 0.0), abs=1e-6)


def test_without_idle_time_no_idle_power_is_given(tmp_path):
    trace = session(tmp_path / "t.tprof", drawn=[(0, 200, 12.0)], joined_ms=190)

    assert idle_w(busy(trace, (0, 200))) == []
    assert fit(observe(busy(trace, (0, 200)))).idle_w is None


def test_a_calibration_finds_the_law_that_was_run(tmp_path):
    calibration = fit(observe(session(tmp_path / "t.tprof")))

    one = calibration.coefficients
    assert [one.a, one.b, one.c, one.c1, one.c2] == pytest.approx(list(LAW.values()), rel=1e-3)
    assert calibration.idle_w == pytest.approx(4.0)


def test_only_the_time_in_which_all_cores_ran_counts(tmp_path):
    found = observe(session(tmp_path / "t.tprof", late_ms=40))

    row = np.flatnonzero((found.kernel == "chain") & (found.active_cores > 2.5))[0]
    assert found.power_w[row] == pytest.approx(power_of("chain", 3), rel=1e-6)


def test_a_counter_that_was_not_recorded_is_not_known_rather_than_zero(tmp_path):
    found = observe(session(tmp_path / "t.tprof", columns=("llc_refs",)))

    assert np.isnan(found.l2_gbs[found.kernel != "idle"]).all()
    assert fit(found).left_out == ("b",)


def test_a_session_of_something_else_is_refused(tmp_path):
    thread = {"t_ns": [0, 10 * MS], "instance": [1, 0], "task": [0, -1]}
    energy = {"package-0": ([0, 20 * MS], [0.0, 1.0])}
    tprof.write_trace(tmp_path / "t.tprof", tasks=["work"], threads=[thread], energy=energy)

    with pytest.raises(UsageError, match=r"holds no phase of a calibration.*tprof calibrate --session"):
        observe(tprof.load(tmp_path / "t.tprof"))
