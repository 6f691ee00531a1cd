"""`valueFormat=json`: decodes values to typed columns, with `mode` for malformed values.

There are two shapes. With `valueSchema="cpu double, host string"` the columns are the source's, and `value` is that
struct. With `.schema("cpu double, host string, _timestamp timestamp")` the columns are the value's fields, and the
source's own columns have the prefix `_`.

Modes are Spark's: `permissive` gives null for unreadable fields, and the text in the column `_corrupt_record` if the
schema has it; `dropmalformed` drops such records; `failfast` fails the query. Fields outside the schema are ignored. A
record without a value has null fields, and is not malformed.
"""

import base64
import binascii
import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from yak.spark.source.errors import JSON_RECORD, SCHEMA, SourceError
from yak.spark.source.options import DROP_MALFORMED, FAIL_FAST, JsonOptions
from yak.spark.source.schema import kafka_schema
from yak.spark.source.values import COLUMNS, Decoding

Converter = Callable[[Any], Any]
_INTEGER_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_NOT_FINITE = ("NaN", "+INF", "INF", "Infinity", "+Infinity", "-INF", "-Infinity")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Mismatch(Exception):
    """A field's value has another kind than its type: schema drift, or a mistake. `path` names the field."""

    def __init__(self, path: str, wanted: str, found: Any) -> None:
        super().__init__(f'field "{path}" is {_kind(found)}, not {wanted}')
        self.path = path
        self.wanted = wanted
        self.found = found


def object_converter(schema: StructType, path: str = "") -> Callable[[dict[str, Any], list[Mismatch]], dict[str, Any]]:
    """A function from a JSON object to the struct's fields; a mismatch becomes null and is appended to the list."""
    fields = [(each.name, converter(each.dataType, _join(path, each.name))) for each in schema.fields]

    def convert(found: dict[str, Any], mismatches: list[Mismatch]) -> dict[str, Any]:
        row = {}
        for name, convert_field in fields:
            value = found.get(name)
            if value is not None:
                try:
                    value = convert_field(value)
                except Mismatch as error:
                    mismatches.append(error)
                    value = None
            row[name] = value
        return row

    return convert


def converter(kind: DataType, path: str) -> Converter:
    """The function for a type's values that are not null. Raises SourceError for a type that JSON cannot represent."""
    if isinstance(kind, StructType):
        return _struct(kind, path)
    if isinstance(kind, ArrayType):
        return _array(kind, path)
    if isinstance(kind, MapType):
        return _map(kind, path)
    if type(kind) in _INTEGER_BITS:
        return _integer(_INTEGER_BITS[type(kind)], kind.simpleString(), path)
    if isinstance(kind, DecimalType):
        return _decimal(kind, path)
    simple: dict[type[DataType], Callable[[Any], Any]] = {
        StringType: _text,
        DoubleType: _real,
        FloatType: _real,
        BooleanType: _boolean,
        TimestampType: _timestamp,
        TimestampNTZType: _timestamp_ntz,
        DateType: _date,
        BinaryType: _binary,
    }
    convert = simple.get(type(kind))
    if convert is None:
        raise SourceError(
            SCHEMA,
            f'column "{path}" cannot be read from JSON',
            why=f"it is {kind.simpleString()}",
            try_=(f"{path} string, and cast it in the query",),
        )
    return _checked(convert, kind.simpleString(), path)


def _checked(convert: Callable[[Any], Any], wanted: str, path: str) -> Converter:
    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError, OverflowError, binascii.Error):
            raise Mismatch(path, wanted, value) from None

    return checked


def _struct(kind: StructType, path: str) -> Converter:
    convert = object_converter(kind, path)

    def checked(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(path, "an object", value)
        mismatches: list[Mismatch] = []
        row = convert(value, mismatches)
        if mismatches:
            raise mismatches[0]
        return row

    return checked


def _array(kind: ArrayType, path: str) -> Converter:
    convert = converter(kind.elementType, f"{path}[]")

    def checked(value: Any) -> Any:
        if not isinstance(value, list):
            raise Mismatch(path, "a list", value)
        return [None if each is None else convert(each) for each in value]

    return checked


def _map(kind: MapType, path: str) -> Converter:
    if not isinstance(kind.keyType, StringType):
        raise SourceError(SCHEMA, f'column "{path}" cannot be read from JSON', why="a map's keys must be strings there")
    convert = converter(kind.valueType, f"{path}{{}}")

    def checked(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(path, "an object", value)
        try:
            return [(_text(key), None if each is None else convert(each)) for key, each in value.items()]
        except UnicodeEncodeError:
            raise Mismatch(path, "a map with keys in UTF-8", value) from None

    return checked


def _integer(bits: int, wanted: str, path: str) -> Converter:
    limit = 1 << (bits - 1)

    def checked(value: Any) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise Mismatch(path, wanted, value)
        return value

    return checked


def _decimal(kind: DecimalType, path: str) -> Converter:
    quantum = decimal.Decimal(1).scaleb(-kind.scale)
    limit = decimal.Decimal(10) ** (kind.precision - kind.scale)
    exact = decimal.Context(prec=76, rounding=decimal.ROUND_HALF_UP)

    def checked(value: Any) -> Any:
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str | decimal.Decimal):
                raise ValueError
            found = decimal.Decimal(repr(value) if isinstance(value, float) else value).quantize(quantum, context=exact)
            if not found.is_finite():  # quantize returns NaN as it is, and no comparison takes it
                raise ValueError
        except (ValueError, decimal.InvalidOperation):
            raise Mismatch(path, kind.simpleString(), value) from None
        if abs(found) >= limit:
            raise Mismatch(path, kind.simpleString(), value)
        return found

    return checked


def _text(value: Any) -> str:
    if isinstance(value, str):
        value.encode()  # raises for a lone surrogate, which JSON can contain and UTF-8 cannot
        return value
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=float)  # a Decimal
    text.encode()
    return text


