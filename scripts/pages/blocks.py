"""Code blocks of a page and the marks above them.

A mark is a comment of HTML on the line above the block, which readers of a page do not see:

- ``<!-- run -->``: the block is executed, in the page's own folder. Python is a program; of a console block each line
  after ``$`` is a command, and what stands below it is its output.
- ``<!-- run: python app.py -->``: as above, given by a command where the block itself is no program.
- ``<!-- file: digest.py -->``: the block is saved under this name, for the commands below it.
- ``<!-- fails -->``: as ``run``, of commands that end with a status other than 0.
- ``<!-- not run: REASON -->``: the block is compiled, or its options are checked, like every block without a mark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"<!--\s*(?P<name>run|file|fails|not run)(?::\s*(?P<value>.*?))?\s*-->\s*$")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of code: its first line of code in the page, from 1, and what the mark above it says."""

    page: Path
    line: int
    language: str
    code: str
    mark: str
    value: str

    @property
    def place(self) -> str:
        """Where a reader finds the block."""
        return f"{self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page}:{self.line}"


def pages() -> list[Path]:
    """Return the pages whose examples count: all of docs, and the front page."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    text = page.read_text("utf-8")
    lines = text.splitlines()
    return [
        _block(page, lines, token.map[0], info=token.info, code=token.content)
        for token in MarkdownIt("commonmark").parse(text)
        if token.type == "fence" and token.map is not None
    ]


def _block(page: Path, lines: list[str], fence_index: int, *, info: str, code: str) -> Block:
    mark = MARK.search(lines[fence_index - 1]) if fence_index else None
    return Block(
        page=page,
        line=fence_index + 2,
        language=info.split(maxsplit=1)[0] if info.split() else "",
        code=code,
        mark=mark["name"] if mark else "",
        value=(mark["value"] or "") if mark else "",
    )
