"""Writes docs/example.ipynb, whose cells are the blocks of docs/notebooks.md, without outputs.

PYTHONPATH=scripts .venv/bin/python -P -m pages.notebook    after a change of the page
"""

from __future__ import annotations

import json
from typing import Any

from .blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "notebooks.md"
NOTEBOOK = ROOT / "docs" / "example.ipynb"
LANGUAGE = "ipython"


def sources() -> list[str]:
    """Return the code of the cells in order."""
    return [block.code.rstrip("\n") for block in blocks_of(PAGE) if block.language == LANGUAGE]


def notebook() -> str:
    """Return the notebook as a file."""
    intro = "# The joules of a notebook\n\nThe cells of tprof's page on notebooks. Run them in order."
    cells: list[dict[str, Any]] = [_cell("markdown", 0, intro)]
    cells += [
        _cell("code", number, code) | {"execution_count": None, "outputs": []}
        for number, code in enumerate(sources(), start=1)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1) + "\n"


def _cell(kind: str, number: int, source: str) -> dict[str, Any]:
    return {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), "utf-8")
