"""What `--task` matches: modules, packages, files and expressions."""

import os

import pytest

from tprof.errors import UsageError
from tprof.launch.pattern import Pattern


@pytest.mark.parametrize(
    ("text", "names", "file", "qualname", "meant"),
    [
        ("mod:f", ["mod"], None, "f", True),
        ("mod:f", ["other"], None, "f", False),
        ("mod:f", ["mod"], None, "g.<locals>.f", True),
        ("mod:g.f", ["mod"], None, "g.<locals>.f", True),
        ("mod:g.<locals>.f", ["mod"], None, "g.<locals>.f", True),
        ("mod:A.*", ["mod"], None, "A.method", True),
        ("mod:*", ["mod"], None, "<lambda>", False),
        ("mod:*", ["mod"], None, "f.<locals>.<genexpr>", False),
        ("mod:<lambda>", ["mod"], None, "<lambda>", True),
        ("__main__:f", ["__main__", "prog"], "/a/prog.py", "f", True),
        ("pack.*", ["pack"], None, "f", True),
        ("pack.*", ["pack.part.deep"], None, "A.f", True),
        ("pack.*", ["package"], None, "f", False),
        ("/a/prog.py", ["__main__"], "/a/prog.py", "f", True),
        ("/a/prog.py:f*", ["anything"], "/a/prog.py", "find", True),
        ("/a/prog.py:f*", ["anything"], "/b/prog.py", "find", False),
        ("/a/*.py:f", ["anything"], "/a/prog.py", "f", True),
        (r"re:pack\..*:(load|store)_.*", ["pack.part"], None, "load_all", True),
        (r"re:pack\..*:(load|store)_.*", ["pack.part"], None, "unload_all", False),
        (r"re:(__main__|part):A\.\w+", ["__main__"], None, "A.f", True),
        ("[r]e:compile", ["re"], None, "compile", True),
    ],
)
def test_a_pattern_means_these_functions(text, names, file, qualname, meant):
    assert Pattern.parse(text).matches(names, file, qualname) is meant


def test_a_file_is_meant_from_the_folder_where_it_was_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    pattern = Pattern.parse("part/prog.py:f")

    assert (pattern.text, str(pattern)) == (f"{tmp_path}/part/prog.py:f", "part/prog.py:f")
    assert pattern.matches(["prog"], os.fspath(tmp_path / "part" / "prog.py"), "f")


@pytest.mark.parametrize("text", ["blur", "a:b:c", ":f", "mod:", ".*", ""])
def test_what_is_no_pattern_is_refused(text):
    with pytest.raises(UsageError, match=r"--task must be MODULE:FUNCTION such as .*, got "):
        Pattern.parse(text)


def test_an_expression_that_is_none_is_refused():
    with pytest.raises(UsageError, match=r"--task re:\( is no regular expression: .*; it is matched against module:"):
        Pattern.parse("re:(")
