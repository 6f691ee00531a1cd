"""Streams through `format("yak")`: what a checkpoint promises, what comes and goes underneath, and what is said then."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from yak.client.admin import Admin
from yak.ids import TopicPartition

pytest.importorskip("pyspark")
pytestmark = pytest.mark.timeout(900)


class Pipeline:
    """One query from topics to a Parquet folder, run to the end of what is there; each `run` goes on from the checkpoint."""

    def __init__(self, spark: Any, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.out = str(folder / "out")
        self.checkpoint = folder / "checkpoint"

    def run(self, **options: object) -> None:
        given = {name: str(value) for name, value in options.items()}
        reader = self.spark.readStream.format("yak").option("bootstrap", self.bootstrap)
        query = (
            reader.options(**({"startingOffsets": "earliest"} | given))
            .load()
            .writeStream.format("parquet")
            .option("path", self.out)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)

    def records(self) -> list[tuple[str, int, int]]:
        """(topic, partition, offset) of every row, sorted: one that is there twice is twice in it."""
        rows = self.spark.read.parquet(self.out).select("topic", "partition", "offset").collect()
        return sorted((row.topic, row.partition, row.offset) for row in rows)

    def refused(self, **options: object) -> str:
        """The line of ours that the query ends with."""
        with pytest.raises(Exception, match=r"\[(spark|unknown)-") as caught:
            self.run(**options)
        return str(re.findall(r"\[(?:spark|unknown)-[a-z-]*\] .*", str(caught.value))[0])


@pytest.fixture
def pipeline(spark: Any, bootstrap: str, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, bootstrap, tmp_path)


def produce(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(30) == 0


def test_stream_continues_after_its_checkpoint_in_steps(pipeline, bootstrap, new_name):
    topic = new_name()
    Admin(bootstrap).create_topic(topic, partitions=2)
    produce(bootstrap, topic, 50)
    produce(bootstrap, topic, 20, partition=1)
    pipeline.run(subscribe=topic, maxOffsetsPerTrigger=30)
    ends = [json.loads(line) for line in _ends_in(pipeline.checkpoint)]
    assert [end[topic] for end in ends] == [{"0": 21, "1": 8}, {"0": 42, "1": 16}, {"0": 50, "1": 20}]
    produce(bootstrap, topic, 5, partition=1)
    pipeline.run(subscribe=topic, maxOffsetsPerTrigger=30)
    assert pipeline.records() == [(topic, 0, n) for n in range(50)] + [(topic, 1, n) for n in range(25)]
    assert not list(pipeline.checkpoint.rglob("*.crc"))


def _ends_in(checkpoint: Path) -> list[str]:
    """The end of each batch, as Spark has it in the checkpoint."""
    files = sorted(
        (each for each in (checkpoint / "offsets").iterdir() if each.name.isdigit()), key=lambda f: int(f.name)
    )
    return [each.read_text().splitlines()[-1] for each in files]


def test_new_topics_and_partitions_of_a_pattern_are_read_from_their_start(pipeline, bootstrap, new_name):
    family, admin = new_name(), Admin(bootstrap)
    first, second, other = f"{family}.a", f"{family}.b", f"x{family}.a"
    for name in (first, other):
        admin.create_topic(name, partitions=1)
        produce(bootstrap, name, 3)
    pattern = "^" + re.escape(family) + r"\."
    pipeline.run(subscribePattern=pattern)
    admin.create_topic(second, partitions=1)
    produce(bootstrap, second, 2)
    admin.add_partitions(first, 2)
    produce(bootstrap, first, 4, partition=1)
    produce(bootstrap, first, 1)
    pipeline.run(subscribePattern=pattern)
    assert pipeline.records() == [
        *((first, 0, n) for n in range(4)),
        *((first, 1, n) for n in range(4)),
        *((second, 0, n) for n in range(2)),
    ]


@pytest.mark.parametrize("planned", [1, 2])
def test_a_batch_that_was_planned_before_a_crash_is_the_same_after_it(pipeline, bootstrap, new_name, spark, planned):
    """Killed between a batch's plan and its commit, with `startingOffsets=latest`: nothing may fall between."""
    topic = new_name()
    Admin(bootstrap).create_topic(topic, partitions=1)
    produce(bootstrap, topic, 5)
    query = (
        spark.readStream.format("yak")
        .options(bootstrap=bootstrap, subscribe=topic, startingOffsets="latest")
        .load()
        .writeStream.format("parquet")
        .option("path", pipeline.out)
        .option("checkpointLocation", str(pipeline.checkpoint))
        .start()
    )
    try:
        query.processAllAvailable()  # batch 0, which is empty
        produce(bootstrap, topic, 3)
        query.processAllAvailable()
    finally:
        query.stop()
    assert pipeline.records() == [(topic, 0, n) for n in range(5, 8)]
    ends = _ends_in(pipeline.checkpoint)
    assert [json.loads(end)[topic] for end in ends] == [{"0": 5}, {"0": 8}]
    # What a kill leaves behind: the last plan without its commit, and no output of it.
    output_log = Path(pipeline.out) / "_spark_metadata"  # a file that is not in it does not count
    for log, stored in (
        (pipeline.checkpoint / "offsets", planned),
        (pipeline.checkpoint / "commits", planned - 1),
        (output_log, planned - 1),
    ):
        for each in log.iterdir():
            if int(re.findall(r"\d+", each.name)[0]) >= stored:
                each.unlink()
    produce(bootstrap, topic, 4)
    pipeline.run(subscribe=topic, startingOffsets="latest")
    assert pipeline.records() == [(topic, 0, n) for n in range(5, 12)]


