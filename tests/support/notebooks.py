"""Notebooks that tests execute in a kernel of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def execute(sources: Sequence[str], folder: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs of each cell; a cell that fails is followed by the next."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in sources])
    client = nbclient.NotebookClient(
        notebook, timeout=120, allow_errors=True, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return [[dict(output) for output in cell["outputs"]] for cell in notebook.cells]


def printed(outputs: Sequence[dict[str, Any]], name: str) -> str:
    """Return what a cell wrote to a stream."""
    return "".join(one["text"] for one in outputs if one["output_type"] == "stream" and one["name"] == name)


def value(outputs: Sequence[dict[str, Any]]) -> str | None:
    """Return the text of a cell's value."""
    return next((one["data"]["text/plain"] for one in outputs if one["output_type"] == "execute_result"), None)


def shown(outputs: Sequence[dict[str, Any]]) -> str | None:
    """Return the HTML of the last output that is shown, not the cell's value."""
    pages = [one["data"]["text/html"] for one in outputs if one["output_type"] == "display_data" and one["data"]]
    return pages[-1] if pages else None


def failure(outputs: Sequence[dict[str, Any]]) -> str | None:
    """Return the name of the exception that ended a cell."""
    return next((one["ename"] for one in outputs if one["output_type"] == "error"), None)
