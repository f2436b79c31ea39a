"""Searches for bytes that break a target, guided by which lines of tprof they reach: atheris, which is libFuzzer.

    python tests/fuzz/search.py SECONDS FOUND [TARGET]...
    python tests/fuzz/search.py --again FOUND FILE

FOUND is the folder for logs and for what broke a target. The targets, by default all, share the time in which this
process runs, that for loading included. The target `follow` is C: the program .follow in FOUND, if it is there. Targets
whose library is not installed are named, and left out.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

BEGAN_S = time.monotonic()
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import atheris  # noqa: E402 - it takes seconds of those given

with atheris.instrument_imports(include=["tprof"], exclude=["tprof.cli"], enable_loader_override=False):
    from targets import CORPUS, TARGETS, emptied

FOLLOW = "follow"
MOST_BYTES = {FOLLOW: 6000}
MOST_BYTES_OF_OTHERS = 1 << 14
LIMITS = ["-timeout=20", "-rss_limit_mb=1500", "-print_final_stats=1"]
KINDS = "crash|timeout|oom|leak"


def main() -> None:
    """Search, or try one file again; the exit status is 1 if something broke."""
    if sys.argv[1] == "--again":
        found, file = Path(sys.argv[2]), Path(sys.argv[3])
        sys.exit(_run(re.sub(rf"-({KINDS}|slow-unit)-.*", "", file.name), found, [str(file)], None))
    end_s, found = BEGAN_S + float(sys.argv[1]), Path(sys.argv[2])
    names = sys.argv[3:] or [*TARGETS, *([FOLLOW] if (found / ".follow").exists() else [])]
    if unknown := set(names) - {*TARGETS, FOLLOW}:
        sys.exit(f"no target is called {unknown.pop()}; there are {', '.join([*TARGETS, FOLLOW])}")
    broken = [name for place, name in enumerate(names) if not _search(name, found, end_s, len(names) - place)]
    sys.exit(bool(broken))


def _search(name: str, found: Path, end_s: float, left: int) -> bool:
    """Search a target for its share of the time that is left, and print what came out; return whether it is whole."""
    began_s = time.monotonic()
    share_s = max((end_s - began_s) / left, 1.0)
    log = found / f"{name}.log"
    status = _run(name, found, None, began_s + share_s, log)
    text = log.read_text("utf-8", "replace")
    if status == 0:
        tries = re.search(r"^stat::number_of_executed_units: *(\d+)", text, re.MULTILINE)
        _say(f"{name}: {tries[1] if tries else '?'} tries in {time.monotonic() - began_s:.0f} s, nothing found")
        return True
    files = [file for file in found.glob(f"{name}-*") if re.match(rf"{name}-({KINDS})-", file.name)]
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    again = f"scripts/fuzz --again .fuzz/{newest.name}" if newest else "nothing was kept"
    _say("\n".join([*text.splitlines()[-40:], f"{name}: broken; to run it again: {again}"]))
    return False


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run(name: str, found: Path, files: list[str] | None, end_s: float | None, log: Path | None = None) -> int:
    """Run a target in a child, since libFuzzer leaves by _exit; return its status."""
    scratch = Path(tempfile.mkdtemp(prefix="tprof-fuzz-", dir=_fast_place()))
    child = os.fork()
    if child == 0:
        try:
            if log is not None:
                out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                os.dup2(out, 1)
                os.dup2(out, 2)
            _fuzz(name, found, scratch, files or _searched(name, found, scratch, end_s or 0.0))
        except Exception as error:  # noqa: BLE001 - what is no error of the target's
            os.write(2, f"{name}: {error!r}\n".encode())
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(scratch, ignore_errors=True)
    return os.waitstatus_to_exitcode(status) and 1


def _fuzz(name: str, found: Path, scratch: Path, words: list[str]) -> NoReturn:
    if name == FOLLOW:
        os.execv(found / ".follow", [".follow", *LIMITS, *words])  # noqa: S606 - its arguments are this script's
    target, work = TARGETS[name], scratch / "work"
    work.mkdir()

    def take(data: bytes) -> None:
        target.take(data, emptied(work))

    atheris.Setup([sys.argv[0], *LIMITS, *words], take)
    atheris.Fuzz()
    os._exit(0)


def _searched(name: str, found: Path, scratch: Path, end_s: float) -> list[str]:
    """Write what the search begins with, and return its options."""
    tried, seeds = scratch / "corpus", scratch / "seeds"
    tried.mkdir()
    seeds.mkdir()
    for number, content in enumerate(TARGETS[name].seeds(seeds) if name != FOLLOW else ()):
        (tried / f"seed-{number}").write_bytes(content)
    if (CORPUS / name).is_dir():
        shutil.copytree(CORPUS / name, tried, dirs_exist_ok=True)
    return [
        f"-max_total_time={max(int(end_s - time.monotonic()), 1)}",  # 0 would be for ever
        f"-max_len={MOST_BYTES.get(name, MOST_BYTES_OF_OTHERS)}",
        f"-artifact_prefix={found}/{name}-",
        "-verbosity=1",
        *([] if name == FOLLOW else [f"-dict={HERE / 'words.dict'}"]),
        str(tried),
    ]


def _fast_place() -> str | None:
    """Return a folder in memory, where there is one: each try writes files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - mkdtemp makes a folder of its own


if __name__ == "__main__":
    main()
