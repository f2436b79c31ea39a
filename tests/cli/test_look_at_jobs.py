"""`tprof summary`, `report` and `export` of a job: its hosts, the tasks over all of them, and what is missing."""

import csv
import json
from dataclasses import replace

import pytest
from support import command_line, traces
from support.browser import acted

from tprof.trace.clock_offset import PINGS, Offset
from tprof.trace.cluster import HostPart, load_job, write_hosts
from tprof.trace.merge import merge

TWO_PACKAGES = {"package-0": traces.ENERGY["package-0"], "package-1": ([0, 10**9, 2 * 10**9], [0.0, 1.0, 2.0])}
REASON = "its worker was killed before it sent its part"


def host(place, name, **changes):
    path = traces.write(place / f"{name}.tprof", host={"hostname": name}, **changes)
    (path / "labels").mkdir()
    (path / "labels" / "00000000.jsonl").write_text(json.dumps({"worker": f"<{name}>"}))
    return path


def note_keys(part, *keys):
    """Write which key each instance is, and what it needed."""
    (part / "keys").mkdir()
    lines = [json.dumps({"instance": place, "key": key, "needs": needs}) for place, key, needs in keys]
    (part / "keys" / "00000000.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A job of two hosts with unlike sensors, of which one has two packages, and of a third that never came home.

    The second host began a second later; its last task needed what the first host's made.
    """
    place = tmp_path_factory.mktemp("jobs")
    sources = [
        host(place, "node1", energy=TWO_PACKAGES, quality="measured"),
        host(place, "node2", quality="estimated"),
    ]
    note_keys(sources[0], (1, "a", []), (2, "b", ["a"]))
    note_keys(sources[1], (1, "c", []), (2, "d", ["b", "c"]))
    merge(sources, place / "job.tprof")
    job = load_job(place / "job.tprof")
    late = [replace(one, offset=Offset(second * 10**9, 1_000_000, PINGS)) for second, one in enumerate(job.hosts)]
    write_hosts(job.path, [*late, HostPart("node3", None, None, REASON)], engine="dask", expected=None)
    return place


@pytest.fixture(scope="module")
def printed(folder):
    done = command_line.tprof("summary", "job.tprof", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_summary_shows_hosts_domains_and_tasks_with_unlike_hosts_apart(printed):
    lines = printed.splitlines()

    hosts = lines.index("Hosts")
    assert lines[hosts + 2].split()[:4] == ["node1", "measured", "27", "J"]
    assert lines[hosts + 3].split()[:4] == ["node2", "estimated", "25", "J"]
    assert "takes most energy" in lines[1]
    assert "- 1 of 3 hosts gave no figures or not all: the sums lack them." in lines
    assert any(line.startswith("node1 package-1") for line in lines)
    assert "Tasks (mixed, by cputime)" in lines
    assert lines[0] == "All hosts: 25 J estimated and 27 J measured on 2 hosts in 3 s."
    assert (
        "warning: hosts are estimated and measured: their joules are shown apart, and sums of both are mixed" in lines
    )


def test_the_summary_names_the_part_that_is_missing_and_why(printed):
    assert f"missing: node3: {REASON}" in printed.splitlines()


def test_the_summary_has_the_longest_chain_over_all_hosts(folder, printed):
    found = json.loads(command_line.tprof("summary", "job.tprof", "--json", cwd=folder).stdout)["critical_path"]

    assert found["span_s"] == pytest.approx(3.0)
    assert [(row["host"], row["task"], row["path_s"]) for row in found["chain"]] == [
        ("node1", "load", 1.0), ("node1", "blur", 1.0), ("node2", "blur", 1.0),
    ]  # fmt: skip
    assert found["run_transfer_s"] == 0
    assert "Longest chain of tasks: 3 s of 3 s (100.0 %), " in printed
    assert "the chain changes hosts once" in printed


def test_the_summary_in_json_has_every_table(folder):
    found = json.loads(command_line.tprof("summary", "job.tprof", "--json", cwd=folder).stdout)

    assert [row["host"] for row in found["hosts"]] == ["node1", "node2", "node3"]
    assert found["hosts"][2]["energy_j"] is None
    assert {(row["host"], row["domain"]) for row in found["accounts"]} == {
        ("node1", "package-0"), ("node1", "package-1"), ("node2", "package-0"),
    }  # fmt: skip
    blur = next(row for row in found["tasks"] if row["task"] == "blur")
    assert blur["hosts"] == 2
    assert blur["measured_j"] + blur["estimated_j"] == pytest.approx(blur["energy_j"])
    assert found["info"]["missing"] == {"node3": REASON}


def test_columns_of_jobs_can_be_chosen(folder):
    done = command_line.tprof("summary", "job.tprof", "--columns", "instances,energy", cwd=folder)

    assert "instances  energy" in done.stdout


def test_the_export_has_tables_with_hosts_and_labels(folder):
    command_line.tprof("export", "job.tprof", "csv", "-o", "tables", cwd=folder)
    tables = {}
    for path in (folder / "tables").glob("*.csv"):
        with path.open() as file:
            tables[path.stem] = list(csv.DictReader(file))

    assert set(tables) == {"tasks", "summary", "accounts", "power", "hosts", "by_host", "critical_path"}
    assert {(row["host"], row["label_worker"], row["quality"]) for row in tables["tasks"]} == {
        ("node1", "<node1>", "measured"), ("node2", "<node2>", "estimated"),
    }  # fmt: skip
    assert {row["quality"] for row in tables["summary"]} == {"mixed"}
    assert all(row["quality"] for rows in tables.values() for row in rows)


def test_the_page_draws_hosts_power_tasks_and_a_timeline_of_all_threads(folder):
    done = command_line.tprof("report", "job.tprof", "-o", "job.html", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    seen = acted(
        folder / "job.html",
        """
        const text = (id) => document.getElementById(id).innerText;
        return {chain: text("chain"), parts: text("path-parts"),
                drawn: document.documentElement.dataset.drawn, title: text("title"), badges: text("badges"),
                hosts: text("hosts"), tasks: text("tasks"), accounts: text("domain-accounts"), figures: text("figures"),
                warnings: text("warnings"), offsets: text("offsets"),
                lanes: JSON.parse(document.getElementById("data").textContent).timeline.lanes.map((one) => one.name),
                plots: ["shares", "power", "by-host"].map((id) => document.querySelectorAll(`#${id} .main-svg`).length),
                switch: document.querySelector("#timeline-section .switch").hidden};
        """,
    )

    assert seen["drawn"] == "yes"
    assert seen["title"] == "tprof report: job.tprof"
    assert "MIXED" in seen["badges"]
    assert "PARTS MISSING" in seen["badges"]
    assert REASON in seen["hosts"]
    assert "package-1" in seen["accounts"]
    assert all(word in seen["tasks"] for word in ("blur", "Measured", "Estimated"))
    assert "25 J" in seen["figures"]
    assert f"node3: {REASON}" in seen["warnings"]
    assert sorted(seen["lanes"]) == ["node1: main", "node1: other", "node2: main", "node2: other"]
    assert all(seen["plots"])
    assert all(word in seen["chain"] for word in ("node1", "node2", "blur"))
    assert "for data of another host" in seen["parts"]
    assert seen["switch"]


def test_two_recordings_of_a_host_are_one_host(tmp_path):
    """They were made in the same boot, one after the other."""
    later = {"package-0": ([5 * 10**9, 6 * 10**9, 7 * 10**9], [0.0, 5.0, 15.0])}
    threads = [{"t_ns": [5 * 10**9, 7 * 10**9], "instance": [1, 0], "task": [1, -1]}]
    sources = [host(tmp_path, "a"), host(tmp_path, "b", energy=later, threads=threads)]
    for path in sources:
        traces.set_json(path / "manifest.json", boot_id="one boot", host={"hostname": "vm"})
    merge(sources, tmp_path / "job.tprof")

    printed = command_line.tprof("summary", "job.tprof", cwd=tmp_path).stdout
    profile = load_job(tmp_path / "job.tprof").profile()

    assert "All hosts: 40 J given on 1 host (2 recordings) in" in printed
    assert profile.hosts["recordings"].to_dict() == {"vm": 2}
    assert profile.hosts.loc["vm", "energy_j"] == 40
    assert profile.hosts.loc["vm", "power_w"] == pytest.approx(10)
    assert profile.accounts.loc[("vm", "package-0"), "measured_j"] == 40
    assert set(profile.tasks["host"]) == {"vm"}
    assert set(profile.summary()["hosts"]) == {1}
    assert profile.by_host().loc[("blur", "vm"), "instances"] == 3
    assert set(profile.info["hosts"]) == {"vm", "vm-2"}
    assert not any("counted twice" in text for text in profile.info["warnings"])


@pytest.mark.thorough
def test_hosts_can_be_analysed_at_the_same_time(folder):
    one = command_line.tprof("summary", "job.tprof", "--json", cwd=folder).stdout
    two = command_line.tprof("summary", "job.tprof", "--json", "--parallel", "2", cwd=folder).stdout

    assert one == two


def test_commands_for_one_host_say_what_to_do_with_a_job(folder):
    done = command_line.tprof("roofline", "--session", "job.tprof", cwd=folder)

    assert done.returncode != 0
    assert "is a job of several hosts: give one of its parts" in done.stderr