def _real(value: Any) -> float:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if not is_number and value not in _NOT_FINITE:
        raise ValueError
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _timestamp(value: Any) -> dt.datetime:
    if type(value) is int:  # seconds since 1970, as in Spark
        return _EPOCH + dt.timedelta(seconds=value)
    found = dt.datetime.fromisoformat(value)
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)


def _timestamp_ntz(value: Any) -> dt.datetime:
    found = dt.datetime.fromisoformat(value)
    if found.tzinfo is not None:
        raise ValueError
    return found


def _date(value: Any) -> dt.date:
    if isinstance(value, str) and len(value) > len("2026-01-31"):
        return dt.datetime.fromisoformat(value).date()
    return dt.date.fromisoformat(value)


def _binary(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError
    return base64.b64decode(value, validate=True)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        start = value if len(value) <= 30 else value[:30] + "…"
        return f'the text "{start}"'
    if isinstance(value, int | float | decimal.Decimal):
        return f"the number {str(value)[:30]}"
    return "a list" if isinstance(value, list) else "an object"


FEW = 256
"""At this number of values or below, all are parsed one by one instead of searching for the one that Arrow refuses."""
_ALIKE = (StringType, IntegerType, LongType, DoubleType, BooleanType)
"""Types that Arrow and Spark parse alike."""


@dataclass
class ParsedRows:
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
        self._parse_float = _parse_exactly if _has_decimal(schema) else None

    def parse(self, values: Any) -> ParsedRows:
        """The struct array of a binary array without nulls, with one row per value."""
        if not self._by_arrow or not len(values):
            return self._one_by_one(values)
        found = self._all_at_once(values)
        if found is not None:
            return ParsedRows(found)
        if len(values) <= FEW:
            return self._one_by_one(values)
        middle = len(values) // 2
        left, right = self.parse(values.slice(0, middle)), self.parse(values.slice(middle))
        wrong = left.wrong | {middle + index: why for index, why in right.wrong.items()}
        return ParsedRows(pa.concat_arrays([left.rows, right.rows]), wrong)

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

    def _one_by_one(self, values: Any) -> ParsedRows:
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
        return ParsedRows(pa.array(rows, self.type), wrong)


def _parse_exactly(text: str) -> Decimal | float:
    """A number with a fraction or an exponent, for a schema with decimals; columns of other types take it too."""
    try:
        return Decimal(text)
    except decimal.InvalidOperation:  # an exponent of 19 digits and more: infinite, or 0
        return float(text)


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


PREFIX = "_"


class JsonDecoding(Decoding):
    """Decodes batches to the columns of `schema`."""

    def __init__(self, options: JsonOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.is_nested = options.value_schema is not None
        self.value_schema = _value_of(schema) if self.is_nested else _own_fields(schema)
        corrupt = next((each for each in self.value_schema.fields if each.name == options.corrupt_column), None)
        if corrupt is not None and not isinstance(corrupt.dataType, StringType):
            raise SourceError(
                SCHEMA, f'column "{corrupt.name}" must be a string', why="it holds records that are not JSON"
            )
        self.has_corrupt_column = corrupt is not None
        fields = [each for each in self.value_schema.fields if each.name != options.corrupt_column]
        self.fields = StructType(fields)
        JsonParser(self.fields)  # raises on the driver for types that JSON cannot represent, not later on an executor
        if not self.is_nested:
            _check_source_columns(schema)
        self._parser: JsonParser | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the converter functions."""
        return self.__dict__ | {"_parser": None}

    @property
    def wants_headers(self) -> bool:
        """Whether the query has a headers column."""
        return not self.is_nested and PREFIX + "headers" in self.schema.names

    def source_column(self, name: str) -> str | None:
        if self.is_nested:
            return name if name in COLUMNS and name != "value" else None
        bare = name.removeprefix(PREFIX)
        return bare if name.startswith(PREFIX) and bare in COLUMNS else None

    def decode(self, batch: Any) -> Any:
        """The batch in the query's columns. Raises SourceError (`spark-json`) in mode failfast."""
        values = batch.column(batch.schema.names.index("value"))
        if self._parser is None:
            self._parser = JsonParser(self.fields)
        parsed = self._parser.parse(values.drop_null())
        positions = _positions(values)
        wrong = {positions[index]: why for index, why in parsed.wrong.items()}
        if wrong and self.options.mode == FAIL_FAST:
            raise self._refusal(batch, wrong)
        rows = self._with_corrupt(parsed, values, wrong)
        if wrong and self.options.mode == DROP_MALFORMED:
            is_right = pa.array([index not in wrong for index in range(batch.num_rows)])
            batch, rows = batch.filter(is_right), rows.filter(is_right)
        return self._assembled(batch, rows)

    def _with_corrupt(self, parsed: ParsedRows, values: Any, wrong: Mapping[int, str]) -> Any:
        """The rows in the order of the batch's records; a record without a value is null."""
        rows = parsed.rows
        if values.null_count:
            valid = pc.cast(pc.is_valid(values), pa.int64())
            indices = pc.subtract(pc.cumulative_sum(valid), 1)
            rows = rows.take(pc.if_else(pc.is_valid(values), indices, pa.scalar(None, pa.int64())))
        if not self.has_corrupt_column:
            return rows
        texts = [
            values[index].as_py().decode(errors="replace") if index in wrong else None for index in range(len(values))
        ]
        columns = dict(zip(self.fields.names, rows.flatten(), strict=True))
        columns[self.options.corrupt_column] = pa.array(texts, pa.string())
        kind = to_arrow_type(self.value_schema, timezone="UTC")
        arrays = [columns[each.name] for each in kind]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pc.is_null(rows))

    def _assembled(self, batch: Any, rows: Any) -> Any:
        source = dict(zip(batch.schema.names, batch.columns, strict=True))
        if self.is_nested:
            columns = [rows if name == "value" else source[name] for name in self.schema.names]
        else:
            fields = dict(zip(self.value_schema.names, rows.flatten(), strict=True))
            columns = [
                _cast(source[own], field.dataType) if (own := self.source_column(field.name)) else fields[field.name]
                for field in self.schema.fields
            ]
        schema = pa.schema(to_arrow_type(self.schema, timezone="UTC"))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _refusal(self, batch: Any, wrong: Mapping[int, str]) -> SourceError:
        index = min(wrong)
        names = batch.schema.names
        topic, partition, offset = (
            batch.column(names.index(name))[index].as_py() for name in ("topic", "partition", "offset")
        )
        return SourceError(
            JSON_RECORD,
            f"the record {topic}-{partition} at offset {offset} does not fit the schema",
            why=wrong[index],
            try_=('.option("mode", "permissive") for null instead', '.option("mode", "dropmalformed") to leave it out'),
        )


def _positions(values: Any) -> list[int]:
    if not values.null_count:
        return list(range(len(values)))
    return [index for index, is_there in enumerate(pc.is_valid(values).to_pylist()) if is_there]


def _value_of(schema: StructType) -> StructType:
    found = schema["value"].dataType if "value" in schema.names else None
    if not isinstance(found, StructType):
        raise SourceError(SCHEMA, "valueSchema and a schema do not go together", why="each says what the columns are")
    return found


def _own_fields(schema: StructType) -> StructType:
    """The columns of a flat schema that come from values."""
    found = [
        each
        for each in schema.fields
        if not (each.name.startswith(PREFIX) and each.name.removeprefix(PREFIX) in COLUMNS)
    ]
    return StructType(found)


def _check_source_columns(schema: StructType) -> None:
    kinds = {each.name: each.dataType for each in kafka_schema(True).fields}
    for each in schema.fields:
        wanted = kinds.get(each.name.removeprefix(PREFIX)) if each.name.startswith(PREFIX) else None
        if wanted is None or each.dataType.simpleString() == wanted.simpleString():
            continue
        if isinstance(wanted, BinaryType) and isinstance(each.dataType, StringType):
            continue
        raise SourceError(
            SCHEMA,
            f'column "{each.name}" is {each.dataType.simpleString()}',
            why=f"the source's {each.name.removeprefix(PREFIX)} is {wanted.simpleString()}",
            try_=(f"{each.name} {wanted.simpleString()}",),
        )


def _cast(column: Any, kind: Any) -> Any:
    if not isinstance(kind, StringType) or not pa.types.is_binary(column.type):
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if each is None else each.decode(errors="replace") for each in column.to_pylist()]
        return pa.array(texts, pa.string())
