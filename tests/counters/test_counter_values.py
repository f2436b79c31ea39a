"""What counters count: all events of a group in one read, and scaled where the kernel let them take turns."""

import ctypes
import mmap
import shutil
import subprocess
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.descriptors import perf_descriptors
from support.properties import examples

import tprof
from tprof import counters
from tprof.errors import SensorError
from tprof.trace import Kind

CSRC = Path(__file__).resolve().parent.parent.parent / "tprof" / "csrc"
SCALED, UNCOUNTED = 2, 4

HARNESS = """
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>
static ssize_t fake_read(int fd, void *to, size_t size);
#define read fake_read
#include "counters.c"
#undef read

static uint64_t answer[3 + TPROF_MAX_EVENTS], answers[2][4];
static struct tprof_counters counters;
static int words, reads;

static ssize_t fake_read(int fd, void *to, size_t size)
{
    (void)size;
    reads++;
    memcpy(to, counters.group_count == 2 ? answers[fd] : answer, (size_t)words * 8);
    return words * 8;
}

void begin(int count)
{
    memset(&counters, 0, sizeof counters);
    counters.group_count = 1;
    counters.groups[0].count = count;
    for (int i = 0; i < count; i++)
        counters.groups[0].columns[i] = i;
    reads = 0;
}

int take(const uint64_t *given, int count, uint64_t *values)
{
    memcpy(answer, given, (size_t)count * 8);
    words = count;
    const int flags = tprof_counters_read(&counters, false);
    memcpy(values, counters.values, sizeof counters.values);
    return flags;
}

void begin_parts(void)
{
    begin(1);
    counters.group_count = 2;
    counters.groups[1].count = 1;
    counters.groups[0].part = counters.groups[1].part = true;
    counters.groups[0].fds[0] = 0;
    counters.groups[1].fds[0] = 1;
}

int take_parts(const uint64_t *given, uint64_t *values)
{
    memcpy(answers, given, sizeof answers);
    words = 4;
    const int flags = tprof_counters_read(&counters, false);
    memcpy(values, counters.values, sizeof counters.values);
    return flags;
}

void read_in_user_space(uint64_t cpu_ns, uint64_t increment)
{
    counters.last_cpu_ns = cpu_ns;
    counters.groups[0].raw[0] += increment;
    counters.values[0] += increment;
    note_user_read(&counters);
}

void run_until(uint64_t cpu_ns)
{
    counters.last_cpu_ns = cpu_ns;
}

int reads_taken(void)
{
    return reads;
}
"""


class Group:
    """A group of events whose read(2) answers what a test says."""

    def __init__(self, library, count) -> None:
        self.library, self.count = library, count
        self.enabled_ns = self.running_ns = 0
        self.raw = [0] * count
        library.begin(count)

    def take(self, enabled_ns, running_ns, increments):
        """Let time and counts advance; returns the flags and the values after it."""
        self.enabled_ns += enabled_ns
        self.running_ns += running_ns
        self.raw = [raw + more for raw, more in zip(self.raw, increments, strict=True)]
        return self.answer(self.count, self.enabled_ns, self.running_ns, *self.raw)

    def answer(self, *words):
        given, values = (ctypes.c_uint64 * len(words))(*words), (ctypes.c_uint64 * 11)()
        flags = self.library.take(given, len(words), values)
        return flags, list(values)[: self.count]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None or not CSRC.is_dir():
        pytest.skip("there is no C compiler, or no source to compile")
    place = tmp_path_factory.mktemp("counters")
    (place / "harness.c").write_text(HARNESS)
    sources = [place / "harness.c", CSRC / "descriptor.c", CSRC / "papi.c"]
    command = [compiler, "-std=gnu11", "-shared", "-fPIC", f"-I{CSRC}"]
    command += ["-o", place / "harness.so", *sources]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(place / "harness.so"))


