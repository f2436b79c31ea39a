"""The answer names the task of most energy as surely as its interval lets it, and helps only where figures bear it."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from support import command_line, pages, traces
from tprof.analysis.profile.answer import answer_from, answer_of
from tprof.analysis.profile.native_threads import native_costs
from tprof.analysis.quantities import reach

import tprof
from tprof.trace.estimate import EXACT, WattsError
from tprof.trace.merge import merge

MS = 1_000_000
BUSY_W = 20.0


def recorded(path, *threads, tasks=("blur", "load"), end_ms=None, **changes):
    """Profile threads of (task, milliseconds, part with a processor) segments under a constant power."""
    made, instance = [], 1
    for cpu, segments in enumerate(threads):
        length_ns = np.array([round(ms * MS) for _, ms, _ in segments])
        busy_ns = np.array([round(ms * MS * part) for _, ms, part in segments])
        made.append(
            {
                "t_ns": np.append(0, np.cumsum(length_ns)),
                "instance": np.append(instance + np.arange(len(segments)), 0),
                "task": np.append([task for task, _, _ in segments], -1),
                "cpu": np.full(len(segments) + 1, cpu),
                "cpu_ns": np.append(0, np.cumsum(busy_ns)),
                "name": f"worker-{cpu}",
            }
        )
        instance += len(segments)
    last_ns = round(end_ms * MS) if end_ms else max(int(one["t_ns"][-1]) for one in made)
    edges_ns = np.arange(0, last_ns + 1, MS)
    energy = {"package-0": (edges_ns, edges_ns * 1e-9 * BUSY_W)}
    tprof.write_trace(path, tasks=tasks, threads=made, energy=energy, **{"quality": "measured"} | changes)
    return tprof.load(path).profile(model="cputime")


def kinds(answer):
    return [one.kind for one in answer.remedies]


def test_the_headline_has_joules_shares_and_quality_and_the_interval_follows(tmp_path):
    profile = recorded(tmp_path / "t.tprof", [(0, 300, 1), (1, 100, 1)] * 8)

    answer = answer_of(profile)

    assert answer.headline == (
        "blur takes most energy: 48 J (measured), 75 % of the energy of all tasks and 75 % of the run's 64 J, "
        "in 8 instances of 6 J on average."
    )
    assert (answer.task, answer.quality) == ("blur", "measured")
    assert answer.energy_j == pytest.approx(48)
    assert answer.energy_low_j < answer.energy_j < answer.energy_high_j
    assert answer.certainty.startswith("The energy of blur is known well: ")
    assert answer.certainty.endswith("The next is load with 16 J; blur ranks first (95 % confidence).")
    assert answer.remedies == ()


def test_two_tasks_are_named_where_their_intervals_overlap(tmp_path):
    random = np.random.default_rng(1)
    lengths = [(task, float(ms), 1) for ms in random.gamma(1.0, 5.0, 20) for task in (0, 1)]

    answer = answer_of(recorded(tmp_path / "t.tprof", lengths))

    assert answer.headline.startswith(("blur or load takes most energy: ", "load or blur takes most energy: "))
    assert answer.headline.endswith(" of the energy of all tasks; their 95 % intervals overlap.")
    assert answer.certainty == ""


def summed(**joules):
    """Return a summary of tasks: static joules, those above them, and half their interval."""
    parts = np.array(list(joules.values()), float)
    energy_j, half_j = parts[:, 0] + parts[:, 1], parts[:, 2]
    columns = {"energy_j": energy_j, "power_w": energy_j, "energy_mean_j": energy_j, "dynamic_j": parts[:, 1]}
    columns |= {"energy_low_j": np.maximum(energy_j - half_j, 0.0), "energy_high_j": energy_j + half_j}
    columns["energy_mean_at_most_j"] = energy_j + half_j
    frame = pd.DataFrame(columns, index=list(joules)).assign(instances=1, duration_mean_s=1.0, resolved=True)
    return frame.assign(share=frame["energy_j"] / frame["energy_j"].sum())


def said_of(summary, watts=EXACT):
    """Return the headline and the certainty for a summary whose watts have this error."""
    answer = answer_from(summary, summary, watts, quality="estimated", run=(math.nan, ""))
    return answer.headline, answer.certainty


def test_a_task_of_many_times_the_joules_stays_first_although_its_interval_is_wide():
    headline, certainty = said_of(summed(similar=(0, 94, 93), search=(0, 5, 4)))

    assert headline.startswith("similar most likely takes most energy: 94 J (estimated), 95 %")
    assert "similar is known only roughly: 94 (1 … 187) J with 95 % confidence, \N{MINUS SIGN}99 … +99 %." in certainty
    assert "That search (5 J) takes more than similar is not excluded: their 95 % intervals overlap." in certainty


def test_the_first_is_compared_with_every_task_not_only_with_the_next():
    headline, certainty = said_of(summed(blur=(0, 50, 1), load=(0, 40, 1), save=(0, 30, 25)))

    assert headline.startswith("blur or save takes most energy: 50 J and 30 J")
    assert certainty == ""


@pytest.mark.parametrize(
    ("others", "names"),
    [({"save": 40}, "blur, load or another task"), ({"save": 40, "send": 30}, "blur, load or one of 2 others")],
)
def test_one_sentence_says_how_many_tasks_may_take_most(others, names):
    joules = {"blur": 50, "load": 45} | others

    headline, certainty = said_of(summed(**{name: (0, energy_j, 25) for name, energy_j in joules.items()}))

    assert headline.startswith(f"{names} takes most energy: 50 J and 45 J (estimated), ")
    assert headline.endswith("; their 95 % intervals overlap.")
    assert certainty == ""


def test_a_first_task_that_is_not_resolved_is_said_to_be_so_beside_its_rival():
    summary = summed(blur=(0, 50, 60), load=(0, 45, 25)).assign(resolved=[False, True])

    headline, certainty = said_of(summary)

    assert headline.startswith("blur or load takes most energy: ")
    assert certainty.startswith("The energy of blur above static power cannot be told from zero")


def test_an_order_that_hangs_on_the_assumed_watts_is_not_called_sure():
    waiting, busy = (50, 10, 0.5), (5, 50, 0.5)

    _, exact = said_of(summed(waits=waiting, works=busy))
    headline, certainty = said_of(summed(waits=waiting, works=busy), WattsError(4.0, 4.0))
    _, alike = said_of(summed(first=(10, 40, 0.5), second=(8, 30, 0.5)), WattsError(4.0, 4.0))

    assert exact.endswith("waits ranks first (95 % confidence).")
    assert headline.startswith("waits or works takes most energy: 60 J and 55 J (estimated)")
    assert headline.endswith(
        "; their order depends on the idle and busy watts, which are assumed (--watts gives them)."
    )
    assert certainty == ""
    assert "first ranks first (95 % confidence)" in alike


def test_without_tasks_or_readings_it_says_so(tmp_path):
    tprof.write_trace(tmp_path / "none.tprof", tasks=[], threads=[], energy={"package-0": ([0, 10**9], [0.0, 3.0])})
    thread = {"t_ns": [0, 5], "instance": [1, 0], "task": [0, -1]}
    tprof.write_trace(tmp_path / "dark.tprof", tasks=["a"], threads=[thread], energy={"package-0": ([0], [1.0])})

    none, dark = (answer_of(tprof.load(tmp_path / f"{name}.tprof").profile()) for name in ("none", "dark"))

    assert none.headline == "No task ran, in the run's 3 J."
    assert dark.headline.startswith("Which task takes most is not known: ")
    assert dark.task is dark.energy_j is None


@pytest.mark.parametrize(
    ("threads", "changes", "kind", "said"),
    [
        ([[(0, 400, 1)]], {"end_ms": 800}, "idle", "8 J (50 %) were drawn while nothing ran"),
        ([[(0, 100, 0.1)] * 6], {}, "waiting", "blur had a processor for only 10 % of its own time"),
        ([[(0, 100, 1)] * 9, [(1, 100, 1)]], {}, "uneven", "The busiest of 2 threads (worker-0) worked 1.8 times"),
        ([[(0, 100, 1)]], {}, "split", "100 % of the tasks' energy is in blur, which ran once"),
        ([[(0, 100, 1)] * 6], {"quality": "estimated"}, "sensor", "tprof doctor says whether a sensor can be read"),
    ],
)
def test_a_figure_that_stands_out_brings_its_sentence(tmp_path, threads, changes, kind, said):
    answer = answer_of(recorded(tmp_path / "t.tprof", *threads, **changes))

    assert kind in kinds(answer)
    assert said in next(one.text for one in answer.remedies if one.kind == kind)


@pytest.mark.parametrize(
    ("lengths", "more"),
    [((100, 130, 160), "more instances or runs narrow it"), ((100, 300) * 4, "a longer run narrows it")],
)
def test_a_wide_interval_names_what_it_leaves_out_and_what_narrows_it(tmp_path, lengths, more):
    """Of an estimate the error of the watts is left out; what ran a few times needs instances, not time."""
    recorded(tmp_path / "t.tprof", [(0, length, 1) for length in lengths], quality="estimated")
    estimate = {"idle_w": 0.0, "per_core_w": 20.0, "given": False, "idle_factor": 5.0, "per_core_factor": 3.0}
    traces.set_json(tmp_path / "t.tprof" / "manifest.json", estimate=estimate)

    answer = answer_of(tprof.load(tmp_path / "t.tprof").profile(model="cputime"))

    (wide,) = [one.text for one in answer.remedies if one.kind == "wide"]
    assert wide.startswith("Apart from the error of the watts, the interval of blur is wide (± ")
    assert wide.endswith(f"after {len(lengths)} instances: {more}.")


def test_what_most_joules_are_about_comes_first_and_what_none_are_last(tmp_path):
    profile = recorded(tmp_path / "t.tprof", [(0, 300, 0.1)] * 2, end_ms=700, quality="estimated")

    answer = answer_of(profile)

    about = [one.energy_j for one in answer.remedies if one.energy_j is not None]
    assert about == sorted(about, reverse=True)
    assert kinds(answer)[-1] == "sensor"


def test_spinning_threads_are_named_with_their_joules_and_what_stops_them():
    pool = {
        "title": "OpenBLAS", "library": "libopenblas.so", "spin_j": 3.0, "unidentified_j": 0.0, "spins_after": ["blur"],
        "users": ["blur"], "may_spin": True,
    }  # fmt: skip

    ((joules, text),) = native_costs({"pools": [pool]}, 10.0)

    assert joules == pytest.approx(3.0)
    assert "threads of OpenBLAS took 3 J (30 %) after blur had ended" in text
    assert "--passive-pools" in text


def test_a_warning_that_a_remedy_says_already_is_not_said_twice(tmp_path):
    """Remedies are whole sentences, warnings clauses of the same words."""
    answer = answer_of(recorded(tmp_path / "t.tprof", [(0, 300, 0.1)] * 2, end_ms=700, quality="estimated"))
    text = answer.remedies[0].text

    assert answer.unsaid([f"{text[0].lower()}{text[1:-1]}", "another"]) == ["another"]


def test_ends_of_a_range_share_the_prefix_of_the_higher():
    assert reach(0.0718, 0.984, "J") == "71.8 … 984 mJ"
    assert reach(1.6, 21.5, "J") == "1.6 … 21.5 J"


def test_a_job_says_which_host_works_longest_and_what_is_estimated(tmp_path):
    for name, count in (("node1", 9), ("node2", 1)):
        recorded(tmp_path / f"{name}.tprof", [(0, 100, 1)] * count, host={"hostname": name}, quality="estimated")
    merge([tmp_path / "node1.tprof", tmp_path / "node2.tprof"], tmp_path / "job.tprof")

    answer = answer_of(tprof.load(tmp_path / "job.tprof").profile())

    texts = {one.kind: one.text for one in answer.remedies}
    assert texts["uneven"].startswith("node1 worked 80 % longer in tasks than the mean of the 2 hosts")
    assert texts["sensor"].startswith("The joules of 2 of 2 hosts are estimated")


def test_the_summary_opens_with_the_run_and_the_answer_and_json_has_it(tmp_path):
    pages.profile(tmp_path / "t.tprof")

    text, plain = (command_line.tprof("summary", "t.tprof", *words, cwd=tmp_path).stdout for words in ((), ("--json",)))

    answer = json.loads(plain)["answer"]
    run, headline = text.splitlines()[:2]
    assert re.fullmatch(r"The run took 367 ms and [0-9.]+ J, [0-9.]+ W on average \(estimated\)\.", run)
    assert headline == answer["headline"]
    assert answer["task"] == "blur"
    assert {"kind", "text", "energy_j"} == set(answer["remedies"][0])


def test_a_job_of_traces_has_an_answer_of_unlike_hosts(tmp_path):
    for name, quality in (("node1", "measured"), ("node2", "estimated")):
        traces.write(tmp_path / f"{name}.tprof", host={"hostname": name}, quality=quality)
    merge([tmp_path / "node1.tprof", tmp_path / "node2.tprof"], tmp_path / "job.tprof")

    answer = answer_of(tprof.load(tmp_path / "job.tprof").profile())

    assert answer.quality == "mixed"
    assert "sums of both are mixed" in answer.certainty
