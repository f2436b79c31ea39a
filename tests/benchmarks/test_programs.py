"""The programs compute what they say, as the tasks they say, and their checks notice a wrong result."""

import importlib.util
import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support import recorded
from tprof.benchmarks import PROGRAMS
from tprof.benchmarks.programs import blackscholes, ferret, stdlib_digest
from tprof.benchmarks.programs.outcome import WrongResultError

import tprof
from tprof.errors import UsageError


@pytest.fixture(autouse=True)
def _little_input(monkeypatch):
    """Make a table of so few images only that the queries still stand apart, and read few files: these take longest."""
    monkeypatch.setitem(ferret.IMAGES, "small", 200)
    monkeypatch.setitem(ferret.QUERIES, "small", 8)
    monkeypatch.setitem(stdlib_digest.STRIDES, "small", 128)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_recorded_run_of_three_workers_has_the_catalogues_instances_and_the_result_of_one(name, tmp_path):
    program, results = PROGRAMS[name], []

    trace = recorded.record(tmp_path / "program.tprof", lambda: results.append(program.run("small", 3)))
    alone = program.run("small", 1)

    assert recorded.instances(trace) == program.instances("small")
    assert set(program.tasks) == set(program.instances("small"))
    assert set(program.inputs) == {"small", "paper"}
    (three,) = results
    assert (alone.checks, alone.facts) == (three.checks, three.facts)
    assert three.workers == 3


def test_the_paper_size_of_black_scholes_has_363_instances_and_prices_every_option():
    bounds = blackscholes.task_bounds(16_000_000)

    assert PROGRAMS["blackscholes"].instances("paper") == {"blackscholes": 363}
    assert (bounds[0], bounds[-1]) == (0, 16_000_000)
    assert {end - begin for begin, end in pairwise(bounds)} == {44_000, 72_000}


@pytest.mark.parametrize("options", [1, 43_999, 44_000, 44_001, 88_000])
def test_tasks_cover_all_options_once(options):
    bounds = blackscholes.task_bounds(options)

    assert (bounds[0], bounds[-1]) == (0, options)
    assert all(begin < end for begin, end in pairwise(bounds))


def test_scalar_price_agrees_with_a_published_example():
    """Hull, Options, Futures, and Other Derivatives, example 15.6: call 4.76, put 0.81."""
    terms = {"rate": 0.1, "volatility": 0.2, "time_a": 0.5}

    assert round(blackscholes.scalar_price(42, 40, sign=1, **terms), 2) == 4.76
    assert round(blackscholes.scalar_price(42, 40, sign=-1, **terms), 2) == 0.81


def test_black_scholes_notices_a_wrong_price():
    options = blackscholes.make_options(100)
    prices = np.empty(100, np.float32)
    blackscholes.price_all(options, prices)
    prices[7] += 1

    with pytest.raises(WrongResultError, match="priced option 7 at"):
        blackscholes.check(options, prices)


def test_black_scholes_notices_a_task_that_was_lost():
    options = blackscholes.make_options(100)

    with pytest.raises(WrongResultError, match="left 100 of 100 options without a price"):
        blackscholes.check(options, np.full(100, math.nan, np.float32))


def test_the_digest_of_digests_does_not_depend_on_the_order(tmp_path):
    digests = [(tmp_path / name, name * 2) for name in "cab"]

    assert stdlib_digest.digest_of_digests(digests) == stdlib_digest.digest_of_digests(reversed(digests))


def test_stdlib_digest_names_the_file_that_came_back_wrong(tmp_path):
    paths = [tmp_path / "one.py", tmp_path / "two.py"]
    for path in paths:
        path.write_text(f"name = {path.name!r}\n", encoding="utf-8")
    results = stdlib_digest.process_all(paths, 1)
    paths[1].write_text("name = None\n", encoding="utf-8")

    with pytest.raises(WrongResultError, match=r"two\.py wrong"):
        stdlib_digest.check(paths, results)


def test_a_file_that_is_no_python_is_counted_not_refused(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("def (:\n", encoding="utf-8")

    (result,) = stdlib_digest.process_all([path], 1)

    assert result.code_objects is None
    assert result.source_bytes == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "huge"}, "the size of a program must be small or paper, got 'huge'"),
        ({"workers": 0}, "a program needs at least 1 worker, got 0"),
    ],
)
def test_a_size_or_number_of_workers_out_of_range_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        PROGRAMS["blackscholes"].run(**options)


@pytest.mark.parametrize(
    "name",
    # The whole table of ferret's images, which it makes when it runs so, takes longer than all others.
    [pytest.param(name, marks=[pytest.mark.thorough] if name == "ferret" else []) for name in sorted(PROGRAMS)],
)
def test_a_program_runs_as_a_script_and_says_what_it_checked(name, tmp_path, monkeypatch, capsys):
    """In this process: pytest loads packages that bring a plugin in its own way, of which runpy gets no code."""
    module = PROGRAMS[name].module
    spec = importlib.util.find_spec(module)
    script = ModuleType("__main__")
    script.__package__, script.__file__ = spec.parent, spec.origin
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", script)
    monkeypatch.setattr(sys, "argv", [module, "--size", "small", "--workers", "2"])

    exec(compile(Path(spec.origin).read_bytes(), spec.origin, "exec"), vars(script))  # noqa: S102 - as Python does

    done = capsys.readouterr()
    assert done.out.startswith(f"{name} (small, 2 workers): ")
    assert "checked: " in done.out
    assert done.err == ""


def test_a_script_refuses_to_run_without_workers(tmp_path):
    command = [sys.executable, "-m", PROGRAMS["blackscholes"].module, "--workers", "0"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)

    assert done.returncode == 2
    assert done.stderr == "blackscholes.py: a program needs at least 1 worker, got 0\n"


def test_naming_the_programs_loads_none_of_them(tmp_path):
    code = "import sys, tprof.benchmarks; print([m for m in ('numpy', 'scipy') if m in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=True,
    )

    assert done.stdout.strip() == "[]"


def test_a_program_is_one_task_deep(tmp_path):
    """No instance of a program is nested in another, so that exclusive and inclusive figures agree."""
    with tprof.record(tmp_path / "deep.tprof", energy="estimate", counters="none") as recording:
        PROGRAMS["blackscholes"].run("small", 2)

    tasks = recording.profile().tasks

    assert tasks["parent"].isna().all() or (tasks["parent"] == 0).all()
