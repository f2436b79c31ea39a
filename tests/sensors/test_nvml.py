"""NVIDIA GPUs by NVML: what is found, what is said where nothing is, and when a GPU is polled."""

import bisect
import json
import random
import sys

import numpy as np
import pytest
from support import fake_trees
from support.fake_nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    WORDS,
    FakeGpu,
    FakeNvml,
)
from support.fake_sensor import raw_readings, wait_for
from support.fake_trees import reasons

import tprof
from tprof import sensors
from tprof.sensors import Omission
from tprof.sensors.nvml_reader import NvmlReader, Updates
from tprof.sensors.nvml_users import ProcessUse
from tprof.sensors.registry import create


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def place(tmp_path):
    return sensors.Machine(tmp_path)


def two(**changes):
    return FakeGpu("GPU-aaaa", pci="00000000:01:00.0"), FakeGpu("GPU-bbbb", pci="00000000:02:00.0", **changes)


def find(place):
    return create("nvml").find(place)


def with_gpu_on_pci(root):
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")


def test_each_gpu_is_a_domain_with_its_names(place, monkeypatch):
    nvml = FakeNvml(*two()).install(monkeypatch)

    found = find(place)

    assert [(one.name, one.scope, one.counted) for one in found.domains] == [
        ("gpu-0", "gpu", True), ("gpu-1", "gpu", True),
    ]  # fmt: skip
    assert dict(found.domains[1].details) == {
        "uuid": "GPU-bbbb",
        "model": "NVIDIA H200",
        "pci": "00000000:02:00.0",
        "processes": "utilisation",
    }
    assert found.domains[0].unit_j == 0.001
    assert found.left_out == ()
    assert nvml.opened == 0


def test_without_a_count_power_is_integrated_and_labelled_so(place, monkeypatch):
    FakeNvml(*two(energy_mj=None, power_mw=70_000)).install(monkeypatch)

    counts, power = find(place).domains

    assert counts.accuracy.shows is sensors.Quantity.ENERGY
    assert power.accuracy.shows is sensors.Quantity.POWER
    assert "power integrated" in power.accuracy.covers


def test_instantaneous_power_is_preferred_to_the_mean_of_a_second(place, monkeypatch):
    nvml = FakeNvml(FakeGpu("GPU-a", energy_mj=None, power_mw=70_000, instant_mw=120_000)).install(monkeypatch)
    reader = NvmlReader(nvml, find(place).domains)

    assert [one.value for one in reader.read()] == [120.0]


@pytest.mark.parametrize(
    ("number", "says", "command"),
    [
        (LIBRARY_NOT_FOUND, "the NVIDIA driver's library libnvidia-ml.so.1 is not installed", "docker run --gpus all"),
        (DRIVER_NOT_LOADED, "the NVIDIA driver is not loaded", "sudo modprobe nvidia"),
        (NO_PERMISSION, "this user may not talk to the NVIDIA driver", "usermod"),
        (18, "the NVIDIA driver and its library are of different versions", "sudo reboot"),
        (999, "NVML says: NVML Error with code 999", None),
    ],
)
def test_why_nothing_is_read_is_said_in_a_sentence(number, says, command, place, monkeypatch):
    FakeNvml().install(monkeypatch).init_error = number

    found = find(place)

    assert found.why.startswith(f"cannot read NVIDIA GPUs: {says}")
    assert "\n" not in found.why
    assert command is None or any(command in remedy.command for remedy in found.remedies)


def test_a_driver_without_a_gpu_is_said(place, monkeypatch):
    FakeNvml().install(monkeypatch)

    found = find(place)

    assert found.why == "cannot read NVIDIA GPUs: the driver finds none"
    assert not found.notable


def test_a_lost_gpu_is_left_out_with_what_to_do(place, monkeypatch):
    good, lost = two(error=GPU_IS_LOST)
    nvml = FakeNvml(good, lost).install(monkeypatch)

    (left_out,) = find(place).left_out
    assert left_out[:3] == (
        "gpu-1", "cannot read it: the GPU is lost: it fell off the bus or is shut down", Omission.UNREADABLE,
    )  # fmt: skip
    assert left_out.remedy.command == "sudo nvidia-smi --gpu-reset"
    nvml.gpus = [lost]
    assert [remedy.command for remedy in find(place).remedies] == ["sudo nvidia-smi --gpu-reset", "sudo reboot"]


