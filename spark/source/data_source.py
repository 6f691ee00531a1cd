"""`YakDataSource`: the class for `spark.dataSource.register`.

Spark instantiates it in several Python processes, most of which read nothing. Readers, writers and pyarrow are
therefore imported on first use.
"""

from collections.abc import MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from yak.spark.source.errors import SCHEMA, SourceError
from yak.spark.source.options import (
    ReadOptions,
    check_batch,
    check_stream,
    json_options,
    lowered,
    nested_schema,
    read_options,
)
from yak.spark.source.schema import kafka_schema, same_types

if TYPE_CHECKING:
    from yak.spark.source.batch import BatchReader
    from yak.spark.source.stream import StreamReader
    from yak.spark.source.values import Decoding


class YakDataSource(DataSource):
    """Topics of a YAK or Kafka cluster: `spark.read`, `readStream`, `write` and `writeStream` with `format("yak")`.

    Options and columns are those of Spark's own Kafka source; docs/spark-source.md lists them. Executors need the package
    `yak-broker[spark]`, and no jar.
    """

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        return "yak"

    def schema(self) -> StructType | str:
        """The default columns. Raises SourceError for invalid options."""
        options, json = read_options(self.options), json_options(lowered(self.options))
        return kafka_schema(options.include_headers) if json is None else nested_schema(json, options.include_headers)

    def reader(self, schema: StructType) -> "BatchReader":
        """For `spark.read`."""
        from yak.spark.source.batch import BatchReader

        options, decoding = self._read(schema)
        check_batch(options)
        return BatchReader(options, schema, decoding)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        """For `spark.readStream`."""
        from yak.spark.source.stream import StreamReader

        options, decoding = self._read(schema)
        check_stream(options)
        return StreamReader(options, decoding)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For `df.write`."""
        from yak.spark.source.write import BatchWriter, write_options

        return BatchWriter(write_options(self.options, overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """For `df.writeStream`."""
        from yak.spark.source.write import StreamWriter, write_options

        return StreamWriter(write_options(self.options, overwrite), schema)

    def _read(self, schema: StructType) -> "tuple[ReadOptions, Decoding]":
        options, json = read_options(self.options), json_options(lowered(self.options))
        if json is not None:
            from yak.spark.source.json_values import JsonDecoding

            decoding = JsonDecoding(json, schema)
            return replace(options, include_headers=options.include_headers or decoding.wants_headers), decoding
        from yak.spark.source.values import Decoding

        if not same_types(schema, kafka_schema(options.include_headers)):
            raise SourceError(
                SCHEMA,
                "the source has fixed columns and cannot take a schema",
                why="a schema is for values that are decoded",
                try_=('.option("valueFormat", "json") for typed columns',),
            )
        return options, Decoding()
