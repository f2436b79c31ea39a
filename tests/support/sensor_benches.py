"""The bench of each sensor, for tests/sensors/test_conformance.py."""

import os
from importlib import import_module

from .added_sensor import CounterBench, MeterBench
from .fake_amd_smi import AmdSmiBench
from .fake_nvml import NvmlCountBench, NvmlPowerBench
from .fake_redfish import RedfishBench
from .meter_bench import MeterBench as SerialBench
from .powercap_bench import PowercapBench
from .sensor_conformance import BENCH, Bench
from .sysfs_benches import AmdGpuBench, BatteryBench, BoardBench, GraceBench, IntelGpuBench, IpmiBench

BENCHES: dict[str, type[Bench]] = {
    "powercap": PowercapBench,
    "nvml": NvmlCountBench,
    "nvml_power": NvmlPowerBench,
    "meter": SerialBench,
    "hwmon_processor": GraceBench,
    "amd_smi": AmdSmiBench,
    "amd_gpu": AmdGpuBench,
    "intel_gpu": IntelGpuBench,
    "hwmon": BoardBench,
    "battery": BatteryBench,
    "ipmi": IpmiBench,
    "redfish": RedfishBench,
    "added_counter": CounterBench,
    "added_meter": MeterBench,
}
if BENCH in os.environ:
    _module, _, _name = os.environ[BENCH].partition(":")
    _given = getattr(import_module(_module), _name)
    BENCHES[_given.energy] = _given
WITHOUT = {
    "perf": "its events are the running kernel's: tests/sensors/test_power_pmu.py and tests/lab try it",
    "pyrapl": "its package reads /sys itself: tests/sensors/test_pyrapl.py mounts another one there",
}
"""Sensors that cannot be faked, and what tries them instead."""
