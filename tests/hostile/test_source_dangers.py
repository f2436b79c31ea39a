"""Nothing in a trace can become code: the sources hold nothing that would make it so."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tprof", "analysis", "runtime", "benchmarks", "scripts")
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "mmap"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "yaml.load",
    "yaml.unsafe_load",
    "os.system",
    "os.popen",
    "np.load",
    "pd.read_pickle",
}
CALLS_ON_A_CLUSTER = "pickles what dask is about to pickle, to refuse it by its name; unpickles nothing"
ALLOWED = {
    ("tprof/launch/program.py", "exec"): "`tprof run` executes the user's own program, as Python would",
    ("analysis/attribution/long_arrays.py", "mmap"): "its own file without a name, which nobody can cut short",
    ("runtime/cluster/remote.py", "pickle"): CALLS_ON_A_CLUSTER,
    ("runtime/cluster/remote.py", "cloudpickle"): CALLS_ON_A_CLUSTER,
    ("scripts/pages/examples.py", "shell=True"): "pages show what is typed into a shell, and are tried so",
}


def dangers(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] in FORBIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN_MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in FORBIDDEN_CALLS and "allow_pickle=False" not in map(ast.unparse, node.keywords):
                yield name
            yield from (
                "shell=True"
                for keyword in node.keywords
                if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            )


def test_the_sources_neither_unpickle_nor_evaluate_nor_use_a_shell():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {
        (str(path.relative_to(ROOT)), danger)
        for path in paths
        for danger in dangers(ast.parse(path.read_text(encoding="utf-8")))
    }

    assert len(paths) > 50
    assert found - set(ALLOWED) == set()


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from marshal import loads",
        "eval('1')",
        "exec(x)",
        "yaml.load(f)",
        "np.load(f)",
        "run('x', shell=True)",
    ],
)
def test_the_check_of_the_sources_sees_what_it_looks_for(source):
    assert list(dangers(ast.parse(source)))
