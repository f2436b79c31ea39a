"""Runs the examples of the pages, each page in a folder of its own.

scripts/examples                     run all that are marked; tables must have the rows that stand in the page
scripts/examples --update tutorial   write what the commands of docs/tutorial.md print into the page
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import io
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tprof

from .blocks import ROOT, Block, blocks_of, pages

DEADLINE_S = 300
COLUMNS = 100
PROGRAMS = ROOT / "examples"
ELLIPSIS = "…"
PROMPT = ">>> "
BETWEEN_CELLS = re.compile(r"\s{2,}")
ROWS_LEFT_OUT = re.compile(r"^(?:and )?([\d,]+) (?:more|others?)\b.*--all shows them", re.MULTILINE)


class ExampleError(Exception):
    """An example does not do what its page says."""


def compiled(block: Block) -> None:
    """Compile a block of Python and look up the names of tprof in it. Raises ExampleError."""
    code = textwrap.dedent(block.code).replace(ELLIPSIS, "...")
    if code.startswith(PROMPT):
        code = "".join(example.source for example in doctest.DocTestParser().get_examples(code))
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise ExampleError(f"{block.place}: {error}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tprof":
            _check_name(block, node.attr)


def _check_name(block: Block, name: str) -> None:
    try:
        getattr(tprof, name)
    except AttributeError:
        if not (Path(tprof.__file__).parent / name).is_dir():
            raise ExampleError(f"{block.place}: there is no tprof.{name}") from None


def run_page(page: Path, folder: Path, *, update: bool = False) -> int:
    """Execute the marked blocks of a page in this folder and return their number. Raises ExampleError."""
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    blocks, outputs = blocks_of(page), {}
    for block in blocks:
        if block.mark == "file":
            _save(block, folder / block.value)
        elif block.mark in {"run", "fails"}:
            outputs[block.line] = _run_block(block, folder, compare=not update)
    if update:
        _write_outputs(page, blocks, outputs)
    return len(outputs)


def _save(block: Block, file: Path) -> None:
    if file.exists() and file.read_text("utf-8") != block.code:
        raise ExampleError(f"{block.place} is not examples/{file.name}: copy one over the other")
    file.write_text(block.code, "utf-8")


def _run_block(block: Block, folder: Path, *, compare: bool) -> str:
    """Execute a block and return it with the outputs of its commands."""
    if block.value or block.language == "python":
        is_session = block.code.startswith(PROMPT)
        (folder / ("example.txt" if is_session else "example.py")).write_text(block.code, "utf-8")
        default = "python -m doctest example.txt" if is_session else "python example.py"
        _output_of(block.value or default, block, folder)
        return block.code
    shown = []
    for command, documented in _commands(block.code):
        output = _output_of(re.sub(r"\s+#.*", "", command), block, folder)
        if compare and documented:
            _compare(block, command, documented, output)
        shown.append(f"$ {command}\n{output if documented else ''}")
    return "".join(shown)


def _commands(code: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that stands below it."""
    parts = re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        command, output = re.match(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)\Z", part, re.DOTALL).groups()  # type: ignore[union-attr]
        found.append((command.rstrip("\n"), output))
    return found


def _output_of(command: str, block: Block, folder: Path) -> str:
    """Return what a command prints to a terminal of `COLUMNS` columns. Raises ExampleError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": str(COLUMNS),
        "TERM": "dumb",
        "NO_COLOR": "1",
    }
    reader, terminal = pty.openpty()
    with (
        io.FileIO(reader) as shown,
        subprocess.Popen(  # noqa: S602 - a page shows what a shell takes
            command,
            shell=True,
            executable="/bin/bash",
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        ) as process,
    ):
        os.close(terminal)
        killer = threading.Timer(DEADLINE_S, os.killpg, (process.pid, signal.SIGKILL))
        killer.start()
        output = _read_until_end(shown, process)
        status = process.wait()
        killer.cancel()
    if (status != 0) != (block.mark == "fails"):
        raise ExampleError(f"{block.place}: {command} ended with status {status}:\n{output}")
    return output.replace(str(folder), "~")


def _read_until_end(terminal: io.FileIO, process: subprocess.Popen[bytes]) -> str:
    """Read what a terminal shows until the process ends; processes that it leaves may have the terminal open."""
    parts = []
    with contextlib.suppress(OSError):  # EIO is a terminal's end
        while select.select([terminal], [], [], 0.05)[0] or process.poll() is None:
            if select.select([terminal], [], [], 0)[0]:
                parts.append(terminal.read(1 << 16))
    lines = b"".join(parts).decode().replace("\r\n", "\n").splitlines()
    return "".join(f"{line.rsplit(chr(13), 1)[-1].rstrip()}\n" for line in lines)


def _compare(block: Block, command: str, documented: str, output: str) -> None:
    """Compare the first cells of tables, since figures and notes differ from run to run. Raises ExampleError.

    A small row may be among those that a table leaves out in this run; the output says how many these are.
    """
    missing = _first_cells(documented) - _first_cells(output)
    if len(missing) > sum(int(count.replace(",", "")) for count in ROWS_LEFT_OUT.findall(output)):
        raise ExampleError(f"{block.place}: {command} no longer prints {', '.join(sorted(missing))}, but:\n{output}")


def _first_cells(output: str) -> set[str]:
    return {cells[0] for line in output.splitlines() if len(cells := BETWEEN_CELLS.split(line.strip())) > 1}


def _write_outputs(page: Path, blocks: list[Block], outputs: dict[int, str]) -> None:
    lines = page.read_text("utf-8").splitlines(keepends=True)
    for block in reversed(blocks):
        if block.line in outputs:
            begin = block.line - 1
            lines[begin : begin + block.code.count("\n")] = [outputs[block.line]]
    page.write_text("".join(lines), "utf-8")


def main() -> None:
    """Run the examples of all pages, or of those that are named."""
    parser = argparse.ArgumentParser(description="Run the examples of the documentation.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="names of pages without .md; by default all")
    parser.add_argument("--update", action="store_true", help="write the outputs into the pages")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="leave what the examples wrote here")
    options = parser.parse_args()
    if unknown := set(options.pages) - {page.stem for page in pages()}:
        parser.error(f"there is no page {' or '.join(sorted(unknown))}")
    chosen = [page for page in pages() if not options.pages or page.stem in options.pages]
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(os.cpu_count()) as pool:
        parent = options.keep or Path(temporary)
        running = {page: pool.submit(run_page, page, parent / page.stem, update=options.update) for page in chosen}
        failures = [str(error) for one in running.values() if isinstance(error := one.exception(), ExampleError)]
    if failures:
        sys.exit("\n".join(failures))
    print(f"{sum(one.result() for one in running.values())} examples ran")


if __name__ == "__main__":
    main()
