"""Puts faults into modules, one at a time, and counts those that a test notices.

    python tests/mutation/mutate.py [--sample N] [--seed S] [--most-s S] [--jobs J] [--again] [AREA | FILE]...

An area is one of areas.toml, by default all; a file is one of their modules. What no test noticed is written to
.mutation/AREA.diff. Mutants of equivalent.toml are left out. With --again only those are tried that no test noticed
the last time, for example with more seconds of tests or with new tests; the figures are of all.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import pickle
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from changed import LoadedFunctions, Replaced
from collected import Begun, Collected, begun_in, collect
from covering import Covering, find_covering
from forked import BROKEN, OPTIONS, ROOT, Run, Work, load, run_all
from mutants import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

OUTCOMES = KILLED, TIMEOUT, SURVIVED, UNREACHED = "killed", "timeout", "survived", "not reached"
WALL_S = 900.0
AFTER_S = (2, 5, 10, 20, 40, 80, 160)
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Result:
    """What became of a mutant.

    Attributes
    ----------
    mutant, outcome : which, and one of `OUTCOMES`
    tests : that ran, the last of which noticed it, if any did
    spent_s : what these take without a mutant
    """

    mutant: Mutant
    outcome: str
    tests: list[str]
    spent_s: float

    @property
    def is_noticed(self) -> bool:
        """Whether a test failed or did not end."""
        return self.outcome in {KILLED, TIMEOUT}


@dataclass(frozen=True)
class Area:
    """A name, the files to mutate, and the files of the tests that look at them."""

    name: str
    files: list[str]
    tests: list[str]


class Search:
    """Tries mutants of an area, and keeps what became of them."""

    def __init__(self, covering: Covering, options: argparse.Namespace, place: Path) -> None:
        """Begin with what is kept of those that were noticed earlier, if only the others are to be tried again."""
        self.results: list[Result] = []
        self.is_interrupted = False
        self._covering, self._options, self._place = covering, options, place
        earlier = pickle.loads(place.read_bytes()) if options.again else []  # noqa: S301 - our own
        self._noticed = {one.mutant.identity: one for one in earlier if one.is_noticed}
        self._killers: dict[str, Counter[str]] = defaultdict(Counter)
        self._began_s = time.monotonic()

    def run(self, mutants: Iterable[Mutant], body: Callable[[Mutant, list[str], Path], int], *, at_load: bool) -> None:
        """Try mutants; `body` runs tests on one, in a process and a folder of their own."""

        def works() -> Iterator[Work]:
            for mutant in mutants:
                killers = [test for test, _ in self._killers[mutant.path].most_common(3)]
                lines = None if at_load else mutant.lines
                tests = self._covering.tests(mutant.path, lines, self._options.most_s, killers)
                if earlier := self._noticed.get(mutant.identity):
                    self._keep(replace(earlier, mutant=mutant))
                elif tests:
                    yield Work(mutant, lambda scratch, one=mutant, tests=tests: body(one, tests, scratch), WALL_S)
                else:
                    self._keep(Result(mutant, UNREACHED, [], 0.0))

        if self.is_interrupted:
            return
        try:
            run_all(works(), self._options.jobs, self._options.kept, self._done)
        except KeyboardInterrupt:
            self.is_interrupted = True

    def _done(self, run: Run, status: int) -> None:
        mutant = run.work.name
        assert isinstance(mutant, Mutant)
        tests = begun_in(run.scratch)
        if status == 0:
            outcome = SURVIVED
        elif status < 0:
            outcome = TIMEOUT
        elif status == BROKEN or not tests:
            raise SystemExit(f"the tests could not run: {run.log} has why")
        else:
            outcome = KILLED
            self._killers[mutant.path][tests[-1]] += 1
        self._keep(Result(mutant, outcome, tests, sum(self._covering.seconds[test] for test in tests)))

    def _keep(self, result: Result) -> None:
        self.results.append(result)
        if len(self.results) % 10 == 0:
            counts = Counter(one.outcome for one in self.results).most_common()
            said = ", ".join(f"{number} {outcome}" for outcome, number in counts)
            print(f"{len(self.results)} in {time.monotonic() - self._began_s:.0f} s: {said}", flush=True)
        self._place.with_suffix(".new").write_bytes(pickle.dumps(self.results))


def main() -> None:
    """Search; the exit status says nothing of survivors, among which are some that no test could notice."""
    options = _options()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what it starts in the background
    os.chdir(ROOT)
    areas = _areas(options)
    load()
    options.kept.mkdir(exist_ok=True)
    for area in areas:
        place = options.kept / f"{area.name}.results"
        search = _search(area, options, place)
        place.with_suffix(".new").replace(place)
        _report(area.name, search.results, options)
        if search.is_interrupted:
            break


def _search(area: Area, options: argparse.Namespace, place: Path) -> Search:
    """Mutate the files of an area, those faults that are in functions in a process that has collected the tests."""
    print(f"== {area.name}: {len(area.files)} modules", flush=True)
    with tempfile.TemporaryDirectory(prefix="tprof-mutate-") as scratch:
        found = Path(scratch) / "found"

        def work(collected: Collected) -> None:
            found.write_bytes(pickle.dumps(_search_functions(area, options, collected, place)))

        child = os.fork()
        if child == 0:
            try:
                collect(area.tests, Path(scratch), work)
            finally:
                sys.stdout.flush()
                os._exit(0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child ends early, and says what it has
        os.waitpid(child, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        search, at_load = pickle.loads(found.read_bytes())  # noqa: S301 - our own
    search.run(at_load, _run_loading, at_load=True)
    return search


def _search_functions(
    area: Area, options: argparse.Namespace, collected: Collected, place: Path
) -> tuple[Search, list[Mutant]]:
    """Try the mutants that change functions; return the search, and the other mutants."""
    covering = find_covering(collected, options.kept / "covering", options.jobs)
    for test in covering.failed:
        print(f"fails without a mutant, and is left out: {test}")
    loaded, left_out = LoadedFunctions(area.files), _equivalent()
    drawn = mutants_of({file: (ROOT / file).read_text("utf-8") for file in area.files}, seed=options.seed)
    mutants = itertools.islice((one for one in drawn if _key(one) not in left_out), options.sample)
    changes = {mutant: loaded.changes(mutant) for mutant in mutants}
    search = Search(covering, options, place)

    def body(mutant: Mutant, tests: list[str], scratch: Path) -> int:
        for function, code in changes[mutant]:
            function.__code__ = code
        return collected.run(tests, scratch, Begun(scratch, covering.seconds))

    search.run([one for one, found in changes.items() if found], body, at_load=False)
    return search, [one for one, found in changes.items() if not found]


def _run_loading(mutant: Mutant, tests: list[str], scratch: Path) -> int:
    plugins = [Replaced(mutant.path, mutant.source), Begun(scratch, {})]
    return int(pytest.main([*OPTIONS, "-x", f"--basetemp={scratch}/t", *tests], plugins))


def _key(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.path, mutant.changed("-"), mutant.changed("+")


def _equivalent() -> set[tuple[str, str, str]]:
    """Return the mutants that change nothing a test could notice, as somebody saw who looked at them."""
    found = tomllib.loads(EQUIVALENT.read_text("utf-8"))["mutant"]
    return {(one["file"], one["was"], one["is"]) for one in found}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__.splitlines()[0])
    parser.add_argument("chosen", nargs="*", metavar="AREA|FILE", help="what to mutate (all areas)")
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="mutants of an area (100)")
    parser.add_argument("--seed", type=int, default=0, help="another one draws other mutants (0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at once (one for each processor)"
    )
    parser.add_argument("--most-s", type=float, default=10.0, metavar="S", help="of tests for a mutant (10)")
    parser.add_argument("--again", action="store_true", help="try only those that no test noticed the last time")
    parser.add_argument("--areas", type=Path, default=Path(__file__).with_name("areas.toml"), help="others than ours")
    parser.add_argument("--kept", type=Path, default=ROOT / ".mutation", help="where results go (.mutation)")
    return parser.parse_args()


def _areas(options: argparse.Namespace) -> list[Area]:
    """Return the chosen areas, with the chosen files only. Exits with a sentence if something is neither."""
    chosen, known = set(options.chosen), set[str]()
    found = []
    for name, area in tomllib.loads(options.areas.read_text("utf-8")).items():
        files = sorted(
            str(one.relative_to(ROOT))
            for place in area["modules"]
            for one in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
        )
        if chosen and name not in chosen:
            files = [file for file in files if file in chosen]
        known |= {name, *files}
        if files:
            found.append(Area(name, files, list(_test_files(area["tests"]))))
    if unknown := chosen - known:
        sys.exit(f"{unknown.pop()} is no area of {options.areas.name} and no file of one")
    return found


def _test_files(tests: list[str]) -> Iterator[str]:
    for test in tests:
        found = ROOT.glob(test) if "*" in test else (ROOT / test).rglob("test_*.py")
        for file in sorted(found) if not test.endswith(".py") or "*" in test else [ROOT / test]:
            yield str(file.relative_to(ROOT))


def _report(name: str, results: list[Result], options: argparse.Namespace) -> None:
    names = " ".join(f"{one:>11}" for one in ("mutants", *OUTCOMES))
    print(f"\n{name} (seed {options.seed}, at most {options.most_s:g} s of tests)\n{'module':42} {names}")
    by_path: dict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        by_path[one.mutant.path][one.outcome] += 1
    for path, counts in sorted(by_path.items()):
        print(_row(path, counts))
    print(_row("all", sum(by_path.values(), Counter())))
    noticed_s = [one.spent_s for one in results if one.is_noticed]
    if results:
        low, high = _interval(len(noticed_s), len(results))
        print(f"noticed: {len(noticed_s) / len(results):.1%}, of all faults {low:.0%} to {high:.0%} (95 %)")
        after = ((end_s, sum(one_s <= end_s for one_s in noticed_s)) for end_s in AFTER_S)
        print("after seconds of tests:", ", ".join(f"{end_s}: {number / len(results):.0%}" for end_s, number in after))
    survivors = [one for one in results if not one.is_noticed]
    text = "\n".join(f"# {one.outcome}, {len(one.tests)} tests\n{one.mutant.diff}\n" for one in survivors)
    (options.kept / f"{name}.diff").write_text(text, "utf-8")
    print(f"{len(survivors)} that no test noticed: {options.kept / f'{name}.diff'}", flush=True)


def _interval(noticed: int, count: int) -> tuple[float, float]:
    """Return Wilson's interval for a share."""
    z2 = 1.96**2
    middle = (noticed + z2 / 2) / (count + z2)
    half = math.sqrt(z2 * (noticed * (count - noticed) / count + z2 / 4)) / (count + z2)
    return middle - half, middle + half


def _row(name: str, counts: Counter[str]) -> str:
    return f"{name:42} " + " ".join(f"{number:11}" for number in (counts.total(), *(counts[one] for one in OUTCOMES)))


if __name__ == "__main__":
    main()
