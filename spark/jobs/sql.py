"""`sql`: runs any SQL over topics as tables, once or as a stream."""

import re
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any

from yak.errors import UsageError
from yak.spark.driver.settings import one_of
from yak.spark.jobs.frame import Job, unsupported
from yak.spark.jobs.options import RECORD_MODES, JobOptions, interval
from yak.spark.jobs.topic_frames import mind, of_topic, records
from yak.view.flags import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions):
    """Options of `sql`."""

    topic: str = flag(
        "--topic, -t",
        "Topics as tables; a table is called as its topic, with _ for what is no letter.",
        metavar="[TABLE=]NAME,...",
        default=MISSING,
    )
    query: str = flag("--query, -q", "One SELECT.", metavar="SQL", default=MISSING)
    schema: tuple[str, ...] = flag(
        "--schema",
        "Values of a table are JSON with these columns: orders=id STRING, total DOUBLE.",
        metavar="TABLE=COLUMNS",
        default=(),
    )
    watermark: str | None = flag("--watermark", "How late a record may come, for windows.", metavar="DURATION")
    mode: str = flag(
        "--mode",
        "Values that are not such JSON: permissive, dropmalformed or failfast.",
        metavar="MODE",
        default="permissive",
    )

    def check(self) -> None:
        super().check()
        one_of("--mode", self.mode, RECORD_MODES)
        if self.watermark is not None:
            interval(self.watermark)
        tables = self.tables()
        for name in self.schemas():
            if name not in tables:
                raise unsupported(f"--schema is of a table {name}", f"the tables are {', '.join(tables)}")

    def tables(self) -> dict[str, str]:
        """Topics by table name. Raises UsageError (`spark-options`)."""
        found: dict[str, str] = {}
        for text in self.topic.split(","):
            table, equals, topic = text.strip().partition("=")
            if not equals:
                table, topic = re.sub(r"\W", "_", table), table
            if not _NAME.fullmatch(table) or not topic or table.lower() in (each.lower() for each in found):
                raise unsupported(
                    f'--topic "{text}" makes no table',
                    "a table's name is of letters, digits and _, and given once",
                    "--topic o=orders.v1",
                )
            found[table] = topic
        return found

    def schemas(self) -> dict[str, str]:
        """Columns by table. Raises UsageError (`spark-options`)."""
        found = {}
        for text in self.schema:
            table, equals, columns = text.partition("=")
            if not equals or not columns.strip():
                raise UsageError(
                    "spark-options",
                    f'--schema "{text}" is not TABLE=COLUMNS',
                    try_=("--schema 'orders=id STRING, total DOUBLE'",),
                )
            found[table.strip()] = columns.strip()
        return found


def build(spark: "SparkSession", options: Options) -> "DataFrame":
    """The answer to one SELECT over topics as tables: a stream, or once with --to.

    A table has the columns of the data source with key and value as text, and json: the value as a VARIANT, whose fields
    are json:user::string; NULL where it is no JSON. With --schema the JSON columns first, then
    _key, _topic, _partition, _offset and _timestamp.
    """
    schemas, tables = options.schemas(), options.tables()
    for table, topic in tables.items():
        frame = records(spark, of_topic(options, topic, tables.values()))
        frame = _typed(frame, schemas[table], options.mode) if table in schemas else _text(frame)
        if options.watermark is not None and frame.isStreaming:
            time = "_timestamp" if table in schemas else "timestamp"
            frame = frame.withWatermark(time, interval(options.watermark))
        frame.createOrReplaceTempView(table)
    return spark.sql(options.query)


def _text(frame: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    texts = frame.withColumns({name: f.col(name).cast("string") for name in ("key", "value")})
    return texts.select("key", "value", f.try_parse_json("value").alias("json"), *frame.columns[2:])


def _typed(frame: "DataFrame", columns: str, mode: str) -> "DataFrame":
    """JSON values as columns. A value is valid when it is a JSON object whose fields have these types or are absent."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    wanted: Any = StructType.fromDDL(columns)
    # Spark fills this column with invalid text; without it, a field of another type would only become null.
    schema = StructType([*wanted.fields, StructField("_bad", StringType())])
    parsed = f.from_json(f.col("value"), schema, {"columnNameOfCorruptRecord": "_bad"})
    texts = _text(frame).drop("json").withColumn("parsed", parsed)
    is_good = f.col("parsed").isNotNull() & f.col("parsed._bad").isNull()
    texts = mind(texts, is_good, f"other types than {columns}", mode)
    return texts.select(
        *[f.col("parsed").getField(each.name).alias(each.name) for each in wanted.fields],
        *[f.col(name).alias(f"_{name}") for name in ("key", "topic", "partition", "offset", "timestamp")],
    )


def modes(options: Any) -> tuple[str, ...]:  # noqa: ARG001 - what the query allows, Spark says
    """All output modes, in the order in which Spark is asked."""
    return ("append", "update", "complete")


JOB = Job(
    "sql",
    "Any SQL over topics as tables, once or as a stream.",
    Options,
    build,
    keys=(),
    modes=modes,
    modes_by_spark=True,
    identity=("query", "schema", "watermark", "mode"),
    examples=('yak spark run sql -t orders -q "SELECT count(*) FROM orders" --to latest',),
)
