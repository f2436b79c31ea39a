"""What a file may be or hold that a reader did not ask for, for tests that give every reader the same."""

from __future__ import annotations

import csv
import io
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEEP = 100_000
HUGE_BYTES = 1 << 40
LONG = "9" * 400
UNSET = "@leaf@"

NUMBERS = (
    LONG, "-" + LONG, "9" * 5000, "1." + LONG, "1e999", "-1e999", "1e308", "-1e308", "5e-324", "1e-300", "NaN",
    "Infinity", "-1", "0", "0.5", "1e18", str(2**63), str(2**64), "-0.0",
)  # fmt: skip
"""Numbers that a float or an integer of 64 bits cannot hold, or that no quantity can be."""
TOKENS = (
    *NUMBERS, "true", "null", '""', '"x"', '"1"', f'"{LONG}"', '"\\ud800"', '"\\u0000"', '"\\u001b[31m\\n"', "[]", "{}",
    "[[]]", "[null, 1]", '{"a": 1}', "[" * 70 + "]" * 70,
)  # fmt: skip
"""What may stand in JSON in the place of any value."""
CELLS = (
    *NUMBERS, "", "x", "1,5", "1_000", "0x10", "١٢", "\N{SUPERSCRIPT TWO}", "nan", "inf", "None", "True", "\x1b[31m",
    "a\nb", "=1+1", "'-", " ", "x" * 200_000, "\ufeff1",
)  # fmt: skip
"""What may stand in a cell of a table."""

CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "a byte-order mark": b"\xef\xbb\xbf",
    "a byte of 0": b"\0",
    "bytes of 0": b"\0" * 5000,
    "no UTF-8": b"\xff\xfe\xfa",
    "UTF-8 that is cut": b'{"a": "\xc3',
    "a surrogate": b"\xed\xa0\x80",
    "an open brace": b"{",
    "an open quote": b'"',
    "an open quote after names": b'a,b\n"1,2\n3,4\n',
    "text after a quote": b'a,b\n"1"x,2\n',
    "null": b"null",
    "true": b"true",
    "a number": b"3",
    "a text": b'"x"',
    "an empty array": b"[]",
    "an empty object": b"{}",
    "NaN": b"NaN",
    "two values": b"{} {}",
    "an integer of 400 digits": LONG.encode(),
    "an integer of 5000 digits": b"9" * 5000,
    "an integer of a megabyte": b"9" * 1_000_000,
    "nested arrays": b"[" * DEEP,
    "nested arrays that end": b"[" * DEEP + b"]" * DEEP,
    "nested objects": b'{"a":' * DEEP,
    "nested objects that end": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "arrays side by side": b"[" + b"[]," * DEEP + b"[]]",
    "a key twice": b'{"a": 1, "a": 2}',
    "a key that is long": b'{"' + b"k" * 500_000 + b'": 1}',
    "escaped quotes": b'{"' + b'\\"' * 400_000,
    "an array of TOML": b"a = " + b"[" * DEEP,
    "tables of TOML": b"[" + b"a." * 10_000 + b"a]\n",
    "a key of many parts": b"a." * 10_000 + b"a = 1\n",
    "quoted parts of a key": b'"a" . ' * 10_000 + b"a = 1\n",
    "words": b"word " * 100_000,
    "a word": b"w" * 1_000_000,
    "a date": b"a = 2026-02-31\n",
    "a number of TOML": b"a = inf\nb = 0x" + b"f" * 400 + b"\n",
    "names alone": b"a,b,c\n",
    "a name twice": b"a,a\n1,2\n",
    "no names": b",,,\n1,2,3,4\n",
    "many names": b"," * 1_000_000,
    "many commas": b"a,b\n" + b"," * 1_000_000 + b"\n",
    "many lines": b"a\n" + b"\n" * 100_000,
    "a large cell": b"a,b\n" + b"x" * 1_000_000 + b",1\n",
    "line ends of all kinds": b"a,b\r1,2\r\n3,4\n\r\n",
}


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE_BYTES)


def _endless(path: Path) -> None:
    path.symlink_to("/proc/self/mem")


def _forbidden(path: Path) -> None:
    path.write_bytes(b"{}")
    path.chmod(0)


NODES: dict[str, Callable[[Path], None]] = {
    "a pipe": _fifo,
    "a device": _device,
    "a link to itself": _loop,
    "a directory": lambda path: path.mkdir(),
    "a file of a terabyte": _huge,
    "a file that cannot be read": _endless,
    **({} if os.geteuid() == 0 else {"a file that may not be read": _forbidden}),
}
"""What a name may stand for besides a file; root may read everything."""


def put(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """Let this stand there in place of whatever does."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)


def json_with_each(plain: Any, tokens: tuple[str, ...] = TOKENS) -> Iterator[bytes]:
    """Return the JSON of plain values with each value, and each key, replaced by each token in turn."""
    for changed in _changed(plain):
        text = json.dumps(changed)
        for token in tokens:
            yield text.replace(json.dumps(UNSET), token).encode()
    text = json.dumps(plain)
    if isinstance(plain, dict):
        for key, value in plain.items():
            without = {name: other for name, other in plain.items() if name != key}
            yield json.dumps(without).encode()
            yield text.replace("{", "{" + f"{json.dumps(key)}: {json.dumps(value)}, ", 1).encode()


def _changed(plain: Any) -> Iterator[Any]:
    yield UNSET
    pairs = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, value in pairs:
        for changed in _changed(value):
            if isinstance(plain, dict):
                yield {**plain, key: changed}
            else:
                yield [*plain[:key], changed, *plain[key + 1 :]]


def csv_with_each(names: list[str], rows: list[list[Any]], cells: tuple[str, ...] = CELLS) -> Iterator[bytes]:
    """Return a table's CSV with each cell of its second row, and each name, replaced by each cell in turn."""
    lines = [names, *[[str(cell) for cell in row] for row in rows]]
    for line in (0, 2):
        for place in range(len(names)):
            for cell in cells:
                changed = [list(one) for one in lines]
                changed[line][place] = cell
                yield _csv(changed)
    for place in range(len(names)):
        yield _csv([[cell for at, cell in enumerate(one) if at != place] for one in lines])
        yield _csv([*lines[:2], lines[2][:place], *lines[3:]])
    yield _csv([*lines, [*lines[1], "more"]])
    yield _csv([lines[0], lines[1], lines[1]])
    whole = _csv(lines)
    for length in range(0, len(whole), 7):
        yield whole[:length]


def _csv(lines: list[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    return text.getvalue().encode("utf-8", "surrogatepass")