def test_a_virtual_gpu_without_figures_is_left_out(place, monkeypatch):
    FakeNvml(*two(energy_mj=None, power_mw=None)).install(monkeypatch)

    assert [name for name, why in reasons(find(place)).items() if "neither energy nor power" in why] == ["gpu-1"]


def test_mig_is_said_to_be_measured_as_a_whole(place, monkeypatch):
    FakeNvml(*two(mig=True)).install(monkeypatch)

    found = find(place)

    assert [domain.name for domain in found.domains] == ["gpu-0", "gpu-1"]
    assert [(name, "gpu-1 is the whole GPU" in why) for name, why in reasons(found).items()] == [
        ("MIG instances of gpu-1", True)
    ]


@pytest.mark.parametrize(
    ("visible", "order", "counted"),
    [
        ("1", None, ["gpu-1"]),
        ("1,0", None, ["gpu-0", "gpu-1"]),
        ("1,7,0", None, ["gpu-1"]),  # CUDA stops at the first that it does not know
        ("", None, []),
        ("-1", None, []),
        ("GPU-bb", None, ["gpu-1"]),
        ("MIG-GPU-bbbb", None, ["gpu-1"]),
        ("MIG-unknown", None, ["gpu-0", "gpu-1"]),
        ("0", "PCI_BUS_ID", ["gpu-0"]),
    ],
)
def test_gpus_that_cuda_hides_are_measured_and_not_counted(visible, order, counted, place, monkeypatch):
    FakeNvml(*two()).install(monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    if order:
        monkeypatch.setenv("CUDA_DEVICE_ORDER", order)

    found = find(place)

    assert [one.name for one in found.domains] == ["gpu-0", "gpu-1"]
    assert [one.name for one in found.domains if one.counted] == counted
    hidden = {name for name, why in reasons(found).items() if "CUDA_VISIBLE_DEVICES" in why}
    assert hidden == {"gpu-0", "gpu-1"} - set(counted)


def test_cudas_own_order_of_unlike_gpus_is_unknown(place, monkeypatch):
    FakeNvml(*two(name="NVIDIA T4")).install(monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")

    assert [one.counted for one in find(place).domains] == [True, True]


def test_auto_takes_the_gpus_with_the_processors_sensor(tmp_path, monkeypatch):
    FakeNvml(*two()).install(monkeypatch)
    tree = fake_trees.machine(tmp_path, fake_trees.INTEL, {0: range(2)})
    tree.zone("intel-rapl:0", "package-0")

    choice = sensors.choose("auto", root=tree.count().root)

    assert [(one.name, one.source, one.counted) for one in choice.domains] == [
        ("package-0", "powercap", True), ("gpu-0", "nvml", True), ("gpu-1", "nvml", True),
    ]  # fmt: skip
    assert "nvml" in choice.sensors


def test_a_machine_with_a_gpu_hears_what_is_missing(place, monkeypatch):
    with_gpu_on_pci(place.root)
    monkeypatch.setitem(sys.modules, "pynvml", None)

    found = find(place)

    assert found.notable
    assert found.why == "the package nvidia-ml-py is not installed (NVIDIA GPU at 0000:01:00.0)"
    assert [remedy.command for remedy in found.remedies] == ['pip install "tprof-energy[nvml]"']
    assert ("nvml", found.why, Omission.UNREADABLE) in [
        one[:3] for one in sensors.choose("auto", root=place.root).left_out
    ]


def test_a_machine_without_a_gpu_is_left_in_peace(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert not find(place).notable
    assert "nvml" not in reasons(sensors.choose("auto", root=place.root))


def test_another_package_of_the_same_name_is_refused(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", type(sys)("pynvml"))

    assert find(place).why == "the installed pynvml is not that of nvidia-ml-py"


def test_one_of_two_gpus_that_is_lost_leaves_the_other(place, monkeypatch):
    nvml = FakeNvml(*two()).install(monkeypatch)
    reader = NvmlReader(nvml, find(place).domains)
    reader.read()

    nvml.gpus[1].error = GPU_IS_LOST
    lost = wait_for(lambda: [one for one in reader.read() if one.domain == "gpu-1"], "a failed read")
    nvml.gpus[1].error = None
    back = wait_for(lambda: [one for one in reader.read() if one.domain == "gpu-1"], "a reading")

    assert [one.value for one in lost] == [None]
    assert [(one.value, one.reopened) for one in back] == [(5000, True)]
    reader.close()
    assert nvml.opened == 0


def test_who_used_a_gpu_is_kept_with_the_readings(tmp_path, monkeypatch):
    nvml = FakeNvml(FakeGpu("GPU-a", users=[(11, 40), (12, 0)], running=[12, 13])).install(monkeypatch)
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))
    path = tmp_path / "t.tprof"

    with tprof.record(path, energy="nvml", counters="none", idle_s=0):
        wait_for((path / "gpu/processes.jsonl").exists, "a first line")
        nvml.gpus[0].users, nvml.gpus[0].running = None, [17]
        wait_for(lambda: "[17,null]" in (path / "gpu/processes.jsonl").read_text(), "a line without utilisation")

    lines = [json.loads(line) for line in (path / "gpu/processes.jsonl").read_text().splitlines()]
    assert lines[0]["processes"] == [[11, 0.4], [12, 0.0], [13, 0.0]]
    assert lines[-1]["processes"] == [[17, None]]
    assert all(line["domain"] == "gpu-0" and line["since_ns"] < line["t_ns"] for line in lines)
    assert len(raw_readings(path, "gpu-0")) > 1


def test_without_utilisation_accounting_tells_who_used_it(monkeypatch):
    """A process that has run for a day is known too coarsely to say what it did in the last second."""
    gpu = FakeGpu("GPU-a", users=None, running=[11, 12], accounted={11: (50, 2.0), 12: (0, 1.0)})
    nvml = FakeNvml(gpu).install(monkeypatch)
    nvml.nvmlInit()
    asked = iter([0.0, 1.0, 2.0, 3.0, 9.0])
    monkeypatch.setattr("tprof.sensors.nvml_users.time.monotonic_ns", lambda: round(next(asked) * 1e9))
    use = ProcessUse(nvml, "gpu-0")

    assert use.ask(gpu) is None
    gpu.accounted = {11: (60, 3.0), 12: (0, 2.0), 13: (40, 0.5)}
    gpu.running = [11, 12, 13]
    second = use.ask(gpu)
    gpu.accounted = {11: (60, -3.5), 12: (0, 3.0), 13: (40, 0.5), 14: (30, 86400.0)}
    gpu.running = [12, 13, 14]
    assert use.ask(gpu) is None
    assert use.ask(gpu) is None
    last = use.ask(gpu)

    assert (second.since_ns, second.t_ns) == (0, 10**9)
    assert dict(second.processes) == pytest.approx({11: 0.8, 12: 0.0, 13: 0.2}, abs=0.01)
    assert (last.since_ns, last.t_ns) == (10**9, 9 * 10**9)
    assert dict(last.processes) == pytest.approx({11: 0.3 / 8, 12: 0.0, 13: 0.0, 14: None}, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({"users": [(1, 50)]}, "utilisation"),
        ({"users": None, "accounted": {}}, "accounting"),
        ({"users": None}, "not known"),
    ],
)
def test_a_profile_says_by_what_others_use_is_known(tmp_path, monkeypatch, changes, how):
    FakeNvml(FakeGpu("GPU-a", **changes)).install(monkeypatch)
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))
    with tprof.record(tmp_path / "t.tprof", energy="nvml", counters="none", idle_s=0) as recording:
        pass

    (domain,) = recording.profile().info["domains"]
    assert domain["processes"] == how
    assert ("the driver tells no process's use" in domain["covers"]) is (how == "not known")


