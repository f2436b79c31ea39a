"""Each target of the search takes what is right for it, and sees what is wrong with a reader."""

import ast
import os
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from compressed import FILES, PLAIN, RECORDS, SQUEEZED, changed, compressed_session
from patches import patched
from support import traces
from support.properties import THOROUGH
from targets import CORPUS, TARGETS, emptied, sentence_of, whole_session

import tprof
from tprof.trace import packed


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_its_seeds_and_what_the_repository_keeps_for_it(tmp_path, name):
    seeds = list(TARGETS[name].seeds(emptied(tmp_path)))
    kept = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]

    for content in [*seeds[:8], *kept, b"", b"\0"]:
        TARGETS[name].take(content, emptied(tmp_path))


TRIES = {
    **dict.fromkeys(["compressed-profile", "profile", *(name for name in TARGETS if name.startswith("finished"))], 5),
    **dict.fromkeys(["compressed", "decisions", "gpu", "job", "manifest", "tasks", "trace"], 20),
}
WORDS = [
    ast.literal_eval(f"b{line}")
    for line in Path(__file__).with_name("words.dict").read_text("utf-8").splitlines()
    if line.startswith('"')
]


def altered(content, chance):
    """Return bytes with a few changes: bytes, words, parts that are gone or there twice, an early end."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(changed) + 1)
        stop = min(start + chance.randrange(12), len(changed))
        new = chance.choice([chance.randbytes(stop - start), chance.choice(WORDS), b"", changed[start:stop] * 2])
        changed[start:stop] = new
    return bytes(changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.1 else changed)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_its_seeds_with_a_few_changes(tmp_path, name):
    """A short search without a guide, the same in each run; `scripts/fuzz` searches long."""
    seeds = list(TARGETS[name].seeds(emptied(tmp_path))) or [b""]
    chance = random.Random(name)  # noqa: S311 - the same in each run

    for _ in range(TRIES.get(name, 60) * (20 if os.environ.get(THOROUGH) else 1)):
        TARGETS[name].take(altered(chance.choice(seeds), chance), emptied(tmp_path))


def raise_value():
    raise ValueError("not for users")


def raise_lines():
    raise tprof.TprofError("two\nlines")


@pytest.mark.parametrize("read", [raise_value, raise_lines])
def test_what_is_no_sentence_is_no_refusal(read):
    with pytest.raises((ValueError, AssertionError), match=r"not for users|two"):
        sentence_of(read)


def test_changes_reach_every_file_of_a_session():
    names = sorted(whole_session())

    for number, name in enumerate(names):
        changed = patched(number.to_bytes(2, "little") + b"\x02\x00" + b"\xfe" * 8, whole_session())
        cut = patched((number | 0x8000).to_bytes(2, "little") + b"\x02\x00" + b"\xfe" * 8, whole_session())

        assert [one for one in names if changed[one] != whole_session()[one]] == [name]
        assert changed[name][2:10] == b"\xfe" * 8
        assert len(cut[name]) == 2
    assert {name.split("/")[0] for name in names} >= {
        "threads",
        "readings",
        "native",
        "graph",
        "stacks",
        "tasks",
        "gpu",
    }


STREAM = "threads/00000000.samples"
BLOCKS = STREAM + packed.ENDING


def records_of(files, folder):
    """Return the records of the compressed thread, None if they are refused."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    loaded = traces.read_or_refuse(folder)
    return None if isinstance(loaded, str) else loaded.threads[0].read().tobytes()


@pytest.mark.parametrize("way", [SQUEEZED, PLAIN])
def test_changes_of_compressed_records_reach_them_behind_their_checksums(tmp_path, way):
    """What a checksum refuses at once would never be searched."""
    whole = compressed_session()
    right = records_of(changed(bytes([way, 1])), tmp_path / "right")

    wrong = changed(struct.pack("<BBHH8s", way, 1, 0, 300, b"\xfe" * 8))

    assert [name for name in whole if wrong[name] != whole[name]] == [BLOCKS]
    assert len(right) == RECORDS * 64
    if way == PLAIN:
        assert records_of(wrong, tmp_path / "wrong") not in (None, right)


@pytest.mark.parametrize("offset", [0, 10, 24, 32])
@pytest.mark.parametrize("cut", [0, 0x8000])
def test_a_change_may_make_the_header_of_a_compressed_block_longer_or_shorter(offset, cut):
    header = 1

    wrong = changed(struct.pack("<BBHH8s", PLAIN, 1, header | cut, offset, b"\xfe" * 8))

    assert wrong[BLOCKS] != compressed_session()[BLOCKS]


def test_changes_reach_every_file_of_a_compressed_session():
    whole = compressed_session()

    found = set()
    for number in range(len(whole)):
        one = changed(struct.pack("<BBHH8s", FILES, 0, number, 2, b"\xfe" * 8))
        found |= {name for name in whole if one[name] != whole[name]}

    assert found == set(whole)
    assert BLOCKS in found


@pytest.mark.thorough
def test_a_search_ends_and_says_how_often_it_tried(tmp_path):
    pytest.importorskip("atheris")
    search = Path(__file__).with_name("search.py")

    done = subprocess.run([sys.executable, search, "2", tmp_path, "job"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert re.match(r"job: \d+ tries in \d+ s, nothing found", done.stdout)
    assert [path.name for path in tmp_path.iterdir()] == ["job.log"]


@pytest.mark.thorough
def test_a_search_leaves_out_what_it_has_no_library_for_and_says_so(tmp_path):
    pytest.importorskip("atheris")
    search = Path(__file__).with_name("search.py")
    text = f"""
import runpy, sys
sys.modules["perfetto"] = None
sys.argv = ["{search}", "2", "{tmp_path}", "perfetto", "job"]
runpy.run_path("{search}", run_name="__main__")
"""

    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    first, second = done.stdout.splitlines()
    assert first == "there is no perfetto in this Python: not fuzzed: perfetto"
    assert second.startswith("job: ")
