"""Records through `format("yak")`: batch and stream, in and out."""

import json
import os
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.functions import col, expr, from_json, lit

from yak.client.admin import LATEST, Admin
from yak.ids import TopicPartition
from yak.protocol.murmur2 import partition_for_key
from yak.spark.columnar.read import read
from yak.spark.columnar.schema import OffsetRange, ReadSettings
from yak.spark.source.errors import SourceError
from yak.spark.source.write import produce, write_options

ROOT = Path(__file__).parents[3]
BEGAN_MS = int(time.time() * 1000)  # of today, or retention would take the records away

pytestmark = pytest.mark.timeout(900)


def fill(bootstrap: str, topic: str, count: int, partitions: int = 2) -> None:
    from confluent_kafka import Producer

    Admin(bootstrap).create_topic(topic, partitions=partitions)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(
            topic,
            f"value-{number}".encode() if number % 10 else None,
            f"key-{number}".encode() if number % 7 else None,
            partition=number % partitions,
            timestamp=BEGAN_MS + number,
            headers=[("a", b"1"), ("n", None)] if number % 3 == 0 else None,
        )
    assert producer.flush(30) == 0


def reading(spark: Any, bootstrap: str, topic: str, **options: object) -> Any:
    reader = spark.read.format("yak").option("bootstrap", bootstrap).option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


