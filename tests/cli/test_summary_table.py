"""`tprof summary` in a terminal of any width tells tasks apart, and shows what is asked for most."""

import io
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support import traces
from support.command_line import tprof
from support.findings import BESIDE, OTHER, fitted_profile
from support.properties import examples

import tprof as package
from tprof.cli.render import BETWEEN, Column, fitting, lines_of, quantity, shortened, three_digits
from tprof.cli.summary import COLUMNS, PAGE_WIDTH, show

DEFAULT = ["task", "instances", "energy", "share", "mean (95 %)", "time", "power"]
FURTHER = ["dynamic (95 %)", "power (95 %)", "own time", "± sd", "EDP", "corr(E, t)"]
MODULES = "concurrent.futures.thread.ThreadPoolExecutor.submit.<locals>."
BOXES = "│┃─━┏┓└┘┌┐"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(profile, width, monkeypatch, **options):
    """Return the lines that a terminal of this width gets; no width: a pipe."""
    stream = io.StringIO() if width is None else Terminal()
    monkeypatch.setenv("COLUMNS", str(width or ""))
    show(profile, stream, **options)
    return stream.getvalue().splitlines()


def tasks_in(lines):
    """Return the table of tasks: headings, and cells by the first of each line."""
    begin = next(number for number, line in enumerate(lines) if line.startswith("Tasks ")) + 1
    table = lines[begin : lines.index("", begin)]
    cut = [[cell.strip() for cell in line.split(BETWEEN) if cell.strip()] for line in table]
    return cut[0], {row[0]: row[1:] for row in cut[1:]}


def profiled(path, names, *, spread=0.0):
    """Ten instances of each task, one after the other, a reading of the sensor at each end of each."""
    rng = np.random.default_rng(0)
    count = 10 * len(names)
    t_ns = np.arange(count + 1) * 10**7
    energy_j = np.concatenate(([0.0], np.cumsum(0.5 + spread * rng.standard_normal(count) ** 2)))
    task = np.append(np.tile(np.arange(len(names)), 10), -1)
    thread = {"t_ns": t_ns, "instance": np.append(np.arange(1, count + 1), 0), "task": task, "cpu_ns": t_ns}
    package.write_trace(path, tasks=names, threads=[thread], energy={"package-0": (t_ns, energy_j)})
    return package.load(path).profile("cputime")


def unlike(path, durations_us):
    """One instance of each task, at 10 W."""
    t_ns = np.cumsum([0, *durations_us.values()]) * 1000
    count = len(durations_us)
    thread = {"t_ns": t_ns, "instance": np.append(np.arange(1, count + 1), 0), "task": np.append(np.arange(count), -1)}
    energy = {"package-0": (t_ns, t_ns * 1e-8)}
    package.write_trace(path, tasks=list(durations_us), threads=[{**thread, "cpu_ns": t_ns}], energy=energy)
    return package.load(path).profile("cputime")


def test_tasks_of_no_visible_share_and_threads_of_pools_are_one_line_unless_asked_for(tmp_path, monkeypatch):
    durations = {"work": 900_000, "thread _handle_tasks": 90_000, "tiny": 100, "thread worker": 10_000}
    profile = unlike(tmp_path / "t.tprof", durations)

    brief, whole = shown(profile, None, monkeypatch), shown(profile, None, monkeypatch, everything=True)

    assert [*tasks_in(brief)[1]][:2] == ["work", "thread worker"]
    assert "2 others: 901 mJ; tprof summary --all shows them" in brief
    assert [*tasks_in(whole)[1]] == ["work", "thread _handle_tasks", "thread worker", "tiny"]


def test_a_single_task_of_no_visible_share_keeps_its_line(tmp_path, monkeypatch):
    profile = unlike(tmp_path / "t.tprof", {"work": 900_000, "tiny": 100})

    assert [*tasks_in(shown(profile, None, monkeypatch))[1]] == ["work", "tiny"]


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """Tasks of a program with names as long as they are."""
    names = ["blur", "load_image", "mymodule.Filter.apply", f"{MODULES}first_step", f"{MODULES}second_step"]
    return profiled(tmp_path_factory.mktemp("profile") / "t.tprof", names, spread=0.1)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 200])
