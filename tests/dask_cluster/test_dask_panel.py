"""The page on energy in dask's dashboard."""

import time
import urllib.request

import pytest
from support.pthreads import wait_until

import tprof

pytest.importorskip("dask", reason="dask is not installed: pip install tprof-energy[dask]")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install tprof-energy[dask]")

import tprof.dask  # noqa: E402 - after the skip
from tprof.dask.panel import PLUGIN, combine  # noqa: E402


def answer(worker, part, process, watts, quality="measured", tasks=None):
    return {"worker": worker, "part": part, "process": process, "watts": watts, "quality": quality, "tasks": tasks}


def work(seconds):
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def test_watts_are_of_processes_and_joules_of_all_hosts():
    figures = combine(
        [
            answer("a:1", "here", 10, 5.0, tasks={"f": 1.0, "g": 2.0}),
            answer("a:2", "here", 10, 5.0),
            answer("a:3", "here", 11, 7.0),
            answer("b:1", "there", 10, 2.0, "estimated", {"f": 4.0}),
        ]
    )

    assert figures.watts == {"a:1, a:2": 5.0, "a:3": 7.0, "b:1": 2.0}
    assert figures.tasks_j == {"f": 5.0, "g": 2.0}
    assert figures.quality == "estimated and measured"


def test_without_answers_there_are_no_figures():
    assert combine([]).watts == {}


@pytest.mark.thorough
def test_the_page_is_in_the_dashboard_and_shows_what_tasks_take(tmp_path):
    pytest.importorskip("bokeh", reason="bokeh is not installed: pip install bokeh")

    def state(dask_scheduler):
        from tprof.dask.page import Energy  # noqa: PLC0415 - needs bokeh

        panel = dask_scheduler.plugins[PLUGIN]
        component = Energy(dask_scheduler, lambda: panel)
        component.update()
        return dict(component.watts.data), dict(component.tasks.data), panel.figures.quality

    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    recorded = {"energy": "estimate", "watts": (1, 4), "counters": "none"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        with tprof.dask.record(client, tmp_path / "run.tprof", **recorded):
            client.gather(client.map(work, [0.1, 0.2]))
            page = client.dashboard_link.replace("/status", "/tprof")
            with urllib.request.urlopen(page) as answered:  # noqa: S310 - of this test
                html = answered.read().decode()
            wait_until(lambda: client.run_on_scheduler(state)[1]["name"] == ["work"])
            watts, tasks, quality = client.run_on_scheduler(state)
        with urllib.request.urlopen(client.dashboard_link) as answered:  # noqa: S310 - see above
            assert 'href="tprof"' in answered.read().decode()

        assert "bokeh" in html.lower()
        assert watts["name"] == [*client.scheduler_info()["workers"]]
        assert tasks["value"][0] > 0
        assert quality == "estimated"
        with tprof.dask.record(client, tmp_path / "again.tprof", **recorded):  # the page is there already
            assert client.submit(work, 0.01).result() is None