@pytest.mark.parametrize("client", ["columnar", "librdkafka"])
def test_every_column_of_every_record_is_there(spark, bootstrap, new_name, client):
    topic = new_name()
    fill(bootstrap, topic, 100)
    frame = reading(spark, bootstrap, topic, includeHeaders="true", client=client)
    assert [(each.name, each.dataType.simpleString()) for each in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = sorted(frame.collect(), key=lambda row: row.timestamp)
    assert len(rows) == 100
    for number, row in enumerate(rows):
        assert row.value == (f"value-{number}".encode() if number % 10 else None)
        assert row.key == (f"key-{number}".encode() if number % 7 else None)
        assert (row.topic, row.partition, row.offset) == (topic, number % 2, number // 2)
        assert round(row.timestamp.timestamp() * 1000) == BEGAN_MS + number
        assert row.timestampType == 0
        assert [tuple(each) for each in row.headers or ()] == ([("a", b"1"), ("n", None)] if number % 3 == 0 else [])


@pytest.mark.parametrize("client", ["columnar", "librdkafka"])
def test_time_out_of_sparks_range_is_the_furthest_one(spark, bootstrap, new_name, client):
    from confluent_kafka import Producer

    topic = new_name()
    Admin(bootstrap).create_topic(topic, configs={"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v", timestamp=1 << 60)
    assert producer.flush(30) == 0
    rows = reading(spark, bootstrap, topic, client=client).selectExpr("unix_micros(timestamp)").collect()
    assert [row[0] for row in rows] == [9_223_372_036_854_775_000]


def test_a_batch_is_written_and_read_back(spark, bootstrap, new_name):
    topic = new_name()
    Admin(bootstrap).create_topic(topic, partitions=3)
    frame = spark.range(1000).selectExpr("CAST(id AS STRING) AS key", "CAST(id * 2 AS STRING) AS value")
    frame.write.format("yak").option("bootstrap", bootstrap).option("topic", topic).mode("append").save()
    back = reading(spark, bootstrap, topic).selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    assert sorted((int(row.key), int(row.value)) for row in back.collect()) == [(n, 2 * n) for n in range(1000)]


def test_a_stream_is_written_with_its_query_and_batch_in_headers(spark, bootstrap, new_name, tmp_path):
    source, sink = new_name(), new_name()
    fill(bootstrap, source, 40)
    Admin(bootstrap).create_topic(sink, partitions=1)
    query = (
        spark.readStream.format("yak")
        .option("bootstrap", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20)
        .load()
        .select("key", "value")
        .writeStream.format("yak")
        .option("bootstrap", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    rows = reading(spark, bootstrap, sink, includeHeaders="true").collect()
    assert len(rows) == 40
    headers = [{each.key: each.value.decode() for each in row.headers} for row in rows]
    assert {each["yak.spark.query"] for each in headers} == {query.id}
    assert sorted(each["yak.spark.batch"] for each in headers) == ["0"] * 20 + ["1"] * 20


def said(error: Exception) -> str:
    """The source's own line in what Spark made of it."""
    found = re.findall(r"\[(?:spark|unknown|unreachable)[a-z-]*\] .*", str(error))
    assert found, f"no line of ours in: {error}"
    return str(found[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "no-such-topic"}, r'\[unknown-topic\] topic "no-such-topic" does not exist'),
        ({"startingOffsets": "latest"}, r"\[spark-option\].*nothing to read"),
        ({"startingOffsets": '{"TOPIC":{"0":999,"1":0}}'}, r"\[spark-offset-range\].*the offsets 0 to 10"),
        ({"startingOffsets": '{"TOPIC":{"0":0}}'}, r"\[spark-option\].*does not name TOPIC-1"),
        ({"endingOffsets": '{"TOPIC":{"0":0,"1":1,"2":-1}}'}, r"\[spark-option\].*TOPIC-2 is not read"),
        ({"startingTimestamp": "99999999999999"}, r"\[spark-offset-range\].*StartingOffsetsByTimestampStrategy"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, r"\[unreachable\] no broker answered at 127.0.0.1:1"),
        ({"valueFormat": "json"}, r"\[spark-schema\].*valueSchema"),
    ],
)
def test_a_read_that_cannot_be_is_one_line(spark, bootstrap, shared_topic, options, message):
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": shared_topic} | {
        name: value.replace("TOPIC", shared_topic) for name, value in options.items()
    }
    with pytest.raises(Exception, match=r"spark|unknown|unreachable") as caught:
        spark.read.format("yak").options(**given).load().count()
    assert re.search(message.replace("TOPIC", shared_topic), said(caught.value), re.IGNORECASE), said(caught.value)


def test_a_schema_without_json_is_refused(spark, bootstrap, shared_topic):
    with pytest.raises(Exception, match=r"\[spark-schema\] the source has fixed columns"):
        spark.read.format("yak").options(bootstrap=bootstrap, subscribe=shared_topic).schema("a int").load().count()


@pytest.fixture(scope="module")
def shared_topic(cluster: Any) -> str:
    """Twenty records in two partitions, which no test changes."""
    topic = f"shared-{os.getpid()}"
    fill(",".join(broker.address for broker in cluster.status().brokers), topic, 20)
    return topic


@pytest.mark.parametrize("push", ["true", "false"])
def test_filters_give_the_same_rows_pushed_or_not(spark, bootstrap, shared_topic, push):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", push)
    try:
        frame = reading(spark, bootstrap, shared_topic)
        assert frame.where("partition = 1 AND offset >= 3 AND offset < 6").select("offset").collect() == [
            (3,),
            (4,),
            (5,),
        ]
        late = datetime.fromtimestamp((BEGAN_MS + 15) / 1000, UTC)
        assert frame.where(col("timestamp") >= lit(late)).count() == 5
        assert frame.where(col("timestamp") < lit(late)).count() == 15
        narrow = frame.where("partition = 0")
        assert narrow.rdd.getNumPartitions() == (1 if push == "true" else 2)
        assert narrow.count() == 10
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_bounds_by_offset_and_by_time(spark, bootstrap, shared_topic):
    def offsets(**options: object) -> list[tuple[int, int]]:
        found = reading(spark, bootstrap, shared_topic, **options).select("partition", "offset").collect()
        return sorted(tuple(row) for row in found)

    starting = f'{{"{shared_topic}":{{"0":8,"1":-2}}}}'
    ending = f'{{"{shared_topic}":{{"0":-1,"1":2}}}}'
    assert offsets(startingOffsets=starting, endingOffsets=ending) == [(0, 8), (0, 9), (1, 0), (1, 1)]
    assert offsets(startingTimestamp=BEGAN_MS + 17) == [(0, 9), (1, 8), (1, 9)]
    assert offsets(endingTimestamp=BEGAN_MS + 3) == [(0, 0), (0, 1), (1, 0)]
    late = {"startingTimestamp": BEGAN_MS + 99, "startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(**late) == []


def test_a_partition_is_split_to_min_partitions(spark, bootstrap, shared_topic):
    frame = reading(spark, bootstrap, shared_topic, minPartitions=5)
    assert frame.rdd.getNumPartitions() == 6  # about 5: half of them each, rounded
    assert frame.select("partition", "offset").distinct().count() == frame.count() == 20


JSON_VALUES = [
    b'{"user":"ann","n":1,"price":1.5,"tags":["a"],"at":{"x":1}}',
    b'{"user":5,"n":2}',
    b'{"user":"bob","n":"drifted","new":true}',
    b"not json",
    b'{"user":"eve","n":4,"price":7}',
    b"[1]",
    b'{"n":9999999999}',
    None,
]
JSON_SCHEMA = "user string, n int, price double, tags array<string>, at struct<x: bigint>"


@pytest.fixture(scope="module")
def json_topic(cluster: Any) -> str:
    """The values above, one partition."""
    from confluent_kafka import Producer

    topic = f"json-{os.getpid()}"
    servers = ",".join(broker.address for broker in cluster.status().brokers)
    Admin(servers).create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": servers})
    for value in JSON_VALUES:
        producer.produce(topic, value, b"k")
    assert producer.flush(30) == 0
    return topic


def test_json_columns_are_what_from_json_gives(spark, bootstrap, json_topic):
    schema = JSON_SCHEMA + ", _corrupt_record string"
    ours = reading(spark, bootstrap, json_topic, valueFormat="json", valueSchema=schema)
    raw = reading(spark, bootstrap, json_topic).selectExpr("offset", "CAST(value AS STRING) AS value")
    sparks = raw.select("offset", from_json("value", schema).alias("value"))
    assert ours.schema["value"].dataType == sparks.schema["value"].dataType
    wanted = {row.offset: row.value for row in sparks.collect()}
    found = {row.offset: row.value for row in ours.select("offset", "value").collect()}
    assert found == wanted


def test_json_in_columns_of_its_own_with_the_sources_beside_them(spark, bootstrap, json_topic):
    reader = spark.read.format("yak").options(bootstrap=bootstrap, subscribe=json_topic, valueFormat="json")
    flat = (
        reader.schema("user string, n int, _offset bigint, _timestamp timestamp").option("mode", "dropmalformed").load()
    )
    rows = flat.where("_offset < 5").orderBy("_offset").collect()
    assert [(row.user, row.n, row._offset) for row in rows] == [("ann", 1, 0), ("5", 2, 1), ("eve", 4, 4)]
    strict = reader.schema("user string, n int").option("mode", "failfast").load()
    with pytest.raises(Exception, match="spark-json") as caught:
        strict.collect()
    assert 'at offset 2 does not fit the schema: field "n" is the text "drifted", not int' in said(caught.value)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["CAST(id AS STRING) AS value"], {"topic": "no topic!"}, r"\[spark-write\].*yak topics create"),
        (["CAST(id AS STRING) AS value"], {}, r"\[spark-schema\] no topic is named"),
        (["id"], {"topic": "TOPIC"}, r'\[spark-schema\] there is no column "value"'),
        (["id AS value"], {"topic": "TOPIC"}, r'\[spark-schema\] column "value".*bigint, not string or binary'),
        (["repeat('x', 2000000) AS value"], {"topic": "TOPIC"}, r"\[spark-write\].*too large"),
        (["'v' AS value", "CAST(NULL AS STRING) AS topic"], {}, r"\[spark-write\] a row's topic is null"),
        (["'v' AS value", "99 AS partition"], {"topic": "TOPIC"}, r"\[spark-write\].*partition"),
    ],
)
def test_a_write_that_cannot_be_is_one_line(spark, bootstrap, new_name, columns, options, message):
    topic = new_name()
    Admin(bootstrap).create_topic(topic, partitions=1)
    given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    writer = spark.range(3).selectExpr(*columns).write.format("yak").option("bootstrap", bootstrap).options(**given)
    with pytest.raises(Exception, match=r"spark|unknown") as caught:
        writer.mode("append").save()
    assert re.search(message, said(caught.value), re.IGNORECASE), said(caught.value)


