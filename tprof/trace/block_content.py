"""The content of a block of compressed records, documented in docs/trace-format.md.

Columns of cumulative values hold what each differs from a rate times the difference of another column, mostly of time:
what is left of noisy counters is their noise. Rows stand in groups by the task that ran before them, since what a task
adds is similar each time. Bytes of equal significance stand together, those of one group in pieces of their own: what
is noise is not searched for repetitions, so all this takes about the time that such a search would.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

LEVEL = 3
"""Of zlib: the next one takes more than twice the time for a tenth fewer bytes."""
PLAIN, DIFFERENCES, IN_GROUPS, RATES = 0, 1, 2, 16
"""Methods of a column; from `RATES` on the number of the column follows from whose differences it is predicted."""
GROUPED_BY = 16
"""The byte of samples by which they are grouped: the lowest one of the task."""
MOST_GROUPS = 256
_WORD = 8
_VALUES = 256
_SHIFT = np.uint64(24)
_MOST_RATE = (1 << 32) - 1
_RATE_BYTES = 4
_TRIED = 2048
"""Rows on which methods are tried."""
_SPARSE = 4
"""Of these one in so many says from which column another one is predicted best."""
_LEAST_PIECE, _LEAST_IN_PIECES = 1024, 4096
"""Rows of a piece, and of a block that is worth pieces."""
_NOISE = 0.97
"""A piece whose begin has no fewer bytes after a search for repetitions is not searched."""
_NEARLY_RANDOM_BITS, _RANDOM_BITS = 7.7, 7.92
"""A piece with so many bits a byte stays as it is; its begin, which has fewer bytes, then has as many as the first."""
_TABLE_BYTES = 60
"""Of a Huffman code in a stream, about."""
_END = b"\x03\x00"
"""An empty last block of a deflate stream."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Words = NDArray[np.uint64]
Places = NDArray[np.intp]


