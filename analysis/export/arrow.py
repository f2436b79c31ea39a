"""The tables of a profile in Arrow's memory, each column with its unit and meaning, and as frames of polars.

A schema's fields have the metadata `unit` and `description`, and the schema has the quality of the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from .columns import FLAG, NAME, REAL, TEXT, WHOLE, Column, column_of
from .tables import tables_of

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

TYPES = {
    NAME: pa.dictionary(pa.int32(), pa.string()),
    TEXT: pa.string(),
    REAL: pa.float64(),
    WHOLE: pa.int64(),
    FLAG: pa.bool_(),
}
IDS = {"instance", "parent", "waits_for"}
"""Columns of numbers that need all 64 bits."""


def table_of(name: str, frame: pd.DataFrame) -> pa.Table:
    """Return a table of a profile as Arrow has it."""
    fields, arrays = [], []
    for column in map(str, frame.columns):
        what = column_of(name, column)
        kind = pa.uint64() if column in IDS else TYPES[what.kind]
        fields.append(pa.field(column, kind, metadata={"unit": what.unit, "description": what.meaning}))
        arrays.append(_array(frame[column], kind, what))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata={"tprof.table": name}))


def _array(values: pd.Series[Any], kind: Any, what: Column) -> Any:
    if what.kind == NAME:
        names = values.astype("category")
        codes = pa.array(names.cat.codes.to_numpy(np.int32), mask=names.cat.codes.to_numpy() < 0)
        return pa.DictionaryArray.from_arrays(codes, pa.array([str(one) for one in names.cat.categories], pa.string()))
    if what.kind == TEXT:
        return pa.array([None if pd.isna(one) else str(one) for one in values], kind)
    if values.dtype == object or (what.kind == WHOLE and values.dtype.kind == "f"):
        return pa.array([None if pd.isna(one) else one for one in values.tolist()], pa.float64()).cast(kind)
    return pa.array(values.to_numpy(), kind, from_pandas=False)


def polars_of(profile: Profile) -> dict[str, Any]:
    """Return all tables as frames of polars, by name."""
    import polars as pl  # noqa: PLC0415 - optional

    return {name: pl.from_arrow(table_of(name, frame)) for name, frame in tables_of(profile).items()}