def windows_of(gap_s, took_s, *, jitter_s=0.0, slow=0.0, until_s=6.0):
    """Poll a count by calls of which a part takes 17 ms; returns the windows of its changes, by their ends."""
    draw = random.Random(1)  # noqa: S311 - a simulation
    updates, now_s, before, windows, calls_s = Updates(), 0.0, None, [], 0.0
    due_s = [0.37 * gap_s + number * gap_s + draw.uniform(-jitter_s, jitter_s) for number in range(1000)]
    while now_s < until_s:
        took = 0.017 if draw.random() < slow else took_s * draw.uniform(0.8, 1.4)
        value, end_s = bisect.bisect(due_s, now_s + took * draw.random()), now_s + took
        if before is not None and value != before[0]:
            windows.append((end_s, end_s - before[1]))
        before, calls_s = (value, end_s), calls_s + took * (now_s > 1)
        now_s = max(updates.next_s(end_s, took, float(value)), end_s)
    return updates, windows, calls_s / (until_s - 1)


@pytest.mark.parametrize("gap_s", [0.02, 0.05, 0.1])
def test_polls_gather_around_the_updates(gap_s):
    """The times of updates are learnt at first; each is then seen within some milliseconds, by few calls."""
    updates, windows, share = windows_of(gap_s, 50e-6, jitter_s=0.0005)

    assert updates.gap_s == pytest.approx(gap_s, rel=0.01)
    assert max(length for end_s, length in windows if end_s <= 1) < 0.003
    late = [length for end_s, length in windows if end_s > 1]
    assert len(late) == pytest.approx(5 / gap_s, abs=1)
    assert np.percentile(late, 95) < 0.003
    assert share < 0.01


