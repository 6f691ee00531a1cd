"""Parses many JSON values into one Arrow struct array, by Arrow's parser where it agrees with Spark's rules.

Arrow parses a text of many objects, one row each. It is used for values that begin with `{` and end with `}`. No object
can then extend over the end of its value: after `}` no `{` may follow, and a string may hold no newline. So when it
finds as many rows as there are values, each row is of its own value. Values that Arrow refuses, and types that it reads
differently from Spark, are parsed one by one.
"""

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from yak.spark.source.json_converters import Mismatch, object_converter

FEW = 256
"""At this number of values or below, all are parsed one by one instead of searching for the one that Arrow refuses."""
_ALIKE = (StringType, IntegerType, LongType, DoubleType, BooleanType)
"""Types that Arrow and Spark parse alike."""


@dataclass
class Parsed:
    """The rows of some values, and errors by index; malformed rows have null for fields that could not be read."""

    rows: Any
    wrong: dict[int, str] = field(default_factory=dict)


class JsonParser:
    """Parses values of one schema. `parse` raises no error for malformed values."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self.type = to_arrow_type(schema, timezone="UTC")
        self._convert = object_converter(schema)
        self._by_arrow = _is_alike(schema)
        self._parse_float = Decimal if _has_decimal(schema) else None

    def parse(self, values: Any) -> Parsed:
        """The struct array of a binary array without nulls, with one row per value."""
        if not self._by_arrow or not len(values):
            return self._one_by_one(values)
        found = self._all_at_once(values)
        if found is not None:
            return Parsed(found)
        if len(values) <= FEW:
            return self._one_by_one(values)
        middle = len(values) // 2
        left, right = self.parse(values.slice(0, middle)), self.parse(values.slice(middle))
        wrong = left.wrong | {middle + index: why for index, why in right.wrong.items()}
        return Parsed(pa.concat_arrays([left.rows, right.rows]), wrong)

    def _all_at_once(self, values: Any) -> Any:
        try:
            texts = values.cast(pa.string())  # also checks UTF-8
        except pa.ArrowInvalid:
            return None
        is_object = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
        if not pc.all(is_object).as_py():
            return None
        try:
            lines = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")[0].as_buffer()
            table = pyarrow.json.read_json(
                pa.BufferReader(lines),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema(self.type), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowException:
            return None
        if table.num_rows != len(values):
            return None
        columns = [table.column(each.name).combine_chunks() for each in self.type]
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _one_by_one(self, values: Any) -> Parsed:
        rows: list[dict[str, Any]] = []
        wrong: dict[int, str] = {}
        for index, value in enumerate(values.to_pylist()):
            mismatches: list[Mismatch] = []
            try:
                found = json.loads(value.decode(), parse_float=self._parse_float)
                if not isinstance(found, dict):
                    raise ValueError("it is no JSON object")
                rows.append(self._convert(found, mismatches))
            except UnicodeDecodeError:
                rows.append({})
                wrong[index] = "it is not UTF-8"
            except (ValueError, RecursionError) as error:
                rows.append({})
                wrong[index] = str(error) if isinstance(error, ValueError) else "it is nested too deep"
            if mismatches:
                wrong[index] = str(mismatches[0])
        return Parsed(pa.array(rows, self.type), wrong)


def _is_alike(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return bool(kind.fields) and all(_is_alike(each.dataType) for each in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_alike(kind.elementType)
    return type(kind) in _ALIKE


def _has_decimal(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_decimal(each.dataType) for each in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_decimal(kind.elementType)
    if isinstance(kind, MapType):
        return _has_decimal(kind.valueType)
    return isinstance(kind, DecimalType)
