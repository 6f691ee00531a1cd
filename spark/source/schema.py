"""The columns of the source as Spark types: those of Spark's own Kafka source, in its order."""

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def kafka_schema(include_headers: bool) -> StructType:
    """The fixed columns."""
    fields: list[Any] = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if include_headers:
        fields.append(StructField("headers", HEADERS))
    return StructType(fields)


def same_types(one: StructType, other: StructType) -> bool:
    """Whether names and types are equal; nullability is ignored."""
    return [(each.name, each.dataType) for each in one] == [(each.name, each.dataType) for each in other]
