"""`valueFormat=json`: decodes values to typed columns, with `mode` for malformed values.

There are two shapes. With `valueSchema="cpu double, host string"` the columns are the source's, and `value` is that
struct. With `.schema("cpu double, host string, _timestamp timestamp")` the columns are the value's fields, and the
source's own columns have the prefix `_`.

Modes are Spark's: `permissive` gives null for unreadable fields, and the text in the column `_corrupt_record` if the
schema has it; `dropmalformed` drops such records; `failfast` fails the query. Fields outside the schema are ignored. A
record without a value has null fields, and is not malformed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, StringType, StructType

from yak.spark.source.errors import JSON_RECORD, OPTION, SCHEMA, SourceError
from yak.spark.source.json_columns import JsonParser, Parsed
from yak.spark.source.options import one_of
from yak.spark.source.schema import kafka_schema
from yak.spark.source.values import COLUMNS, Decoding

PERMISSIVE, DROP_MALFORMED, FAIL_FAST = "permissive", "dropmalformed", "failfast"


@dataclass(frozen=True)
class JsonOptions:
    """The JSON options. `value_schema` is DDL; None if the columns come from `.schema(…)`."""

    value_schema: str | None
    mode: str
    corrupt_column: str


def json_options(given: Mapping[str, str]) -> JsonOptions | None:
    """Parse lower-case options; None if values stay bytes. Raises SourceError."""
    if one_of(given, "valueFormat", ("binary", "json")) == "binary":
        for name in ("valueSchema", "mode", "columnNameOfCorruptRecord"):
            if name.lower() in given and name != "mode":
                raise SourceError(OPTION, f"option {name} is for JSON", why='valueFormat is not "json"')
        return None
    return JsonOptions(
        given.get("valueschema"),
        one_of(given, "mode", (PERMISSIVE, DROP_MALFORMED, FAIL_FAST)),
        given.get("columnnameofcorruptrecord", "_corrupt_record"),
    )


def nested_schema(options: JsonOptions, include_headers: bool) -> str:
    """The columns as DDL, with the value as a struct; Spark parses it. Raises SourceError if there is no schema."""
    if options.value_schema is None or not options.value_schema.strip():
        raise SourceError(
            SCHEMA,
            "values are JSON and no schema says what is in them",
            why="columns need names and types before a record is read",
            try_=('.option("valueSchema", "cpu double, host string")', '.schema("cpu double, host string")'),
        )
    struct = f"STRUCT<{options.value_schema}\n>"  # a comment at the DDL's end must not hide the bracket
    columns = [
        f"{each.name} {struct if each.name == 'value' else each.dataType.simpleString()}"
        for each in kafka_schema(include_headers).fields
    ]
    return ", ".join(columns)


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
        """As `Decoding.source_column`."""
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
            kept = pa.array([index not in wrong for index in range(batch.num_rows)])
            batch, rows = batch.filter(kept), rows.filter(kept)
        return self._assembled(batch, rows)

    def _with_corrupt(self, parsed: Parsed, values: Any, wrong: Mapping[int, str]) -> Any:
        """The rows in the order of the batch's records; a record without a value is null."""
        rows = parsed.rows
        if values.null_count:
            valid = pc.cast(pc.is_valid(values), pa.int64())
            places = pc.subtract(pc.cumulative_sum(valid), 1)
            rows = rows.take(pc.if_else(pc.is_valid(values), places, pa.scalar(None, pa.int64())))
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
