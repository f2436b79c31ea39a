"""The example of docs/sensors.md is a sensor."""

import re
from pathlib import Path

import pytest

from tprof.sensors import Found, Machine, Reading, Unavailable
from tprof.sensors.registry import names

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sensors.md").read_text(encoding="utf-8")


@pytest.fixture
def fan():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    namespace = {}
    exec(code, namespace)  # noqa: S102 - the page is ours
    return namespace["Fan"]()


def test_the_example_finds_and_reads_its_sensor(fan, tmp_path):
    missing = fan.find(Machine(tmp_path))
    file = tmp_path / "sys/class/hwmon/hwmon9/power1_input"
    file.parent.mkdir(parents=True)
    file.write_text("2500000\n")
    found = fan.find(Machine(tmp_path))

    assert isinstance(missing, Unavailable)
    assert missing.why.endswith("power1_input does not exist: the board has no such sensor")
    assert isinstance(found, Found)
    reader = fan.open(Machine(tmp_path), found.domains)
    assert reader.read() == [Reading("fan", 2.5)]
    assert reader.read() == [Reading("fan", 2.5)]
    reader.close()


def test_the_page_lists_every_sensor_of_tprof():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)

    assert set(names()) - {"auto", "none"} <= set(listed)
