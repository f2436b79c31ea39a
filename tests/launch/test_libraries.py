"""`--task` reaches functions that real libraries hold, run or send elsewhere, and the libraries work as before."""

import sys

import pytest
from support.launched import HAS_EVENTS, compare, execute

needs_events = pytest.mark.skipif(not HAS_EVENTS, reason="Python has no sys.monitoring before 3.12")


@needs_events
@pytest.mark.parametrize("core", ["ctrace", "sysmon"])
def test_coverage_counts_the_same_lines_of_the_program_that_it_runs(tmp_path, core):
    pytest.importorskip("coverage", reason="coverage is not installed: pip install coverage")
    source = "def f(n):\n    return n\ndef g():\n    for i in range(3):\n        yield f(i)\nprint(list(g()))\n"
    source += "def unused():\n    pass\n"
    main = ("-m", "coverage", "run", "--include=prog.py", "prog.py")

    ran = compare(tmp_path, source, "__main__:f", "prog.py:g", main=main, COVERAGE_CORE=core)

    report = execute(tmp_path, sys.executable, "-m", "coverage", "report", "--show-missing")
    assert ran == {"f": 3, "g": 1}
    assert report.stdout.splitlines()[2].split()[-2:] == ["88%", "8"]


@needs_events
def test_the_functions_of_test_files_that_pytest_compiles_are_seen(tmp_path):
    (tmp_path / "test_it.py").write_text("def helper(): return 1\ndef test_helper():\n    assert helper() == 1\n")
    source = "import contextlib, io, pytest\nwith contextlib.redirect_stdout(io.StringIO()):\n"
    source += "    status = pytest.main(['-q', '-p', 'no:cacheprovider', 'test_it.py'])\nprint(int(status))\n"

    assert compare(tmp_path, source, "test_it:*") == {"helper": 1, "test_helper": 1}


def test_types_whose_methods_cannot_be_replaced_stay_as_they_are(tmp_path):
    source = (
        "from sklearn.metrics._dist_metrics import DistanceMetric\n"
        "print(type(DistanceMetric.get_metric('euclidean')).__name__)\n"
    )

    assert "DistanceMetric.get_metric" not in compare(tmp_path, source, "sklearn.metrics._dist_metrics:*")


def test_routes_of_flask_are_seen(tmp_path):
    pytest.importorskip("flask", reason="flask is not installed: pip install flask")
    source = (
        "import flask\napp = flask.Flask(__name__)\n"
        "@app.route('/<name>')\ndef greet(name): return f'hello {name}'\n"
        "client = app.test_client()\nprint(client.get('/a').text, client.get('/b').text)\n"
    )

    assert compare(tmp_path, source, "__main__:greet") == {"greet": 2}


@pytest.mark.thorough  # one of tests/support/real_programs.py is quick
def test_routes_of_fastapi_are_seen(tmp_path):
    pytest.importorskip("fastapi", reason="fastapi is not installed: pip install fastapi")
    pytest.importorskip("httpx", reason="httpx is not installed: pip install httpx")
    source = (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "import fastapi\nfrom fastapi.testclient import TestClient\napp = fastapi.FastAPI()\n"
        "@app.get('/plain/{n}')\ndef plain(n: int): return n\n"
        "@app.get('/later/{n}')\nasync def later(n: int): return n\n"
        "client = TestClient(app)\nprint(client.get('/plain/1').json(), client.get('/later/2').json())\n"
    )

    assert compare(tmp_path, source, "__main__:plain", "__main__:later") == {"plain": 1, "later": 1}


@pytest.mark.thorough  # one of tests/support/real_programs.py is quick
def test_functions_that_joblib_sends_to_processes_are_seen(tmp_path):
    pytest.importorskip("joblib", reason="joblib is not installed: pip install joblib")
    source = (
        "from joblib import Parallel, delayed\n\ndef f(n):\n    return n\n\n"
        "if __name__ == '__main__':\n    print(Parallel(2)(delayed(f)(n) for n in range(6)))\n"
    )

    assert compare(tmp_path, source, "__main__:f") == {"f": 6}


RAY = """
import ray, tprof

@ray.remote
def square(x):
    return x * x

@ray.remote
class Sum:
    def __init__(self):
        self.total = 0
    def add(self, x):
        self.total += x
        return self.total

@tprof.task
def cube(x):
    return x ** 3

class Product:
    def __init__(self):
        self.total = 1
    @tprof.task
    def times(self, x):
        self.total *= x
        return self.total

ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
total, product = Sum.remote(), ray.remote(Product).remote()
print(ray.get([square.remote(i) for i in range(5)]), ray.get([total.add.remote(i) for i in range(3)]))
print(ray.get([ray.remote(cube).remote(i) for i in range(4)]), ray.get([product.times.remote(i) for i in range(1, 3)]))
ray.shutdown()
"""


@pytest.mark.thorough
def test_tasks_and_actors_of_ray_are_seen_whether_decorated_or_named(tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: pip install ray")

    ran = compare(tmp_path, RAY, "__main__:square", "__main__:Sum.*")

    assert ran == {"square": 5, "Sum.__init__": 1, "Sum.add": 3, "cube": 4, "Product.times": 2}


@needs_events
def test_a_program_that_another_starts_as_a_script_is_met_under_its_name(tmp_path):
    (tmp_path / "other.py").write_text("def f(): return 1\nprint(f())\n")
    source = "import subprocess, sys\ndef f(): return 2\nf()\n"
    source += "print(subprocess.run([sys.executable, 'other.py'], capture_output=True, text=True).stdout)\n"

    assert compare(tmp_path, source, "other:f") == {"f": 1}
    assert compare(tmp_path, source, "__main__:f") == {"f": 1}


@pytest.mark.parametrize(
    "patterns",
    [
        ("networkx.utils.*", "networkx.algorithms.cycles:*"),
        pytest.param(("networkx.*",), marks=pytest.mark.thorough),  # compiles all of it, for seconds
    ],
)
def test_the_generators_of_networkx_keep_their_defaults(tmp_path, patterns):
    pytest.importorskip("networkx", reason="networkx is not installed: pip install networkx")
    source = (
        "import networkx as nx\n"
        "print(sorted(map(sorted, nx.simple_cycles(nx.DiGraph([(0, 1), (1, 2), (2, 0)])))))\n"
        "def g(a, b=2, *, c=0): yield a + b + c\n"
        "print(g.__defaults__, g.__kwdefaults__)\n"
        "g.__defaults__ = (9,); g.__kwdefaults__['c'] = 1\n"
        "print(list(g(1)))\n"
    )

    ran = compare(tmp_path, source, *patterns, "__main__:*")

    assert ran["g"] == ran["simple_cycles"] == 1
