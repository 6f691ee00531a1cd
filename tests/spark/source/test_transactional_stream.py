"""Streams written with `transactional`: each row once for read_committed readers, whatever runs again."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from yak.client.admin import LATEST, Admin
from yak.errors import YakError
from yak.ids import TopicPartition

pytest.importorskip("pyspark")

import pyarrow as pa
from confluent_kafka import Producer

from yak.spark.columnar.read import read
from yak.spark.columnar.schema import READ_COMMITTED, READ_UNCOMMITTED, OffsetRange, ReadSettings
from yak.spark.source.errors import SourceError
from yak.spark.source.write import StreamTask, TaskTransaction, write_options

pytestmark = pytest.mark.timeout(600)
COUNT = 300


class Copying:
    """A query from one topic of two partitions into another, in three batches; each `run` goes on from the checkpoint."""

    def __init__(self, spark: Any, bootstrap: str, new_name: Callable[[], str], folder: Path) -> None:
        self.spark, self.bootstrap, self.folder = spark, bootstrap, folder
        self.source, self.target = new_name(), new_name()
        for topic in (self.source, self.target):
            Admin(bootstrap).create_topic(topic, partitions=2)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(COUNT):
            producer.produce(self.source, b"%d" % number, partition=number % 2)
        assert producer.flush(30) == 0

    def run(self, *columns: str, **options: object) -> None:
        """Copy to the end of what is there."""
        read = self.reader(self.spark.readStream, self.source).option("maxOffsetsPerTrigger", COUNT // 3)
        given = {"bootstrap": self.bootstrap, "topic": self.target, "transactional": True} | options
        writer = read.load().selectExpr(*(columns or ("value",))).writeStream.format("yak")
        writer = writer.options(**given).option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(300)

    def reader(self, read: Any, topic: str) -> Any:
        return read.format("yak").options(
            bootstrap=self.bootstrap, subscribe=topic, startingOffsets="earliest", isolation="read_committed"
        )

    def values(self, **options: str) -> Counter[int]:
        rows = self.reader(self.spark.read, self.target).options(**options).load().collect()
        return Counter(int(row.value) for row in rows)

    def forget_the_last_batch(self) -> None:
        """What a driver leaves that was killed before its last batch was done for Spark."""
        commits = self.folder / "checkpoint" / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / f"{last}").unlink()


@pytest.fixture
def copying(spark: Any, bootstrap: str, new_name: Callable[[], str], tmp_path: Path) -> Copying:
    return Copying(spark, bootstrap, new_name, tmp_path)


def test_batch_that_runs_again_is_skipped(copying: Copying) -> None:
    copying.run()
    copying.forget_the_last_batch()
    copying.run()
    assert copying.values() == dict.fromkeys(range(COUNT), 1)
    copying.forget_the_last_batch()
    with pytest.raises(Exception, match=r"\[spark-write\] batch 2 has changed since it was written"):
        copying.run("explode(array(value, value)) AS value")


class Task:
    """Runs of one task, without Spark around them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        Admin(bootstrap).create_topic(topic, partitions=1)
        self.options = write_options({"bootstrap": bootstrap, "topic": topic, "transactional": "true"}, False)

    def run(self, batch: int, rows: Iterator[str], task: int = 0) -> int:
        """Write rows in record batches of one."""
        batches = (pa.RecordBatch.from_pydict({"value": [row]}) for row in rows)
        return TaskTransaction(self.options, StreamTask("query", str(batch), task)).write(batches, []).records

    def wait_until_written(self) -> None:
        """Wait until librdkafka has sent a record, which no transaction has committed."""
        deadline = time.monotonic() + 30
        while not self._end(read_committed=False):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _end(self, *, read_committed: bool) -> int:
        assert self.options.topic is not None
        place = TopicPartition(self.options.topic, 0)
        return Admin(self.options.bootstrap).offsets({place: LATEST}, read_committed=read_committed)[place].offset

    def read(self, isolation: str) -> list[str]:
        assert self.options.topic is not None
        settings = ReadSettings(self.options.bootstrap, isolation=isolation)
        found = read(
            OffsetRange(self.options.topic, 0, 0, self._end(read_committed=isolation == READ_COMMITTED)), settings
        )
        return [value.decode() for each in found for value in each["value"].to_pylist()]


@pytest.fixture
def task(bootstrap: str, new_name: Callable[[], str]) -> Task:
    return Task(bootstrap, new_name())


def test_task_that_fails_aborts_its_records(task: Task) -> None:
    def failing() -> Iterator[str]:
        yield "a"
        task.wait_until_written()
        raise ValueError("this run fails")

    with pytest.raises(ValueError, match="this run fails"):
        task.run(0, failing())
    assert task.read(READ_COMMITTED) == []
    assert task.run(0, iter("ab")) == 2
    assert task.read(READ_COMMITTED) == ["a", "b"]
    assert task.read(READ_UNCOMMITTED) == ["a", "a", "b"]


def test_earlier_run_of_a_task_is_fenced(task: Task) -> None:
    def overtaken() -> Iterator[str]:
        yield "a"
        task.wait_until_written()
        assert task.run(0, iter("ab")) == 2
        yield "b"

    with pytest.raises(YakError, match="batch 0 was not written") as caught:
        task.run(0, overtaken())
    assert "fenced by newer producer" in caught.value.why
    assert task.run(1, iter("c")) == 1
    assert task.read(READ_COMMITTED) == ["a", "b", "c"]


def test_run_of_an_older_batch_is_refused(task: Task) -> None:
    task.run(3, iter("a"))
    task.run(1, iter("b"), task=1)
    with pytest.raises(SourceError, match="batch 2 was written before: batch 3 of the query is committed"):
        task.run(2, iter("c"))
    assert task.read(READ_COMMITTED) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a transactional write goes to one topic"),
        ({"topic": "t", "kafka.transactional.id": "mine"}, "each task needs its own"),
    ],
)
def test_transactional_option_that_cannot_be_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        write_options({"bootstrap": "localhost:1", "transactional": "true"} | options, False)


def test_batch_write_refuses_transactional(spark: Any, bootstrap: str) -> None:
    rows = spark.sql("SELECT 'v' AS value").write.format("yak").mode("append")
    with pytest.raises(Exception, match=r"\[spark-option\] option transactional"):
        rows.options(bootstrap=bootstrap, topic="t", transactional=True).save()