def test_records_go_where_their_columns_say(spark, bootstrap, new_name):
    topic, other = new_name(), new_name()
    for name in (topic, other):
        Admin(bootstrap).create_topic(name, partitions=3)
    fill(bootstrap, source := new_name(), 6, partitions=3)
    frame = reading(spark, bootstrap, source, includeHeaders="true")
    copied = frame.withColumn("topic", expr(f"IF(partition = 2, '{other}', '{topic}')"))
    copied.write.format("yak").options(bootstrap=bootstrap, keepTimestamps="true").mode("append").save()
    back = reading(spark, bootstrap, f"{topic},{other}", includeHeaders="true")
    columns = ["key", "value", "partition", "offset", "timestamp", "headers"]
    assert sorted(back.select(*columns).collect(), key=str) == sorted(frame.select(*columns).collect(), key=str)
    assert {(row.topic, row.partition) for row in back.collect()} == {(topic, 0), (topic, 1), (other, 2)}


@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_sparks_own_kafka_connector_reads_the_same(spark, bootstrap, shared_topic, tmp_path):
    import pyspark

    sys.path.append(str(ROOT / "benchmarks"))
    from on_spark.connector_jars import connector_jars
    from versus.kafka_jars import Missing

    try:
        jars = connector_jars(ROOT / "build/spark-connector", pyspark.__version__)
    except Missing as error:
        pytest.skip(str(error))
    for jar in jars:
        spark.sql(f"ADD JAR '{jar}'")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": shared_topic,
        "startingOffsets": f'{{"{shared_topic}":{{"0":2,"1":-2}}}}',
        "includeHeaders": "true",
        "minPartitions": "3",
    }
    ours, kafkas = (spark.read.format(name).options(**options).load() for name in ("yak", "kafka"))
    assert ours.schema == kafkas.schema
    assert sorted(ours.collect(), key=str) == sorted(kafkas.collect(), key=str)
    found = {}
    for name in ("yak", "kafka"):
        query = (
            spark.readStream.format(name)
            .options(**options | {"maxOffsetsPerTrigger": "7"})
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        found[name] = [
            json.loads(each.sources[0].endOffset)[shared_topic] for each in query.recentProgress if each.numInputRows
        ]
    assert found["yak"] == found["kafka"]  # the same limit gives the same batches, in the same form


def test_sink_puts_a_key_into_the_partition_that_java_does(bootstrap, new_name):
    import pyarrow as pa

    topic = new_name()
    Admin(bootstrap).create_topic(topic, partitions=7)
    keys = [f"k{number}".encode() for number in range(20)]
    rows = pa.RecordBatch.from_pydict({"key": keys, "value": keys})
    produce(iter([rows]), write_options({"bootstrap": bootstrap, "topic": topic}, overwrite=False), [])
    ends = Admin(bootstrap).offsets({TopicPartition(topic, number): LATEST for number in range(7)})
    found = {
        key: place.partition
        for place, end in ends.items()
        for batch in read(OffsetRange(topic, place.partition, 0, end.offset), ReadSettings(bootstrap))
        for key in batch.column("key").to_pylist()
    }
    assert found == {key: partition_for_key(key, 7) for key in keys}


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_header_without_a_key_is_refused(header):
    """librdkafka's binding would write the key "None"."""
    import pyarrow as pa

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.RecordBatch.from_pydict({"value": [b"x"], "headers": pa.array([[header]], kind)})
    with pytest.raises(SourceError, match=r"\[spark-write\] a header of a row for orders has no key"):
        produce(iter([rows]), write_options({"bootstrap": "localhost:1", "topic": "orders"}, overwrite=False), [])
