"""The example of docs/sensors.md is a sensor."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import tprof as run_tprof

from tprof.sensors.registry import names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "sensors.md").read_text(encoding="utf-8")


@pytest.fixture
def package(tmp_path):
    """Make the page's package, as if it were installed."""
    place = tmp_path / "site"
    (place / "my_package").mkdir(parents=True)
    files = dict(re.findall(r"`my_package/(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
    for name, code in ({"__init__.py": ""} | files).items():
        (place / "my_package" / name).write_text(code, encoding="utf-8")
    (entry,) = re.findall(r'^fan = "(.*)"$', PAGE, re.MULTILINE)
    metadata = place / "my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[tprof.sensors]\nfan = {entry}\n")
    return place


def test_the_examples_sensor_is_listed_with_its_watts(package, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(package)
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))
    missing = run_tprof("sensors", "fan", cwd=tmp_path)
    file = tmp_path / "sys/class/hwmon/hwmon9/power1_input"
    file.parent.mkdir(parents=True)
    file.write_text("2500000\n")
    shown = json.loads(run_tprof("sensors", "fan", "--json", cwd=tmp_path).stdout)

    assert f"is not available: cannot read {file}: no such file or directory" in missing.stdout
    assert [(one["name"], one["power_w"]) for one in shown["domains"]] == [("fan", 2.5)]


@pytest.mark.thorough
def test_the_examples_sensor_conforms_by_the_examples_bench(package):
    (command,) = re.findall(r"^\$ python (-m pytest .*)$", PAGE, re.MULTILINE)

    words = [sys.executable, *command.split(), "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run(words, env=environment, cwd=ROOT, text=True, capture_output=True, timeout=250, check=False)

    assert done.returncode == 0, done.stdout
    assert re.search(r"[89] passed", done.stdout, re.MULTILINE), done.stdout


def test_the_page_lists_every_sensor_of_tprof():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)

    assert set(names()) - {"auto", "none"} <= set(listed)