def test_tasks_are_told_apart_in_any_terminal_and_no_line_is_cut_by_it(profile, width, monkeypatch):
    lines = shown(profile, width, monkeypatch)

    headings, rows = tasks_in(lines)
    assert headings[:3] == [one for one in DEFAULT if one in headings][:3]
    assert {"energy", "share"} <= set(headings)
    assert len(rows) == 5
    assert {"blur", "load_image"} <= set(rows)
    assert sum(name.endswith("first_step") for name in rows) == sum(name.endswith("second_step") for name in rows) == 1
    assert max(map(cell_len, lines)) <= width


def test_what_is_asked_for_most_stands_in_80_columns_where_names_are_short(tmp_path, monkeypatch):
    short = profiled(tmp_path / "t.tprof", ["blur", "load"], spread=0.1)

    assert tasks_in(shown(short, 80, monkeypatch))[0][: len(DEFAULT)] == DEFAULT
    wide = shown(short, 200, monkeypatch)
    assert tasks_in(wide)[0][: len(DEFAULT)] == DEFAULT
    table = wide[next(number for number, line in enumerate(wide) if line.startswith("Tasks ")) + 1]
    assert cell_len(table) <= PAGE_WIDTH
    assert tasks_in(shown(short, 200, monkeypatch, everything=True))[0] == DEFAULT + FURTHER


def test_columns_of_least_use_go_first(profile, monkeypatch):
    kept = [tasks_in(shown(profile, width, monkeypatch))[0] for width in range(40, 220, 4)]

    for fewer, more in itertools.pairwise(kept):
        assert set(fewer) <= set(more)
    by_use = ["energy", "share", "mean (95 %)", "power", "time", "instances", *FURTHER]
    for headings in kept:
        assert set(headings) == {"task", *by_use[: len(headings) - 1]}


def test_a_pipe_gets_the_usual_columns_and_full_names_without_boxes(profile, monkeypatch):
    lines = shown(profile, None, monkeypatch)

    headings, rows = tasks_in(lines)
    assert headings == DEFAULT
    assert tasks_in(shown(profile, None, monkeypatch, everything=True))[0] == DEFAULT + FURTHER
    assert f"{MODULES}first_step" in rows
    assert not set(BOXES) & set("".join(lines))
    begin = next(number for number, line in enumerate(lines) if line.startswith("Tasks "))
    assert len({len(line) for line in lines[begin + 1 : begin + 7]}) == 1, "columns are aligned"


def test_names_that_differ_in_their_middle_only_stand_on_lines_of_their_own(tmp_path, monkeypatch):
    names = [f"{'module.' * 8}{letter}{'.function' * 6}" for letter in "ab"]
    profile = profiled(tmp_path / "t.tprof", names)

    lines = shown(profile, 80, monkeypatch)

    assert all(name in lines for name in names)


def test_what_is_not_resolved_is_said_once_and_its_bound_shown(tmp_path, monkeypatch):
    """One reading each second, instances of 10 ms: each may have drawn anything up to all of it."""
    t_ns = np.arange(5) * 10**7
    thread = {"t_ns": t_ns, "instance": [1, 2, 3, 4, 0], "task": [0, 1, 0, 1, -1], "cpu_ns": t_ns}
    energy = {"package-0": ([0, 10**9], [0.0, 40.0])}
    package.write_trace(tmp_path / "t.tprof", tasks=["a", "b"], threads=[thread], energy=energy)
    profile = package.load(tmp_path / "t.tprof").profile("cputime")
    assert not profile.summary()["resolved"].any()

    lines = shown(profile, 80, monkeypatch)

    assert "".join(lines).count("not resolved") == 1
    headings, rows = tasks_in(lines)
    most_j = profile.summary()["energy_mean_high_j"]
    for name, row in rows.items():
        cells = dict(zip(headings[1:], row, strict=True))
        assert cells["mean (95 %)"] == f"≤ {most_j[name]:.3g} J"
        assert cells["power"].startswith("≤ ")


def test_a_session_without_energy_says_so_once(tmp_path, monkeypatch):
    thread = {"t_ns": [0, 10**9], "instance": [1, 0], "task": [0, -1]}
    energy = {"package-0": ([0], [0.0])}
    package.write_trace(tmp_path / "t.tprof", tasks=["a"], threads=[thread], energy=energy)

    lines = shown(package.load(tmp_path / "t.tprof").profile(), None, monkeypatch)

    assert tasks_in(lines)[1]["a"][:4] == ["1", "–", "–", "–"]
    assert sum(line.startswith("–: not resolved") for line in lines) == 1


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return traces.write(tmp_path_factory.mktemp("session") / "t.tprof")


