"""`--task` finds a program's functions, whoever holds them, and the program cannot tell."""

import os
import py_compile
import sys

import numpy as np
import pytest
from support.launched import HAS_EVENTS, compare, execute
from support.programs import TPROF
from support.recorded import failures, instances

import tprof
from tprof.trace import Kind

needs_events = pytest.mark.skipif(not HAS_EVENTS, reason="Python has no sys.monitoring before 3.12")


REGISTERED = """
import functools, inspect, pickle
kept = []

def register(function):
    kept.append(function)
    return function

def timed(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@register
def first():
    "What it does."
    return 1

@timed
@register
def second(a: int, *, b=2):
    def inner(x):
        return x + a
    return inner(b)

@functools.lru_cache
def cached(n):
    return n

class Shape:
    def __init__(self, side): self.side = side
    def area(self): return self.side ** 2
    @property
    def twice(self): return 2 * self.side
    @classmethod
    def unit(cls): return cls(1)
    @staticmethod
    def plain(): return 3

kept[0](), first(), second(1), cached(1), cached(1), [f(3) for f in kept[1:]]
shape = Shape.unit()
shape.area(), shape.twice, shape.plain()
print(inspect.isfunction(first), first is kept[0], pickle.loads(pickle.dumps(first)) is first, first.__doc__)
print(inspect.signature(second), kept[1].__kwdefaults__, first.__code__.co_varnames, sorted(vars()))
print([name for name, _ in inspect.getmembers(Shape, inspect.isfunction)], inspect.getsource(first))
"""


def test_functions_are_seen_whoever_holds_them_and_stay_what_they_are(tmp_path):
    ran = compare(tmp_path, REGISTERED, "__main__:first", "__main__:inner", "prog:cached", "__main__:Shape.*")

    assert ran == {
        "first": 2,
        "inner": 2,
        "cached": 1,
        "Shape.__init__": 1,
        "Shape.area": 1,
        "Shape.twice": 1,
        "Shape.unit": 1,
        "Shape.plain": 1,
    }


STEPS = """
import asyncio, itertools, threading

def count(n):
    for i in range(n):
        yield i

async def step(k):
    for _ in range(3):
        await asyncio.sleep(0)
    return k

async def numbers(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i

async def waits():
    await asyncio.sleep(100)

async def main():
    print(await asyncio.gather(*map(step, range(5))), [n async for n in numbers(3)])
    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    print(await asyncio.gather(task, return_exceptions=True))

def fails():
    raise KeyError

print(list(itertools.zip_longest(count(3), count(3))))
half = count(4)
next(half)
thread = threading.Thread(target=lambda: print(list(half)))
thread.start()
thread.join()
unused = count(1)
try:
    unused.throw(ValueError)
except ValueError:
    pass
try:
    fails()
except KeyError:
    pass
asyncio.run(main())
"""


def test_a_generator_or_coroutine_is_one_instance_however_often_it_is_suspended(tmp_path):
    ran = compare(tmp_path, STEPS, "__main__:*")

    assert ran == {"count": 3, "step": 5, "numbers": 1, "waits": 1, "main": 1, "fails": 1}
    trace = tprof.load(tmp_path / "t.tprof")
    assert failures(trace) == 2  # fails, and the coroutine that was cancelled
    own = [index for index, entry in enumerate(trace.tasks) if entry.is_own]
    samples = [thread.read() for thread in trace.threads]
    starts = sum(int(((one["kind"] == Kind.START) & np.isin(one["task"], own)).sum()) for one in samples)
    assert starts == sum(ran.values())


def test_names_that_other_modules_took_before_are_seen_and_reloaded_modules_too(tmp_path):
    (tmp_path / "early.py").write_text("import late\nfrom late import work\ndef call(): return work()\n")
    (tmp_path / "late.py").write_text("def work(): return 1\nimport early\nsaved = [work]\n")
    source = "import importlib, late\nfrom early import call\nprint(call(), late.saved[0]())\n"
    source += "importlib.reload(late)\nprint(late.work(), call())\n"

    assert compare(tmp_path, source, "late:work") == {"work": 4}


