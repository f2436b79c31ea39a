"""The wheel holds what runs, and no sources of the core, tests or leftovers."""

from importlib.metadata import files


def test_the_wheel_holds_the_rooms_and_nothing_stray():
    names = [str(name) for name in files("tprof") or [] if "__pycache__" not in str(name)]
    packaged = [name for name in names if name.startswith("tprof/")]

    assert "tprof/analysis/__init__.py" in packaged
    assert "tprof/py.typed" in packaged
    assert "tprof/sensors/watts.csv" in packaged
    assert any(name.startswith("tprof/_core") and name.endswith(".so") for name in packaged)
    assert not [name for name in packaged if name.endswith((".c", ".h")) or "csrc" in name or "tests" in name]