def test_the_values_of_a_group_come_from_one_read(library):
    group = Group(library, 4)

    assert group.take(1000, 1000, [10, 20, 30, 40]) == (0, [10, 20, 30, 40])
    assert group.take(1000, 1000, [1, 2, 3, 4]) == (0, [11, 22, 33, 44])
    assert library.reads_taken() == 2


def test_a_group_that_ran_half_of_the_time_is_scaled_and_says_so(library):
    group = Group(library, 2)

    assert group.take(1000, 500, [10, 21]) == (SCALED, [20, 42])
    assert group.take(1000, 1000, [5, 5]) == (0, [25, 47])


def test_what_did_not_run_is_not_counted_rather_than_zero(library):
    group = Group(library, 1)
    group.take(1000, 1000, [10])

    assert group.take(1000, 0, [0]) == (UNCOUNTED, [10])
    assert group.take(1000, 1000, [30]) == (SCALED, [70])


def test_after_reads_in_user_space_only_what_came_later_is_scaled(library):
    """A million ns read in user space, nothing lost; then 1000 ns of which half ran."""
    group = Group(library, 1)
    library.read_in_user_space(ctypes.c_uint64(1_000_000), ctypes.c_uint64(500))
    library.run_until(ctypes.c_uint64(1_001_000))
    group.raw = [500]

    assert group.take(1_001_000, 1_000_500, [10]) == (SCALED, [520])
    assert group.take(1000, 1000, [5]) == (0, [525])


@pytest.mark.parametrize("words", [(), (1, 10, 10)], ids=["end of file", "short"])
def test_a_read_that_is_short_counts_nothing(library, words):
    group = Group(library, 1)
    group.take(1000, 1000, [10])

    assert group.answer(*words) == (UNCOUNTED, [10])


class Parts:
    """A counter of two kinds of cores: one event for each, of which the one runs on whose cores the thread is."""

    def __init__(self, library) -> None:
        self.library = library
        self.given = [[1, 0, 0, 0], [1, 0, 0, 0]]
        library.begin_parts()

    def take(self, *turns):
        """Let time pass, of each turn (enabled_ns, running_ns, count) of each part; returns the flags and the sum."""
        for one, (enabled_ns, running_ns, count) in zip(self.given, turns, strict=True):
            one[1:] = [one[1] + enabled_ns, one[2] + running_ns, one[3] + count]
        given, values = (ctypes.c_uint64 * 8)(*self.given[0], *self.given[1]), (ctypes.c_uint64 * 11)()
        flags = self.library.take_parts(given, values)
        return flags, values[0]


def test_a_thread_that_moves_between_kinds_of_cores_is_counted_on_both_and_not_scaled(library):
    parts = Parts(library)

    assert parts.take((50_000, 50_000, 100), (50_500, 0, 0)) == (0, 100)
    assert parts.take((50_000, 20_000, 40), (50_000, 30_400, 70)) == (0, 210)
    assert parts.take((50_000, 0, 0), (50_000, 50_000, 5)) == (0, 215)


def test_what_the_kinds_of_cores_lost_together_is_scaled(library):
    parts = Parts(library)

    assert parts.take((200_000, 60_000, 60), (200_000, 40_000, 40)) == (SCALED, 200)
    assert parts.take((200_000, 0, 0), (200_000, 0, 0)) == (UNCOUNTED, 200)
    assert parts.take((200_000, 0, 0), (200_000, 200_000, 50)) == (SCALED, 300)


@examples(100)
@given(turns=st.lists(st.tuples(st.integers(1, 10**8), st.floats(0, 1)), min_size=1, max_size=20))
def test_a_steady_event_of_two_kinds_of_cores_is_counted_once(library, turns):
    """One count a nanosecond, on cores of either kind, whatever part of each turn is on which."""
    parts = Parts(library)
    total_ns = 0

    for enabled_ns, share in turns:
        fast_ns = int(enabled_ns * share)
        slow_ns = enabled_ns - fast_ns
        flags, value = parts.take((enabled_ns, fast_ns, fast_ns), (enabled_ns, slow_ns, slow_ns))
        total_ns += enabled_ns
        assert (flags, value) == (0, total_ns)


