"""`tprof check` fails a build if a task takes more than its baseline allows, and only then."""

import json
import re

import pytest
from support.command_line import tprof
from support.runs import HOST, Work, write_run

RUNS = 3
SLOWER = (0.99, 1.0, 1.01)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three runs of a baseline, of the same program again, of one that takes a fifth more, and of another machine."""
    place = tmp_path_factory.mktemp("checked")
    tiny = Work("tiny", 4, 0.0001, 1.0)
    for number, slower in enumerate(SLOWER):
        write_run(place / f"old{number}", [Work("blur"), Work("load"), tiny], seed=number, slower=slower)
        write_run(place / f"same{number}", [Work("blur"), Work("load"), tiny], seed=10 + number, slower=slower)
        write_run(place / f"more{number}", [Work("blur", seconds=0.0048), Work("new")], seed=20 + number, slower=slower)
    write_run(place / "other", [Work("blur")], host=HOST | {"processor": "Another"})
    made = tprof("check", *names("old"), "--save", "base.json", cwd=place)
    assert (made.returncode, made.stdout) == (0, "base.json\n"), made.stderr
    return place


def names(stem):
    return [f"{stem}{number}" for number in range(RUNS)]


def check(folder, stem, *words, **options):
    return tprof("check", *names(stem), "--baseline", "base.json", *words, cwd=folder, **options)


def test_the_same_program_passes(folder):
    said = check(folder, "same")

    assert said.returncode == 0, said.stdout
    assert "passed: no task is surely over its limit (3 runs in the baseline, 3 runs now)" in said.stdout
    assert "(simulated)" in said.stdout
    assert "small" in said.stdout, "a task below 1 % is not judged"


def test_a_fifth_more_fails_with_its_interval_and_limit(folder):
    said = check(folder, "more")

    line = next(line for line in said.stdout.splitlines() if line.startswith("blur"))
    assert said.returncode == 1
    assert line.split()[1] == "over"
    assert "+5 %" in line
    assert "failed: 1 task over the limit" in said.stdout
    assert "new" in said.stdout


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--max-increase", "30%"), 0),
        (("--max-increase", "blur=30%"), 0),
        (("--max-increase", "30%", "--max-increase", "bl*=1%"), 1),
        (("--figure", "time"), 1),
        (("--figure", "total"), 1),
        (("--update", "--max-increase", "5%"), 0),
    ],
)
def test_limits_figures_and_updates_decide_the_status(folder, tmp_path, words, status):
    (tmp_path / "base.json").write_bytes((folder / "base.json").read_bytes())
    sessions = [folder / name for name in names("more")]

    said = tprof("check", *sessions, "--baseline", "base.json", *words, cwd=tmp_path)

    assert said.returncode == status, said.stdout
    if "--update" in words:
        assert tprof("check", *sessions, "--baseline", "base.json", cwd=tmp_path).returncode == 0
        assert json.loads((tmp_path / "base.json").read_text())["max_increase"] == {"*": "5%"}


def test_an_increase_that_may_be_noise_fails_only_if_strict(folder):
    words = ("check", "more0", "--baseline", "base.json", "--max-increase", "18%")

    assert tprof(*words, cwd=folder).returncode == 0
    assert tprof(*words, "--strict", cwd=folder).returncode == 1


def test_another_machine_is_refused_unless_it_is_allowed(folder):
    words = ("check", "other", "--baseline", "base.json")

    refused = tprof(*words, cwd=folder)
    allowed = tprof(*words, "--any-machine", cwd=folder)

    assert refused.returncode == 2
    assert "the baseline is of another machine or way to measure (processor: Processor, here Another)" in refused.stderr
    assert allowed.returncode == 0, allowed.stderr
    assert "warning: the machines differ (processor)" in allowed.stdout


def test_github_gets_a_summary_in_markdown_and_annotations(folder, tmp_path):
    place = tmp_path / "summary.md"

    said = check(folder, "more", "--github", env={"GITHUB_STEP_SUMMARY": str(place)})

    assert said.returncode == 1
    text = place.read_text()
    assert "| blur | ❌ over |" in text
    assert text.startswith("### Energy of an instance beside the baseline (simulated)\n")
    assert "::error title=tprof check::blur: energy of an instance" in said.stderr
    assert "%25" in said.stderr
    assert text.strip() == check(folder, "more", "--markdown").stdout.strip()


class Runner:
    """A step of a workflow as GitHub's runner reads it: its summary, and the commands in what it prints.

    https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands: a line that begins with `::` is a
    command; `%25`, `%0D` and `%0A` stand for a percent sign and ends of lines, in properties `%3A` and `%2C` too for a
    colon and a comma, which separate them.
    """

    COMMAND = re.compile(r"\s*::(?P<name>[\w-]+)(?: (?P<properties>.*?))?::(?P<message>.*)")

    def __init__(self, folder) -> None:
        self.summary = folder / "step_summary"
        self.summary.write_text("Of the step before.\n")
        self.env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(self.summary)}

    def commands(self, said):
        """Return name, properties and message of each command, as the runner shows them."""
        found = [one for line in re.split("\r\n|\r|\n", said) if (one := self.COMMAND.fullmatch(line))]
        return [(one["name"], self._properties(one["properties"]), self._shown(one["message"])) for one in found]

    def _properties(self, text):
        pairs = [one.split("=", 1) for one in (text or "").split(",") if one]
        return {name: self._shown(value, {"%3A": ":", "%2C": ","}) for name, value in pairs}

    def _shown(self, text, further=()):
        codes = {"%0D": "\r", "%0A": "\n", "%25": "%", **dict(further)}
        assert not re.sub("|".join(codes), "", text).count("%"), "every percent sign is escaped"
        return re.sub("|".join(codes), lambda code: codes[code[0]], text)


STEERING = (
    "::error title=mine::50%0Ause, a: b",
    " ::stop-commands::token",
    "two\r\n::error::lines",
    "a,b=c:d::e",
    "100%",
)


def test_a_workflow_shows_one_annotation_a_failure_whatever_tasks_are_called(tmp_path):
    runner = Runner(tmp_path)
    for number in range(RUNS):
        write_run(tmp_path / f"old{number}", [Work(name) for name in STEERING], seed=number)
        write_run(tmp_path / f"new{number}", [Work(name, seconds=0.006) for name in STEERING], seed=10 + number)
    tprof("check", *names("old"), "--save", "base.json", cwd=tmp_path)

    said = check(tmp_path, "new", "--github", env=runner.env)

    assert said.returncode == 1
    found = runner.commands(said.stderr)
    assert [(name, properties) for name, properties, _ in found] == [("error", {"title": "tprof check"})] * len(
        STEERING
    )
    begins = {message.partition(": energy of an instance ")[0] for *_, message in found}
    assert begins == {name.replace("\r", "\\r").replace("\n", "\\n") for name in STEERING}
    assert all(message.endswith("; limit +5 %") for *_, message in found)
    assert runner.commands(said.stdout) == [], "the table is no command"
    assert runner.summary.read_text().startswith("Of the step before.\n### Energy of an instance")


def test_steps_add_to_the_summary_and_a_run_that_passes_has_no_annotation(folder, tmp_path):
    runner = Runner(tmp_path)

    said = [check(folder, stem, "--github", env=runner.env) for stem in ("same", "more")]

    assert [one.returncode for one in said] == [0, 1]
    assert [len(runner.commands(one.stderr)) for one in said] == [0, 1]
    text = runner.summary.read_text()
    assert text.startswith("Of the step before.\n")
    assert len(re.findall("^### ", text, re.MULTILINE)) == 2
    assert "failed: 1 task over the limit" in text


def test_names_of_tasks_do_not_steer_markdown(tmp_path):
    write_run(tmp_path / "a", [Work("<b>|x|</b>")])
    tprof("check", "a", "--save", "base.json", cwd=tmp_path)
    write_run(tmp_path / "b", [Work("<b>|x|</b>")], seed=1)

    said = tprof("check", "b", "--baseline", "base.json", "--markdown", cwd=tmp_path).stdout

    assert "&lt;b&gt;\\|x\\|&lt;/b&gt;" in said


def test_json_says_whether_it_failed(folder):
    said = json.loads(check(folder, "more", "--json").stdout, parse_constant=pytest.fail)

    assert said["failed"]
    assert said["tasks"][0]["task"] == "blur"
    assert said["tasks"][0]["state"] == "over"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("old0",), "give either --baseline FILE to compare with, or --save FILE to make one"),
        (("old0", "--save", "base.json"), "base.json exists: compare with it by --baseline base.json"),
        (("old0", "--baseline", "gone.json"), "cannot read the baseline gone.json: No such file"),
        (("gone", "--baseline", "base.json"), "gone is not a tprof session"),
        (("old0", "--baseline", "base.json", "--max-increase", "much"), "--max-increase takes 5% or NAME=5%"),
        (("old0", "--baseline", "base.json", "--min-share", "1"), "--min-share takes a percentage"),
        (("old0", "--baseline", "base.json", "--figure", "watts"), "--figure must be one of energy, total, time"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(folder, words, sentence):
    said = tprof("check", *words, cwd=folder)

    assert said.returncode == 2
    assert sentence in said.stderr
    assert len(said.stderr.splitlines()) == 1
