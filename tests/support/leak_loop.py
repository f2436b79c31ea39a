"""A program: does things of tprof's again and again, and prints as JSON what it holds before and after.

Arguments: rounds of warm-up, rounds that are measured, and names in `WAYS`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import os
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path

from tprof.analysis.export.formats import FORMATS, format_named
from tprof.runtime import Runtime

import tprof
import tprof.metrics
from tprof.cli import main as command_line
from tprof.trace.compress import compress as compress_session

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PLACE = Path.cwd()
SESSION = PLACE / "kept.tprof"
OTHER = PLACE / "other.tprof"


@tprof.task(name="short")
def work():
    return sum(range(100))


def record(path):
    """Record a few instances into a new session."""
    with tprof.record(path, energy="estimate", counters="none"):
        for _ in range(50):
            work()


def record_again():
    record(PLACE / "again.tprof")
    shutil.rmtree(PLACE / "again.tprof")


def record_unnamed():
    with tprof.record(energy="estimate", counters="none") as recording:
        work()
    recording.profile().summary()
    shutil.rmtree(recording.path.parent)  # it is kept until the end of the process


def record_and_fork():
    path = PLACE / "forked.tprof"
    with tprof.record(path, energy="estimate", counters="none"):
        child = os.fork()
        if not child:
            work()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    shutil.rmtree(path)


def load():
    for thread in tprof.load(SESSION).threads:
        thread.read()


def profile():
    tprof.load(SESSION).profile().summary()


def profile_in_windows():
    tprof.load(SESSION).profile(tables=False, window_samples=20).summary()


def record_limited(**options):
    """Record while another process limits, sums or compresses what is written."""
    place = PLACE / "limited.tprof"
    with tprof.record(place, energy="estimate", counters="none", overwrite=True, **options):
        work()
    shutil.rmtree(place)


def export(name):
    target = PLACE / f"out-{name}"
    format_named(name).write(tprof.load(SESSION).profile(), target)
    shutil.rmtree(target) if target.is_dir() else target.unlink()


def budget():
    with tprof.budget(joules=1e6):
        work()


def regions_and_gpu():
    with tprof.record(PLACE / "g.tprof", energy="estimate", counters="none"):
        with tprof.region("part"):
            work()
        with contextlib.suppress(tprof.TprofError), tprof.gpu():  # without a GPU it says so
            work()
    shutil.rmtree(PLACE / "g.tprof")


def new_tasks():
    def anew():
        return work()

    tprof.task(anew)()
    tprof.task(name="short")(anew)()


def write_trace():
    thread = {"t_ns": [0, 5, 9], "instance": [1, 2, 0], "task": [0, 1, -1]}
    tprof.write_trace(PLACE / "w.tprof", tasks=["a", "b"], threads=[thread], energy={"package-0": ([0, 9], [0, 1])})
    tprof.load(PLACE / "w.tprof").profile().summary()
    shutil.rmtree(PLACE / "w.tprof")


def live():
    with tprof.record(PLACE / "l.tprof", energy="estimate", counters="none") as recording:
        work()
        recording.energy()
    shutil.rmtree(PLACE / "l.tprof")


def runtime():
    with Runtime(workers=2) as made:
        for at in range(20):
            made.submit(len, (at,))
        made.wait()


def metrics():
    tprof.metrics.start(0)
    tprof.metrics.stop()


def metrics_of_recording():
    with tprof.record(PLACE / "m.tprof", energy="estimate", counters="none"):
        port = tprof.metrics.start(0)
        work()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            page.read()
        tprof.metrics.stop()
    shutil.rmtree(PLACE / "m.tprof")


def label():
    with tprof.record(PLACE / "n.tprof", energy="estimate", counters="none"):
        tprof.label(rank=3, role="reader" * 30)
        work()
    shutil.rmtree(PLACE / "n.tprof")


def job():
    command("merge", SESSION, OTHER, "-o", "job.tprof")
    tprof.load(PLACE / "job.tprof").profile().summary()
    command("summary", "job.tprof")
    shutil.rmtree(PLACE / "job.tprof")


def command(*words):
    """Run the command line; what it prints, progress too, goes nowhere. It must end with 0."""
    sys.argv = ["tprof", *map(str, words)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = _status()
    assert not status, (words, status, said.getvalue())


def _status():
    try:
        command_line()
    except SystemExit as end:
        return end.code
    return 0


def commands(*lines):
    """Run lines of words, and remove what they wrote."""
    kept = set(PLACE.iterdir())
    for line in lines:
        command(*line.split())
    for path in set(PLACE.iterdir()) - kept:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def top_of_running():
    with tprof.record(PLACE / "r.tprof", energy="estimate", counters="none"):
        work()
        command("top", "--once", "--interval", 0.05, PLACE / "r.tprof")
    shutil.rmtree(PLACE / "r.tprof")


def compress():
    shutil.copytree(SESSION, PLACE / "c.tprof")
    compress_session(PLACE / "c.tprof")
    tprof.load(PLACE / "c.tprof").threads[0].read()
    shutil.rmtree(PLACE / "c.tprof")


def refuse():
    """Fail as users do: a session that exists, a sensor that does not, no session, a budget without a recording."""
    for call in (
        lambda: record(SESSION),
        lambda: tprof.record(PLACE / "x.tprof", energy="nothing").__enter__(),
        lambda: tprof.load(PLACE),
        lambda: tprof.record(PLACE / "missing" / "x.tprof", counters="nothing").__enter__(),
    ):
        try:
            call()
        except tprof.TprofError:
            continue
        raise AssertionError("this was not refused")


WAYS = {
    "record": record_again,
    "record unnamed": record_unnamed,
    "record and fork": record_and_fork,
    "load": load,
    "profile": profile,
    "profile in windows": profile_in_windows,
    "record with a size limit": functools.partial(record_limited, max_size="16MB"),
    "record sums": functools.partial(record_limited, keep="summary"),
    "record and compress": functools.partial(record_limited, compress=True),
    "compare": lambda: tprof.compare(SESSION, OTHER),
    "job": job,
    "budget": budget,
    "region": regions_and_gpu,
    "task": new_tasks,
    "write_trace": write_trace,
    "energy": live,
    "runtime": runtime,
    "metrics": metrics,
    "metrics of a recording": metrics_of_recording,
    "label": label,
    "top of what runs": top_of_running,
    "compress": compress,
    "refusals": refuse,
}
WAYS |= {f"export {one.name}": functools.partial(export, one.name) for one in FORMATS}
COMMANDS = {
    "top": ["top kept.tprof --once --interval 0.05"],
    "merge": ["merge kept.tprof other.tprof -o both.tprof"],
    "compress": ["merge kept.tprof -o one.tprof", "compress one.tprof"],
    "summary": ["summary kept.tprof", "summary kept.tprof --json"],
    "report": ["report kept.tprof -o kept.html"],
    "compare": ["compare kept.tprof other.tprof", "compare kept.tprof other.tprof -o compare.html"],
    "check": ["check kept.tprof --save base.json", "check kept.tprof --baseline base.json --max-increase 10000%"],
    "export": ["export kept.tprof csv -o tables"],
    "bench": ["bench stdlib_digest --energy estimate -o benched"],
    "sweep": ["sweep --frequencies none --workers 1 -o swept program.py"],
    "advise": ["advise points.csv -o advice.html"],
    "calibrate": ["calibrate --from runs.csv --power watts --counters ipc --group kernel -o model.json"],
    "roofline": ["roofline --machine gtx580 -o roofline.html"],
    "scaling": ["scaling matmul --plot scaling.html"],
    "doctor": ["doctor"],
    "sensors": ["sensors"],
    "config": ["config --all"],
}
WAYS |= {f"tprof {name}": functools.partial(commands, *lines) for name, lines in COMMANDS.items()}
PROGRAM = "sum(range(1000))\n"
POINTS = """task,setting,setting_unit,workers,time_s,energy_j
,1.6e9,Hz,4,3,60
,3.3e9,Hz,4,2,100
work,1.6e9,Hz,4,2,10
work,3.3e9,Hz,4,2,27
"""
RUNS = [f"{kernel},{n + kernel},{10 + 3 * n + kernel}" for kernel in range(8) for n in (1, 2, 4)]


def held():
    """Return what this process holds; its children and its files too."""
    gc.collect()
    own = Path("/proc/self")
    tasks = list((own / "task").iterdir())
    children = [(tid / "children").read_text("ascii") for tid in tasks]
    return {
        "descriptors": sorted(where(one) for one in (own / "fd").iterdir()),
        "threads": len(tasks),
        "children": " ".join(children).split(),
        "files": sorted(str(path) for path in Path(tempfile.gettempdir()).rglob("*")),
        "resident": int((own / "statm").read_text("ascii").split()[1]) * PAGE_BYTES,
    }


def where(descriptor):
    """Return what a descriptor is of, without what is new each time; that of the listing itself is gone."""
    try:
        target = str(descriptor.readlink())
    except OSError:
        return "gone"
    return target.partition(":[")[0]


def main():
    warm, rounds, names = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    record(SESSION)
    record(OTHER)
    for name, text in (
        ("program.py", PROGRAM),
        ("points.csv", POINTS),
        ("runs.csv", "\n".join(["kernel,ipc,watts", *RUNS])),
    ):
        (PLACE / name).write_text(text, "utf-8")
    for _ in range(warm):
        for name in names:
            WAYS[name]()
    before = held()
    for _ in range(rounds):
        for name in names:
            WAYS[name]()
    sys.stdout.write(json.dumps([before, held()]))


if __name__ == "__main__":
    main()
