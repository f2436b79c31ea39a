"""The threads of real libraries: whose they are, and that no CPU time is missing."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from support import programs

import tprof

PROGRAM = """
import os, sys, time
import numpy as np
import tprof
from benchmarks.overhead.sensor_thread_cost import cpu_time_ns
{imports}

x = np.random.default_rng(1).random((600, 600))
np.ones((400, 400)) @ np.ones((400, 400))


@tprof.task
def work():
    before_ns = time.thread_time_ns()
    while time.thread_time_ns() - before_ns < 100_000_000:
        {call}


with tprof.record(sys.argv[1], energy="estimate", counters="none"):
    own_ns = cpu_time_ns()  # may take long, while a pool spins after its first call
    before_ns, begin_ns = time.process_time_ns(), time.monotonic_ns()
    for _ in range(2):
        work()
    process_ns, end_ns = time.process_time_ns() - before_ns, time.monotonic_ns()
    print(begin_ns, end_ns, process_ns - (cpu_time_ns() - own_ns))
    time.sleep(0.5)  # so long that spinning threads wait at last: only then the kernel shows where they began
"""

LIBRARIES = {
    "numpy": ("", "x @ x", "openblas"),
    "scipy": ("import scipy.fft", "scipy.fft.fft2(x, workers=2)", "fft."),  # pypocketfft or pyduccfft
    "sklearn": (
        "from sklearn.ensemble import HistGradientBoostingRegressor as Trees",
        "Trees(max_iter=3).fit(x[:, :5], x[:, 6])",
        "libgomp",
    ),
    "polars": (
        "import polars",
        "polars.DataFrame({'k': np.arange(200_000) % 99, 'v': 1.0}).group_by('k').agg(polars.col('v').sum())",
        "polars",
    ),
}


def recorded(folder, name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    imports, call, pool = LIBRARIES[name]
    environment = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "POLARS_MAX_THREADS": "2"}
    source = PROGRAM.format(imports=imports, call=call)
    done = programs.run(folder, source, str(folder / "t.tprof"), env={**programs.os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, "")
    trace = tprof.load(folder / "t.tprof")
    assert trace.notes == ()
    return trace, pool, [int(word) for word in done.stdout.split()]


def used_ns(thread, begin_ns, end_ns):
    begin, end = np.interp([begin_ns, end_ns], thread.t_ns, thread.cpu_ns)
    return end - begin


@pytest.mark.parametrize("name", ["numpy", "scipy", "polars", pytest.param("sklearn", marks=pytest.mark.thorough)])
def test_the_threads_of_a_library_are_known_with_all_their_time(tmp_path, name):
    trace, pool, (begin_ns, end_ns, process_ns) = recorded(tmp_path, name)

    # OpenBLAS creates its threads before the recording, and under a sanitizer all begin in a function of its own.
    is_named = name != "numpy" or "libasan" not in os.environ.get("LD_PRELOAD", "")
    of_pool = [one for one in trace.native_threads if pool in Path(one.library).name or not is_named]
    used = sum(used_ns(one, begin_ns, end_ns) for one in trace.native_threads)
    (main,) = trace.threads
    samples = main.read()
    sampled = np.interp([begin_ns, end_ns], samples["t_ns"], samples["cpu_ns"])
    total_ns = used + sampled[1] - sampled[0]
    assert of_pool
    assert sum(used_ns(one, begin_ns, end_ns) for one in of_pool) > 0
    assert total_ns == pytest.approx(process_ns, rel=0.05, abs=15e6)

    creators = {one.creator_task for one in of_pool} - {None}
    assert [trace.tasks[creator].name for creator in creators] == [] if name == "numpy" else ["work"]


IMPORTS = """
import sys
import numpy as np
import tprof
from tprof import _core


@tprof.task
def load():
    import scipy.linalg
    return scipy.linalg


with tprof.record(sys.argv[1], energy="estimate", counters="none"):
    linalg = load()
    tprof.task(name="factor")(linalg.lu_factor)(np.random.default_rng(1).random((300, 300)))
"""


def test_what_an_import_loads_is_followed_at_once(tmp_path):
    pytest.importorskip("scipy", reason="SciPy has an OpenBLAS of its own")
    path = tmp_path / "t.tprof"

    done = programs.run(tmp_path, IMPORTS, str(path), env={**os.environ, "OPENBLAS_NUM_THREADS": "2"})

    assert (done.returncode, done.stderr) == (0, "")
    trace = tprof.load(path)
    names = [entry.name for entry in trace.tasks]
    assert names.index("load") in {one.creator_task for one in trace.native_threads}
    (calls,) = [one for one in trace.native_calls if "scipy.libs" in one.library]
    assert names.index("factor") in calls.task


def test_a_failed_import_shows_nothing_of_the_recorder(tmp_path):
    (tmp_path / "broken.so").write_bytes(b"no library")
    spec = importlib.util.spec_from_file_location("broken", tmp_path / "broken.so")

    with (
        tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none"),
        pytest.raises(ImportError) as failure,
    ):
        importlib.util.module_from_spec(spec)

    assert not [entry.path for entry in failure.traceback if "/tprof/" in str(entry.path)]


SPINS_FROM_THE_FIRST = """
import sys
import time
import tprof


def spin(seconds):
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        pass


with tprof.record(sys.argv[1], energy="estimate", counters="none"):
    import numpy as np
    x = np.ones((400, 400))
    multiply = tprof.task(name="multiply")(lambda: x @ x)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        multiply()
        spin(0.002)
"""


@pytest.mark.thorough  # on a busy machine it may never be met where its library shows
def test_a_pool_that_spins_since_it_was_loaded_is_known_by_its_library_and_its_calls(tmp_path):
    path = tmp_path / "t.tprof"

    done = programs.run(tmp_path, SPINS_FROM_THE_FIRST, str(path), env={**os.environ, "OPENBLAS_NUM_THREADS": "2"})

    assert (done.returncode, done.stderr) == (0, "")
    trace = tprof.load(path)
    assert {"openblas" in one.library for one in trace.native_threads} == {True}
    (pool,) = trace.profile("cputime").info["native"]["pools"]
    assert (pool["title"], pool["known_by"]) == ("OpenBLAS", "calls")
