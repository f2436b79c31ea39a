"""Standard library digest: reads, parses, compresses and digests the sources that every Python has, on threads.

Reading, compressing (lzma), restoring and digesting (hashlib) release the interpreter's lock, parsing holds it:
a mixture of tasks that differ in length and in how they share the processor. One worker takes a file through all.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import sysconfig
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

import tprof
from tprof.errors import TprofError

from .outcome import Checked, WrongResultError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

TASKS = ("read", "parse", "compress", "restore", "digest")
STRIDES = {"small": 16, "paper": 1}
FOREIGN = {"site-packages", "dist-packages", "__pycache__"}
LZMA_PRESET = 1


@dataclass(frozen=True)
class FileResult:
    """One file's part of the result; code_objects is None where it is no Python, as some tests of the parser are."""

    path: Path
    source_bytes: int
    compressed_bytes: int
    code_objects: int | None
    digest: str


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
    """Take every file of that size through all tasks, inside `during`, and check the digests."""
    paths = find_sources(size)
    with during:
        begin_s = time.perf_counter()
        results = process_all(paths, workers)
        duration_s = time.perf_counter() - begin_s
    return Checked(
        duration_s=duration_s,
        checks=check(paths, results),
        facts={
            "files": len(results),
            "source_bytes": sum(result.source_bytes for result in results),
            "compressed_bytes": sum(result.compressed_bytes for result in results),
            "code_objects": sum(result.code_objects or 0 for result in results),
            "not_python": sum(result.code_objects is None for result in results),
        },
    )


def count_instances(size: str) -> dict[str, int]:
    """Return the instances of each task: one for each file."""
    return dict.fromkeys(TASKS, len(find_sources(size)))


def find_sources(size: str) -> list[Path]:
    """Return the files of that size, sorted; packages that were installed beside the library are left out.

    Raises
    ------
    TprofError
        If this Python keeps no source files.
    """
    library = Path(sysconfig.get_path("stdlib"))
    found = list(_walk(library))
    if not found:
        raise TprofError(
            f"no source files of the standard library below {library}: use a Python that is installed with them"
        )
    return sorted(found)[:: STRIDES[size]]


def _walk(library: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(library):
        below[:] = [name for name in below if name not in FOREIGN]  # never entered: they may be many times as large
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def process_all(paths: list[Path], workers: int) -> list[FileResult]:
    """Take each file through all tasks; warnings about the library's own escapes are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        with ThreadPoolExecutor(workers, thread_name_prefix="stdlib_digest") as pool:
            return list(pool.map(process, paths))


def process(path: Path) -> FileResult:
    """Take a file through all tasks."""
    source = read(path)
    code_objects = parse(source)
    compressed = compress(source)
    return FileResult(path, len(source), len(compressed), code_objects, digest(restore(compressed)))


@tprof.task
def read(path: Path) -> bytes:
    """Return the file's bytes."""
    return path.read_bytes()


@tprof.task
def parse(source: bytes) -> int | None:
    """Return the number of code objects that it compiles to, None where it does not."""
    # Not ast.parse: on Python 3.11 it fails when several threads build trees at once.
    try:
        code = compile(source, "<source>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return _count_code_objects(code)


def _count_code_objects(code: CodeType) -> int:
    return 1 + sum(_count_code_objects(part) for part in code.co_consts if isinstance(part, CodeType))


@tprof.task
def compress(source: bytes) -> bytes:
    """Return it compressed."""
    return lzma.compress(source, preset=LZMA_PRESET)


@tprof.task
def restore(compressed: bytes) -> bytes:
    """Return what was compressed."""
    return lzma.decompress(compressed)


@tprof.task
def digest(source: bytes) -> str:
    """Return its SHA-256."""
    return hashlib.sha256(source).hexdigest()


def check(paths: list[Path], results: list[FileResult]) -> tuple[str, ...]:
    """Compare the digests of what came back from compression with those of the files, read again one after the other.

    Raises
    ------
    WrongResultError
        If they differ.
    """
    direct = digest_of_digests((path, _digest_file(path)) for path in paths)
    if digest_of_digests((result.path, result.digest) for result in results) != direct:
        ours = {result.path: result.digest for result in results}
        wrong = next((path for path in paths if ours.get(path) != _digest_file(path)), "a file that was not asked for")
        raise WrongResultError(
            f"stdlib_digest got {wrong} wrong: what came back from compression is not what the file holds"
        )
    return (f"round trip of {len(results):,} files", f"digest of digests {direct[:16]}")


def digest_of_digests(digests: Iterable[tuple[Path, str]]) -> str:
    """Return one digest for all files, the same in whatever order they were done."""
    lines = sorted(f"{path}\0{digest}\n" for path, digest in digests)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    from .outcome import main

    main()
