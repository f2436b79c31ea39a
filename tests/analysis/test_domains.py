"""Domains that nest: which are in the total, and what a task took of each."""

import pytest
from support.traces import set_json

import tprof
from tprof.sensors.contract import Domain, Quality
from tprof.sensors.nesting import includes, scopes_around, total

MS = 1_000_000


def profiled(path, quality="given", **joules):
    """Return the profile of a task that runs half of the time, with one quantum a domain."""
    threads = [{"t_ns": [0, 50 * MS, 100 * MS], "instance": [1, 0, 0], "task": [0, -1, -1]}]
    energy = {name.replace("_", "-"): ([0, 50 * MS, 100 * MS], [0.0, one, 2 * one]) for name, one in joules.items()}
    tprof.write_trace(path, tasks=["work"], threads=threads, energy=energy, quality=quality)
    return tprof.load(path).profile()


def domain(name, package=None, **changes):
    return Domain(name, name.partition("-")[0], package, "test", Quality.MEASURED, **changes)


@pytest.mark.parametrize(
    ("names", "counted"),
    [
        (["package-0", "dram-0", "core-0", "psys"], {"package-0", "dram-0"}),
        (["psys", "gpu-0", "wall"], {"psys", "gpu-0"}),
        (["wall", "gpu-0", "dram"], {"wall"}),
        (["machine", "wall", "gpu-0"], {"machine"}),
        (["gpu-0", "gpu-1", "dram"], {"gpu-0", "gpu-1", "dram"}),
        (["dram", "dram-0", "dram-1", "package-0"], {"dram", "package-0"}),
        (["core-0"], {"core-0"}),
        (["nic-0", "package-0", "machine"], {"nic-0", "package-0"}),
    ],
)
def test_nothing_is_in_the_total_twice(names, counted):
    kept, reasons = total([domain(name) for name in names])

    assert {one.name for one in kept if one.counted} == counted
    assert {name for name, _ in reasons} == set(names) - counted


def test_a_domain_may_say_what_includes_it():
    """An integrated GPU is in its package; the accelerator beside it is not."""
    inside, beside = domain("gpu-0", within="package"), domain("gpu-1")
    kept, reasons = total([inside, domain("package-0", 0), beside])

    assert [one.counted for one in kept] == [False, True, True]
    assert reasons == (("gpu-0", "it is a part of package-0"),)
    assert scopes_around(inside) == ("package", "psys", "machine", "wall")


def test_a_part_of_a_package_is_not_counted_beside_another_package():
    assert includes(domain("package-0", 0), domain("core-1", 1))


def test_what_is_not_to_be_counted_is_not():
    kept, reasons = total([domain("package-0", counted=False), domain("psys")])

    assert [one.counted for one in kept] == [False, True]
    assert reasons == ()


def test_a_task_has_its_joules_of_each_domain_and_energy_of_those_in_the_total(tmp_path):
    profile = profiled(tmp_path / "t.tprof", package_0=4.0, dram_0=1.0, psys=7.0, core_0=2.0)

    table = profile.energy_by_domain.loc["work"]

    assert dict(table) == pytest.approx({"core-0": 2.0, "dram-0": 1.0, "package-0": 4.0, "psys": 7.0})
    counted = [one["name"] for one in profile.info["domains"] if one["counted"]]
    assert counted == ["dram-0", "package-0"]
    assert profile.summary().loc["work", "energy_j"] == pytest.approx(table[counted].sum())
    assert profile.accounts["tasks_j"].to_dict() == pytest.approx(dict(table))


def test_a_meter_of_the_whole_machine_alone_is_the_total(tmp_path):
    profile = profiled(tmp_path / "t.tprof", wall=10.0)

    assert profile.measured_j == pytest.approx(20.0)


def test_an_estimate_beside_a_measured_domain_is_wide_only_for_its_own_part(tmp_path):
    profiled(tmp_path / "t.tprof", "estimated", package_0=4.0, gpu_0=96.0)
    estimate = {"idle_w": 1.0, "per_core_w": 2.0, "given": False, "idle_factor": 5.0, "per_core_factor": 3.0}
    set_json(tmp_path / "t.tprof" / "manifest.json", estimate=estimate)
    path = tmp_path / "t.tprof" / "readings" / "gpu-0.readings"
    path.write_bytes(path.read_bytes().replace(b'"estimated"', b'"measured" '))

    profile = tprof.load(tmp_path / "t.tprof").profile()

    assert profile.info["quality"] == "estimated"
    assert profile.watts.busy == pytest.approx(0.96 * 1 + 0.04 * 3)
    assert profile.info["estimate"]["energy_high_j"] == pytest.approx(2 * (4 * 3 + 96))


def test_power_over_time_has_the_steps_of_the_finest_sensor(tmp_path):
    """A board's sensor updates ten times a second; the package's shows what happens between."""
    t_ns = list(range(0, 110 * MS, 10 * MS))
    threads = [{"t_ns": [0, 50 * MS, 100 * MS], "instance": [1, 0, 0], "task": [0, -1, -1]}]
    energy = {"gpu-0": ([0, 100 * MS], [0.0, 5.0]), "package-0": (t_ns, [0.1 * place for place in range(11)])}
    tprof.write_trace(tmp_path / "t.tprof", tasks=["work"], threads=threads, energy=energy, quality="measured")

    profile = tprof.load(tmp_path / "t.tprof").profile()

    assert len(profile.power) == 10
    assert profile.power["package-0_w"].to_numpy() == pytest.approx(10.0)
    assert profile.power["gpu-0_w"].to_numpy() == pytest.approx(50.0)
    assert set(profile.expected_errors.columns) == {"length_low_s", "length_high_s", "instances", "error"}
