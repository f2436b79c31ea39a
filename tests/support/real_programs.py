"""Programs as the documentation of well-known libraries shows them, to run by themselves and under `tprof run`.

A program that a user reports becomes one more entry of `PROGRAMS`, or of `SERVERS` if others ask it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RealProgram:
    """A program and what its processes must leave in the one session.

    Attributes
    ----------
    name : what it is
    words : script or ``-m MODULE``, and arguments; ``prog.py`` is the source
    source : of ``prog.py``
    files : further files, by name
    needs : modules of the libraries; the test is skipped where one is absent
    task : patterns for ``--task``
    named : how often each task runs that the patterns name
    marked : how often each task runs that the source marks by ``tprof.task``, or that tprof marks by itself
    client : source of a program that runs beside it, with the process number as its argument, and ends it
    launcher : words before the program
    in_any_order : whether lines come from several processes, with times, process numbers and the like in them
    least : whether `named` is the least, since the library calls some functions as often as it sees fit
    in_full : whether it also runs with a summary, and without any name of a task, where tests are to be quick
    thorough : whether it takes long
    """

    name: str
    words: tuple[str, ...] = ("prog.py",)
    source: str = ""
    files: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    task: tuple[str, ...] = ("__main__:work",)
    named: dict[str, int] = field(default_factory=dict)
    marked: dict[str, int] = field(default_factory=dict)
    client: str | None = None
    launcher: tuple[str, ...] = ()
    in_any_order: bool = False
    least: bool = False
    in_full: bool = False
    thorough: bool = False


WORK = """
import os, sys
import tprof

def work(n):
    return sum(range(n))

@tprof.task
def marked(n):
    return work(n)
"""


PROGRAMS = [
    RealProgram(
        "a pool whose processes end after one task each",
        source=WORK
        + """
if __name__ == "__main__":
    import multiprocessing
    with multiprocessing.Pool(2, maxtasksperchild=1) as pool:
        print(pool.map(marked, [10] * 6, chunksize=1))
        pool.close()
        pool.join()
""",
        named={"work": 6},
        marked={"marked": 6},
    ),
    RealProgram(
        "a pool that is terminated",
        source=WORK
        + """
if __name__ == "__main__":
    import multiprocessing
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(pool.map(marked, [10] * 4))
""",
        named={"work": 12},
        marked={"marked": 12},
        in_full=True,
    ),
    RealProgram(
        "processes that end by os._exit and by signals",
        source=WORK
        + """
import signal
if __name__ == "__main__":
    for end in (lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os.abort()):
        child = os.fork()
        if child == 0:
            marked(10)
            end()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
""",
        named={"work": 3},
        marked={"marked": 3},
        in_full=True,
    ),
    RealProgram(
        "a module of the standard library", ("-m", "json.tool", "data.json"), files={"data.json": '{"a": [1]}'}
    ),
    RealProgram(
        "unittest",
        ("-m", "unittest", "-q", "prog"),
        WORK
        + """
import unittest
class Sums(unittest.TestCase):
    def test_ten(self):
        self.assertEqual(marked(10), 45)
    def test_wrong(self):
        self.assertEqual(work(10), 46)
""",
        task=("prog:work",),
        named={"work": 2},
        marked={"marked": 1},
        in_any_order=True,
    ),
    RealProgram(
        "pytest on two processes",
        ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", "--basetemp=base", "-n", "2", "test_sums.py"),
        files={
            "sums.py": WORK,
            "test_sums.py": """
import pytest, sums
@pytest.mark.parametrize("n", range(8))
def test_sum(n):
    assert sums.marked(n) == n * (n - 1) // 2
def test_other():  # none fails: where its letter stands among the dots is left to chance
    assert sums.work(3) == 3
""",
        },
        needs=("pytest", "xdist"),
        task=("sums:work",),
        named={"work": 9},
        marked={"marked": 8},
        in_any_order=True,
    ),
    RealProgram(
        "a library's own tests",
        (
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--basetemp=base",
            "--noconftest",  # which imports all that it finds
            "--pyargs",
            "networkx.algorithms.tests.test_boundary",
        ),
        needs=("pytest", "networkx"),
        task=("networkx.algorithms.boundary:*_boundary",),
        named={"edge_boundary": 1, "node_boundary": 1},
        in_any_order=True,
        least=True,
        thorough=True,
    ),
    RealProgram(
        "dask on threads and on processes",
        source=WORK
        + """
if __name__ == "__main__":
    import dask
    sums = [dask.delayed(marked)(n) for n in range(8)]
    for scheduler in ("synchronous", "threads", "processes"):
        print(dask.compute(*sums, scheduler=scheduler, num_workers=2))
