"""`tprof validate` prints what it found, and refuses before it works what it cannot do."""

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

TPROF = str(Path(sysconfig.get_path("scripts")) / "tprof")


def validate(folder, *words):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        [TPROF, "validate", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def test_one_case_as_json_and_as_a_page(tmp_path):
    done = validate(tmp_path, "--quick", "--seeds", "1", "--case", "bursts", "--json", "--plot", "page.html")

    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert {row["case"] for row in result["rows"]} == {"bursts of 5 ms, gaps of 10 ms"}
    assert result["effort"]["seeds"] == 1
    assert result["processor"] == "virtual"
    assert (tmp_path / "page.html").stat().st_size > 1_000_000


def test_tables_are_printed_with_the_papers_beside_them(tmp_path):
    done = validate(tmp_path, "--quick", "--seeds", "1", "--case", "bursts")

    assert done.returncode == 0
    assert "Table 4: 1.6 GHz by the model of 3.3 GHz" in done.stdout
    assert "+16.3 %" in done.stdout  # the paper's
    assert "not measured" in done.stdout
    assert "nan" not in done.stdout.lower()


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--case", "stedy"], "case must be one of"), (["--plot", "nowhere/page.html"], "cannot write the plot to")],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(tmp_path, words, said):
    done = validate(tmp_path, *words)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