def test_columns_can_be_chosen_in_any_order(session):
    said = tprof("summary", session, "--columns", "power,Own-Time,task,edp", cwd=session.parent).stdout.splitlines()

    assert tasks_in(said)[0] == ["task", "power", "own time", "EDP"]


def test_the_name_alone_can_be_chosen(session):
    said = tprof("summary", session, "--columns", "task", cwd=session.parent).stdout.splitlines()

    assert tasks_in(said) == (["task"], {"blur": [], "load": []})


def test_all_columns_can_be_asked_for_in_a_narrow_terminal(profile, monkeypatch):
    headings, _ = tasks_in(shown(profile, 60, monkeypatch, everything=True))

    assert headings[-len(FURTHER) :] == FURTHER


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--columns", "energy,joules"), f"--columns takes names of {', '.join(COLUMNS)}, got joules"),
        (("--columns", ""), f"--columns takes names of {', '.join(COLUMNS)}, got ''"),
        (("--columns", "energy", "--all"), "--columns names the columns and --all takes every one"),
        (("--columns", "energy", "--json"), "--json prints every column, whatever is asked for: leave --columns out"),
        (("--all", "--json"), "--json prints every column, whatever is asked for: leave --all out"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(session, words, sentence):
    done = tprof("summary", session, *words, cwd=session.parent)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tprof: {sentence}")
    assert done.stderr.count("\n") == 1


names = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "M"]), min_size=1), min_size=1, unique=True
)


@examples(200)
@given(names, st.integers(1, 120))
def test_names_that_are_cut_still_differ_and_fit(drawn, width):
    cut = shortened(drawn, width)

    if cut is not None:
        assert len(set(cut)) == len(drawn)
        assert all(cell_len(text) <= max(width, 1) for text in cut)


@examples(200)
@given(
    names, st.lists(st.tuples(st.integers(1, 12), st.integers(0, 9), st.booleans()), max_size=8), st.integers(30, 150)
)
def test_a_table_fits_wherever_names_and_one_column_do(drawn, sizes, width):
    columns = [Column("x" * size, ("1",) * len(drawn), use, is_further=further) for size, use, further in sizes]

    kept = fitting(drawn, columns, width)
    lines = lines_of("task", drawn, kept, width)

    assert kept == [column for column in columns if column in kept]
    if len(lines) == 1 + len(drawn) and kept and max(map(cell_len, drawn)) > len("task"):
        assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize(
    ("value", "text"), [(2.345, "2.35"), (999.7, "1000"), (2861, "2860"), (0.0001234, "0.000123"), (1e6, "1e+06")]
)
def test_figures_have_three_digits_and_no_exponent_that_is_not_needed(value, text):
    assert three_digits(value) == text


def test_a_figure_that_is_rounded_up_to_a_prefix_has_it():
    assert quantity(0.9997, "J") == "1 J"


def test_findings_have_a_section_of_their_own_and_are_no_warnings_beside_it(tmp_path, monkeypatch):
    lines = shown(fitted_profile(tmp_path / "t.tprof", BESIDE, OTHER), None, monkeypatch)

    at = lines.index("Findings (simulated)")
    assert lines[at - 1] == lines[at + 3] == ""
    assert lines[at + 1 : at + 3] == [f"- {BESIDE.text}", f"- {OTHER.text}"]
    assert sum(OTHER.text in line for line in lines) == 1


def test_without_findings_there_is_no_section(tmp_path, monkeypatch):
    assert not any("Findings" in line for line in shown(fitted_profile(tmp_path / "t.tprof"), None, monkeypatch))


def test_sums_above_static_power_and_powers_are_shown_with_intervals_where_they_are_asked_for(tmp_path, monkeypatch):
    profile = fitted_profile(tmp_path / "t.tprof")

    headings, rows = tasks_in(shown(profile, None, monkeypatch, columns=["dynamic", "power-interval"]))

    row = profile.summary().loc["blur"]
    assert headings == ["task", "dynamic (95 %)", "power (95 %)"]
    low, high = (three_digits(row[name]) for name in ("power_low_w", "power_high_w"))
    assert rows["blur"][1] == f"{three_digits(row['power_w'])} ({low} … {high}) W"
    assert rows["blur"][0].startswith(f"{three_digits(row['dynamic_j'])} (")