TURN = st.tuples(st.integers(1, 10**9), st.floats(0, 1), st.lists(st.integers(0, 10**9), min_size=3, max_size=3))


@examples(200)
@given(turns=st.lists(TURN, max_size=20))
def test_scaling_is_the_exact_ratio_of_the_times(library, turns):
    group, exact, waiting = Group(library, 3), [Fraction(0)] * 3, [0, 0, [0] * 3]

    for enabled_ns, share, increments in turns:
        running_ns = int(enabled_ns * share)
        counted = increments if running_ns > 0 else [0] * 3
        flags, values = group.take(enabled_ns, running_ns, counted)
        waiting = [waiting[0] + enabled_ns, waiting[1] + running_ns, np.add(waiting[2], counted)]
        if waiting[1] == 0:
            assert flags == UNCOUNTED
            continue
        assert flags == (SCALED if waiting[1] < waiting[0] else 0)
        factor = Fraction(waiting[0], waiting[1])
        exact = [total + int(more) * factor for total, more in zip(exact, waiting[2], strict=True)]
        waiting = [0, 0, [0] * 3]
        for value, total in zip(values, exact, strict=True):
            assert abs(value - total) <= len(turns) + total / 10**15


@examples(100)
@given(turns=st.lists(st.tuples(st.integers(1000, 10**9), st.floats(0.01, 1)), min_size=1, max_size=20))
def test_a_steady_event_is_counted_as_if_it_had_always_run(library, turns):
    """One count a nanosecond of running: what is scaled is the time enabled."""
    group = Group(library, 1)

    for enabled_ns, share in turns:
        running_ns = max(int(enabled_ns * share), 1)
        _, values = group.take(enabled_ns, running_ns, [running_ns])

    assert values[0] == pytest.approx(group.enabled_ns, abs=len(turns))


PAGES = 1000


def increments(tmp_path, task, *columns):
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters=list(columns)):
        task()
    samples = tprof.load(tmp_path / "t.tprof").threads[0].read()
    begin, end = samples[samples["kind"] != Kind.JOIN]
    return {name: int(end[name] - begin[name]) for name in columns}


def needs(column):
    try:
        counters.choose(column)
    except SensorError as error:
        pytest.skip(str(error))


def test_page_faults_of_a_task_are_counted(tmp_path):
    needs("page_faults")

    @tprof.task
    def touch():
        with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(PAGES):
                memory[page * mmap.PAGESIZE] = 1

    counted = increments(tmp_path, touch, "page_faults")

    assert PAGES <= counted["page_faults"] < 2 * PAGES


def test_context_switches_of_a_task_are_counted_in_the_same_samples(tmp_path):
    needs("context_switches")

    @tprof.task
    def wait():
        for _ in range(20):
            threading.Event().wait(0.001)

    counted = increments(tmp_path, wait, "page_faults", "context_switches", "cpu_migrations")

    assert counted["context_switches"] >= 20
    assert counted["page_faults"] < PAGES
    assert 0 <= counted["cpu_migrations"] <= counted["context_switches"] + 1


def test_no_counter_stays_open_after_a_recording(tmp_path):
    """As long as its thread lived it would take a counter from other tools, and from the next recording."""
    needs("page_faults")
    before, counted, release = perf_descriptors(), threading.Event(), threading.Event()

    @tprof.task
    def touch():
        counted.set()

    def touch_and_stay():
        touch()
        release.wait()

    other = threading.Thread(target=touch_and_stay)
    try:
        with tprof.record(tmp_path / "t.tprof", energy="none", counters=["page_faults"]):
            touch()
            counted.clear()
            other.start()
            assert counted.wait(30)
            during = perf_descriptors()
        after = perf_descriptors()
    finally:
        release.set()
        other.join()

    assert during >= before + 2
    assert after == before
