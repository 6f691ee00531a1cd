"""The options for JSON values: `valueFormat`, `valueSchema`, `mode`; `json_values` decodes by them."""

from collections.abc import Mapping
from dataclasses import dataclass

from yak.spark.source.errors import OPTION, SCHEMA, SourceError
from yak.spark.source.option_values import one_of
from yak.spark.source.schema import kafka_schema

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