@pytest.mark.parametrize("client", ["columnar", "librdkafka"])
def test_records_that_went_away_end_the_query_or_are_stepped_over(pipeline, bootstrap, new_name, client):
    topic = new_name()
    admin = Admin(bootstrap)
    admin.create_topic(topic, partitions=1)
    produce(bootstrap, topic, 10)
    pipeline.run(subscribe=topic, client=client)
    produce(bootstrap, topic, 10)
    admin.delete_records({TopicPartition(topic, 0): 15})
    line = pipeline.refused(subscribe=topic, client=client)
    assert line.startswith(f"[spark-data-loss] records of {topic}-0 from offset 10 on are gone: ")
    assert 'option("failOnDataLoss", "false")' in line
    pipeline.run(subscribe=topic, client=client, failOnDataLoss="false")
    assert pipeline.records() == [(topic, 0, n) for n in [*range(10), *range(15, 20)]]


@pytest.mark.parametrize("records", [4, 10, 15])
def test_deleted_or_recreated_topic_is_noticed(pipeline, bootstrap, new_name, records):
    topic, stays = new_name(), new_name()
    admin = Admin(bootstrap)
    for name in (topic, stays):
        admin.create_topic(name, partitions=1)
        produce(bootstrap, name, 10)
    pipeline.run(subscribe=f"{topic},{stays}")
    admin.delete_topic(topic)
    line = pipeline.refused(subscribe=f"{topic},{stays}")
    assert line.startswith(f"[spark-data-loss] partitions that the query was reading are gone: {topic}-0: ")
    admin.create_topic(topic, partitions=1)
    produce(bootstrap, topic, records)
    line = pipeline.refused(subscribe=f"{topic},{stays}")
    assert line.startswith(f"[spark-data-loss] topic {topic} was deleted and created again: ")
    produce(bootstrap, stays, 2)
    pipeline.run(subscribe=f"{topic},{stays}", failOnDataLoss="false")
    pipeline.run(subscribe=f"{topic},{stays}")
    assert [each for each in pipeline.records() if each[0] == stays] == [(stays, 0, n) for n in range(12)]
    expected = sorted([*range(10), *range(records)])
    assert [each for each in pipeline.records() if each[0] == topic] == [(topic, 0, n) for n in expected]