def test_functions_of_modules_that_were_imported_before_the_program_are_seen(tmp_path):
    source = "from textwrap import dedent\nimport json, math\ndedent(' a'), json.dumps({}), math.floor(2.5)\n"

    ran = compare(tmp_path, source, "textwrap:dedent", "json:dumps", "math:floor")

    assert ran == {"dedent": 1, "dumps": 1, "floor": 1}


def test_functions_that_other_objects_hold_are_pickled_by_their_names(tmp_path):
    (tmp_path / "ordered.py").write_text(
        "import functools\n"
        "@functools.total_ordering\n"
        "class Version:\n"
        "    def __init__(self, number): self.number = number\n"
        "    def __eq__(self, other): return self.number == other.number\n"
        "    def __lt__(self, other): return self.number < other.number\n"
    )
    source = "import pickle, contextlib\nfrom ordered import Version\n"
    source += "print(pickle.loads(pickle.dumps(Version.__gt__)) is Version.__gt__, Version(2) > Version(1))\n"
    source += "held = [contextlib.asynccontextmanager, contextlib.AsyncExitStack.enter_async_context]\n"
    source += "print([pickle.loads(pickle.dumps(one)) is one for one in held])\n"

    ran = compare(tmp_path, source, "functools:*", "contextlib:*")

    assert ran["_gt_from_lt"] == 1


def test_every_function_of_every_module_may_be_a_task(tmp_path):
    source = "import threading\nthread = threading.Thread(target=print, args=('ran',))\nthread.start(); thread.join()\n"

    assert compare(tmp_path, source, "re:.*")["Thread.start"] == 1


def test_functions_of_a_module_without_source_are_pickled_by_their_names_too(tmp_path):
    (tmp_path / "compiled.py").write_text("def held(): return 1\ndef alone(): return 2\nregistry = {'held': held}\n")
    py_compile.compile(tmp_path / "compiled.py", tmp_path / "compiled.pyc")
    (tmp_path / "compiled.py").unlink()
    source = "import pickle, compiled\nheld = compiled.registry['held']\n"
    source += "print(pickle.loads(pickle.dumps(held)) is held is compiled.held, held(), compiled.alone())\n"

    assert compare(tmp_path, source, "compiled:*")["alone"] == 1


DATACLASS = """
from dataclasses import dataclass

@dataclass
class Point:
    x: int
    def norm(self): return abs(self.x)

print(Point(1), Point(2).norm())
"""


@needs_events
def test_methods_that_dataclass_writes_are_seen(tmp_path):
    ran = compare(tmp_path, DATACLASS, "__main__:Point.__init__", "__main__:Point.norm")

    assert ran == {"Point.__init__": 2, "Point.norm": 1}


def test_a_decorated_task_counts_once(tmp_path):
    source = "import tprof\n@tprof.task\ndef f(): return 1\ndef g(): return f()\nprint(g(), f())\n"

    assert compare(tmp_path, source, "__main__:*") == {"f": 2, "g": 1}


def test_a_traceback_has_no_frames_but_the_programs(tmp_path):
    source = "def f(n):\n    if n == 0:\n        raise ValueError('deep')\n    return f(n - 1)\nf(3)\n"

    assert compare(tmp_path, source, "__main__:f") == {"f": 4}


def test_a_module_that_fails_to_import_has_the_traceback_it_has_alone(tmp_path):
    (tmp_path / "helper.py").write_text("def f(): return {}['missing']\nf()\n")

    assert compare(tmp_path, "import helper\n", "helper:f") == {"f": 1}


def test_lambdas_are_left_out_unless_they_are_named(tmp_path):
    source = "double = lambda x: 2 * x\ndef f(): return sum(double(x) for x in range(3))\nprint(f())\n"

    assert compare(tmp_path, source, "__main__:*") == {"f": 1}


FORKS = """
import os
def f(): return 1
def g():
    child = os.fork()
    f()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
g()
f()
"""


def test_a_forked_child_goes_on_with_what_is_selected(tmp_path):
    ran = compare(tmp_path, FORKS, "__main__:*")

    assert ran == {"f": 3, "g": 1}


