"""Which counters a recording reads, and one line on why there are no others."""

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import tprof
from tprof import counters
from tprof.counters.groups import HARDWARE, SOFTWARE
from tprof.errors import SensorError, UsageError

UNKNOWN = Path("/no/such/root")
"""A machine that shows neither its processor nor PMUs."""
WORKS = (0, 1000, 50, 50)
NEVER_RUNS = (0, 0, 50, 0)


def refused(number):
    return (number, 0, 0, 0)


def choose(probe, asked="auto", **options):
    return counters.choose(asked, probe=probe, **{"root": UNKNOWN, **options})


def columns(plan):
    return [counter.column for counter in plan.counters]


def test_hardware_counters_are_taken_where_they_count():
    plan = choose(lambda _: WORKS)

    assert plan.source == "perf"
    assert columns(plan) == ["instructions", "cycles", "llc_misses"]


def test_without_hardware_counters_the_kernels_own_events_count_only_if_they_are_named():
    """No model uses them, and reading them makes a sample several times as long."""

    def software(event):
        return WORKS if event.type == SOFTWARE else refused(errno.ENOENT)

    plan, named = choose(software), choose(software, ["context_switches", "page_faults"])

    assert (plan.source, columns(plan)) == ("none", [])
    assert plan.why == "no hardware counters: the processor or its hypervisor offers no such event"
    assert (named.source, columns(named)) == ("software", ["context_switches", "page_faults"])


def test_a_counter_that_opens_but_never_runs_does_not_count():
    plan = choose(lambda event: NEVER_RUNS if event.type == HARDWARE else WORKS)

    assert plan.source == "none"
    assert "it opens but never runs" in plan.why
    assert "NMI watchdog" in plan.why


def test_a_missing_third_counter_is_noted_and_the_others_are_read():
    plan = choose(lambda event: refused(errno.ENOENT) if event.column == "llc_misses" else WORKS)

    assert columns(plan) == ["instructions", "cycles"]
    assert plan.notes == ("no llc_misses: the processor or its hypervisor offers no such event",)


@pytest.mark.parametrize(
    "number",
    [
        errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EMFILE, errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP,
        errno.ENODEV, errno.EBUSY, errno.E2BIG, errno.ENOMEM,
    ],
)  # fmt: skip
def test_every_refusal_is_explained_in_one_line(number):
    plan = choose(lambda _: refused(number))

    assert (plan.source, plan.counters, plan.groups) == ("none", (), ())
    assert plan.why.startswith("no hardware counters: ")
    assert "\n" not in plan.why
    assert len(plan.why) > len("no hardware counters: ") + 10


def test_counters_that_are_named_are_added_to_instructions_and_cycles():
    plan = choose(lambda _: WORKS, "stalls_frontend,llc_refs,page_faults")

    assert columns(plan) == ["instructions", "cycles", "llc_misses", "stalls_frontend", "llc_refs", "page_faults"]


def test_a_named_counter_that_does_not_count_is_refused():
    with pytest.raises(
        SensorError, match=r"^the counter instructions does not count here: kernel\.perf_event_paranoid"
    ):
        choose(lambda _: refused(errno.EACCES), ["llc_refs"])


def test_a_counter_of_another_name_is_refused():
    with pytest.raises(UsageError, match=r"counters must be auto, none or some of instructions, .*, got 'ipc'"):
        choose(lambda _: WORKS, ["ipc"])


REFUSE = """
import ctypes, platform, struct, sys

# ld [nr]; if nr == perf_event_open: return ERRNO | number; else: return ALLOW
NUMBER = {"x86_64": 298, "aarch64": 241}[platform.machine()]
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, NUMBER), (0x06, 0, 0, 0x00050000 | int(sys.argv[2])), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.addressof(program), 0, 0):
    print("no seccomp filter here")
    sys.exit()

import tprof

@tprof.task
def work(n):
    return sum(range(n))

with tprof.record(sys.argv[1], energy="estimate"):
    print(work(100))
"""


@pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="the system call's number is not known")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOSYS])
def test_where_a_sandbox_refuses_perf_events_time_and_energy_are_recorded(tmp_path, number):
    command = [sys.executable, "-c", REFUSE, tmp_path / "t.tprof", str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
    if "no seccomp filter" in done.stdout:
        pytest.skip("no seccomp filter can be set here")

    trace = tprof.load(tmp_path / "t.tprof")
    manifest = json.loads((tmp_path / "t.tprof/manifest.json").read_text())
    assert (done.stdout, done.stderr, done.returncode) == ("4950\n", "", 0)
    assert manifest["counters"]["source"] == "none"
    assert choose(lambda _: refused(number)).why == manifest["counters"]["why"]
    assert trace.threads[0].columns == ("energy_uj", "cpu_ns")
    assert trace.threads[0].count >= 2
    assert len(trace.readings["package-0"].t_ns) >= 2
