"""A typed table for each event type. Its columns are the fields of the event's class.

A field of a later version becomes a new column, which is null in earlier files.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa

from zabka.journal.events import BY_NAME
from zabka.pipeline.entries import UNSIGNED

_SCALARS = {int: pa.int64(), str: pa.string(), bool: pa.bool_(), float: pa.float64()}
ENVELOPE = (
    ("run", pa.string()), ("node", pa.string()), ("node_seq", pa.int64()), ("wall_us", pa.int64()),
    ("mono_us", pa.int64()),
)  # fmt: skip


def arrow_type(kind: Any) -> pa.DataType:
    """Return the column type for the type of a field. Raises TypeError if there is none."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    inner = [each for each in get_args(kind) if each is not NoneType]
    origin = get_origin(kind)
    if isinstance(kind, UnionType) and len(inner) == 1:
        return arrow_type(inner[0])
    if origin is list:
        return pa.list_(arrow_type(inner[0]))
    if origin is dict:
        return pa.map_(arrow_type(inner[0]), arrow_type(inner[1]))
    if origin is tuple:
        return pa.struct([(f"_{place}", arrow_type(each)) for place, each in enumerate(inner, start=1)])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        return pa.struct([(name, arrow_type(hints[name])) for name in kind.__struct_fields__])
    raise TypeError(f"no column holds {kind}")


def _plain(value: Any) -> Any:
    """Convert a value for Arrow: a mapping to pairs, a tuple or struct to a dictionary."""
    if isinstance(value, tuple):
        return {f"_{place}": _plain(each) for place, each in enumerate(value, start=1)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return [(key, _plain(each)) for key, each in value.items()]
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


def _fields(kind: str) -> list[tuple[str, pa.DataType]]:
    # A digest is unsigned, and Parquet readers treat unsigned numbers differently, so it is stored as a decimal.
    hints = get_type_hints(BY_NAME[kind])
    names = BY_NAME[kind].__struct_fields__
    return [(name, pa.decimal128(20, 0) if name == UNSIGNED else arrow_type(hints[name])) for name in names]


FIELDS = {kind: _fields(kind) for kind in BY_NAME}
"""Columns of each event type, without those of the envelope."""
SCHEMAS = {kind: pa.schema([*ENVELOPE, *fields]) for kind, fields in FIELDS.items()}
"""Schema of each event type's table, with the columns of the envelope."""


def typed(kind: str, runs: Sequence[str], entries: Sequence[Any]) -> pa.Table:
    """Return the entries of one type as rows of its table. `zabka.pipeline.entries` has decoded them."""
    columns = [pa.array(runs, pa.string())]
    columns += [pa.array([getattr(e, name) for e in entries], column) for name, column in ENVELOPE[1:]]
    for name, column in FIELDS[kind]:
        values = [getattr(entry, name) for entry in entries]
        if pa.types.is_nested(column):
            values = [_plain(value) for value in values]
        columns.append(pa.array(values, column))
    return pa.table(columns, schema=SCHEMAS[kind])