BY_VALUE = """
import cloudpickle, subprocess, sys, tprof

@tprof.task
def marked(n):
    return n + 1

def f(n):
    def inner(): return n
    return inner()

def steps(n):
    yield from range(n)

if __name__ == "__main__":
    code = "import pickle, sys; f, steps, g = pickle.load(sys.stdin.buffer); print([f(1), f(2), *steps(2), g(1)])"
    for _ in range(2):
        given = cloudpickle.dumps((f, steps, marked))
        subprocess.run([sys.executable, "-c", code], input=given, check=True)
"""


def test_functions_that_travel_by_value_are_the_same_tasks(tmp_path):
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed: pip install cloudpickle")

    ran = compare(tmp_path, BY_VALUE, "__main__:*")

    assert ran == {"f": 4, "inner": 4, "steps": 2, "marked": 2}


WATCHED = """
import cProfile, sys
def f(n): return n + 1
def g():
    yield f(1)
seen = []
sys.settrace(lambda frame, event, arg: seen.append(frame.f_code.co_name))
f(2)
sys.settrace(None)
with cProfile.Profile() as profile:
    f(3), list(g())
names = [entry.code.co_name for entry in profile.getstats() if not isinstance(entry.code, str)]
print(seen, [name for name in sorted(names) if name != "__exit__"])
"""


def test_debuggers_and_profilers_see_the_program_alone(tmp_path):
    # Before 3.12 a generator that is a task is one inside another.
    ran = compare(tmp_path, WATCHED, "__main__:*" if HAS_EVENTS else "__main__:f")

    assert ran == ({"f": 3, "g": 1} if HAS_EVENTS else {"f": 3})


@needs_events
def test_another_tool_of_sys_monitoring_works_beside(tmp_path):
    source = (
        "import sys\nm = sys.monitoring\nm.use_tool_id(1, 'mine')\nseen = []\ndef f(): return 1\n"
        "m.register_callback(1, m.events.PY_START, lambda code, at: seen.append(code.co_name) or m.DISABLE)\n"
        "m.set_events(1, m.events.PY_START)\nf(); f(); m.restart_events(); f()\nm.set_events(1, 0)\nprint(seen)\n"
    )

    assert compare(tmp_path, source, "__main__:f") == {"f": 3}


@needs_events
def test_where_other_tools_have_every_number_functions_are_found_all_the_same(tmp_path):
    (tmp_path / "prog.py").write_text("import textwrap\ndef f(): return 1\nprint(f(), textwrap.dedent(''))\n")
    taken = "import sys\nfor tool in 3, 4: sys.monitoring.use_tool_id(tool, 'other')\n"
    words = ["tprof", "run", "--energy", "estimate", "--no-summary", "--task", "__main__:f", "prog.py"]
    done = execute(tmp_path, sys.executable, "-c", f"{taken}sys.argv = {words}\nfrom tprof.cli import main\nmain()\n")

    assert (done.returncode, done.stdout, done.stderr) == (0, "1 \n", "")
    assert instances(tprof.load(tmp_path / "prog.tprof")) == {"f": 1}


def test_no_compiled_file_of_the_users_holds_tasks(tmp_path):
    (tmp_path / "helper.py").write_text("def f(): return 1\n")

    compare(tmp_path, "import helper\nprint(helper.f())\n", "helper:f")
    plain = execute(tmp_path, sys.executable, "-c", "import helper, dis; print('WITH' in dis.Bytecode(helper.f).dis())")

    assert plain.stdout == "False\n"


