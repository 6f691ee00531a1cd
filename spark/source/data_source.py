"""`YakDataSource`: what `spark.dataSource.register` takes."""

from collections.abc import MutableMapping
from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from yak.spark.source.batch import BatchReader
from yak.spark.source.errors import SCHEMA, SourceError
from yak.spark.source.json_values import JsonDecoding, json_options, nested_schema
from yak.spark.source.options import ReadOptions, check_batch, check_stream, lowered, read_options
from yak.spark.source.schema import kafka_schema, same_types
from yak.spark.source.stream import StreamReader
from yak.spark.source.values import Decoding
from yak.spark.source.write import BatchWriter, StreamWriter, write_options


class YakDataSource(DataSource):
    """Topics of a YAK or Kafka cluster: `spark.read`, `readStream`, `write` and `writeStream` with `format("yak")`.

    Options and columns are those of Spark's own Kafka source; docs/spark.md lists them. Executors need the package
    `yak-broker[spark]`, and no jar.
    """

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "yak"

    def schema(self) -> StructType | str:
        """The columns when the user gives none. Raises SourceError for options that cannot be."""
        options, json = read_options(self.options), json_options(lowered(self.options))
        return kafka_schema(options.include_headers) if json is None else nested_schema(json, options.include_headers)

    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        options, decoding = self._read(schema)
        check_batch(options)
        return BatchReader(options, schema, decoding)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """For `spark.readStream`."""
        options, decoding = self._read(schema)
        check_stream(options)
        return StreamReader(options, decoding)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For `df.write`."""
        return BatchWriter(write_options(self.options, overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """For `df.writeStream`."""
        return StreamWriter(write_options(self.options, overwrite), schema)

    def _read(self, schema: StructType) -> tuple[ReadOptions, Decoding]:
        options, json = read_options(self.options), json_options(lowered(self.options))
        if json is not None:
            decoding = JsonDecoding(json, schema)
            return replace(options, include_headers=options.include_headers or decoding.wants_headers), decoding
        if not same_types(schema, kafka_schema(options.include_headers)):
            raise SourceError(
                SCHEMA,
                "the source has fixed columns and cannot take a schema",
                why="a schema is for values that are decoded",
                try_=('.option("valueFormat", "json") for typed columns',),
            )
        return options, Decoding()
