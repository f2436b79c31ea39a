"""The graph's C code alone, compiled for ThreadSanitizer: bodies that no dependence orders are a data race."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
C_FILES = HERE.parent / "runtime" / "csrc"
NAMES = ("node", "entering", "ending", "domain", "regions", "queues", "deque", "slots", "lock", "shape")
DEADLINE_S = 300
FIXED_ADDRESSES = ("setarch", "--addr-no-randomize")
RELEASE = "tprof_graph_released(work, 0, deferred);"
FAULT = {
    "#include <stdlib.h>": "#include <stdlib.h>\n#include <unistd.h>",
    "(void)atomic_fetch_add(&work->unmet, 1);": "",
    # Its predecessors end meanwhile, however few processors there are.
    RELEASE: f"usleep(300); if (work->unmet == 0) work->unmet = 1, {RELEASE}",
}


def build(folder, sources):
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("setarch") is None:
        pytest.skip("needs a C compiler and setarch")
    if subprocess.run([*FIXED_ADDRESSES, "true"], capture_output=True, check=False).returncode:
        pytest.skip("addresses of programs are always random here")
    program = folder / "graph_stress"
    files = [HERE / "support" / "graph_stress.c", *sources]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=thread", f"-I{C_FILES}", "-pthread"]
    made = subprocess.run(
        [compiler, *flags, "-o", str(program), *map(str, files)], capture_output=True, text=True, check=False
    )
    if "tsan" in made.stderr:
        pytest.skip("this compiler has no ThreadSanitizer")
    assert made.returncode == 0, made.stderr
    return program


def run(program, works, seed, timeout_s=DEADLINE_S):
    """Its shadow memory needs addresses that are not random."""
    return subprocess.run(
        [*FIXED_ADDRESSES, str(program), str(works), str(seed)],
        # Another sanitizer may be loaded into this process.
        env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_works_on_overlapping_data_race_with_none_that_they_depend_on(tmp_path):
    program = build(tmp_path, [C_FILES / f"{name}.c" for name in NAMES])

    for seed in range(5):
        ran = run(program, 1000, seed)

        assert (ran.stdout, ran.stderr, ran.returncode) == ("2000 works\n", "", 0)


def test_a_work_that_does_not_count_itself_while_it_enters_is_found(tmp_path):
    """Otherwise the test above would say nothing."""
    source = (C_FILES / "entering.c").read_text(encoding="utf-8")
    for line, instead in FAULT.items():
        assert line in source
        source = source.replace(line, instead)
    (tmp_path / "entering.c").write_text(source, encoding="utf-8")
    sources = [C_FILES / f"{name}.c" for name in NAMES if name != "entering"]

    program = build(tmp_path, [tmp_path / "entering.c", *sources])

    assert any(is_broken(program, seed) for seed in range(5))


def is_broken(program, seed):
    try:
        return run(program, 1000, seed, timeout_s=10).returncode != 0
    except subprocess.TimeoutExpired:
        return True
