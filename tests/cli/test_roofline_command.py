"""`tprof roofline` measures, keeps and draws a machine, places a session's tasks, and refuses in one sentence."""

import json

import pytest
from support import traces
from support.command_line import tprof as run_tprof


def roofline(home, *words):
    return run_tprof("roofline", *words, cwd=home, env={"XDG_CONFIG_HOME": str(home / "config")})


@pytest.fixture
def session(tmp_path):
    traces.write(tmp_path / "blur.tprof", quality="estimated")
    with (tmp_path / "blur.tprof/tasks/00000000.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"task": 1, "name": "blur", "flops": 3e9, "bytes": 1e9}\n')
    return tmp_path / "blur.tprof"


def test_this_machine_is_measured_saved_drawn_and_used_again(tmp_path):
    done = roofline(tmp_path, "--quick", "--json", "--save", "mine", "-o", "page.html")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert set(said["measured"]["achieved"]) == {"bandwidth", "single", "double"}
    assert said["machine"]["tau_mem_s"] > 0
    assert said["fit"]["runs"] == len(said["measured"]["runs"])
    assert (tmp_path / "page.html").stat().st_size > 1_000_000
    assert "use it with --machine mine" in done.stderr
    again = roofline(tmp_path, "--machine", "mine", "--json")
    assert json.loads(again.stdout)["machine"]["tau_double_s"] == pytest.approx(said["machine"]["tau_double_s"])


def test_a_known_machine_is_shown_without_measuring(tmp_path):
    done = roofline(tmp_path, "--machine", "gtx580")

    assert done.returncode == 0
    assert "378 W" in done.stdout
    assert "244 W" in done.stdout


def test_tasks_of_a_session_are_placed_and_estimates_called_so(tmp_path, session):
    done = roofline(tmp_path, session, "--machine", "i7-950", "-o", "page.html")
    as_json = roofline(tmp_path, "--session", session, "--machine", "i7-950", "--json")

    assert done.returncode == 0, done.stderr
    assert "blur" in done.stdout
    assert "(estimated)" in done.stdout
    assert "estimated, not measured" in " ".join(done.stdout.split())
    (task,) = json.loads(as_json.stdout)["tasks"]
    assert (task["task"], task["intensity"], task["quality"]) == ("blur", 3.0, "estimated")
    assert task["of_roof"] == pytest.approx(3e9 / 53.28e9)
    assert "TASKS: " in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--machine", "cray"], "machine must be one of gtx580, i7-950, fermi, or a file"),
        (["--machine", "no.toml"], "cannot read machine no.toml"),
        (["--machine", "gtx580", "--save", "x"], "--save keeps a machine that was measured"),
        (["--save", "a/b"], "--save takes a file that ends in .json, or a name"),
        (["--save", "gtx580"], "or a name of letters, digits, - and _ other than gtx580"),
        (["--precision", "half"], "--precision must be single or double"),
        (["-o", "nowhere/page.html"], "cannot write the page to nowhere/page.html"),
        (["blur.tprof", "--machine", "fermi", "--precision", "single"], "fermi is known in double precision only"),
        (["blur.tprof"], "name its machine with --machine"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(tmp_path, session, words, said):
    traces.set_json(session / "manifest.json", host={"processor": "another one"})

    done = roofline(tmp_path, *words)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_session_whose_tasks_say_nothing_tells_how_to_say_it(tmp_path):
    traces.write(tmp_path / "plain.tprof")

    done = roofline(tmp_path, "plain.tprof", "--machine", "fermi")

    assert done.returncode == 2
    assert "declare it with @tprof.task(flops=..., bytes=...) and record again" in done.stderr


def test_a_session_whose_declarations_failed_names_their_tasks(tmp_path):
    traces.write(tmp_path / "wrong.tprof")
    line = {"task": 1, "name": "blur", "calls": 0, "calls_failed": 50, "failed": "flops", "failure": "TypeError: q"}
    with (tmp_path / "wrong.tprof/tasks/00000000.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")

    done = roofline(tmp_path, "wrong.tprof", "--machine", "fermi")

    assert done.returncode == 2
    assert "flops of task blur: the declared function failed for 50 of 50 calls (TypeError: q)" in done.stderr
    assert "says what it computes" not in done.stderr


def test_a_session_under_another_machines_roof_says_so(tmp_path, session):
    mine = {"name": "mine", "tau_mem_s": 1e-10, "tau_double_s": 1e-11, "fit": {"processor": "A  Chip"}}
    (tmp_path / "mine.json").write_text(json.dumps(mine), "utf-8")
    said = "the session was recorded on {}: its tasks stand under another machine's roof"

    def notes(processor, machine):
        traces.set_json(session / "manifest.json", host={"processor": processor})
        done = roofline(tmp_path, session, "--machine", machine, "--json", "-o", "page.html")
        return " ".join(json.loads(done.stdout)["notes"])

    assert said.format("B Chip") in notes("B Chip", "mine.json")
    assert said.format("B Chip") in (tmp_path / "page.html").read_text("utf-8")
    assert said.format("B Chip") in notes("B Chip", "i7-950")
    assert "another machine" not in notes("A Chip", "mine.json")


def test_measured_joules_are_called_so_too(tmp_path):
    traces.write(tmp_path / "blur.tprof", quality="measured")
    with (tmp_path / "blur.tprof/tasks/00000000.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"task": 1, "name": "blur", "flops": 3e9, "bytes": 1e9}\n')

    done = roofline(tmp_path, "blur.tprof", "--machine", "i7-950")

    assert "(measured)" in done.stdout
    assert "The tasks' joules are measured." in " ".join(done.stdout.split())


def test_a_quick_look_says_so_before_its_figures(tmp_path):
    done = roofline(tmp_path, "--quick")

    assert done.stdout.startswith("A quick look: the runs were too short for figures to quote.")
    assert done.stdout.count("too short for figures") == 1