@dataclass(frozen=True)
class Plan:
    """How the columns of a block are written.

    Attributes
    ----------
    grouped_by : the byte of a record by whose value in the row before rows are grouped; 0: they are not
    methods : of each column of eight bytes
    """

    grouped_by: int
    methods: bytes

    def is_sound(self, columns: int, codec: int) -> bool:
        """Return whether a block of so many columns can have it; what `zlib` compresses has the first two methods."""
        methods = self.methods[:columns]
        if codec == layout.CODEC_ZLIB:
            return not self.grouped_by and set(methods) <= {PLAIN, DIFFERENCES}
        if self.grouped_by >= columns * _WORD or (self.grouped_by and methods[self.grouped_by // _WORD] > DIFFERENCES):
            return False
        return all(method <= IN_GROUPS or RATES <= method < RATES + place for place, method in enumerate(methods))


@dataclass(frozen=True)
class _Groups:
    """The rows of a block in groups.

    Attributes
    ----------
    order : (n,) the rows, group after group; None: they stay in order
    counts : (groups,) rows of each
    """

    order: Places | None
    counts: Places

    @classmethod
    def of(cls, column: Words, byte: int) -> _Groups:
        """Return them by a byte of a column in the row before."""
        key = np.zeros(len(column), np.uint8)
        key[1:] = (column[:-1] >> np.uint64(8 * byte)) & np.uint64(255)
        counts = np.bincount(key, minlength=MOST_GROUPS)
        return cls(np.argsort(key, kind="stable"), counts[counts > 0])

    @classmethod
    def one(cls, count: int) -> _Groups:
        """Return all rows as a group."""
        return cls(None, np.array([count]))

    def sorted(self, column: Words) -> Words:
        """Return the rows of a column group after group."""
        return column if self.order is None else column[self.order]

    def restored(self, column: Words) -> Words:
        """Return the rows in their order."""
        if self.order is None:
            return column
        out = np.empty_like(column)
        out[self.order] = column
        return out

    def expected(self, steps: Words, rates: Words) -> Words:
        """Return what rates make of the differences of another column, group after group."""
        return self.sorted(steps) * np.repeat(rates, self.counts) >> _SHIFT

    def rates(self, steps: Words, others: Words) -> Words:
        """Return by how much a column grows where another one grows by one, times 2^24: of each group."""
        own, other = (
            np.add.reduceat(self.sorted(one).view(np.int64).astype(np.float64), self.starts) for one in (steps, others)
        )
        share = np.divide(own, other, out=np.zeros(len(own)), where=other > 0)
        return np.clip(np.rint(share * float(1 << int(_SHIFT))), 0, _MOST_RATE).astype(np.uint64)

    @cached_property
    def starts(self) -> Places:
        """Where each begins."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def pieces(self) -> list[slice]:
        """Groups, the small ones together with others."""
        stops, found, begin = np.cumsum(self.counts).tolist(), [], 0
        for stop in stops:
            if stop - begin >= _LEAST_PIECE or stop == stops[-1]:
                found.append(slice(begin, stop))
                begin = stop
        return found


def encode_content(records: Bytes) -> tuple[Plan, bytes]:
    """Return how records are written, and what is stored of them.

    Parameters
    ----------
    records : (n, record_bytes) uint8
    """
    words = np.ascontiguousarray(records.view("<u8").T)
    plan = _planned(np.ascontiguousarray(words[:, :_TRIED]), GROUPED_BY if _are_samples(records) else 0)
    return plan, _stored(words, plan)


def _are_samples(records: Bytes) -> bool:
    """Return whether records are samples; all others are shorter."""
    return bool(records.shape[1] >= layout.SAMPLE_BYTES.start)


def _planned(words: Words, grouped_by: int) -> Plan:
    """Return the methods that leave the fewest bits."""
    steps, each = _steps(words), _groups(words, grouped_by)
    key = grouped_by // _WORD if grouped_by else None
    methods = bytes(
        _method(words[place], steps[: place + 1], groups, is_key=place == key) for place, groups in enumerate(each)
    )
    return Plan(grouped_by, methods.ljust(layout.MOST_WORDS, b"\0"))


def _groups(words: Words, grouped_by: int) -> list[_Groups]:
    """Return the groups of each column's rows; those of the column that says which groups there are stay in order."""
    one = _Groups.one(words.shape[1])
    if not grouped_by:
        return [one] * len(words)
    key, byte = divmod(grouped_by, _WORD)
    groups = _Groups.of(words[key], byte)
    return [one if place == key else groups for place in range(len(words))]


def _method(column: Words, steps: Words, groups: _Groups, *, is_key: bool) -> int:
    """Return the method that leaves the fewest bits, as far as single bytes show it; `steps` are up to the column's."""
    methods = [PLAIN, DIFFERENCES]
    if groups.order is not None:
        methods += [IN_GROUPS]
    if len(steps) > 1 and not is_key:
        methods += [RATES + _predictor(steps, groups)]
    return min(methods, key=lambda method: _bits(_coded(column, steps, groups, method)[0]))


def _predictor(steps: Words, groups: _Groups) -> int:
    """Return the column whose differences tell most of those of the last one."""
    signed = steps.view(np.int64).astype(np.float64)
    if groups.order is not None:
        signed = signed[:, groups.order]
    sums = np.add.reduceat(signed, groups.starts, axis=1)
    rates = np.divide(sums[-1], sums[:-1], out=np.zeros_like(sums[:-1]), where=sums[:-1] > 0)
    some = slice(0, None, _SPARSE)
    expected = np.repeat(rates, groups.counts, axis=1)[:, some] * signed[:-1, some]
    return int(np.log2(np.abs(signed[-1, some] - expected) + 1.0).sum(axis=1).argmin())


def _bits(column: Words) -> float:
    """Return the bits that a perfect code of single bytes needs, one for the bytes of each significance."""
    return float(len(column) * _entropies(_planes(column)).sum())


def _entropies(planes: Bytes) -> NDArray[np.float64]:
    """Return the bits a byte that a perfect code needs, of each row."""
    places = planes + np.arange(len(planes), dtype=np.uint16)[:, None] * np.uint16(_VALUES)
    counts = np.bincount(places.ravel(), minlength=_VALUES * len(planes)).reshape(-1, _VALUES)
    parts = counts / planes.shape[1]
    return np.asarray(-(parts * np.log2(parts, out=np.zeros_like(parts), where=counts > 0)).sum(axis=1))


def _entropy_of(part: Bytes) -> float:
    return float(_entropies(part[None])[0])


def _steps(words: Words) -> Words:
    return np.stack([_differences(column) for column in words])


def _differences(column: Words) -> Words:
    """Return the differences of neighbours, and first 0."""
    return np.diff(column, prepend=column[:1])


def _coded(column: Words, steps: Words, groups: _Groups, method: int) -> tuple[Words, Words]:
    """Return what is written of a column, and its rates; `steps` are those of all columns up to it."""
    no_rates = np.empty(0, np.uint64)
    if method < RATES:
        found = groups.sorted(steps[-1] if method == DIFFERENCES else column)
        return _differences(found) if method == IN_GROUPS else found, no_rates
    other = steps[method - RATES]
    rates = groups.rates(steps[-1], other)
    beside = (groups.sorted(steps[-1]) - groups.expected(other, rates)).view(np.int64)
    return ((beside << 1) ^ (beside >> 63)).view(np.uint64), rates


def _planes(column: Words) -> Bytes:
    """Return all lowest bytes, then all second ones and so on: (8, n)."""
    return np.ascontiguousarray(column.view(np.uint8).reshape(-1, _WORD).T)


def _stored(words: Words, plan: Plan) -> bytes:
    """Return the deflate stream of columns, of their first numbers and of rates."""
    steps, each = _steps(words), _groups(words, plan.grouped_by)
    parts: list[Bytes] = []
    firsts, rates = np.zeros(len(words), "<u8"), b""
    for place, (groups, method) in enumerate(zip(each, plan.methods, strict=False)):
        coded, own_rates = _coded(words[place], steps[: place + 1], groups, method)
        parts += _parts(_planes(coded), groups)
        rates += own_rates.astype("<u4").tobytes()
        firsts[place] = _first(words[place], groups, method)
    last = np.frombuffer(firsts.tobytes() + rates, np.uint8)
    if words.shape[1] < _LEAST_IN_PIECES:
        return _deflated(np.concatenate([*parts, last]), LEVEL, zlib.Z_DEFAULT_STRATEGY) + _END
    parts.append(last)
    return b"".join(_deflated(part, *_how(part)) for part in parts) + _END


def _first(column: Words, groups: _Groups, method: int) -> int:
    """Return the number to which differences are added."""
    return 0 if method == PLAIN else int(groups.sorted(column)[0] if method == IN_GROUPS else column[0])


def _parts(planes: Bytes, groups: _Groups) -> Iterator[Bytes]:
    """Yield what is compressed apart: pieces of bytes of the same significance, and what is only zeros."""
    high = int(np.flatnonzero(planes.any(axis=1)).max(initial=-1)) + 1
    for plane in planes[:high]:
        yield from (plane[piece] for piece in groups.pieces)
    yield planes[high:].ravel()


def _deflated(part: Bytes, level: int, strategy: int) -> bytes:
    """Return blocks of a deflate stream that end at a byte."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)
    return compressor.compress(part.data) + compressor.flush(zlib.Z_SYNC_FLUSH)


def _how(part: Bytes) -> tuple[int, int]:
    """Return level and strategy of zlib for bytes of one kind."""
    if not part.any():
        return LEVEL, zlib.Z_RLE
    begin = part[:_TRIED]
    searched, bits = len(zlib.compress(begin.data, LEVEL)), _entropy_of(begin)
    if searched < _NOISE * min(bits * len(begin) / 8 + _TABLE_BYTES, len(begin)):
        return LEVEL, zlib.Z_DEFAULT_STRATEGY
    is_random = bits > _NEARLY_RANDOM_BITS and _entropy_of(part) > _RANDOM_BITS
    return (0, zlib.Z_DEFAULT_STRATEGY) if is_random else (LEVEL, zlib.Z_HUFFMAN_ONLY)


def decode_content(stored: bytes, count: int, record_bytes: int, plan: Plan, codec: int) -> Bytes | None:
    """Return records, (count, record_bytes), of a sound plan; None if what is stored is damaged."""
    methods = plan.methods[: record_bytes // _WORD]
    size, rated = count * record_bytes, sum(method >= RATES for method in methods)
    try:
        decompressor = zlib.decompressobj(zlib.MAX_WBITS if codec == layout.CODEC_ZLIB else -zlib.MAX_WBITS)
        plain = decompressor.decompress(stored, size + record_bytes + _RATE_BYTES * MOST_GROUPS * rated + 1)
    except zlib.error:
        return None
    if len(plain) < size:
        return None
    planes, after = np.frombuffer(plain, np.uint8, size).reshape(-1, _WORD, count), plain[size:]
    if codec == layout.CODEC_ZLIB:
        # The first number is the first difference.
        return _decoded(planes, plan, np.zeros(len(planes), np.uint64), after)
    if len(after) < record_bytes:
        return None
    return _decoded(planes, plan, np.frombuffer(after, "<u8", len(planes)), after[record_bytes:])


def _decoded(planes: NDArray[np.uint8], plan: Plan, firsts: Words, stored_rates: bytes) -> Bytes | None:
    """Return records from (columns, 8, n) bytes; None if there are not as many rates as groups have."""
    count, key = planes.shape[2], plan.grouped_by // _WORD if plan.grouped_by else -1
    records = np.zeros((count, len(planes)), np.uint64)
    groups = one = _Groups.one(count)
    if plan.grouped_by:
        records[:, key] = _summed(_joined(planes[key]), firsts[key], one, plan.methods[key])
        groups = _Groups.of(records[:, key], plan.grouped_by % _WORD)
    methods = plan.methods[: len(planes)]
    if len(stored_rates) != _RATE_BYTES * len(groups.counts) * sum(method >= RATES for method in methods):
        return None
    rates = iter(np.frombuffer(stored_rates, "<u4").reshape(-1, len(groups.counts)).astype(np.uint64))
    for place, method in enumerate(methods):
        if place == key:
            continue
        column = _joined(planes[place])
        if method >= RATES:
            other = _differences(records[:, method - RATES])
            column = (column >> np.uint64(1)) ^ (np.uint64(0) - (column & np.uint64(1)))
            column += groups.expected(other, next(rates))
        records[:, place] = _summed(column, firsts[place], groups, method)
    return records.view(np.uint8)


def _joined(planes: Bytes) -> Words:
    """Return a column whose lowest bytes stand first, then its second ones and so on."""
    if not planes.any():
        return np.zeros(planes.shape[1], np.uint64)
    return np.ascontiguousarray(planes.T).view(np.uint64)[:, 0]


def _summed(column: Words, first: np.uint64, groups: _Groups, method: int) -> Words:
    """Return the numbers of which some, group after group, or their differences are given."""
    if method == PLAIN:
        return groups.restored(column)
    if method == IN_GROUPS:
        return groups.restored(np.cumsum(column, dtype=np.uint64) + first)
    return np.cumsum(groups.restored(column), dtype=np.uint64) + first
