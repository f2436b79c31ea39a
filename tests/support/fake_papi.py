"""A package `pypapi` whose library counts what a test can foresee: each read of an event set adds to its events.

The first event of a set goes up by 1, the second by 2, and so on. The library has PAPI's functions that tprof calls,
with their types and codes, and counts its own event sets.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = r"""
#include <string.h>
#define OK 0
#define NO_EVENT (-7)
#define NO_SET (-11)
#define SETS 4096
static struct { int used, events, running; long long reads; } sets[SETS];
static __thread int registered;
static unsigned long (*thread_id)(void);
static volatile int lock;
static const char *known[] = {KNOWN};

int fake_open_sets(void) { int n = 0; for (int i = 0; i < SETS; i++) n += sets[i].used; return n; }
int fake_registered(void) { return registered; }
int PAPI_library_init(int version) { return version == 0x06000000 ? version : -1; }
int PAPI_thread_init(unsigned long (*id)(void)) { thread_id = id; return OK; }
int PAPI_register_thread(void) { registered = thread_id != 0 && thread_id() != 0; return OK; }
int PAPI_unregister_thread(void) { registered = 0; return OK; }
int PAPI_create_eventset(int *set)
{
    while (__sync_lock_test_and_set(&lock, 1))
        ;
    for (*set = 0; *set < SETS && sets[*set].used; ++*set)
        ;
    const int found = *set < SETS;
    if (found) {
        memset(&sets[*set], 0, sizeof sets[*set]);
        sets[*set].used = 1;
    }
    __sync_lock_release(&lock);
    return found ? OK : -2;
}
int PAPI_add_named_event(int set, const char *name)
{
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], name) == 0) {
            sets[set].events++;
            return OK;
        }
    return NO_EVENT;
}
int PAPI_start(int set) { sets[set].running = registered; return registered ? OK : -1; }
int PAPI_read(int set, long long *values)
{
    if (!sets[set].running)
        return NO_SET;
    sets[set].reads++;
    for (int i = 0; i < sets[set].events; i++)
        values[i] = sets[set].reads * (i + 1);
    return OK;
}
int PAPI_stop(int set, long long *values) { memset(values, 0, 8); sets[set].running = 0; return OK; }
int PAPI_cleanup_eventset(int set) { return sets[set].running ? -10 : OK; }
int PAPI_destroy_eventset(int *set) { sets[*set].used = 0; *set = -1; return OK; }
char *PAPI_strerror(int code) { return code == NO_EVENT ? "Event does not exist" : "Invalid argument"; }
"""
LOW = """
from types import SimpleNamespace

def num_components():
    return {number}

def get_component_info(number):
    return SimpleNamespace(name="perf_event", disabled=-4, disabled_reason="no counters in this machine")
"""


def make(folder: Path, events: tuple[str, ...], *, version: int = 0x06000000, disabled: bool = False) -> dict[str, str]:
    """Make the package with these events in a folder; returns the environment in which Python finds it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler for the library that stands in for PAPI's")
    package = folder / "pypapi"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "consts.py").write_text(f"PAPI_VER_CURRENT = {version}\n")
    (package / "papi_low.py").write_text(LOW.format(number=int(disabled)))
    (package / "fake.c").write_text(LIBRARY)
    known = ", ".join(f'"{name}"' for name in events)
    library = package / f"_papi{EXTENSION_SUFFIXES[0]}"
    command = [compiler, "-shared", "-fPIC", f"-DKNOWN={known}", "-o", library, package / "fake.c"]
    subprocess.run(command, check=True, timeout=60)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
