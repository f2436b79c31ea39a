"""Mutants change what a module does in one place, and the tests of a mutant meet it."""

import ast
import subprocess
import sys
import tomllib
from itertools import islice
from pathlib import Path

import changed
import pytest
from mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
PATHS = ("analysis/attribution/sharing.py", "analysis/models/fitted/powers.py", "tprof/trace/packed.py")
SOURCE = '''"""A module."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from x import Y

LEAST = 5


@decorated(keep=True)
def one(a: "int | None" = None, *, b: float = 0.5) -> "Y":
    """Return 5 < 6."""
    if a is None and not b:
        raise ValueError(f"{b + 1}", 3 * 4)
    a[1:] += 2
    a.append(max(b, 7))
    return sum(a) if a[0] < b else cast("float", 9.0)
'''


def mutants(source, seed=0, path="m.py", most=40):
    return list(islice(mutants_of({path: source}, seed=seed), most))


def test_every_kind_of_fault_is_made_once_at_a_place():
    found = {one.changed("+") for seed in range(40) for one in mutants(SOURCE, seed)}

    assert {"LEAST = 6", "LEAST = 4", "if (a is None or not b):", "if (a is not None) and not b:"} <= found
    assert {"if a is None and b:", "pass", "a[1:] -= 2", "a[2:] += 2", "a[1:] += 3", "a[1:] += 1"} <= found
    assert {
        "a.append(min(b, 7))",
        "a.extend(max(b, 7))",
        'return sum(a) if (a[0] <= b) else cast("float", 9.0)',
    } <= found
    assert {"return sum(a)", 'return max(a) if a[0] < b else cast("float", 9.0)'} <= found


def test_texts_types_decorators_and_what_an_error_says_stay():
    for seed in range(20):
        for mutant in mutants(SOURCE, seed):
            for same in ('"int | None"', '"Y"', "keep=True", "5 < 6", "TYPE_CHECKING:"):
                assert same in mutant.source
            assert "{b + 1}" in mutant.source or "raise" not in mutant.source
            assert "3 * 4" in mutant.source or "raise" not in mutant.source


@pytest.mark.parametrize("path", PATHS)
def test_a_mutant_of_a_real_module_is_another_program_changed_in_its_lines(path):
    source = (ROOT / path).read_text("utf-8")

    found = mutants(source, 3, path, 10)

    assert len({mutant.source for mutant in found}) == 10
    for mutant in found:
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(source))
        before, after = source.splitlines(), mutant.source.splitlines()
        first = next(at for at, (one, other) in enumerate(zip(before, after, strict=False), 1) if one != other)
        assert mutant.lines[0] <= first <= mutant.lines[1]
    assert found == mutants(source, 3, path, 10)


def test_a_seed_draws_others_and_a_change_elsewhere_the_same():
    sources = {path: (ROOT / path).read_text("utf-8") for path in PATHS}
    one, other = (next(mutants_of(sources, seed=seed)) for seed in (1, 2))
    changed = {path: source if path == one.path else f"{source}ADDED = 1\n" for path, source in sources.items()}

    again = next(mutant for mutant in mutants_of(changed, seed=1) if mutant.path == one.path)

    assert one.identity != other.identity
    assert again == one


FUNCTIONS = """
from functools import cache

FACTOR = 2
DOUBLED = [one * 2 for one in (1, 2)]

class Numbers:
    least = 3

    def twice(self, number):
        return number * 2

    @property
    def half(self):
        return (lambda: self.least / 2)()

@cache
def kept(number, more=1):
    return number + more
"""


@pytest.mark.parametrize(
    ("was", "now", "is_in_functions"),
    [
        ("return number * 2", "return number * 3", True),
        ("self.least / 2", "self.least * 2", True),
        ("number + more", "number - more", True),
        ("FACTOR = 2", "FACTOR = 3", False),
        ("one * 2", "one / 2", False),
        ("least = 3", "least = 4", False),
        ("more=1", "more=2", False),
    ],
)
def test_a_fault_in_a_function_is_put_into_it_and_others_are_left_to_a_new_process(
    tmp_path, monkeypatch, was, now, is_in_functions
):
    (tmp_path / "numbers_of_a_test.py").write_text(FUNCTIONS, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(changed, "module_of", lambda path: path)
    path = "numbers_of_a_test"
    loaded = changed.LoadedFunctions([path])
    numbers = sys.modules.pop(path)
    before = (numbers.Numbers().twice(4), numbers.Numbers().half, numbers.kept(5))

    for function, code in loaded.changes(Mutant(path, (1, 1), FUNCTIONS, FUNCTIONS.replace(was, now), "")):
        function.__code__ = code

    numbers.kept.cache_clear()
    after = (numbers.Numbers().twice(4), numbers.Numbers().half, numbers.kept(5))
    assert sum(one != other for one, other in zip(before, after, strict=True)) == is_in_functions


def test_mutants_that_are_left_out_are_of_lines_that_exist_and_have_a_reason():
    for one in tomllib.loads((ROOT / "tests/mutation/equivalent.toml").read_text("utf-8"))["mutant"]:
        lines = [line.strip() for line in (ROOT / one["file"]).read_text("utf-8").splitlines()]
        assert all(line in lines for line in one["was"].splitlines()), one
        assert len(one["why"]) > 20, one


FORKED = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import forked, changed, collected, pytest
forked.load()
plugins = [changed.Replaced("analysis/names.py", {source!r})]
body = lambda scratch: int(pytest.main([*forked.OPTIONS, {tests!r}], plugins))
forked.run_all([forked.Work("x", body, 300)], 1, Path({log!r}), lambda _, status: print(status))
"""
FAULTY = """
def twice(number):
    return number * 2

def unused(number):
    return number + 1
"""
LOOKS = """
from tprof.analysis import names

def test_twice():
    assert names.twice(3) == 6
"""


@pytest.mark.parametrize(("fault", "status"), [("* 2", 0), ("/ 2", 1)])
def test_a_forked_run_meets_the_other_source(tmp_path, fault, status):
    """Of a module of tprof, for which pytest has a loader of its own."""
    (tmp_path / "test_looks.py").write_text(LOOKS, "utf-8")
    script = FORKED.format(
        folder=str(ROOT / "tests/mutation"),
        source=FAULTY.replace("* 2", fault),
        tests=str(tmp_path / "test_looks.py"),
        log=str(tmp_path),
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, f"{status}\n"), (tmp_path / "run-0.log").read_text("utf-8")