""",
        needs=("dask",),
        named={"work": 24},
        marked={"marked": 24},
        thorough=True,
    ),
    RealProgram(
        "dask's cluster on this machine",
        source=WORK
        + """
if __name__ == "__main__":
    from distributed import Client
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        print(client.gather(client.map(marked, range(8))))
""",
        needs=("distributed",),
        named={"work": 8},
        marked={"marked": 8},
        thorough=True,
    ),
    RealProgram(
        "loky and joblib",
        source=WORK
        + """
if __name__ == "__main__":
    from joblib import Parallel, delayed
    from loky import get_reusable_executor
    print(list(get_reusable_executor(max_workers=2).map(marked, range(6))))
    for backend in ("loky", "multiprocessing", "threading"):
        print(Parallel(n_jobs=2, backend=backend)(delayed(marked)(n) for n in range(6)))
""",
        needs=("loky", "joblib"),
        named={"work": 24},
        marked={"marked": 24},
    ),
    RealProgram(
        "Ray's tasks and actors",
        source=WORK
        + """
if __name__ == "__main__":
    import ray

    @ray.remote
    def remote(n):
        return marked(n)

    @ray.remote
    class Sum:
        total = 0
        def add(self, n):
            self.total += marked(n)
            return self.total

    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    print(ray.get([remote.remote(n) for n in range(6)]), ray.get(ray.remote(marked).remote(3)))
    actor = Sum.remote()
    print(ray.get([actor.add.remote(10) for _ in range(3)]))
    ray.shutdown()
""",
        needs=("ray",),
        task=("__main__:*",),
        named={"work": 10},
        marked={"marked": 10, "remote": 6, "Sum.add": 3, "Sum.__init__": 1},
        in_any_order=True,
        thorough=True,
    ),
    RealProgram(
        "FastAPI's client for tests",
        source=WORK
        + """
import asyncio, httpx
from fastapi import FastAPI
app = FastAPI()

@app.get("/sum/{n}")
async def total(n: int):
    return {"sum": marked(n)}

async def main():
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answers = await asyncio.gather(*(client.get(f"/sum/{n}") for n in range(4)))
    print([answer.json() for answer in answers])

if __name__ == "__main__":
    asyncio.run(main())
""",
        needs=("fastapi", "httpx"),
        task=("__main__:*",),
        named={"work": 4, "total": 4, "main": 1},
        marked={"marked": 4},
    ),
    RealProgram(
        "compileall on two processes",
        ("-m", "compileall", "-q", "-j", "2", "package"),
        files={f"package/m{n}.py": f"value = {n}\n" for n in range(8)},
        task=("py_compile:compile",),
        named={"compile": 8},
        in_any_order=True,
    ),
    RealProgram(
        "a script that another program executes",
        source="import runpy\nrunpy.run_path('other.py', run_name='__main__')\n",
        files={"other.py": WORK + "print(marked(10))\n"},
        task=("other.py:work",),
        named={"work": 1},
        marked={"marked": 1},
    ),
    RealProgram(
        "polars with a function of the program",
        source=WORK
        + """
if __name__ == "__main__":
    import polars
    frame = polars.DataFrame({"n": range(6)})
    print(frame.select(polars.col("n").map_elements(marked, return_dtype=polars.Int64)).to_series().to_list())
""",
        needs=("polars",),
        named={"work": 6},
        marked={"marked": 6},
    ),
    RealProgram(
        "ranks of MPI",
        source=WORK
        + """
from mpi4py import MPI
if __name__ == "__main__":
    world = MPI.COMM_WORLD
    sums = world.gather(marked(10 + world.rank))
    if world.rank == 0:
        print(sums)
""",
        needs=("mpi4py",),
        named={"work": 3},
        marked={"marked": 3},
        launcher=("mpirun", "-n", "3"),
        in_any_order=True,
    ),
    RealProgram(
        "mpi4py's pool",
        ("-m", "mpi4py.futures", "prog.py"),
        WORK
        + """
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print(list(pool.map(marked, range(8))))
""",
        needs=("mpi4py",),
        task=("prog.py:work",),
        named={"work": 8},
        marked={"marked": 8},
        launcher=("mpirun", "-n", "3"),
        in_any_order=True,
        thorough=True,
    ),
    RealProgram(
        "torch's loader",
        source=WORK
        + """
if __name__ == "__main__":
    import torch.utils.data
    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, n):
            return marked(n)
    print([batch.tolist() for batch in torch.utils.data.DataLoader(Squares(), batch_size=2, num_workers=2)])
""",
        needs=("torch",),
        named={"work": 8},
        marked={"marked": 8},
        thorough=True,
    ),
]