def test_available_now_after_a_leader_change_waits_for_the_end_that_was_read_before():
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from yak.spark.source.options import read_options
    from yak.spark.source.stream import StreamReader
    from yak.spark.source.values import Decoding

    place = TopicPartition("t", 0)

    class Topics:
        """The leader does not know its high watermark at first; `known` makes the caller wait for it."""

        def settled_ends(self, known: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
            return {place: 12 if known.get(place) == 10 else 8}

        def ids(self, _names: object) -> dict[str, str]:
            return {}

    reader = StreamReader(read_options({"bootstrap": "127.0.0.1:1", "subscribe": "t"}), Decoding())
    there: Any = Topics()
    reader._topics = there
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"t": {"0": 10}}, ReadAllAvailable()) == {"t": {"0": 12}}
    assert reader.latestOffset({"t": {"0": 12}}, ReadAllAvailable()) == {"t": {"0": 12}}


def test_available_now_settles_its_end_again_when_a_partition_is_missing():
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from yak.spark.source.options import read_options
    from yak.spark.source.stream import StreamReader
    from yak.spark.source.values import Decoding

    class Topics:
        """The first broker that is asked has not learnt of partition 1 yet."""

        def settled_ends(self, known: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
            return {TopicPartition("t", number): 5 for number in range(2 if known else 1)}

        def ids(self, _names: object) -> dict[str, str]:
            return {}

    reader = StreamReader(read_options({"bootstrap": "127.0.0.1:1", "subscribe": "t"}), Decoding())
    there: Any = Topics()
    reader._topics = there
    reader.prepareForTriggerAvailableNow()
    start = {"t": {"0": 5, "1": 4}}
    assert reader.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 5, "1": 5}}


def test_another_querys_checkpoint_is_refused(pipeline, bootstrap, new_name, spark, tmp_path):
    mine, others = new_name(), new_name()
    for name in (mine, others):
        Admin(bootstrap).create_topic(name, partitions=1)
        produce(bootstrap, name, 2)
    pipeline.run(subscribe=others)
    line = pipeline.refused(subscribe=mine)
    assert line.startswith(f"[spark-checkpoint] the checkpoint is another query's: it is of a query over {others}; ")
    strange = Pipeline(spark, bootstrap, tmp_path / "strange")
    (
        spark.readStream.format("rate")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(strange.checkpoint))
        .trigger(availableNow=True)
        .start()
        .awaitTermination(300)
    )
    with pytest.raises(Exception, match=r"spark-checkpoint|OFFSET|offset"):
        strange.run(subscribe=mine)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "no-such-topic"}, '[unknown-topic] topic "no-such-topic" does not exist'),
        (
            {"subscribe": "any", "endingOffsets": "latest"},
            "[spark-option] a streaming query cannot have ending offsets",
        ),
        ({"subscribe": "any", "startingOffsets": "{"}, "[spark-option] option startingOffsets"),
    ],
)
def test_a_stream_that_cannot_be_is_one_line(pipeline, options, message):
    assert pipeline.refused(**options).startswith(message)


def test_a_trigger_waits_for_the_least_number_of_records(pipeline, bootstrap, new_name, spark):
    topic = new_name()
    Admin(bootstrap).create_topic(topic, partitions=1)
    produce(bootstrap, topic, 2)
    query = (
        spark.readStream.format("yak")
        .options(bootstrap=bootstrap, subscribe=topic, startingOffsets="earliest")
        .options(minOffsetsPerTrigger=10, maxOffsetsPerTrigger=12, maxTriggerDelay="1h")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(pipeline.checkpoint))
        .start()
    )
    try:
        query.processAllAvailable()  # the first trigger does not wait: nothing was read yet
        produce(bootstrap, topic, 9)
        query.processAllAvailable()
        assert [json.loads(line)[topic]["0"] for line in _ends_in(pipeline.checkpoint)] == [2]
        produce(bootstrap, topic, 5)
        query.processAllAvailable()
        assert [json.loads(line)[topic]["0"] for line in _ends_in(pipeline.checkpoint)] == [2, 14]
    finally:
        query.stop()