def test_calls_as_slow_as_an_h200s_still_meet_the_updates():
    """There a call takes 3 ms, now and then 17, and the count is updated each 100 ms, give or take 1 ms."""
    updates, windows, share = windows_of(0.1, 0.003, jitter_s=0.0007, slow=0.02)

    assert updates.gap_s == pytest.approx(0.1, rel=0.01)
    assert np.median([length for end_s, length in windows if end_s <= 1]) < 0.01
    assert np.median([length for end_s, length in windows if end_s > 1]) < 0.01
    assert share < 0.12


def test_updates_that_come_at_other_times_are_found_again():
    """As after a suspend: what had been learnt of their times holds no more, but the time between them does."""
    updates, now_s, changes = Updates(), 0.0, []
    while now_s < 8.0:
        value = int(now_s / 0.1) if now_s < 4 else 1000 + int((now_s - 4.06) / 0.1)
        now_s += 50e-6
        due_s = updates.next_s(now_s, 50e-6, float(value))
        changes += [(now_s, due_s)] if updates.changed else []
        now_s = due_s

    late = [end_s for end_s, _ in changes if end_s > 5]
    assert np.abs((np.array(late) - 4.06) % 0.1).max() < 0.003


def test_what_never_updates_is_polled_seldom():
    updates, now_s, polls = Updates(), 0.0, 0
    while now_s < 20.0:
        now_s = updates.next_s(now_s + 0.003, 0.003, 1.0)
        polls += 1

    assert polls * 0.003 < 0.11 * 20


def test_who_used_it_is_asked_right_after_an_update(place, monkeypatch):
    """The answer may take as long as the count's window is."""
    nvml = FakeNvml(FakeGpu("GPU-a", users=[(11, 40)])).install(monkeypatch)
    reader = NvmlReader(nvml, find(place).domains)
    asked, ask = [], nvml.nvmlDeviceGetProcessUtilization
    nvml.nvmlDeviceGetProcessUtilization = lambda *given: asked.append(nvml.gpus[0].energy_mj) or ask(*given)
    reader.read()
    first = len(asked)

    nvml.gpus[0].energy_mj += 1
    wait_for(lambda: reader.read() and len(asked) > first, "a question")

    assert asked[first] == 5001


def test_nvidias_own_package_gives_the_same_errors():
    real = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

    for number, words in WORDS.items():
        error = real.NVMLError(number)
        assert (error.value, str(error)) == (number, words)
    assert real.NVML_FI_DEV_POWER_INSTANT == 186
    for name in vars(FakeNvml):
        assert not name.startswith("nvml") or hasattr(real, name)


def test_nvidias_own_package_without_a_driver_says_so(place):
    real = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    try:
        real.nvmlInit()
    except real.NVMLError:
        pass
    else:
        real.nvmlShutdown()
        pytest.skip("this machine has an NVIDIA driver")

    found = find(place)

    assert found.why.startswith("cannot read NVIDIA GPUs: the NVIDIA driver")
    assert not found.notable