POOL = """
from concurrent.futures import InterpreterPoolExecutor

def outer(n):
    return inner(n)

def inner(n):
    return n + 1

if __name__ == "__main__":
    with InterpreterPoolExecutor(2) as pool:
        print(list(pool.map(outer, range(20))), inner(1))
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="InterpreterPoolExecutor is new in Python 3.14")
def test_functions_are_found_in_other_interpreters(tmp_path):
    assert compare(tmp_path, POOL, "__main__:*") == {"outer": 20, "inner": 21}


@pytest.mark.skipif(sys.version_info < (3, 13), reason="no library creates interpreters before Python 3.13")
@pytest.mark.parametrize("patterns", [(), ("__main__:*",)], ids=["default", "tasks"])
def test_other_interpreters_begin_with_the_programs_own_arguments_and_path(tmp_path, patterns):
    (tmp_path / "beside.py").write_text("WHERE = __file__\n")
    source = (
        "import _interpreters\n"
        "made = _interpreters.create()\n"
        "failed = _interpreters.exec(made, 'import beside, sys; print(beside.WHERE, sys.argv, sys.orig_argv[1:])')\n"
        "print(failed)\n"
        "_interpreters.destroy(made)\n"
        "def f(): pass\n"
        "f()\n"
    )

    compare(tmp_path, source, *patterns)


def test_code_that_the_program_drops_is_dropped(tmp_path):
    source = (
        "import gc, weakref\n"
        "def make():\n"
        "    names = {'__name__': '__main__', '__file__': __file__}\n"
        "    exec(compile('def gone(): return 1', __file__, 'exec'), names)\n"
        "    names['gone']()\n"
        "    return weakref.ref(names['gone'].__code__)\n"
        "kept = make()\n"
        "gc.collect()\n"
        "print(kept())\n"
    )

    ran = compare(tmp_path, source, "__main__:*")

    assert ran == ({"make": 1, "gone": 1} if HAS_EVENTS else {"make": 1})


CHILDREN = """
import subprocess, sys, venv
venv.create("other", symlinks=True)
for python in (sys.executable, "other/bin/python"):
    subprocess.run([python, "-c", "import sys; print(sys.path)"], check=True)
"""


@pytest.mark.parametrize("patterns", [(), ("__main__:*",)], ids=["default", "tasks"])
def test_python_children_search_where_they_search_by_themselves(tmp_path, patterns):
    compare(tmp_path, CHILDREN, *patterns)


LIBRARIES = """
import os
import sys
print(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"tprof"}))
"""


@pytest.mark.parametrize("patterns", [(), ("__main__:*",)], ids=["default", "tasks"])
def test_a_program_meets_no_library_that_the_command_line_needs(tmp_path, patterns):
    compare(tmp_path, LIBRARIES, *patterns)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root folder")
@pytest.mark.parametrize("patterns", [(), ("__main__:*",)], ids=["default", "tasks"])
def test_a_program_may_lose_sight_of_the_files_of_python(tmp_path, patterns):
    (tmp_path / "root").mkdir()
    source = "import os\ndef f(): return 1\nos.chroot('root')\nos.chdir('/')\nprint(f())\n"

    compare(tmp_path, source, *patterns)
    words = [word for pattern in patterns for word in ("--task", pattern)]
    said = execute(tmp_path, TPROF, "run", "--energy", "estimate", "-o", "u.tprof", *words, "prog.py")

    advice = "tprof: cannot sum up: no such file or directory; print the summary by: tprof summary u.tprof\n"
    assert (said.returncode, said.stderr) == (0, advice)


# numba compiles bytecode, and refuses blocks of `with` that are not its own.
NUMBA = """
import dis

def njit(function=None, **options):
    if function is None:
        return njit
    if any(one.opname in ("BEFORE_WITH", "LOAD_SPECIAL") for one in dis.get_instructions(function)):
        raise TypeError(f"{function.__name__} cannot be compiled")
    return function
"""
COMPILED = """
import numba
import numba as nb
from numba import njit as fast

@numba.njit
def first(n):
    return n

@nb.njit(parallel=True)
def second(n):
    return n

@fast
def third(n):
    return n

def fourth(n):
    return n

called = numba.njit(parallel=True)(fourth)

def caller(n):
    return first(n) + second(n) + third(n) + called(n)

print(caller(1))
"""


def test_functions_that_numba_compiles_stay_as_they_are(tmp_path):
    (tmp_path / "numba.py").write_text(NUMBA)

    assert compare(tmp_path, COMPILED, "__main__:*")["caller"] == 1
